//! `phzc gen`: writes the training step of a model family, any dimensions.

mod describe;
mod options;

pub use options::GenArgs;

use crate::frontend::zoo::Settings;
use crate::render::Source;
use crate::{Failure, Io, files, write_stdout};
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Module, print};
use phzc_passes::manager::{self, Hooks};
use phzc_passes::{Context, Pipeline};
use std::path::Path;

/// Does what the command line says.
pub(crate) fn run(args: &GenArgs, io: &mut Io) -> Result<(), Failure> {
    let module = step(args, io)?;
    let text = if args.describe { describe::json(args, &module) } else { print(&module) };
    match &args.output {
        Some(path) if path != Path::new("-") => Ok(files::write(path, &text)?),
        _ => write_stdout(io, &text),
    }
}

/// The forward program, or the whole step that the passes make of it.
fn step(args: &GenArgs, io: &mut Io) -> Result<Module, Failure> {
    let Settings { batch, .. } = args.settings;
    let mut module = args.family.forward(&args.values, args.settings.clone())?;
    module.name = format!("{}_{}_batch_{batch}", args.family.name, args.size).replace(['-', '.'], "_").into();
    let cluster = Cluster::named(DEFAULT_CLUSTER)?;
    let mut cx = Context { progress: io.progress, ..Context::new(&cluster) };
    let pipeline = Pipeline::parse(&args.passes).map_err(|errors| {
        let source = Source { name: "--passes".to_owned(), text: args.passes.clone() };
        Failure { code: 2, source: Some(source), errors }
    })?;
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: io.clock };
    let ran = manager::run(&mut module, &pipeline, &mut cx, &mut hooks);
    (io.progress)("");
    ran.map(|()| module).map_err(|errors| Failure { code: 1, source: None, errors })
}
