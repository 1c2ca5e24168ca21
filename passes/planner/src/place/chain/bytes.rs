//! What the layers of a chain keep in memory.

use super::Layers;
use super::crossings::part_bytes;
use phzc_ir::{Computation, Module, Opcode};
use phzc_plan::derive::{Facts, InstrFacts, Nature, Phase, is_naming, operand_origins};

impl Layers<'_> {
    /// Per layer: bytes that stay for the whole step (parameters, sums of gradients), and bytes of the whole
    /// batch's activations that the backward part reads.
    pub(super) fn bytes(&self) -> (Vec<f64>, Vec<f64>) {
        let n_units = self.units.starts.len();
        let (mut fixed, mut flight) = (vec![0.0; n_units], vec![0.0; n_units]);
        let (comp, all) = (self.module.entry(), &self.facts.comps[self.module.entry.index()]);
        let layer_of = &self.layer_of[self.module.entry.index()];
        let last_phase = last_phases(self.module, &self.facts);
        for (id, instr) in comp.iter() {
            let own = &all[id.index()];
            let is_param = instr.op == Opcode::Parameter;
            if is_naming(instr)
                || !(own.is_allocated || matches!(instr.op, Opcode::While | Opcode::Conditional))
            {
                continue;
            }
            for (leaf, bytes) in own.bytes.iter().enumerate() {
                let is_part = own.natures.get(leaf) == Some(&Nature::Part);
                let sums = match () {
                    () if is_param => &mut fixed,
                    () if is_part
                        && own.phase == Phase::Forward
                        && last_phase[id.index()] > Phase::Forward =>
                    {
                        &mut flight
                    }
                    () if own.phase == Phase::Backward && last_phase[id.index()] == Phase::Update => {
                        &mut fixed
                    }
                    () => continue,
                };
                sums[layer_of[id.index()]] += bytes;
            }
        }
        (fixed, flight)
    }

    /// Per layer: bytes of the whole batch that gradients of weights read where they are put off, and those
    /// of gradients among them.
    pub(super) fn late_bytes(&self) -> (Vec<f64>, Vec<f64>) {
        let entry = self.module.entry.index();
        let (comp, all) = (self.module.entry(), &self.facts.comps[entry]);
        let is_late = instrs_read_by(comp, all, &self.is_put_off[entry]);
        let n_units = self.units.starts.len();
        let (mut late, mut gradients) = (vec![0.0; n_units], vec![0.0; n_units]);
        for (id, instr) in comp.iter().filter(|(id, instr)| is_late[id.index()] && !is_naming(instr)) {
            let (own, layer) = (&all[id.index()], self.layers()[id.index()]);
            let is_gradient = own.phase == Phase::Backward && !self.is_put_off[entry][id.index()];
            let has_memory = own.is_allocated || matches!(instr.op, Opcode::While | Opcode::Conditional);
            if has_memory && instr.op != Opcode::Parameter && (is_gradient || own.phase == Phase::Forward) {
                let bytes = part_bytes(&self.facts, self.module.entry, id);
                late[layer] += bytes;
                gradients[layer] += if is_gradient { bytes } else { 0.0 };
            }
        }
        (late, gradients)
    }
}

/// The phase of the last reader of each instruction of the entry; what has no memory of its own is read where
/// its readers are.
fn last_phases(module: &Module, facts: &Facts) -> Vec<Phase> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut last = vec![Phase::Forward; all.len()];
    for (id, instr) in comp.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
        let own = &all[id.index()];
        let through = if own.is_allocated { Phase::Forward } else { last[id.index()] };
        for (maker, _) in operand_origins(comp, instr) {
            last[maker.index()] = last[maker.index()].max(own.phase).max(through);
        }
    }
    last
}

/// Which instructions some others read, through what has no memory of its own.
fn instrs_read_by(comp: &Computation, all: &[InstrFacts], readers: &[bool]) -> Vec<bool> {
    let mut is_read = vec![false; all.len()];
    for (id, instr) in comp.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
        if readers[id.index()] || !all[id.index()].is_allocated && is_read[id.index()] {
            operand_origins(comp, instr).for_each(|(maker, _)| is_read[maker.index()] = true);
        }
    }
    is_read
}
