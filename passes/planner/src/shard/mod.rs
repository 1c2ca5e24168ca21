//! `shard`: picks a layout for every tensor.
//!
//! ```text
//! h = f32[64,256] dot(x, w), …     →     h = f32[64,256] dot(x, w), …, sharding={devices=[2,4]<=[8]}
//! ```
//!
//! 1. Per block, every way to hand mesh axes to its loops is a strategy: `strategies.rs`, `splits.rs`.
//! 2. Kernels are priced per strategy (`pricer.rs`), movements per pair of strategies of two blocks
//!    (`edges.rs`, `move_price.rs`: a shortest path, `reshard_cost.rs`); `problem.rs` puts them together.
//! 3. The best choice over all blocks and meshes is made, exactly where that is not too wide (`stop` says
//!    so): `solve.rs`, then `passes/solver`.
//! 4. It is settled what every tensor's layout is (`decision.rs`), and written: `write_layouts.rs`.
//!
//! Shardings that the program has are kept. Precondition: none; calls are inlined first.

pub mod control;
pub mod decision;
mod edges;
mod enumeration_report;
pub mod explain;
pub mod forbid;
mod free;
mod given;
mod halos;
pub mod illegal;
mod kernels;
pub mod liveness;
pub mod model;
mod move_price;
mod natures;
mod pinned;
pub mod pins;
mod planned;
pub mod planning_input;
pub mod pricer;
mod problem;
mod remake;
mod reshard_attribution;
pub mod reshard_cost;
mod reshard_graph;
pub mod rules;
pub mod sharding_request;
mod sharing;
mod solve;
pub mod splits;
pub mod strategies;
pub mod strategy_map;
#[cfg(test)]
mod tests;
mod tuple_needs;
pub mod unique;
pub mod write_layouts;
mod zero;

use crate::plan_state::PlanState;
use control::Control;
use decision::Decision;
use forbid::Forbid;
use given::Given;
pub use given::{PIN, given_layouts};
use illegal::illegal;
use liveness::{Does, Remade};
use model::{Goal, Input, Model};
use phzc_analysis::{batch::batch_dims, blocks::Blocks, classes::ClassId, graph::Graph, phase::Phase};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Key, Mesh, Module, Opcode, Result, notes};
use phzc_opt::inline;
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::derive::{Nature, is_planned};
use phzc_plan::partitioned::partitioned;
use phzc_plan::pricing::Share;
pub use pinned::Pinned;
use planning_input::{GivenLayouts, PlanningInput};
use solve::solve_known;
pub use solve::{Least, Open, Solved, block_floors, least_secs, solve_on, solve_over};
use std::collections::BTreeSet;
use std::sync::Arc;
use unique::{Traits, Unique};
use write_layouts::emit;

