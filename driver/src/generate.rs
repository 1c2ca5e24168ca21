//! `phzc gen`: writes the training step of a model family, any dimensions.

mod accumulate;
mod describe;
mod narrow;
mod options;
mod wide;

pub use options::GenArgs;

use accumulate::accumulate;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::{Module, notes, print};
use phzc_passes::Context;
use phzc_passes::manager::{self, Hooks};
use std::path::Path;

/// Does what the command line says.
pub(crate) fn run(args: &GenArgs, io: &mut Io) -> Result<(), Failure> {
    args.output.iter().try_for_each(|path| files::check_parent(path))?;
    let module = step(args, io)?;
    let text = if args.describe { describe::json(args, &module) } else { print(&module) };
    match &args.output {
        Some(path) if path != Path::new("-") => Ok(files::write(path, &text)?),
        _ => write_stdout(io, &text),
    }
}

/// The forward program, or the whole step that passes make of it.
pub(crate) fn step(args: &GenArgs, io: &mut Io) -> Result<Module, Failure> {
    let mut module = args.family.forward(&args.values, args.settings.clone())?;
    let batch = args.settings.batch * args.n_microbatches;
    module.name = format!("{}_{}_batch_{batch}", args.family.name, args.size).replace(['-', '.'], "_").into();
    if args.optimizer.is_some() {
        run_passes(&mut module, "grad", io)?;
        module = wide::widen(module);
        run_passes(&mut module, "dce", io)?;
    }
    if args.settings.products != args.settings.dtype {
        narrow::narrow(&mut module, args.settings.products);
    }
    if args.n_microbatches > 1 {
        module = accumulate(module, args.n_microbatches);
    }
    if let Some(kind) = &args.optimizer {
        run_passes(&mut module, &format!("optimizer{{kind={kind},masters=true}},simplify"), io)?;
    }
    // It is for any hardware.
    module.remove_note(notes::CLUSTER);
    Ok(module)
}

fn run_passes(module: &mut Module, passes: &str, io: &mut Io) -> Result<(), Failure> {
    let pipeline =
        phzc_passes::pipeline(passes).map_err(|errors| Failure { code: 1, source: None, errors })?;
    let cluster = Cluster::named(DEFAULT_CLUSTER)?;
    let mut cx = Context { progress: io.progress, ..Context::new(&cluster) };
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: io.clock };
    let ran = manager::run(module, &pipeline, &mut cx, &mut hooks);
    (io.progress)("");
    ran.map_err(|errors| Failure { code: 1, source: None, errors })
}
