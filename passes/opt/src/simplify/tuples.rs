//! Rules about tuples: what is packed and unpacked again.

use super::draft::Draft;
use super::rules::Made;
use phzc_ir::{Instr, Key, Opcode};

pub(super) fn element_of_tuple(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let tuple = cx.made_by(instr.operands[0], Opcode::Tuple)?;
    tuple.operands.get(instr.int(Key::Index)? as usize).copied().map(Made::Value)
}

/// All elements of a tuple in their order; a root lists its outputs, so it stays.
pub(super) fn tuple_of_elements(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let whole = cx.operand_of(*instr.operands.first()?, Opcode::GetTupleElement).filter(|_| !cx.is_root())?;
    let is_own = |(index, &id): (usize, _)| {
        let element = cx.made_by(id, Opcode::GetTupleElement);
        element.is_some_and(|it| it.operands[0] == whole && it.int(Key::Index) == Some(index as i64))
    };
    instr.operands.iter().enumerate().all(is_own).then_some(Made::Value(whole))
}
