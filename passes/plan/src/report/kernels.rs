//! The kernels of a program that has no plan yet, for a part of its batch on one device.

use super::price::{local, op_runs_at, product_dtype};
use crate::derive::{Facts, planned_comps};
use crate::pricing::{Kernel, Local};
use phzc_ir::{CompId, InstrId, Module, notes::Phase};

/// What an instruction does on one device.
#[derive(Clone, Copy, Debug)]
pub struct InstrKernel {
    /// Its computation.
    pub comp: CompId,
    /// The instruction.
    pub instr: InstrId,
    /// The part of the step that it belongs to; what is made once of sums over microbatches is update.
    pub phase: Phase,
    /// The kernel, or its part of one.
    pub local: Local,
    /// How often it runs: in loops, of one microbatch, or of one update.
    pub times: f64,
    /// Bytes that are written and read beside it.
    pub spilled_bytes: f64,
}

/// All that runs, in program order, where a microbatch is a `share` of the program's batch, above 1 where it
/// is larger.
pub fn instr_kernels(module: &Module, facts: &Facts, share: f64) -> Vec<InstrKernel> {
    let mut found = Vec::new();
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            let own = &facts.comps[comp.index()][id.index()];
            let (runs, phase) = op_runs_at(facts, comp, id, instr, share);
            let local = local(own, product_dtype(module, comp, instr), runs);
            let spilled_bytes = own.spilled_bytes.map_or(0.0, |bytes| runs.share * (bytes[0] + bytes[1]));
            if local.kernel != Kernel::Nothing || spilled_bytes > 0.0 {
                let times = facts.executions[comp.index()];
                found.push(InstrKernel { comp, instr: id, phase, local, times, spilled_bytes });
            }
        }
    }
    found
}