/// The pass.
pub static PASS: Pass = Pass {
    name: "shard",
    summary: "picks a layout (sharding) for every tensor: least time over all blocks and meshes, proved if `stop` is optimal",
    options: control::OPTIONS,
    run,
};

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    if let Some(partitioned) = partitioned(module) {
        cx.warn_once(partitioned.left_alone(module, cx.cluster)?);
        return Ok(Changed::No);
    }
    let n_devices = cx.cluster.n_devices() as i64;
    let control = Control::read(options, cx.cluster)?;
    if is_planned(module) {
        // All its layouts are given, by an earlier run.
        planned::agrees(module, cx.cluster, options, control.mesh.as_ref())?;
        explain::nothing_to_explain(&cx.explain)?;
        return inline::flatten(module);
    }
    let mut state = PlanState::of(module, cx)?;
    let (forbid, meshes) =
        (control.forbid, control.mesh.map_or_else(|| meshes(n_devices), |mesh| vec![mesh]));
    let mut given = Given::read(&state.program, &meshes, n_devices)?;
    let fixed = given.pin(&state.program, &control.pins)?;
    (cx.progress)("shard: building blocks");
    given.mark(&mut state.program, &fixed);
    cx.warnings.extend(pins::idle(&fixed, &state.program, &state.graph));
    let layouts = given_and_pinned(&state, &given, &fixed)?;
    let may_shorten = !options.flag("enumerate") && cx.explain.is_empty();
    let subject = subject(&state, layouts, forbid, may_shorten);
    let program = subject.module(&state.program);
    warn_of(program, &subject, cx);
    let relaxed = subject.relaxed(cx.cluster);
    let input = subject.input(cx.cluster, false, &relaxed);
    let goal = Goal { weights: [1.0; 3], memory_bytes: Some(cx.cluster.accelerator.usable_bytes()) };
    let mut known = Vec::new();
    let Some(solved) = solve_known(input, &given.meshes, &goal, f64::INFINITY, &mut known) else {
        return Err(illegal(&state.program, "this cluster", forbid));
    };
    cx.meshes = known;
    let mut model = Model::new(input, &solved.mesh);
    tell(program, &mut model, &solved, (&goal, options), cx)?;
    let mut planned = program.clone();
    write(&mut planned, &mut model, &solved);
    let planned_notes = NOTES.map(|key| planned.note(key));
    *module = subject.expanded(&state.program, planned);
    for (key, text) in NOTES.iter().zip(planned_notes) {
        text.into_iter().for_each(|text| module.set_note(key, &text));
    }
    drop(relaxed);
    if state.is_of(module) {
        let input = subject.with_free(Some(solved).filter(|it| it.is_free));
        cx.handed_on.put(PlanState { input: Some(input), ..state });
    }
    // The note of the plan is new.
    Ok(Changed::Yes)
}

/// The header's notes that a plan has.
const NOTES: [&str; 3] = [notes::MESH, notes::CLUSTER, notes::PLAN];

/// What layouts are chosen for under those that are given, as the text says that `shard` has made.
///
/// # Errors
/// A layout that the mesh of the text does not express.
pub fn reread_given(sharded: &Module, state: &PlanState, n_devices: usize) -> Result<PlanningInput> {
    let mesh = Mesh::parse(&sharded.note(notes::MESH).unwrap_or_default())?;
    let again = given::reread(sharded, &state.program, &state.graph, &mesh)?;
    let meshes = match again.has_own {
        true => vec![mesh],
        false => {
            let asked = control::asked_mesh(sharded, n_devices as i64);
            let mut all = asked.map_or_else(|| meshes(n_devices as i64), |mesh| vec![mesh]);
            all.retain(|mesh| again.fits(&state.graph, mesh));
            all
        }
    };
    let layouts = GivenLayouts { graph: Arc::clone(&state.graph), own: again.own, all: again.all };
    Ok(subject(state, layouts, control::forbidden(sharded), true).on(meshes))
}

/// The layouts that the program and pins give.
///
/// # Errors
/// When they contradict one another.
fn given_and_pinned(state: &PlanState, given: &Given, fixed: &[pins::Fixed]) -> Result<GivenLayouts> {
    // Where several meshes are open, nothing is given but pins, which are the same on all.
    let own = given.pinned(0, &state.graph);
    let mut all = own.clone();
    pins::fix(fixed, &state.program, &state.graph, &mut all)?;
    Ok(GivenLayouts { graph: Arc::clone(&state.graph), own, all })
}

/// What layouts are chosen for: the program with fewer of its equal layers, or as it is.
fn subject(state: &PlanState, given: GivenLayouts, forbid: Forbid, may_shorten: bool) -> PlanningInput {
    let short = may_shorten.then(|| PlanningInput::short(&state.program, Some(&given), forbid)).flatten();
    short.unwrap_or_else(|| {
        // A pin takes from the choices without it and adds none, so no plan under it is below their bound.
        let alone = pins::stand_alone(&given.own, &given.all, &state.graph, &state.blocks);
        let blocks = state.blocks_beside(&alone);
        PlanningInput::whole(&state.program, given.graph, blocks, given.all, forbid)
    })
}

fn warn_of(module: &Module, subject: &PlanningInput, cx: &mut Context) {
    cx.warnings.extend(subject.graph.unknown_loops.iter().cloned());
    warn_fallbacks(module, &subject.graph, cx);
}

