//! Takes a plan out of a module: what is left is the program as the user gave it.

use crate::derive::{is_added, planned_comps};
use crate::partial;
use indexmap::IndexMap;
use phzc_ir::{Computation, InstrId, Key, Module, notes};

/// Removes phzc's reshards, its copies and its shardings; shardings that the program came with stay.
pub fn strip(module: &mut Module) {
    for comp in planned_comps(module) {
        let comp = &mut module.comps[comp.index()];
        let source = sources(comp);
        let keep: Vec<bool> = comp.instrs.iter().map(|instr| !is_added(instr)).collect();
        for instr in &mut comp.instrs {
            instr.operands.iter_mut().for_each(|operand| *operand = source[operand.index()]);
            if instr.note(notes::GIVEN).is_none() {
                instr.attrs.retain(|attr| attr.key != Key::Sharding);
            }
            instr.remove_note(notes::STAGE);
            partial::set(instr, &[]);
        }
        comp.root = source[comp.root.index()];
        comp.retain(&keep);
    }
}

/// Per instruction: whose value it is, of the program's own; a reshard's operand's, a copy's original's.
fn sources(comp: &Computation) -> Vec<InstrId> {
    let named: IndexMap<&str, InstrId> = comp.iter().map(|(id, instr)| (&*instr.name, id)).collect();
    let mut source: Vec<InstrId> = (0..comp.instrs.len()).map(InstrId::new).collect();
    for (id, instr) in comp.iter().filter(|(_, instr)| is_added(instr)) {
        let original = instr.note(notes::REMADE).and_then(|name| named.get(name).copied());
        source[id.index()] = original.unwrap_or_else(|| source[instr.operands[0].index()]);
    }
    source
}
