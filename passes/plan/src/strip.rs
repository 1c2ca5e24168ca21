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
        let keep: Vec<bool> = (0..source.len()).map(|at| source[at].index() == at).collect();
        for instr in &mut comp.instrs {
            instr.operands.iter_mut().for_each(|operand| *operand = source[operand.index()]);
            if instr.note(notes::GIVEN).is_none() {
                instr.attrs.retain(|attr| attr.key != Key::Sharding);
            }
            [notes::STAGE, notes::REMADE].iter().for_each(|note| instr.remove_note(note));
            partial::set(instr, &[]);
        }
        comp.root = source[comp.root.index()];
        comp.retain(&keep);
    }
}

/// Per instruction: whose value it is, of the program's own; a reshard's operand's, a copy's original's.
pub(crate) fn sources(comp: &Computation) -> Vec<InstrId> {
    let named: IndexMap<&str, InstrId> = comp.iter().map(|(id, instr)| (&*instr.name, id)).collect();
    let mut source: Vec<InstrId> = (0..comp.instrs.len()).map(InstrId::new).collect();
    for (id, instr) in comp.iter().filter(|(_, instr)| is_added(instr)) {
        // A copy whose original is gone stays, as does what is noted where it means nothing.
        let of = match instr.note(notes::REMADE) {
            Some(name) => named.get(name),
            None => instr.operands.first(),
        };
        if let Some(&of) = of {
            source[id.index()] = source[of.index()];
        }
    }
    source
}

#[cfg(test)]
mod tests {
    use super::strip;

    /// What is left of a program's lines, names only.
    fn left(lines: &str) -> Vec<String> {
        let mut module = phzc_ir::parse(&format!("ENTRY e {{\n{lines}\n}}")).expect("legal");
        strip(&mut module);
        let line = |instr: &phzc_ir::Instr| {
            let operands = instr.operands.iter().map(|&it| &*module.entry().instr(it).name);
            format!("{}({})", instr.name, operands.collect::<Vec<_>>().join(","))
        };
        module.entry().instrs.iter().map(line).collect()
    }

    #[test]
    fn readers_of_moved_values_and_of_copies_read_the_originals_again() {
        let plan = r#"b = f32[8] parameter(0)
            w = f32[8,8] broadcast(b), dimensions={1}
            m = f32[8] custom-call(b), custom_call_target="Sharding", frontend_attributes={phzc.move="all-gather"}
            c = f32[8,8] broadcast(m), dimensions={1}, frontend_attributes={phzc.remade="w"}
            ROOT y = f32[8,8] add(w, c)"#;
        assert_eq!(left(plan), ["b()", "w(b)", "y(w,w)"]);
    }

    #[test]
    fn a_copy_whose_original_is_gone_stays() {
        let odd = r#"one = f32[] constant(1), frontend_attributes={phzc.remade="nothing"}
            two = f32[2] broadcast(one), dimensions={}, frontend_attributes={phzc.remade="gone"}
            ROOT y = f32[2] negate(two)"#;
        assert_eq!(left(odd), ["one()", "two(one)", "y(two)"]);
    }
}
