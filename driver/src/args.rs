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

impl Args {
    /// Reads the command line; `--help` and `--version` are errors that carry their text.
    ///
    /// # Errors
    /// A wrong command line.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
        Args::try_parse_from(args)
    }
}
