//! `phzc arch`: the accelerator that trains models best within an area, searched together with their
//! placement.
//!
//! Three steps, each of which can be the last: `extract` makes chains of layers of programs, `estimate` maps
//! and schedules them on accelerators and fills a cache of mappings, `solve` places them and chooses.
//! See docs/arch.md.

mod args;
mod bound;
mod device;
mod estimates;
mod inputs;
mod lines;
mod page;
mod phaze_graph;
mod place;
mod planned;
mod report;
mod solve;
mod space;
#[cfg(test)]
mod tests;

pub(crate) use args::positive;
pub use args::{ArchArgs, Until};
pub use page::{ArchPage, LayerOperators, ModePage, Shown};

use inputs::Inputs;
use phzc_arch::model::ModelGraph;
use phzc_io::{Failure, Io, deliver, files, write_stdout};
use std::path::Path;

/// Reads a program in any format and extracts its chain of layers for microbatches of so many samples.
pub type Extract<'a> = dyn Fn(&Path, &[u64], &mut Io) -> Result<ModelGraph, Failure> + 'a;

/// Plans a program on the cluster of a TOML file, by the usual passes: seconds of a step.
pub type PlanProgram<'a> = dyn Fn(&Path, &str, &mut Io) -> Result<f64, Failure> + 'a;

/// Samples of a program's step.
pub type Samples<'a> = dyn Fn(&Path, &mut Io) -> Result<u64, Failure> + 'a;

/// What plans programs.
pub struct Planner<'a> {
    /// Plans one.
    pub plan: &'a PlanProgram<'a>,
    /// Of how many samples one is.
    pub samples: &'a Samples<'a>,
}

/// Makes an HTML page of what a search found.
pub type Html<'a> = dyn Fn(&ArchPage) -> String + 'a;

/// Does what the command line says.
pub fn run(
    args: &ArchArgs,
    extract: &Extract,
    (planner, html): (&Planner, &Html),
    io: &mut Io,
) -> Result<(), Failure> {
    args.check()?;
    let fleet = args.fleet()?;
    let inputs = Inputs::read(args, extract, io)?;
    if args.until == Until::Extract {
        return deliver(args.output.as_deref(), &graphs_text(&inputs.models), io);
    }
    let mut found = solve::run(args, &fleet, &inputs, io)?;
    if args.until == Until::Estimate {
        return deliver(args.output.as_deref(), &report::estimates_text(&found), io);
    }
    if let Some(path) = &args.device {
        let planned = planned::planned(args, (&fleet, &inputs, &found), planner, io)?;
        files::write(path, &planned.toml)?;
        found.planned = Some(planned);
    }
    if let Some(path) = &args.html {
        files::write(path, &html(&page::page(&found)))?;
    }
    let text = if args.json { report::json(&found) } else { report::text(&found) };
    write_stdout(io, &text)
}

/// One object per line and model.
fn graphs_text(models: &[ModelGraph]) -> String {
    let line =
        |model: &ModelGraph| serde_json::to_string(model).expect("a graph has string keys only") + "\n";
    models.iter().map(line).collect()
}
