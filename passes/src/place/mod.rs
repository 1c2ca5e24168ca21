//! `place`: cuts the program into pipeline stages on submeshes, and the batch into microbatches.
//!
//! ```text
//! h = … dot(x, w), …, sharding={devices=[8,1]<=[8]}     →     the same, or over a stage's own devices
//!                                                             with frontend_attributes={…,phzc.stage="1"}
//! ```
//!
//! For every stage count that divides the devices, `shard`'s choice is made again on a stage's devices;
//! the chain of blocks, in forward order, is cut exactly; the least step time that fits in memory wins.
//! One stage leaves the layouts as `shard` wrote them. Precondition: `shard` has run.

mod chain;
pub mod cut;
mod strip;

use crate::blocks::Blocks;
use crate::graph::Graph;
use crate::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use crate::shard::decision::Decision;
use crate::shard::emit::{emit, planned_comps};
use crate::shard::model::{Goal, Model};
use crate::shard::{Facts, Solved, meshes, solve_on};
use chain::{Layers, batch_size, layers};
use cut::Cut;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Mesh, Module, Result};
use rayon::prelude::*;

/// The pass.
pub static PASS: Pass = Pass {
    name: "place",
    summary: "cuts the blocks into pipeline stages on submeshes and the batch into microbatches",
    options: &[
        OptionInfo {
            name: "stages",
            kind: OptionKind::Int { min: 0, max: 4096 },
            default: "0",
            help: "number of pipeline stages; 0 tries every divisor of the devices",
        },
        OptionInfo {
            name: "microbatches",
            kind: OptionKind::Int { min: 0, max: 1 << 20 },
            default: "0",
            help: "microbatches per step; 0 tries every power of two that divides the batch",
        },
    ],
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    let Some(mesh) = module.note("phzc.mesh") else {
        return Err(
            Diagnostic::error("`place` needs the layouts of `shard`").help("run `--passes shard,place`")
        );
    };
    let before = phzc_ir::print(module);
    let mut plain = module.clone();
    strip::strip(&mut plain);
    let graph = Graph::build(&plain);
    let blocks = Blocks::build(&plain, &graph, &vec![false; graph.tensors.len()]);
    let facts = Facts::new(&plain, &graph, &blocks, vec![None; graph.tensors.len()]);
    let given =
        plain.comps.iter().flat_map(|comp| &comp.instrs).any(|instr| instr.note("phzc.given").is_some());
    let problem =
        Problem { plain: &plain, graph: &graph, blocks: &blocks, facts: &facts, cluster: cx.cluster, given };
    (cx.progress)("place: trying stage counts");
    let best = problem.best(options, &mesh)?;
    if best.n_stages() > 1 {
        *module = plain.clone();
        rewrite(module, &problem, &best);
    }
    note(module, &best);
    Ok(if phzc_ir::print(module) == before { Changed::No } else { Changed::Yes })
}

/// What placement decides over.
struct Problem<'a> {
    plain: &'a Module,
    graph: &'a Graph,
    blocks: &'a Blocks,
    facts: &'a Facts,
    cluster: &'a Cluster,
    /// Whether the user fixed some layouts; then the program stays on all devices.
    given: bool,
}

/// A placement.
struct Placement {
    /// The layouts on one stage's devices and the layers of the chain; `None` for `shard`'s own plan.
    staged: Option<(Solved, Layers)>,
    /// The cut.
    cut: Cut,
    n_microbatches: usize,
    /// No placement that was considered takes less.
    lower_bound_secs: f64,
    /// Why the search over layouts stopped.
    stop: String,
    /// Whether no other stage count has a lower bound.
    bounds_itself: bool,
}

impl Placement {
    fn n_stages(&self) -> usize {
        self.cut.starts.len()
    }
}

/// What became of one stage count.
enum Tried {
    Placed(Box<Placement>),
    /// It takes at least this long, which is no less than what another count takes.
    Worse,
    Impossible(Diagnostic),
}

impl<'a> Problem<'a> {
    fn best(&self, options: &Options, noted_mesh: &str) -> Result<Placement> {
        let n_devices = self.cluster.n_devices();
        let wanted = options.int("stages") as usize;
        if wanted > 0 && !n_devices.is_multiple_of(wanted) {
            return Err(Diagnostic::error(format!(
                "{wanted} stages do not divide {n_devices} devices evenly"
            )));
        }
        let counts = (1..=n_devices)
            .filter(|count| n_devices.is_multiple_of(*count) && (wanted == 0 || *count == wanted));
        let mut counts: Vec<usize> = counts.filter(|&count| !self.given || count == 1).collect();
        let first: Vec<Tried> = if counts.first() == Some(&1) {
            counts.remove(0);
            vec![self.unstaged(options).unwrap_or_else(|| self.placed(1, options, noted_mesh, f64::INFINITY))]
        } else {
            Vec::new()
        };
        let to_beat = match first.first() {
            Some(Tried::Placed(one)) => one.cut.step_secs,
            _ => f64::INFINITY,
        };
        let rest: Vec<Tried> =
            counts.par_iter().map(|&count| self.placed(count, options, noted_mesh, to_beat)).collect();
        pick(first.into_iter().chain(rest))
    }

