//! `phzc profile-plan`: plans a pipeline from measured tables of single operators, or prices a plan that is
//! there.
//!
//! The tables are those of Aceso's profiler, and so are time, memory and the plan's JSON (`--cost aceso`):
//! its figures and ours are the same numbers. `--cost own` adds what they leave out. See
//! docs/profile-plan.md.

#[cfg(test)]
mod bound_tests;
mod json;
mod load;
mod models;
mod names;
mod options;
#[cfg(test)]
mod price_tests;
mod text;

use models::Published;
use options::{Overlap, StageRange, WhatIsRecomputed};
use phzc_cost::aceso::{Machine, PlanSchedule};
use phzc_io::render::render;
use phzc_io::{Failure, Io, deliver, write_stdout};
use phzc_ir::Diagnostic;
use phzc_solver::chain::profiled::{Found, top};
use std::path::PathBuf;

/// The arguments of `phzc profile-plan`.
#[derive(Debug, clap::Args)]
pub struct ProfilePlanArgs {
    /// Folder of measured tables: `MODEL_SIZE_mbsB_tpT_algoA.csv`, `prim_MODEL_SIZE_KIND_Ngpus.csv`,
    /// `p2p_*_node.csv`
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

    /// Numbers of stages: one, or the fewest and the most as A..B
    #[arg(long, value_name = "N|A..B", conflicts_with = "max_stages")]
    pub stages: Option<StageRange>,

    /// Samples of a microbatch to try; with Aceso's cost all that were measured, with the own one also as
    /// many for each replica
    #[arg(long, visible_alias = "microbatch", value_name = "B", value_delimiter = ',')]
    pub microbatches: Vec<u32>,

    /// Tensor-parallel degrees to try
    #[arg(long, value_name = "T", value_delimiter = ',')]
    pub tensor: Vec<u32>,

    /// Numbers of replicas to try
    #[arg(long, value_name = "D", value_delimiter = ',')]
    pub data: Vec<u32>,

    /// Numbers of devices that a stage may have: within a node any, else whole nodes
    #[arg(long, value_name = "G", value_delimiter = ',')]
    pub group: Vec<usize>,

    /// What may be recomputed
    #[arg(long, value_enum, default_value = "any")]
    pub recompute: WhatIsRecomputed,

    /// Schedules to try: gpipe, 1f1b, zero-bubble, interleaved:V; all if not given (only with --cost own)
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = options::schedule)]
    pub schedule: Vec<PlanSchedule>,

    /// ZeRO stages to try, 0 to 3; 1 to 3 if not given, 1 if operators are mixed (only with --cost own)
    #[arg(long, value_name = "Z", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=3))]
    pub zero: Vec<u32>,

    /// What runs beside the backward part (only with --cost own)
    #[arg(long, value_enum)]
    pub overlap: Option<Overlap>,

    /// Device whose memory the optimizer reads and writes (only with --cost own) [default: v100-32]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,

    /// Operators that share one parameter; known for the published models (only with --cost own)
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    pub tied: Vec<String>,

    /// How many plans to print, the best first: each differs from all before it in its microbatch, schedule,
    /// number of stages or devices of a stage
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub top: u32,

    /// Stop after making so many plans, each the best that was found of one microbatch, schedule and number
    /// of stages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_plans: Option<u32>,

    /// Stop when no plan can be faster by more than this; stages are solved exactly where that needs it,
    /// which can take minutes [default: 0.01 as far as no stage has to be, where operators are mixed 0.5]
    #[arg(long, value_name = "PERCENT", value_parser = options::gap)]
    pub gap: Option<f64>,

    /// Whether operators of one stage may be split in different ways; known for the published models
    #[arg(long, value_name = "BOOL")]
    pub mixed: Option<bool>,

    /// What a plan costs
    #[arg(long, value_enum, default_value = "aceso")]
    pub cost: CostMode,

    /// What recomputed runs hold in Aceso's cost (only with --price)
    #[arg(long, value_enum, default_value = "all", requires_if("strict", "price"))]
    pub aceso_memory: AcesoMemory,

    /// Price this plan instead of looking for one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gpus", "emit", "output", "microbatches", "mixed", "stages", "tensor", "data", "group", "zero", "schedule", "top", "max_plans", "gap"])]
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
    /// phzc's: with gradients' sums, the optimizer, transfers as measured, other schedules and ZeRO
    Own,
}

/// What recomputed runs hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AcesoMemory {
    /// Every run counts
    All,
    /// As Aceso's code has it, which forgets some runs at a stage's end
    Strict,
}

/// How a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlanFormat {
    /// The JSON that Aceso's runtime reads
    Aceso,
}

/// Does what the command line says.
pub fn run(args: &ProfilePlanArgs, io: &mut Io) -> Result<(), Failure> {
    let published = models::published(&args.model, &args.size);
    let mut warnings = Vec::new();
    let machine = machine(args, published, &mut warnings);
    // Nothing is left to be done when stderr does not take a warning.
    let _ = io.stderr.write_all(render(None, &warnings, io.color).as_bytes());
    let machine = machine?;
    if let Some(path) = &args.price {
        let plan = json::read(path, &machine, models::family(&args.model))?;
        return write_stdout(io, &text::summary(&machine, &plan, None)?);
    }
    (io.progress)("looking for stages");
    let found = plans(args, &machine)?;
    let text = text::plans(&machine, &found)?;
    if args.emit.is_none() {
        return write_stdout(io, &text);
    }
    let json = json::write(args, published, &machine, &found[0].plan);
    // Nothing is left to be done when stderr does not take the summary.
    let _ = io.stderr.write_all(text.as_bytes());
    deliver(args.output.as_deref(), &json, io)
}

/// What plans are priced on, from the tables and what is known of the model.
fn machine(
    args: &ProfilePlanArgs,
    published: Option<&Published>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Machine, Failure> {
    let size = published.map_or(args.size.as_str(), |it| it.tables);
    let tables = load::tables(&args.db, &args.model, size, warnings)?;
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
    let own = options::own(args, &tables, &chain)?;
    Ok(Machine {
        tables,
        chain,
        own,
        state_copies: family.map_or(models::MIXED_PRECISION_COPIES, |it| it.state_copies),
        global_batch: global_batch.ok_or_else(missing)?,
        devices_per_node: args.gpus_per_node,
        limit_mib: args.memory_limit_mb,
        forgets_last_run: args.aceso_memory == AcesoMemory::Strict && args.cost == CostMode::Aceso,
    })
}

/// The best plans that the arguments allow; one at least.
fn plans(args: &ProfilePlanArgs, machine: &Machine) -> Result<Vec<Found>, Failure> {
    let space = options::space(args, machine)?;
    let found = top(machine, &space);
    if found.is_empty() {
        let (n_devices, limit) = (space.n_devices, machine.limit_mib);
        let message = format!("no plan on {n_devices} devices, in {limit} MiB each, was found");
        let help = match args.max_plans {
            Some(_) => "a higher --max-plans, more memory, more stages or more measured splits may help",
            None => "more memory, more stages, fewer options or more measured splits may help",
        };
        return Err(Diagnostic::error(message).help(help).into());
    }
    Ok(found)
}
