//! What is known of a computation before it runs: which values are needed, and until when.

use super::Value;
use crate::attr::Key;
use crate::diag::Result;
use crate::module::{Computation, InstrId};
use crate::opcode::Opcode;
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The uses of every value of a computation, and its constants once they are read.
pub(crate) struct Plan {
    needed: Vec<bool>,
    /// Per instruction and operand: whether nothing reads the operand later.
    last: Vec<SmallVec<[bool; 3]>>,
    /// `get-tuple-element`s that may take their part out of the tuple.
    takes: Vec<bool>,
    constants: Vec<OnceLock<Value>>,
    elementwise: OnceLock<bool>,
}

impl Plan {
    pub fn new(comp: &Computation) -> Plan {
        let needed = needed(comp);
        let last = last_uses(comp, &needed);
        let takes = takes(comp, &needed);
        let constants = comp.instrs.iter().map(|_| OnceLock::new()).collect();
        Plan { needed, last, takes, constants, elementwise: OnceLock::new() }
    }

    /// Whether the root depends on it.
    pub fn is_needed(&self, id: InstrId) -> bool {
        self.needed[id.index()]
    }

    /// Whether nothing reads the instruction's operand later.
    pub fn is_last_use(&self, id: InstrId, operand: usize) -> bool {
        self.last[id.index()][operand]
    }

    /// Whether the part that a `get-tuple-element` names is not read again.
    pub fn may_take_element(&self, id: InstrId) -> bool {
        self.takes[id.index()]
    }

    /// The constant, read at its first use.
    pub fn constant(&self, id: InstrId, read: impl FnOnce() -> Result<Value>) -> Result<Value> {
        let slot = &self.constants[id.index()];
        if let Some(value) = slot.get() {
            return Ok(value.clone());
        }
        let value = read()?;
        Ok(slot.get_or_init(|| value).clone())
    }

    /// The answer of `find`, asked once.
    pub fn is_elementwise(&self, find: impl FnOnce() -> bool) -> bool {
        *self.elementwise.get_or_init(find)
    }
}

fn needed(comp: &Computation) -> Vec<bool> {
    let mut needed = vec![false; comp.instrs.len()];
    needed[comp.root.index()] = true;
    for (id, instr) in comp.iter().rev() {
        if needed[id.index()] {
            instr.operands.iter().for_each(|operand| needed[operand.index()] = true);
        }
    }
    needed
}

fn last_uses(comp: &Computation, needed: &[bool]) -> Vec<SmallVec<[bool; 3]>> {
    let mut read_later = vec![false; comp.instrs.len()];
    read_later[comp.root.index()] = true;
    let mut last = vec![SmallVec::new(); comp.instrs.len()];
    for (id, instr) in comp.iter().rev().filter(|(id, _)| needed[id.index()]) {
        let mut flags: SmallVec<[bool; 3]> = SmallVec::from_elem(false, instr.operands.len());
        for (at, operand) in instr.operands.iter().enumerate().rev() {
            flags[at] = !std::mem::replace(&mut read_later[operand.index()], true);
        }
        last[id.index()] = flags;
    }
    last
}

/// Elements of tuples that nothing but `get-tuple-element` reads, at the last reading of each element.
fn takes(comp: &Computation, needed: &[bool]) -> Vec<bool> {
    let mut read_whole = vec![false; comp.instrs.len()];
    read_whole[comp.root.index()] = true;
    let of_interest = |(id, _): &(InstrId, _)| needed[id.index()];
    for (_, instr) in comp.iter().filter(of_interest).filter(|(_, instr)| instr.op != Opcode::GetTupleElement)
    {
        instr.operands.iter().for_each(|operand| read_whole[operand.index()] = true);
    }
    let mut takes = vec![false; comp.instrs.len()];
    let mut seen = std::collections::BTreeSet::new();
    for (id, instr) in comp.iter().rev().filter(of_interest) {
        if instr.op == Opcode::GetTupleElement && !read_whole[instr.operands[0].index()] {
            takes[id.index()] = seen.insert((instr.operands[0], instr.int(Key::Index)));
        }
    }
    takes
}

#[cfg(test)]
mod tests;
