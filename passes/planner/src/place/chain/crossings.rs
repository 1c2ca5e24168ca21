//! What crosses the boundaries of a chain: values that later layers read, and gradients that earlier ones do.

use phzc_ir::{CompId, InstrId, Module, Opcode};
use phzc_plan::derive::{Facts, Nature, Phase, is_naming, operand_origins};

/// Bytes of values that cross the boundary before a layer, on one device.
#[derive(Clone, Copy, Default)]
pub struct Crossing {
    /// With the forward part.
    pub up: f64,
    /// With the backward part.
    pub down: f64,
}

impl Crossing {
    /// Both ways together.
    pub fn both(&self) -> f64 {
        self.up + self.down
    }
}

/// What crosses the boundary before each of `n` places when every instruction of the entry is at its place.
pub fn crossings(module: &Module, facts: &Facts, at: &[usize], n: usize) -> Vec<Crossing> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut reach: Vec<(usize, usize)> = at.iter().map(|&at| (at, at)).collect();
    for (id, instr) in
        comp.iter().filter(|(id, instr)| all[id.index()].phase != Phase::Update && !is_naming(instr))
    {
        for (maker, _) in operand_origins(comp, instr) {
            let (first, last) = &mut reach[maker.index()];
            (*first, *last) = ((*first).min(at[id.index()]), (*last).max(at[id.index()]));
        }
    }
    let mut steps = vec![Crossing::default(); n + 1];
    for (id, _) in comp.iter().filter(|(_, instr)| !is_naming(instr) && instr.op != Opcode::Parameter) {
        let (own, (first, last)) = (at[id.index()], reach[id.index()]);
        let bytes = part_bytes(facts, module.entry, id);
        steps[own + 1].up += bytes;
        steps[last + 1].up -= bytes;
        steps[first + 1].down += bytes;
        steps[own + 1].down -= bytes;
    }
    let sum = |sum: &mut Crossing, step: &Crossing| {
        (sum.up, sum.down) = (sum.up + step.up, sum.down + step.down);
        Some(Crossing { up: sum.up.max(0.0), down: sum.down.max(0.0) })
    };
    steps[..n].iter().scan(Crossing::default(), sum).collect()
}

/// Bytes of an instruction's values that exist once per microbatch, for the whole batch.
pub(super) fn part_bytes(facts: &Facts, comp: CompId, id: InstrId) -> f64 {
    let own = &facts.comps[comp.index()][id.index()];
    let parts = own.bytes.iter().zip(&own.natures).filter(|(_, nature)| **nature == Nature::Part);
    parts.map(|(bytes, _)| bytes).sum()
}
