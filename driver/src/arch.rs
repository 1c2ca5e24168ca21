//! `phzc arch`: makes chains of layers of programs, and hands them to the search over accelerators.

mod chain;
mod extract;
mod kernels;
mod layers;
mod operators;
mod scale;

use crate::page;
use crate::planned::{Planned, Watch, legal_program};
use phzc_arch::model::{FORMAT, ModelGraph};
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_frontends::ReadArgs;
use phzc_io::{Failure, Io};
use phzc_ir::Module;
use phzc_lab::arch::{ArchArgs, Planner, run as search};
use phzc_passes::Context;
use phzc_passes::fuse::ensure_noted;
use phzc_passes::graph::Graph;
use phzc_passes::manager::{self, Hooks};
use scale::Batch;
use std::path::Path;

/// Calls, fusions and loops over layers, written out.
const PASSES: &str = "inline,unroll,dce";

/// The arguments of `phzc arch`, with how programs are read.
#[derive(Debug, clap::Args)]
pub struct ArchCommand {
    /// What is searched
    #[command(flatten)]
    pub arch: ArchArgs,

    /// How programs are read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Does what the command line says.
pub(crate) fn run(args: &ArchCommand, io: &mut Io) -> Result<(), Failure> {
    let read = &args.read;
    let planner = Planner {
        plan: &|path: &Path, toml: &str, io: &mut Io| step_secs(path, toml, read, io),
        samples: &|path: &Path, io: &mut Io| samples(path, read, io),
    };
    let extract = |path: &Path, samples: &[u64], io: &mut Io| model(path, samples, read, io);
    search(&args.arch, &extract, (&planner, &page::arch::html), io)
}

/// Seconds of a program's step as `phzc MODEL --cluster` plans it.
fn step_secs(path: &Path, toml: &str, read: &ReadArgs, io: &mut Io) -> Result<f64, Failure> {
    let (module, _) = legal_program(path, read, io)?;
    let cluster = Cluster::from_toml(toml)?;
    let pipeline =
        phzc_passes::pipeline("default").map_err(|errors| Failure { code: 1, source: None, errors })?;
    Ok(Planned::anew(module, &pipeline, cluster, &Watch::of(io))?.plan.time_secs)
}

/// Samples of a program's step.
fn samples(path: &Path, read: &ReadArgs, io: &mut Io) -> Result<u64, Failure> {
    let (module, _) = legal_program(path, read, io)?;
    Ok(Batch::find(&Graph::build(&module))?.samples())
}

/// The chain of layers of a program, for each size of the microbatch.
fn model(path: &Path, samples: &[u64], read: &ReadArgs, io: &mut Io) -> Result<ModelGraph, Failure> {
    let (mut module, _) = legal_program(path, read, io)?;
    (io.progress)(&format!("extracting {}", path.display()));
    flatten(&mut module, io)?;
    let microbatches = extract::microbatches(&module, samples).map_err(|error| Failure::new(None, error))?;
    Ok(ModelGraph { format: FORMAT.to_owned(), name: module.name.to_string(), microbatches })
}

fn flatten(module: &mut Module, io: &mut Io) -> Result<(), Failure> {
    let pipeline =
        phzc_passes::pipeline(PASSES).map_err(|errors| Failure { code: 1, source: None, errors })?;
    let cluster = Cluster::named(DEFAULT_CLUSTER)?;
    let mut cx = Context { progress: io.progress, ..Context::new(&cluster) };
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: io.clock };
    let ran = manager::run(module, &pipeline, &mut cx, &mut hooks);
    (io.progress)("");
    ran.map_err(|errors| Failure { code: 1, source: None, errors })?;
    // Phases say what a training step does backward.
    Ok(ensure_noted(module)?)
}