/// What the user asked to know about a choice.
fn tell(
    module: &Module,
    model: &mut Model,
    solved: &Solved,
    (goal, options): (&Goal, &Options),
    cx: &mut Context,
) -> Result<()> {
    let map = strategy_map::describe(module, model, options.text("map") == "full");
    cx.artifacts.insert("strategy_map.txt".into(), map);
    if options.flag("enumerate") {
        let text = enumeration_report::enumerate(module, model.input, &solved.mesh, goal)?;
        cx.artifacts.insert("enumeration.txt".into(), text);
    }
    cx.explanations.extend(explain::explain(module, model, &solved.choice.option, &cx.explain)?);
    Ok(())
}

/// Every one- and two-axis mesh of `n` devices.
pub fn meshes(n: i64) -> Vec<Mesh> {
    let pairs = (2..n).filter(|size| n % size == 0).map(|size| Mesh::new(&[size, n / size]));
    std::iter::once(Mesh::new(&[n])).chain(pairs).collect()
}

/// What the model needs to know of the program.
#[derive(Clone)]
pub struct Facts {
    pinned: Vec<Option<Pinned>>,
    ops: Vec<Does>,
    is_stored: Vec<bool>,
    shares: Vec<Share>,
    remade: Vec<Remade>,
    is_live: Vec<bool>,
    batch: BTreeSet<ClassId>,
    natures: Vec<Nature>,
    adds_gradients: Vec<bool>,
    unique: Unique,
    forbid: Forbid,
    n_condition_runs: f64,
    regions: Vec<Phase>,
}

impl Facts {
    /// The facts, given some layouts.
    pub fn new(module: &Module, graph: &Graph, blocks: &Blocks, pinned: Vec<Option<Pinned>>) -> Facts {
        let ops = liveness::deeds(module, graph);
        let regions = liveness::regions(graph, blocks, &ops, false);
        let is_stored = liveness::stored(graph, &regions, &ops);
        let shares = kernels::kernel_shares(graph, &regions, &ops, &is_stored);
        let is_live = liveness::live_at_peak(graph, &is_stored, &ops);
        let (batch, natures) = (batch_loops(graph, blocks), natures::natures(graph, blocks));
        let adds_gradients = natures::gradient_sums(graph, blocks);
        let (forbid, n_condition_runs) = (Forbid::default(), liveness::condition_runs(module));
        let (remade, unique) = (vec![None; graph.tensors.len()], Unique::default());
        let facts = Facts {
            pinned,
            ops,
            is_stored,
            shares,
            remade,
            is_live,
            batch,
            natures,
            adds_gradients,
            unique,
            forbid,
            n_condition_runs,
            regions,
        };
        Facts { unique: Unique::find(graph, blocks, &facts.traits()), ..facts }
    }

    /// The same facts for plans of several stages, whose forward and backward parts are tasks of their own.
    #[must_use]
    pub fn in_tasks(&self, graph: &Graph, blocks: &Blocks) -> Facts {
        let regions = liveness::regions(graph, blocks, &self.ops, true);
        let is_stored = liveness::stored(graph, &regions, &self.ops);
        let shares = kernels::kernel_shares(graph, &regions, &self.ops, &is_stored);
        let is_live = liveness::live_at_peak(graph, &is_stored, &self.ops);
        let unique = Unique::default();
        let facts = Facts { is_stored, shares, is_live, unique, regions, ..self.clone() };
        Facts { unique: Unique::find(graph, blocks, &facts.traits()), ..facts }
    }

    /// The same facts for what no plan can do without, whatever it computes again.
    #[must_use]
    pub fn whatever_is_again(&self, graph: &Graph, blocks: &Blocks) -> Facts {
        let (ops, is_stored) = (&self.ops, &self.is_stored);
        let is_needed = liveness::stored_whatever_is_again(graph, blocks, ops, is_stored);
        let remade = liveness::remade(graph, blocks, is_stored, &is_needed);
        let is_stored = liveness::stored_by_all(graph, (blocks, &self.regions), ops, is_stored, &is_needed);
        let shares = kernels::kernel_shares(graph, &self.regions, ops, &is_stored);
        let facts = Facts { is_stored, shares, remade, unique: Unique::default(), ..self.clone() };
        Facts { unique: Unique::find(graph, blocks, &facts.traits()), ..facts }
    }

