//! The command line.

use clap::{Parser, Subcommand};
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

    /// Program: HLO text, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL", required_unless_present = "help_passes")]
    pub model: Option<PathBuf>,

    /// Passes in order: `fuse,shard{key=value},place`; '' is none
    #[arg(long, value_name = "PIPELINE", default_value = "default")]
    pub passes: String,

    /// Hardware: `a100-8`, `h100-8x64`, or a file `my.toml`
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// File for the resulting program [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Directory for the program after each pass, the plan and the tables
    #[arg(long, value_name = "DIR")]
    pub dump_dir: Option<PathBuf>,

    /// Do not print warnings and the summary
    #[arg(short, long)]
    pub quiet: bool,

    /// List the passes and pipelines, or explain one
    #[arg(long, value_name = "PASS", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub help_passes: Option<String>,
}

/// What can be done besides planning.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program on one machine and print a digest of its results
    Eval(EvalArgs),
}

/// The arguments of `phzc eval`.
#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    /// Program: HLO text, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

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
}

impl Args {
    /// Reads the command line; `--help` and `--version` are errors that carry their text.
    ///
    /// # Errors
    /// A wrong command line.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
        Args::try_parse_from(args)
    }
}
