//! What `check` says of a plan, and whether the plan runs and computes what its program does.

use super::corrupt::{Kind, entries};
use super::root;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Key, Module, notes};
use phzc_passes::Context;
use phzc_passes::derive::{header, planned_comps};
use phzc_passes::verify::{Settings, verify};
use std::collections::BTreeSet;
use std::fs;

/// A program and a plan of it.
pub struct Planned {
    /// The program and the pipeline.
    pub name: String,
    pub original: Module,
    pub plan: Module,
    /// Whether the program is small enough to be run.
    pub is_small: bool,
    /// Microbatches in which the plan runs too, where it has one; it has none where it cannot.
    more_microbatches: Option<u64>,
    /// Whether it has one stage and one microbatch: then all of it is one task.
    is_one_task: bool,
}

/// Whether a plan can be run as its text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truth {
    Runs,
    Cannot(String),
    /// It was not run.
    Unknown(String),
}

/// Devices that compute slowly and talk fast: small programs are split in every way.
pub fn cluster() -> Cluster {
    Cluster::from_toml(include_str!("../clusters/slow-8.toml")).expect("a legal cluster")
}

/// Runs passes on a module.
pub fn passed(module: &mut Module, pipeline: &str, cluster: &Cluster) -> Result<(), Diagnostic> {
    let mut cx = Context::new(cluster);
    for step in &phzc_passes::pipeline(pipeline).expect("a legal pipeline").steps {
        step.run(module, &mut cx)?;
    }
    Ok(())
}

/// A program's text by its name, from the examples or the corpus.
pub fn text(name: &str) -> Option<String> {
    let example = root().join(format!("examples/{name}.ir"));
    let known = root().join("../shared/corpus").join(name);
    fs::read_to_string(example).or_else(|_| fs::read_to_string(known)).ok()
}

impl Planned {
    /// A plan; nothing where there is none.
    pub fn new(name: &str, text: &str, pipeline: &str, cluster: &Cluster, is_small: bool) -> Option<Planned> {
        let original = phzc_ir::parse(text).expect("a legal program");
        let mut plan = original.clone();
        passed(&mut plan, pipeline, cluster).ok()?;
        let (name, more_microbatches) = (format!("{name} {pipeline}"), None);
        let said = header(&plan).expect("a plan");
        let (n_microbatches, is_one_task) =
            (said.n_microbatches, said.n_microbatches == 1 && said.meshes.len() == 1);
        let mut planned = Planned { name, original, plan, is_small, more_microbatches, is_one_task };
        let truth = planned.truth_of(&planned.plan);
        assert!(!matches!(truth, Truth::Cannot(_)), "{}: {truth:?}", planned.name);
        if is_small && n_microbatches == 1 {
            let runs = |n: &u64| planned.truth_of(&in_microbatches(&planned.plan, *n)) == Truth::Runs;
            planned.more_microbatches = [2, 3].into_iter().find(runs);
        }
        Some(planned)
    }

    /// Why `check` refuses a plan.
    pub fn refusal(&self, plan: &Module, cluster: &Cluster) -> Option<String> {
        passed(&mut plan.clone(), "check", cluster).err().map(|error| error.to_string())
    }

    /// Whether a plan runs and computes what the program does. A phase has to be right for several
    /// microbatches, too, where the program can be run in them: the report prices it by its phase.
    pub fn truth(&self, plan: &Module, kind: Kind, cluster: &Cluster) -> Truth {
        if let Some(why) = unlike_xla(plan).or_else(|| too_many_devices(plan, cluster)) {
            return Truth::Cannot(why);
        }
        match (self.truth_of(plan), self.more_microbatches) {
            (Truth::Runs, Some(n)) if kind == Kind::Phase => self.truth_of(&in_microbatches(plan, n)),
            (Truth::Runs, None) if kind == Kind::Phase && self.is_one_task => {
                Truth::Unknown("it cannot be run in microbatches".to_owned())
            }
            (truth, _) => truth,
        }
    }

    fn truth_of(&self, plan: &Module) -> Truth {
        if !self.is_small {
            return Truth::Unknown("too large".to_owned());
        }
        match verify(&self.original, plan, &Settings::default()) {
            Ok(found) if found.outputs.iter().all(|output| output.is_equal()) => {
                let is_one_task = found.n_stages == 1 && found.n_microbatches == 1;
                // All microbatches ran in lock-step, which says nothing of the order of tasks.
                let is_order_known = found.is_replayed || is_one_task;
                if is_order_known {
                    Truth::Runs
                } else {
                    Truth::Unknown("its loops sum over microbatches".to_owned())
                }
            }
            Ok(_) => Truth::Cannot("it computes something else".to_owned()),
            Err(failed) if failed.error.message.contains("more than four axes") => {
                Truth::Unknown(failed.error.message)
            }
            Err(failed) => Truth::Cannot(failed.error.to_string()),
        }
    }
}

/// The plan on one device, in so many microbatches: its phases are left.
fn in_microbatches(plan: &Module, n: u64) -> Module {
    let mut plan = plan.clone();
    for comp in planned_comps(&plan) {
        for instr in &mut plan.comps[comp.index()].instrs {
            instr.attrs.retain(|attr| attr.key != Key::Sharding);
            ["phzc.stage", "phzc.partial"].into_iter().for_each(|note| instr.remove_note(note));
        }
    }
    [notes::MESH, notes::STAGES].into_iter().for_each(|note| plan.remove_note(note));
    plan.attrs.retain(|attr| &*attr.key != "num_partitions");
    let text = plan.note(notes::PLAN).unwrap_or_default();
    let mut figures: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&text).unwrap_or_default();
    figures.insert("n_microbatches".to_owned(), n.into());
    figures.remove("schedule");
    plan.set_note(notes::PLAN, &serde_json::Value::Object(figures).to_string());
    plan
}

/// What XLA's verifier would say of the aliases of a plan whose result is a flat tuple and whose parameters
/// are arrays.
fn unlike_xla(plan: &Module) -> Option<String> {
    let entry = plan.entry();
    let (params, outputs) = (entry.params(), entry.root().shape.parts());
    let (mut from, mut to) = (BTreeSet::new(), BTreeSet::new());
    for piece in entries(plan.attr("input_output_alias").unwrap_or("{}")) {
        let numbers: Option<(usize, usize)> = (|| {
            let (output, rest) = piece.strip_prefix('{')?.split_once("}: (")?;
            let rest =
                rest.strip_suffix(", {}, may-alias)").or_else(|| rest.strip_suffix(", {}, must-alias)"))?;
            Some((output.parse().ok()?, rest.parse().ok()?))
        })();
        let Some((output, param)) =
            numbers.filter(|&(output, param)| output < outputs.len() && param < params.len())
        else {
            return Some(format!("the alias {piece} cannot be read"));
        };
        if !from.insert(param) || !to.insert(output) {
            return Some(format!("the alias {piece} is the second"));
        }
        if outputs[output].bytes() != entry.instr(params[param]).shape.bytes() {
            return Some(format!("the alias {piece} is of other bytes"));
        }
    }
    None
}

/// Whether a plan is for more devices than there are.
fn too_many_devices(plan: &Module, cluster: &Cluster) -> Option<String> {
    let n_devices = header(plan).ok()?.n_devices();
    (n_devices > cluster.n_devices()).then(|| format!("it is for {n_devices} devices"))
}