    fn traits(&self) -> Traits<'_> {
        let Facts { pinned, ops, is_stored, shares, remade, is_live, batch, natures, .. } = self;
        Traits { pinned, ops, is_stored, shares, remade, is_live, batch, natures }
    }

    /// The same facts, with some strategies forbidden.
    #[must_use]
    pub fn forbidding(self, forbid: Forbid) -> Facts {
        Facts { forbid, ..self }
    }

    /// The same input where gradients are summed over the devices before they are added up: those of other
    /// stages come from other meshes.
    pub fn summing_first<'a>(&'a self, input: Input<'a>) -> Input<'a> {
        Input { summed_first: &self.adds_gradients, ..input }
    }

    /// Whether some gradients are added up that are each sums over the devices.
    pub fn adds_gradients(&self) -> bool {
        self.adds_gradients.contains(&true)
    }

    /// The model's input.
    pub fn input<'a>(&'a self, graph: &'a Graph, blocks: &'a Blocks, cluster: &'a Cluster) -> Input<'a> {
        Input {
            graph,
            blocks,
            cluster,
            pinned: &self.pinned,
            ops: &self.ops,
            is_stored: &self.is_stored,
            shares: &self.shares,
            remade: &self.remade,
            is_live: &self.is_live,
            unique: &self.unique,
            batch: &self.batch,
            natures: &self.natures,
            summed_first: &[],
            n_condition_runs: self.n_condition_runs,
            n_microbatches: 1,
            moves_again: false,
            forbid: self.forbid,
            tied: None,
            relaxed: &[],
        }
    }
}

/// The loops that run over the batch in some tensor: those that make the outermost part of a batch dimension.
fn batch_loops(graph: &Graph, blocks: &Blocks) -> BTreeSet<ClassId> {
    let mut found = BTreeSet::new();
    for (tensor, dims) in (0..).zip(batch_dims(graph)) {
        let maps = graph.tensors[tensor as usize].uses.iter();
        let maps = maps.map(|&(node, slot)| blocks.use_map(node, slot as usize));
        for map in maps.chain([blocks.def_map(tensor)]) {
            let batch = map.iter().take(64).enumerate().filter(|(dim, _)| dims >> dim & 1 == 1);
            found.extend(batch.filter_map(|(_, classes)| classes.first()));
        }
    }
    found
}

/// Writes the choice into the module, with what is known about it.
fn write(module: &mut Module, model: &mut Model, solved: &Solved) {
    emit(module, &mut Decision::new(model, &solved.choice.option));
    module.set_note(notes::MESH, &solved.mesh.to_string());
    module.set_note(notes::CLUSTER, &model.input.cluster.name);
    let choice = &solved.choice;
    let plan = serde_json::json!({
        "planned_secs": choice.cost, "lower_bound_secs": solved.bound(), "gap": solved.gap(),
        "stop": solved.stop(), "fits": solved.fits, "evaluations": choice.evaluations,
    });
    module.set_note(notes::PLAN, &plan.to_string());
}

/// Notes which shardings came with the program, so that `place` can tell them from the planned ones.
/// One warning per opcode, or target of a custom call, that has no rule of its own.
fn warn_fallbacks(module: &Module, graph: &Graph, cx: &mut Context) {
    let mut seen = indexmap::IndexSet::new();
    for (id, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.rule.is_fallback) {
        let Some(op) = graph.opcode(module, id as u32) else { continue };
        let instr = module.comp(node.comp).instr(node.instr);
        let target = instr.word(Key::CustomCallTarget).filter(|_| op == Opcode::CustomCall);
        if seen.insert((op, target)) {
            let whole = "has no rule of its own; its tensors stay whole on every device";
            let warning = match target {
                Some(target) => Diagnostic::warning(format!("the kernel `{target}` {whole}"))
                    .help("say how it splits: `--kernels my.toml`, docs/kernels.md"),
                None => Diagnostic::warning(format!("`{}` {whole}", op.as_str())),
            };
            cx.warnings.push(warning.at(instr.span));
        }
    }
}
