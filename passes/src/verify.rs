//! `phzc verify`: runs a program and its plan on the same inputs and compares, output by output.
//!
//! The plan is lowered to the program of one device ([`crate::spmd`]) and run on as many virtual devices as it is
//! for. With stages or microbatches the schedule is replayed, task by task ([`replay`]): what a stage reads has to
//! be there by then.

mod compare;
pub mod replay;
pub mod shrink;
#[cfg(test)]
mod tests;

use crate::derive::{Facts, derive};
use crate::inline;
use crate::microbatch::{after_all, on_time_axis};
use crate::spmd;
pub use compare::Output;
use phzc_ir::eval::{Options, Value, eval, inputs, join, run, split};
use phzc_ir::flops::totals;
use phzc_ir::{Computation, Diagnostic, InstrId, Layout, Mesh, Module, Result};

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Verified {
    /// One per output.
    pub outputs: Vec<Output>,
    /// Devices of all stages.
    pub n_devices: usize,
    /// Pipeline stages.
    pub n_stages: usize,
    /// Microbatches.
    pub n_microbatches: usize,
    /// Whether the schedule was replayed; otherwise all devices and microbatches ran in lock-step.
    pub is_replayed: bool,
    /// Whether both ran with smaller sizes than they have.
    pub is_shrunk: bool,
}

/// Programs with more operations than this are run with smaller sizes.
const MAX_FLOPS: f64 = 2e9;
/// Those whose values have more bytes than this, all taken together, too.
const MAX_BYTES: f64 = 1e9;
/// No size is made smaller than this.
const LEAST: i64 = 4;

/// Runs a program and its plan on inputs that follow from `seed`; `tolerance` is the relative error that counts as
/// rounding, by default what the narrowest floats of the program explain.
///
/// # Errors
/// When the two are not a program and its plan, the plan cannot be lowered or replayed, or an instruction
/// cannot be evaluated.
pub fn verify(original: &Module, planned: &Module, seed: u64, tolerance: Option<f64>) -> Result<Verified> {
    same_signature(original, planned)?;
    let mut both = [original.clone(), planned.clone()];
    for module in &mut both {
        inline::flatten(module)?;
    }
    let is_large = exceeds(original, MAX_FLOPS, MAX_BYTES);
    if is_large {
        both = shrink::shrink_plan(&both[0], &both[1], LEAST)?;
        if exceeds(&both[0], 100.0 * MAX_FLOPS, 4.0 * MAX_BYTES) {
            let message = "the program is too large to be run, and some of its sizes cannot be made smaller";
            return Err(Diagnostic::error(message).help("verify a smaller model of the same family"));
        }
    }
    let [original, planned] = &both;
    let tolerance = tolerance.unwrap_or_else(|| compare::tolerance(original));
    let verified = compared(original, planned, seed, tolerance)?;
    Ok(Verified { is_shrunk: is_large, ..verified })
}

fn compared(original: &Module, planned: &Module, seed: u64, tolerance: f64) -> Result<Verified> {
    let given = inputs(original, seed)?;
    let wanted = run(original, &given, &Options::default())?;
    let header = crate::derive::header(planned)?;
    let timed = on_time_axis(planned)?;
    let facts = derive(&timed)?;
    // One microbatch has no axis of its own.
    let can_replay = header.n_microbatches == 1 || after_all(&timed, &facts)?.is_some();
    let local = spmd::program(&timed, &facts)?;
    let parts = parts(&timed, &facts, &given)?;
    let (n_stages, n_microbatches) = (header.meshes.len(), header.n_microbatches);
    let is_replayed = can_replay && (n_stages > 1 || n_microbatches > 1);
    let made = if is_replayed {
        let n_devices = header.meshes[0].n_devices() as usize;
        replay::Replay::new(&local, n_stages, n_microbatches, n_devices)?.run(parts)?
    } else {
        eval(&local, &parts, &Options::default())?
    };
    let made = join(&made, &layouts(&timed, &facts, timed.entry().root), mesh(&facts))?;
    let outputs = compare::outputs(&wanted, &made, tolerance)?;
    Ok(Verified {
        outputs,
        n_devices: header.n_devices(),
        n_stages,
        n_microbatches,
        is_replayed,
        is_shrunk: false,
    })
}

/// Whether a program has more operations or bytes than this.
fn exceeds(module: &Module, flops: f64, bytes: f64) -> bool {
    let of = |comp: &Computation| comp.instrs.iter().map(|instr| instr.shape.bytes()).sum::<f64>();
    totals(module).with_trips.flops > flops || module.comps.iter().map(of).sum::<f64>() > bytes
}

/// Errors unless both take and return values of the same shapes.
fn same_signature(original: &Module, planned: &Module) -> Result<()> {
    let shapes = |module: &Module| {
        let entry = module.entry();
        let ids = entry.params().into_iter().chain([entry.root]);
        ids.map(|id| entry.instr(id).shape.clone()).collect::<Vec<_>>()
    };
    let (wanted, found) = (shapes(original), shapes(planned));
    if wanted.len() != found.len() {
        let (wanted, found) = (wanted.len() - 1, found.len() - 1);
        let message = format!("the program has {wanted} parameters, the plan {found}");
        return Err(Diagnostic::error(message).help("give a program and the plan that phzc made of it"));
    }
    match wanted.iter().zip(&found).position(|(wanted, found)| !wanted.same_type(found)) {
        None => Ok(()),
        Some(at) => {
            let what = if at + 1 == wanted.len() { "result".to_owned() } else { format!("parameter {at}") };
            let message = format!("the {what} of the program and of the plan have different shapes");
            Err(Diagnostic::error(message).help("give a program and the plan that phzc made of it"))
        }
    }
}

fn mesh(facts: &Facts) -> &Mesh {
    &facts.header.meshes[0]
}

fn layouts(module: &Module, facts: &Facts, id: InstrId) -> Vec<Layout> {
    facts.comps[module.entry.index()][id.index()].leaves.iter().map(|leaf| leaf.layout).collect()
}

/// Per device, per parameter: its part of the inputs.
fn parts(module: &Module, facts: &Facts, given: &[Value]) -> Result<Vec<Vec<Value>>> {
    let mesh = mesh(facts);
    let mut parts: Vec<Vec<Value>> = vec![Vec::new(); mesh.n_devices() as usize];
    for (value, &id) in given.iter().zip(&module.entry().params()) {
        let cut = split(value, &layouts(module, facts, id), mesh)?;
        parts.iter_mut().zip(cut).for_each(|(own, part)| own.push(part));
    }
    Ok(parts)
}
