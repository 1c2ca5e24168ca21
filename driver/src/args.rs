//! The command line.

use crate::arch::ArchCommand;
use crate::diff::DiffArgs;
use crate::emit::Emit;
use crate::fleet::SweepCommand;
use crate::generate::GenArgs;
use crate::price::PriceArgs;
use crate::profile::ProfileArgs;
use crate::profile::tune::TuneArgs;
use crate::replan::ReplanArgs;
use crate::shell::{CompletionsArgs, ManArgs};
use crate::what_if::WhatIfArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use phzc_frontends::ReadArgs;
use phzc_lab::calibrate::CalibrateArgs;
use phzc_lab::choose::ChooseArgs;
use phzc_lab::devices::DevicesArgs;
use phzc_lab::phaze_plan::PhazePlanArgs;
use phzc_lab::profile_plan::ProfilePlanArgs;
use phzc_lab::validate::ValidateArgs;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the user asked for.
#[derive(Debug, Parser)]
#[command(
    name = "phzc",
    version,
    about = "Plan an HLO program on a cluster: layouts, pipeline stages, devices, time.",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    /// Something else than planning
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Program in any format that is read (HLO text as JAX and XLA print it), possibly gzipped; `-` is
    /// standard input
    #[arg(value_name = "MODEL", required_unless_present = "help_passes")]
    pub model: Option<PathBuf>,

    /// Passes in order, options in braces: `fuse,shard{mesh=2x4},place`; '' only checks and prints the
    /// program
    #[arg(long, value_name = "PIPELINE", default_value = "default")]
    pub passes: String,

    /// Hardware: `h100-8x64` is 64 nodes of 8, or a file `my.toml` [default: the program's own, else a100-8]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// Price by what was measured first: a directory of `phzc profile` (docs/profile.md)
    #[arg(long, value_name = "DIR")]
    pub profile: Option<PathBuf>,

    /// Ignore the shardings that the program brings, or those of instructions whose names match; short for
    /// `unshard`
    #[arg(
        long,
        value_name = "REGEX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub ignore_shardings: Option<String>,

    /// Recover the program that XLA's partitioner has partitioned, and plan that; short for the pass
    /// `unpartition`
    #[arg(long)]
    pub unpartition: bool,

    /// Fix the layout of what a pattern of names matches: `^w1$=[x,-]`; short for `shard{pin=…}`
    #[arg(long = "pin", value_name = "PATTERN=LAYOUT")]
    pub pins: Vec<String>,

    /// Say why the value of this instruction lies as it does: every strategy, its costs, why it lost; why a
    /// collective of the plan is there; why so many `stages`, or this `mesh` (explain.txt)
    #[arg(long, value_name = "NAME")]
    pub explain: Vec<String>,

    /// What attention is priced as: as-written, op by op, or flash, one kernel; short for
    /// `fuse{attention=…}`
    #[arg(long, value_name = "HOW", value_parser = ["flash", "as-written"], hide_possible_values = true)]
    pub attention: Option<String>,

    /// List the K best plans with what distinguishes them (plans.txt); short for `place{top=K}`
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub top: Option<u32>,

    /// End the search once the best plan is so many percent above the lower bound, at most; short for
    /// `place{gap=…}`
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub gap: Option<String>,

    /// Plan for slow devices: `1.2x@5%`, each by itself takes 1.2 times as long with 5 %; the plan with the
    /// least expected time; short for `place{straggler=…}`
    #[arg(long, value_name = "SLOWDOWN@PERCENT", allow_hyphen_values = true)]
    pub straggler: Option<String>,

    /// Write gradient accumulation out: a loop over the plan's microbatches, then the update; short for the
    /// pass `accumulate` at the end
    #[arg(long)]
    pub write_microbatches: bool,

    /// What to write: `program`, the schedule as a Chrome `trace`, a `report` (one HTML page), a directory:
    /// `stages` and `device-stages`, modules (docs/stages.md), `pictures` of the report; or the configuration
    /// of a training stack: `megatron`, `torchtitan`, `deepspeed`, `fsdp`, `maxtext`, `jax` (docs/exports.md)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Emit::Program, hide_possible_values = true)]
    pub emit: Emit,

    /// File for the resulting program, trace, page or configuration, directory for modules or pictures
    /// [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// File for the plan's figures as JSON: time, memory and communication per stage (docs/plan-schema.md)
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Directory for the program after each pass, plan.json, blocks.txt and strategy_map.txt
    #[arg(long, value_name = "DIR")]
    pub dump_dir: Option<PathBuf>,

    /// How it is read
    #[command(flatten)]
    pub read: ReadArgs,

    /// Print neither warnings nor the summary, only errors
    #[arg(short, long)]
    pub quiet: bool,

    /// List passes, pipelines and the values of `stop`, or explain one pass with its options
    #[arg(long, value_name = "PASS", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub help_passes: Option<String>,
}

