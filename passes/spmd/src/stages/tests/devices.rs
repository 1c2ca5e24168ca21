//! Programs of devices: what is reduced where.

use super::*;
use phzc_ir::{Opcode, notes};

/// Per module of the MLP in two stages: whether it ends with summands, and whether it begins with some.
fn summands() -> Vec<(String, bool, bool)> {
    let cut = of_devices(&placed(EXAMPLES[0].1, 2, 4)).expect("it can be cut");
    let ends = |(name, module): &(String, Module)| {
        let is_noted = |instr: &phzc_ir::Instr| instr.note(notes::PARTIAL).is_some();
        let begins = module.entry().params().into_iter().any(|id| is_noted(module.entry().instr(id)));
        (name.clone(), is_noted(module.entry().root()), begins)
    };
    cut.modules.iter().map(ends).collect()
}

#[test]
fn a_gradient_is_left_undone_until_the_update() {
    let found: Vec<_> = summands().into_iter().filter(|(_, ends, begins)| *ends || *begins).collect();
    assert_eq!(found, [("stage1.backward".into(), true, true), ("stage1.update".into(), false, true)]);
}

#[test]
fn programs_of_devices_are_legal_and_have_no_changes_of_layout() {
    let cut = of_devices(&placed(EXAMPLES[1].1, 2, 4)).expect("it can be cut");
    for (name, module) in &cut.modules {
        let again = parse(&print(module)).expect("a module is legal text");
        assert_eq!(verify(&again), [], "{name}");
        assert!(module.entry().instrs.iter().all(|instr| instr.op != Opcode::CustomCall), "{name}");
    }
}
