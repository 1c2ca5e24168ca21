//! `phzc profile-plan`: plans a pipeline from measured tables of single operators, or prices a plan that is there.
//!
//! The tables are those of Aceso's profiler, and so are time, memory and the plan's JSON (`--cost aceso`): its figures and ours are
//! the same numbers. See docs/profile-plan.md.

mod json;
mod load;
mod models;

use crate::{Failure, Io, deliver, write_stdout};
use models::Published;
use phzc_cost::aceso::{Machine, PipelinePlan};
use phzc_ir::Diagnostic;
use phzc_passes::chain::profiled::{Found, Space, best};
use std::path::PathBuf;

/// The arguments of `phzc profile-plan`.
#[derive(Debug, clap::Args)]
pub struct ProfilePlanArgs {
    /// Folder of measured tables: `MODEL_SIZE_mbsB_tpT_algoA.csv`, `prim_MODEL_SIZE_KIND_Ngpus.csv`, `p2p_*_node.csv`
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,

    /// Model, as the tables' names begin
    #[arg(long, value_name = "NAME")]
    pub model: String,

    /// Its size, as their names go on
    #[arg(long, value_name = "SIZE")]
    pub size: String,

    /// Devices to plan for
    #[arg(long, value_name = "N", required_unless_present = "price")]
    pub gpus: Option<usize>,

    /// Layers of each stack that repeats; known for the published sizes
    #[arg(long, value_name = "N")]
    pub layers: Option<usize>,

    /// Samples of a step; known for the published models
    #[arg(long, value_name = "N")]
    pub global_batch: Option<u32>,

    /// Memory of a device in MiB
    #[arg(long, value_name = "MIB", default_value_t = 28_000.0)]
    pub memory_limit_mb: f64,

    /// Devices of a node
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub gpus_per_node: usize,

    /// The most stages
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub max_stages: usize,

    /// Samples of a microbatch to try; all that were measured if not given
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub microbatches: Vec<u32>,

    /// Whether operators of one stage may be split in different ways; known for the published models
    #[arg(long, value_name = "BOOL")]
    pub mixed: Option<bool>,

    /// What a plan costs
    #[arg(long, value_enum, default_value = "aceso")]
    pub cost: CostMode,

    /// Price this plan instead of looking for one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpus", "emit", "output", "microbatches", "mixed"])]
    pub price: Option<PathBuf>,

    /// What to write besides the summary
    #[arg(long, value_enum)]
    pub emit: Option<PlanFormat>,

    /// File to write it to; `-` or nothing for standard output
    #[arg(short, long, value_name = "FILE", requires = "emit")]
    pub output: Option<PathBuf>,
}

/// What a plan costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CostMode {
    /// Aceso's time and memory, term by term
    Aceso,
}

/// How a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlanFormat {
    /// The JSON that Aceso's runtime reads
    Aceso,
}

/// Does what the command line says.
pub(crate) fn run(args: &ProfilePlanArgs, io: &mut Io) -> Result<(), Failure> {
    let published = models::published(&args.model, &args.size);
    let machine = machine(args, published)?;
    if let Some(path) = &args.price {
        let plan = json::read(path, &machine)?;
        return write_stdout(io, &summary(&machine, &plan, None)?);
    }
    (io.progress)("looking for stages");
    let found = plan(args, &machine)?;
    let text = summary(&machine, &found.plan, Some(&found))?;
    if args.emit.is_none() {
        return write_stdout(io, &text);
    }
    let json = json::write(args, published, &machine, &found.plan);
    // Nothing is left to be done when stderr does not take the summary.
    let _ = io.stderr.write_all(text.as_bytes());
    deliver(args.output.as_deref(), &json, io)
}

/// What plans are priced on, from the tables and what is known of the model.
pub(crate) fn machine(args: &ProfilePlanArgs, published: Option<&Published>) -> Result<Machine, Failure> {
    let size = published.map_or(args.size.as_str(), |it| it.tables);
    let tables = load::tables(&args.db, &args.model, size)?;
    let n_layers = args.layers.or(published.and_then(|it| it.n_layers));
    let chain = models::chain(&tables.names, n_layers)?;
    let family = models::family(&args.model);
    let global_batch = args.global_batch.or(family.map(|it| it.global_batch));
    let missing = || Diagnostic::error("the samples of a step are not known").help("give --global-batch");
    let counts =
        [args.gpus.unwrap_or(1), args.gpus_per_node, args.max_stages, global_batch.unwrap_or(1) as usize];
    if !args.memory_limit_mb.is_finite() || args.memory_limit_mb <= 0.0 || counts.contains(&0) {
        return Err(Diagnostic::error("devices, stages, memory and samples have to be above 0").into());
    }
    Ok(Machine {
        tables,
        chain,
        state_copies: family.map_or(models::MIXED_PRECISION_COPIES, |it| it.state_copies),
        global_batch: global_batch.ok_or_else(missing)?,
        devices_per_node: args.gpus_per_node,
        limit_mib: args.memory_limit_mb,
    })
}

