//! Memory at every instruction: the figures of the sweep, the largest of which is the stage's peak.

use super::sweep::Sweep;
use super::{in_flight, with_sweep};
use crate::derive::{Facts, control_flow};
use phzc_ir::{CompId, InstrId, Module};

/// Per computation and instruction: bytes in use on a device of its stage while it runs, with all stages that
/// the device holds. A loop has the most that its body needs. Zero in computations that ops apply to scalars.
pub fn memory_by_instr(module: &Module, facts: &Facts) -> Vec<Vec<f64>> {
    with_sweep(module, facts, |sweep| {
        let mut found: Vec<Vec<f64>> =
            module.comps.iter().map(|comp| vec![0.0_f64; comp.instrs.len()]).collect();
        for group in 0..facts.header.n_groups() {
            let sweep = Sweep { group, n_held: in_flight(facts, group), ..sweep };
            sweep.fill(module.entry, 0.0, &mut found);
        }
        found
    })
}

impl Sweep<'_> {
    /// Fills in the instructions of a computation that the group runs, and those of the loops and branches
    /// among them; its caller has `before_bytes` beside what the computation's own sweep counts.
    fn fill(&self, comp: CompId, before_bytes: f64, found: &mut [Vec<f64>]) {
        let mut callers: Vec<(InstrId, f64)> = Vec::new();
        self.walk(comp, &mut |id, bytes, inside| {
            if self.runs(comp, id) {
                let at = &mut found[comp.index()][id.index()];
                *at = at.max(before_bytes + bytes);
                let is_caller = !control_flow(self.module.comp(comp).instr(id)).is_empty();
                callers.extend(is_caller.then_some((id, before_bytes + bytes - inside)));
            }
        });
        for (id, bytes) in callers {
            for callee in control_flow(self.module.comp(comp).instr(id)) {
                self.fill(callee, bytes - self.passed_bytes(callee), found);
            }
        }
    }
}
