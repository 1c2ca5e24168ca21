//! Sees through the instructions that only name values: tuples, their elements, barriers.

use super::element_start;
use phzc_ir::{Computation, Instr, InstrId, Opcode};

/// Whether an instruction computes nothing: it gathers, picks or passes on values.
pub fn is_naming(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::Tuple | Opcode::GetTupleElement | Opcode::OptBarrier)
}

/// The instruction that makes a leaf of `id`'s value, and which leaf it is there.
pub fn origin(comp: &Computation, id: InstrId, leaf: usize) -> (InstrId, usize) {
    origin_by(comp, id, leaf, |_| {})
}

/// The same, with what it passes on the way back.
pub fn origin_by(
    comp: &Computation,
    mut id: InstrId,
    mut leaf: usize,
    mut passed: impl FnMut(InstrId),
) -> (InstrId, usize) {
    while is_naming(comp.instr(id)) {
        passed(id);
        let instr = comp.instr(id);
        if instr.op == Opcode::GetTupleElement {
            leaf += element_start(instr, &comp.instr(instr.operands[0]).shape);
        }
        let mut operands =
            instr.operands.iter().map(|&operand| (operand, comp.instr(operand).shape.n_leaves()));
        let Some((operand, _)) = operands.find(|&(_, n_leaves)| {
            let is_inside = leaf < n_leaves;
            leaf -= if is_inside { 0 } else { n_leaves };
            is_inside
        }) else {
            return (id, leaf);
        };
        id = operand;
    }
    (id, leaf)
}

/// The instruction that makes each leaf of `id`'s value, and which leaf it is there.
pub fn origins(comp: &Computation, id: InstrId) -> Vec<(InstrId, usize)> {
    let instr = comp.instr(id);
    match instr.op {
        Opcode::Tuple => instr.operands.iter().flat_map(|&operand| origins(comp, operand)).collect(),
        _ => (0..instr.shape.n_leaves()).map(|leaf| origin(comp, id, leaf)).collect(),
    }
}

/// The leaves that an instruction reads, operand after operand: who makes each.
pub fn operand_origins<'c>(
    comp: &'c Computation,
    instr: &'c Instr,
) -> impl Iterator<Item = (InstrId, usize)> + 'c {
    instr.operands.iter().flat_map(move |&operand| {
        (0..comp.instr(operand).shape.n_leaves()).map(move |leaf| origin(comp, operand, leaf))
    })
}