    /// `shard`'s plan as it stands: one stage, one microbatch; `None` if it does not fit or is not wanted.
    fn unstaged(&self, options: &Options) -> Option<Tried> {
        let plan = read_plan(self.plain);
        let secs = plan.get("planned_secs")?.as_f64()?;
        let is_wanted = options.int("microbatches") <= 1 && plan.get("fits")?.as_bool()?;
        let placement = || Placement {
            staged: None,
            cut: Cut { starts: vec![0], step_secs: secs },
            n_microbatches: 1,
            lower_bound_secs: plan.get("lower_bound_secs").and_then(|bound| bound.as_f64()).unwrap_or(0.0),
            stop: plan.get("stop").and_then(|stop| stop.as_str()).unwrap_or_default().to_owned(),
            bounds_itself: true,
        };
        is_wanted.then(|| Tried::Placed(Box::new(placement())))
    }

    /// The best placement with this many stages, unless it provably takes `to_beat` or longer.
    ///
    /// A step takes `sum_i t_i / B + (B-1)/B max_j t_j + max_j u_j`, and a maximum is at least the mean:
    /// with weight `(S+B-1)/(B S)` on forward and backward and `1/S` on the update, and `B` as large as
    /// the batch allows, the least weighted sum over all layouts bounds every placement on `S` stages.
    fn placed(&self, n_stages: usize, options: &Options, noted_mesh: &str, to_beat: f64) -> Tried {
        let cluster = self.cluster.submesh(self.cluster.n_devices() / n_stages);
        let input = self.facts.input(self.graph, self.blocks, &cluster);
        let (stages, most) = (n_stages as f64, batch_size(self.graph) as f64);
        let weight = (stages + most - 1.0) / (most * stages);
        let memory_bytes = Some(stages * cluster.accelerator.usable_bytes());
        let goal = Goal { weights: [weight, weight, 1.0 / stages], memory_bytes };
        let candidates = match self.candidates(n_stages, &cluster, noted_mesh) {
            Ok(candidates) => candidates,
            Err(error) => return Tried::Impossible(error),
        };
        let floor = |mesh| Model::new(input, mesh).floor(&goal);
        let open: Vec<&Mesh> =
            candidates.iter().filter(|mesh| n_stages == 1 || floor(mesh) < to_beat).collect();
        let solved: Vec<Solved> = open.into_iter().filter_map(|mesh| solve_on(input, mesh, &goal)).collect();
        let lower_bound_secs =
            solved.iter().map(|solved| solved.choice.lower_bound).fold(f64::INFINITY, f64::min);
        if lower_bound_secs >= to_beat {
            return Tried::Worse;
        }
        let Some(solved) = solved.into_iter().min_by(|a, b| a.choice.cost.total_cmp(&b.choice.cost)) else {
            return Tried::Impossible(Diagnostic::error(
                "no layout of this program is legal on a stage's devices",
            ));
        };
        let layers = layers(self.plain, input, &solved, self.cluster);
        match self.cut(&layers, n_stages, options) {
            Ok((cut, n_microbatches)) => {
                let stop = solved.stop().to_owned();
                let staged = Some((solved, layers));
                Tried::Placed(Box::new(Placement {
                    staged,
                    cut,
                    n_microbatches,
                    lower_bound_secs,
                    stop,
                    bounds_itself: true,
                }))
            }
            Err(error) => Tried::Impossible(error),
        }
    }

    /// Meshes of a stage's devices: `shard`'s own for one stage, else all.
    fn candidates(&self, n_stages: usize, cluster: &Cluster, noted_mesh: &str) -> Result<Vec<Mesh>> {
        if n_stages == 1 {
            Ok(vec![Mesh::parse(noted_mesh)?])
        } else {
            Ok(meshes(cluster.n_devices() as i64))
        }
    }

    /// The best cut over the microbatch counts.
    fn cut(&self, layers: &Layers, n_stages: usize, options: &Options) -> Result<(Cut, usize)> {
        let batch = batch_size(self.graph);
        let wanted = options.int("microbatches") as usize;
        if wanted > 0 && !batch.is_multiple_of(wanted) {
            return Err(Diagnostic::error(format!("{wanted} microbatches do not divide a batch of {batch}")));
        }
        let counts = std::iter::successors(Some(1), |count| Some(count * 2))
            .take_while(|count| batch.is_multiple_of(*count) && *count <= batch);
        let counts: Vec<usize> = if wanted > 0 { vec![wanted] } else { counts.collect() };
        let limit = self.cluster.accelerator.usable_bytes();
        let cuts = counts
            .iter()
            .filter_map(|&count| Some((layers.chain(count).cut(n_stages, count, limit)?, count)));
        cuts.min_by(|a, b| a.0.step_secs.total_cmp(&b.0.step_secs))
            .ok_or_else(|| self.too_large(layers, &counts))
    }

