//! Whether a mask lets a query see the keys before it only: positions that are compared with positions.

use phzc_ir::ops::reshape::factorize;
use phzc_ir::{Computation, InstrId, Key, Opcode};

/// Masks are made of fewer instructions in a row.
const MAX_DEPTH: usize = 16;

/// Whether a value is a causal mask: true or false, as what is added to scores, or as what they are
/// multiplied by.
pub fn is_causal(comp: &Computation, id: InstrId) -> bool {
    is_causal_to(comp, id, MAX_DEPTH)
}

fn is_causal_to(comp: &Computation, id: InstrId, depth: usize) -> bool {
    let (instr, Some(depth)) = (comp.instr(id), depth.checked_sub(1)) else { return false };
    let any = |n: usize| instr.operands.iter().take(n).any(|&operand| is_causal_to(comp, operand, depth));
    match instr.op {
        Opcode::Compare => compares_positions(comp, id) || any(2),
        Opcode::Select | Opcode::Broadcast | Opcode::Reshape | Opcode::Transpose => any(1),
        Opcode::Convert | Opcode::Copy | Opcode::Not | Opcode::Bitcast => any(1),
        Opcode::And | Opcode::Or | Opcode::Add | Opcode::Subtract | Opcode::Multiply => any(2),
        _ => false,
    }
}

/// Whether a comparison is of positions along two dimensions, by their order.
fn compares_positions(comp: &Computation, id: InstrId) -> bool {
    let instr = comp.instr(id);
    let is_order = instr.word(Key::Direction).is_some_and(|way| ["GE", "GT", "LE", "LT"].contains(&way));
    let [a, b] = instr.operands[..] else { return false };
    match (counted_dim(comp, a, MAX_DEPTH), counted_dim(comp, b, MAX_DEPTH)) {
        (Some(a), Some(b)) => is_order && a != b,
        _ => false,
    }
}

/// The dimension whose positions a value counts.
fn counted_dim(comp: &Computation, id: InstrId, depth: usize) -> Option<usize> {
    let (instr, depth) = (comp.instr(id), depth.checked_sub(1)?);
    let of = |slot: usize| counted_dim(comp, *instr.operands.get(slot)?, depth);
    let dims = instr.ints(Key::Dimensions);
    match instr.op {
        Opcode::Iota => instr.int(Key::IotaDimension).map(|dim| dim as usize),
        Opcode::Convert | Opcode::Copy => of(0),
        Opcode::Add | Opcode::Subtract => match (of(0), of(1)) {
            (Some(dim), None) | (None, Some(dim)) => Some(dim),
            _ => None,
        },
        Opcode::Broadcast => dims.get(of(0)?).map(|&dim| dim as usize),
        Opcode::Transpose => {
            let counted = of(0)?;
            dims.iter().position(|&dim| dim as usize == counted)
        }
        Opcode::Reshape => {
            let (from, to) = (comp.instr(instr.operands[0]).shape.as_array()?, instr.shape.as_array()?);
            let counted = of(0)?;
            let pieces = factorize(&from.dims, &to.dims);
            pieces.iter().find(|it| it.input == Some(counted) && it.size > 1)?.output
        }
        _ => None,
    }
}
