//! Figures of a generated program, for scripts.

use super::GenArgs;
use indexmap::IndexMap;
use phzc_ir::Module;
use phzc_ir::flops::totals;
use serde::Serialize;

/// What `phzc gen --describe` writes.
#[derive(Debug, Serialize)]
struct Description<'a> {
    family: &'a str,
    size: &'a str,
    batch: i64,
    dtype: &'a str,
    dims: IndexMap<&'a str, i64>,
    /// Trained numbers.
    n_parameters: i64,
    /// Of one run, loop bodies as often as they run.
    flops: f64,
    transcendentals: f64,
}

/// One JSON object and a line break.
pub(super) fn json(args: &GenArgs, module: &Module) -> String {
    let work = totals(module).with_trips;
    let description = Description {
        family: args.family.name,
        size: &args.size,
        batch: args.settings.batch * args.n_microbatches,
        dtype: args.settings.dtype.as_str(),
        dims: args.family.dims.iter().map(|dim| dim.name).zip(args.values.iter().copied()).collect(),
        n_parameters: n_parameters(module),
        flops: work.flops,
        transcendentals: work.transcendentals,
    };
    let text = serde_json::to_string_pretty(&description).expect("plain names and numbers");
    text + "\n"
}

/// How many numbers the program trains: the elements of its inputs `params.*`.
pub(crate) fn n_parameters(module: &Module) -> i64 {
    let entry = module.entry();
    let params = entry.params().into_iter().map(|id| entry.instr(id));
    let trained = params.filter(|param| param.name.starts_with("params."));
    trained.filter_map(|param| param.shape.as_array()).map(|shape| shape.dims.iter().product::<i64>()).sum()
}
