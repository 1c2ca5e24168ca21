//! Who reads a value of the forward part, and whether it has to be in memory for them.

use phzc_ir::{InstrId, Module};
use phzc_plan::derive::{Facts, Phase, is_naming, operand_origins};
use phzc_plan::pricing::{Reader, is_materialised};

/// Per instruction of the entry: the instructions that read it, names seen through.
pub struct Readers {
    of: Vec<Vec<InstrId>>,
}

/// What reads one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Instructions of the forward part.
    pub n_forward: usize,
    /// Whether it is in memory for them, whatever comes later.
    pub forward_keeps: bool,
    /// Instructions of the backward part.
    pub n_late: usize,
    /// Whether a copy that is made beside them has to be in memory.
    pub late_keeps: bool,
}

impl Readers {
    /// Of all values of the entry.
    pub fn of(module: &Module, facts: &Facts) -> Readers {
        let (comp, own) = (module.entry(), &facts.comps[module.entry.index()]);
        let mut of: Vec<Vec<InstrId>> = vec![Vec::new(); own.len()];
        for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr)) {
            for (maker, _) in operand_origins(comp, instr) {
                of[maker.index()].push(id);
            }
        }
        of.iter_mut().for_each(|readers| readers.dedup());
        Readers { of }
    }

    /// Of one value.
    pub fn of_value(&self, module: &Module, facts: &Facts, id: InstrId) -> Reading {
        let (comp, own) = (module.entry(), &facts.comps[module.entry.index()]);
        let (maker, (mut forward, mut late)) = (comp.instr(id), (Vec::new(), Vec::new()));
        for &reader in &self.of[id.index()] {
            let is_same_region = own[reader.index()].stage == own[id.index()].stage;
            let attentions = [own[id.index()].attention, own[reader.index()].attention];
            let it = Reader::new(comp.instr(reader).op, is_same_region, attentions);
            if own[reader.index()].phase == Phase::Forward { &mut forward } else { &mut late }.push(it);
        }
        let (n_forward, n_late) = (forward.len(), late.len());
        let is_in_attention = own[id.index()].attention.is_some();
        Reading {
            n_forward,
            forward_keeps: is_materialised(maker.op, is_in_attention, forward),
            n_late,
            late_keeps: is_materialised(maker.op, is_in_attention, late),
        }
    }
}