/// What can be done besides planning.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Search the accelerator that trains models best within an area, together with their placement
    Arch(Box<ArchCommand>),
    /// Fit clocks, links, host and overlap to measured training runs
    Calibrate(CalibrateArgs),
    /// Choose a strategy per node of a graph, memory limited at every time
    Choose(ChooseArgs),
    /// Print a shell's completions of this command line
    Completions(CompletionsArgs),
    /// Read a program in any format and write it as HLO text
    Convert(ConvertArgs),
    /// Say what differs between two plans, and what each difference costs
    Diff(DiffArgs),
    /// List the devices and clusters that are built in, or one device's numbers with their sources
    #[command(visible_alias = "clusters")]
    Devices(DevicesArgs),
    /// Run a program on one machine and print a digest of its results
    Eval(EvalArgs),
    /// Write the training step of a model family
    Gen(GenArgs),
    /// Print the manual's page, or write those of all subcommands
    Man(ManArgs),
    /// Place a chain of layers as Phaze's solver does, from its JSON to its JSON
    PhazePlan(PhazePlanArgs),
    /// Price a program in the degrees that a Megatron-LM command line asks for
    Price(PriceArgs),
    /// Write what a plan and its rivals ask for as programs to be measured
    Profile(ProfileArgs),
    /// Plan a pipeline from measured tables of single operators, or price a plan
    ProfilePlan(Box<ProfilePlanArgs>),
    /// Plan anew on what is left of a cluster, or on another, and say what moves
    Replan(ReplanArgs),
    /// Plan every cluster of unlike nodes that can be rented: time against money
    Sweep(Box<SweepCommand>),
    /// Plan, measure what is missing, plan again, until the plan stays
    Tune(TuneArgs),
    /// Predict measured training runs, operators and collectives, and say how far off that is
    Validate(ValidateArgs),
    /// Run a program and its plan on virtual devices and compare the results
    ///
    /// The exit code is 0 if they are equal, 1 if they differ or nothing could be compared, and 3 if nothing
    /// differs but a part of the plan was not proven.
    Verify(VerifyArgs),
    /// Price a plan on other hardware, and plan its program anew there
    WhatIf(WhatIfArgs),
}

/// The arguments of `phzc convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertArgs {
    /// Program in any format that is read, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// How it is read
    #[command(flatten)]
    pub read: ReadArgs,

    /// File for the HLO text [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// `.npz` file for the weights that the file holds, by the numbers of their parameters
    #[arg(long, value_name = "FILE")]
    pub write_weights: Option<PathBuf>,

    /// The same instructions with smaller sizes, as `verify` runs large programs
    #[arg(long, conflicts_with = "write_weights")]
    pub shrink: bool,
}

/// The arguments of `phzc verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Program: HLO text, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// How it is read
    #[command(flatten)]
    pub read: ReadArgs,

    /// Its plan: what `phzc MODEL -o PLAN` wrote
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Seed of the inputs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Largest difference over largest value that counts as rounding [default: 1e-12 in 64-bit floats]
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub tolerance: Option<f64>,

    /// Make up the elements of constants that were left out of the text (`{...}`)
    #[arg(long)]
    pub fill_elided: bool,

    /// Prove the plan piece by piece, as is done where it cannot be run whole
    #[arg(long)]
    pub pieces: bool,
}

/// The arguments of `phzc eval`.
#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    /// Program: HLO text, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// How it is read
    #[command(flatten)]
    pub read: ReadArgs,

    /// Seed of the inputs, where no `--input` is given
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Inputs in order: a `.npy` file is one array, a `.npz` file several, by the numbers in their names
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    pub input: Vec<PathBuf>,

    /// Number of devices that run in lock-step, each on the same inputs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub devices: u32,

    /// Make up the elements of constants that were left out of the text (`{...}`)
    #[arg(long)]
    pub fill_elided: bool,

    /// `.npz` file for the results of the first device; types that NumPy lacks as float32
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// `.npz` file for the inputs
    #[arg(long, value_name = "FILE")]
    pub write_inputs: Option<PathBuf>,

    /// Write the inputs and leave the program at that
    #[arg(long, requires = "write_inputs", conflicts_with = "output")]
    pub inputs_only: bool,
}

impl Args {
    /// Reads the command line; `--help` and `--version` are errors that carry their text.
    ///
    /// # Errors
    /// A wrong command line.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
        Args::try_parse_from(args).map_err(second_program)
    }
}

/// A second program, which clap takes for a subcommand, is an argument too many.
fn second_program(error: clap::Error) -> clap::Error {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if error.kind() == ErrorKind::ArgumentConflict => {
            let message = format!("unexpected argument '{name}' found");
            Args::command().error(ErrorKind::UnknownArgument, message)
        }
        _ => error,
    }
}

/// A relative error: a number from 0 up.
fn tolerance(text: &str) -> Result<f64, String> {
    let is_legal = |x: &f64| x.is_finite() && *x >= 0.0;
    text.parse().ok().filter(is_legal).ok_or_else(|| "expected a number from 0 up, such as 1e-4".to_owned())
}
