//! Takes a plan out of a module: what is left is the program as the user gave it.

use crate::derive::planned_comps;
use crate::partial;
use phzc_ir::{InstrId, Key, Module, notes};

/// Removes phzc's reshards and its shardings; shardings that the program came with stay.
pub fn strip(module: &mut Module) {
    for comp in planned_comps(module) {
        let comp = &mut module.comps[comp.index()];
        let is_move: Vec<bool> = comp.instrs.iter().map(|instr| instr.note(notes::MOVE).is_some()).collect();
        let mut source: Vec<InstrId> = (0..comp.instrs.len()).map(InstrId::new).collect();
        for index in 0..comp.instrs.len() {
            if is_move[index] {
                source[index] = source[comp.instrs[index].operands[0].index()];
            }
        }
        for instr in &mut comp.instrs {
            instr.operands.iter_mut().for_each(|operand| *operand = source[operand.index()]);
            if instr.note(notes::GIVEN).is_none() {
                instr.attrs.retain(|attr| attr.key != Key::Sharding);
            }
            [notes::STAGE, notes::STRATEGY].iter().for_each(|key| instr.remove_note(key));
            partial::set(instr, &[]);
        }
        comp.root = source[comp.root.index()];
        let keep: Vec<bool> = is_move.iter().map(|is_move| !is_move).collect();
        comp.retain(&keep);
    }
}
