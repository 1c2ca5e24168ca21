//! The command line.

use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the user asked for.
#[derive(Debug, Parser)]
#[command(
    name = "phzc",
    version,
    about = "Plan an HLO program on a cluster: layouts, pipeline stages, devices, time."
)]
pub struct Args {
    /// Program: HLO text as JAX and XLA print it, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL", required_unless_present = "help_passes")]
    pub model: Option<PathBuf>,

    /// Passes in order, options in braces: `fuse,shard{mesh=2x4},place`; '' only checks and prints the program
    #[arg(long, value_name = "PIPELINE", default_value = "default")]
    pub passes: String,

    /// Hardware: `h100-8x64` is 64 nodes of 8, or a file `my.toml` [default: the program's own, else a100-8]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// File for the resulting program [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// File for the plan's figures as JSON: time, memory and communication per stage (docs/plan-schema.md)
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,

    /// Directory for the program after each pass, plan.json, blocks.txt and strategy_map.txt
    #[arg(long, value_name = "DIR")]
    pub dump_dir: Option<PathBuf>,

    /// Print neither warnings nor the summary, only errors
    #[arg(short, long)]
    pub quiet: bool,

    /// List passes, pipelines and the values of `stop`, or explain one pass with its options
    #[arg(long, value_name = "PASS", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    pub help_passes: Option<String>,
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
