//! What loops and branches do with the buffers that they are passed.

use phzc_ir::{Key, Module, Opcode};

/// What a computation is to what runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has the parameters throughout.
    Entry,
    /// It may free what it is passed.
    Body,
    /// It leaves that to its caller.
    Condition,
    /// So does this, and it writes its results where the conditional has them.
    Branch,
}

/// The role of every computation.
pub fn roles(module: &Module) -> Vec<Role> {
    let mut found = vec![Role::Branch; module.comps.len()];
    for instr in module.comps.iter().flat_map(|comp| &comp.instrs).filter(|it| it.op == Opcode::While) {
        for (key, role) in [(Key::Body, Role::Body), (Key::Condition, Role::Condition)] {
            instr.comp(key).into_iter().for_each(|comp| found[comp.index()] = role);
        }
    }
    found[module.entry.index()] = Role::Entry;
    found
}
