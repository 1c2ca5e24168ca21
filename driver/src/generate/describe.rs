//! Figures of a generated program, for scripts.

use super::GenArgs;
use indexmap::IndexMap;
use phzc_frontends::zoo::n_parameters;
use phzc_ir::Module;
use phzc_ir::flops::totals;
use phzc_ir::text::shape_text;
use serde::Serialize;

/// What `phzc gen --describe` writes.
#[derive(Debug, Serialize)]
struct Description<'a> {
    family: &'a str,
    size: &'a str,
    batch: i64,
    dtype: &'a str,
    dims: IndexMap<&'a str, i64>,
    /// The program's inputs in order, each with its shape.
    inputs: IndexMap<&'a str, String>,
    /// Trained numbers.
    n_parameters: i64,
    /// Of one run, loop bodies as often as they run.
    flops: f64,
    transcendentals: f64,
}

/// One JSON object and a line break.
pub(super) fn json(args: &GenArgs, module: &Module) -> String {
    let (work, entry) = (totals(module).with_trips, module.entry());
    let inputs = entry.params().into_iter().map(|id| entry.instr(id));
    let description = Description {
        family: args.family.name,
        size: &args.size,
        batch: args.settings.batch * args.n_microbatches,
        dtype: args.settings.dtype.as_str(),
        dims: args.family.dims.iter().map(|dim| dim.name).zip(args.values.iter().copied()).collect(),
        inputs: inputs.map(|input| (&*input.name, shape_text(&input.shape))).collect(),
        n_parameters: n_parameters(module),
        flops: work.flops,
        transcendentals: work.transcendentals,
    };
    let text = serde_json::to_string_pretty(&description).expect("plain names and numbers");
    text + "\n"
}
