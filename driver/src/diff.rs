//! `phzc diff A B`: what differs between two plans of a program, and what each difference costs.

use crate::compare::{self, Side};
use crate::planned::Planned;
use phzc_frontends::ReadArgs;
use phzc_io::render::Source;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::Diagnostic;
use phzc_passes::report::from_json;
use std::path::{Path, PathBuf};

/// The arguments of `phzc diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// A planned program (`-o`, a dump), any program with shardings, or a plan.json
    #[arg(value_name = "A")]
    pub a: PathBuf,

    /// Another one
    #[arg(value_name = "B")]
    pub b: PathBuf,

    /// Hardware that both programs are priced on [default: each program's own]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// How programs are read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Does what the command line says.
pub(crate) fn run(args: &DiffArgs, io: &mut Io) -> Result<(), Failure> {
    let mut side = |path: &Path| match is_json(path) {
        true if args.cluster.is_some() => {
            let message =
                format!("`{}` has the figures of its own cluster, and no program to price", path.display());
            Err(Diagnostic::error(message).help("leave `--cluster` out, or give the planned programs").into())
        }
        true => figures(path),
        false => {
            let planned = Planned::load(path, args.cluster.as_deref(), &args.read, io)?;
            Ok(Side::of_program(path.display().to_string(), planned))
        }
    };
    let (a, b) = (side(&args.a)?, side(&args.b)?);
    write_stdout(io, &compare::text(&a, &b))
}

/// No program starts like an object of JSON. A file that cannot be read is for its reader to refuse.
fn is_json(path: &Path) -> bool {
    path != Path::new("-") && files::first(path, 1).is_ok_and(|first| first == b"{")
}

fn figures(path: &Path) -> Result<Side, Failure> {
    let text = files::read(path, files::MAX_TEXT_BYTES)?;
    let name = path.display().to_string();
    match from_json(&text) {
        Ok(plan) => Ok(Side::of_figures(name, plan)),
        Err(error) => Err(Failure::new(Some(Source { name, text }), error)),
    }
}