/// The best plan that the arguments allow.
pub(crate) fn plan(args: &ProfilePlanArgs, machine: &Machine) -> Result<Found, Failure> {
    let family = models::family(&args.model);
    let n_devices = args.gpus.unwrap_or(1);
    if args.mixed == Some(true) && !family.is_some_and(|it| it.is_mixed) {
        let message = format!("what changes of layout inside a stage take is not known for `{}`", args.model);
        return Err(Diagnostic::error(message)
            .help("leave --mixed out: all operators of a stage are split alike then")
            .into());
    }
    let space = Space {
        n_devices,
        max_stages: args.max_stages,
        max_group: args.gpus_per_node.min(models::MAX_GROUP),
        max_tensor: models::MAX_GROUP as u32,
        microbatches: microbatches(args, machine)?,
        is_free: family.is_some_and(|it| it.is_mixed),
        is_mixed: args.mixed.unwrap_or(family.is_some_and(|it| it.is_mixed)),
    };
    let none = || {
        let message = format!("no plan on {n_devices} devices, in {} MiB each, was found", machine.limit_mib);
        Diagnostic::error(message).help("more memory, more stages or more measured splits may help")
    };
    Ok(best(machine, &space).ok_or_else(none)?)
}

/// The microbatches to try: those given, or those measured as samples of a replica; whole ones of a step.
fn microbatches(args: &ProfilePlanArgs, machine: &Machine) -> Result<Vec<u32>, Failure> {
    let measured = machine.tables.batches();
    let divides = |microbatch: &u32| *microbatch > 0 && machine.global_batch.is_multiple_of(*microbatch);
    if let Some(wrong) = args.microbatches.iter().find(|microbatch| !divides(microbatch)) {
        let message =
            format!("{wrong} samples of a microbatch do not divide the {} of a step", machine.global_batch);
        return Err(Diagnostic::error(message).help(format!("measured were {measured:?}")).into());
    }
    let given = if args.microbatches.is_empty() { measured } else { args.microbatches.clone() };
    Ok(given.into_iter().filter(divides).collect())
}

/// A plan in a few lines.
fn summary(machine: &Machine, plan: &PipelinePlan, found: Option<&Found>) -> Result<String, Failure> {
    let Some(cost) = machine.price(plan) else {
        return Err(Diagnostic::error("the plan splits an operator in a way that was not measured").into());
    };
    let mut text = format!("step {:.3} ms, memory {:.1} of {} MiB", cost.ms, cost.mib, machine.limit_mib);
    if cost.mib > machine.limit_mib {
        text += ", does not fit";
    }
    if let Some(found) = found {
        let gap = 100.0 * (1.0 - found.bound_ms / cost.ms).max(0.0);
        text += &format!(", at least {:.3} ms (gap {gap:.2} %)", found.bound_ms);
        text += if found.is_cut_off { ", search cut off by its limit of plans" } else { "" };
        text += if found.is_along_fastest { ", each operator split along its fastest dimension" } else { "" };
    }
    text += &format!("\nmicrobatch {}, {} stages\n", plan.microbatch, plan.stages.len());
    text += "stage  devices  operators        tensor x data    recomputed  ms/microbatch     MiB\n";
    for (at, stage) in plan.stages.iter().enumerate() {
        let own = machine.price_stage(plan, at).unwrap_or_default();
        let mut degrees: Vec<String> =
            stage.ops.iter().map(|op| format!("{}x{}", op.tensor, op.data)).collect();
        degrees.dedup();
        let range = format!("{}..{}", stage.start, stage.start + stage.ops.len());
        let n_recomputed = stage.ops.iter().filter(|op| op.recompute).count();
        let (degrees, n) = (degrees.join(" "), stage.n_devices);
        text += &format!(
            "{at:5} {n:8}  {range:<15}  {degrees:<15} {n_recomputed:11} {:14.3} {:7.0}\n",
            own.ms, own.mib
        );
    }
    Ok(text)
}