    fn too_large(&self, layers: &Layers, counts: &[usize]) -> Diagnostic {
        let most = counts.last().copied().unwrap_or(1);
        let chain = layers.chain(most);
        let needed: f64 = chain.fixed_bytes.iter().chain(&chain.flight_bytes).sum();
        let limit = self.cluster.accelerator.usable_bytes();
        let text = format!(
            "the program needs {:.1} GB on each device, `{}` has {:.1} GB to use",
            needed / 1e9,
            self.cluster.accelerator.name,
            limit / 1e9
        );
        Diagnostic::error(text).help("plan for more devices, or for devices with more memory")
    }
}

/// The fastest placement, with a bound over all that were tried.
fn pick(tried: impl Iterator<Item = Tried>) -> Result<Placement> {
    let (mut best, mut refusal, mut bound): (Option<Placement>, Option<Diagnostic>, f64) =
        (None, None, f64::INFINITY);
    for result in tried {
        match result {
            Tried::Placed(found) => {
                bound = bound.min(found.lower_bound_secs);
                if best.as_ref().is_none_or(|best| found.cut.step_secs < best.cut.step_secs) {
                    best = Some(*found);
                }
            }
            Tried::Impossible(error) => refusal = refusal.or(Some(error)),
            Tried::Worse => {}
        }
    }
    let best =
        best.ok_or_else(|| refusal.unwrap_or_else(|| Diagnostic::error("no stage count is possible")))?;
    let bounds_itself = bound >= best.lower_bound_secs;
    Ok(Placement { lower_bound_secs: bound.min(best.cut.step_secs), bounds_itself, ..best })
}

/// Writes the layouts of a stage's devices, and each instruction's stage.
fn rewrite(module: &mut Module, problem: &Problem, best: &Placement) {
    let Some((solved, layers)) = &best.staged else { return };
    let cluster = problem.cluster.submesh(problem.cluster.n_devices() / best.n_stages());
    let mut model = Model::new(problem.facts.input(problem.graph, problem.blocks, &cluster), &solved.mesh);
    let stage_of_block = layers.stages(&best.cut.starts);
    for (id, node) in problem.graph.nodes.iter().enumerate() {
        let stage = problem.blocks.block_of[id].map_or(0, |block| stage_of_block[block as usize]);
        let instr = &mut module.comps[node.comp.index()].instrs[node.instr.index()];
        instr.set_note("phzc.stage", &stage.to_string());
    }
    emit(module, &mut Decision::new(&mut model, &solved.choice.option));
    stage_moves(module);
    let mesh = solved.mesh.to_string();
    let meshes: Vec<String> = (0..best.n_stages()).map(|stage| format!("{stage}:{mesh}")).collect();
    module.set_note("phzc.mesh", &mesh);
    module.set_note("phzc.stages", &meshes.join(";"));
}

/// A reshard runs in the stage of its source.
fn stage_moves(module: &mut Module) {
    for comp in planned_comps(module) {
        let comp = &mut module.comps[comp.index()];
        for index in 0..comp.instrs.len() {
            if comp.instrs[index].note("phzc.move").is_some() {
                let source = comp.instrs[index].operands[0];
                if let Some(stage) = comp.instr(source).note("phzc.stage").map(str::to_owned) {
                    comp.instrs[index].set_note("phzc.stage", &stage);
                }
            }
        }
    }
}

/// What the planner has noted so far.
fn read_plan(module: &Module) -> serde_json::Map<String, serde_json::Value> {
    module.note("phzc.plan").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Adds what was decided to the plan's note.
fn note(module: &mut Module, best: &Placement) {
    let mut plan = read_plan(module);
    plan.insert("n_stages".into(), best.n_stages().into());
    plan.insert("n_microbatches".into(), best.n_microbatches.into());
    let (secs, bound) = (best.cut.step_secs, best.lower_bound_secs);
    let gap = ((secs - bound) / secs).max(0.0);
    let stop = if gap <= 1e-9 {
        "optimal"
    } else if best.n_stages() == 1 && best.bounds_itself {
        best.stop.as_str()
    } else {
        "stages-open"
    };
    plan.insert("planned_secs".into(), secs.into());
    plan.insert("lower_bound_secs".into(), bound.into());
    plan.insert("gap".into(), (if gap <= 1e-9 { 0.0 } else { gap }).into());
    plan.insert("stop".into(), stop.into());
    module.set_note("phzc.plan", &serde_json::Value::Object(plan).to_string());
}
