//! Rules about element types: conversions that lose nothing may go, one that narrows stays.

use super::draft::Draft;
use super::rules::{Made, on};
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Instr, Opcode};

/// A conversion to the type it has, a copy without another physical layout.
pub(super) fn nothing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    (cx.instr(instr.operands[0]).shape == instr.shape).then(|| Made::Value(instr.operands[0]))
}

/// A conversion by way of a type that holds all values of the first.
pub(super) fn of_convert(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = cx.operand_of(instr.operands[0], Opcode::Convert)?;
    let (from, through) = (cx.array(x)?.dtype, cx.array(instr.operands[0])?.dtype);
    let to = instr.shape.as_array()?.dtype;
    (is_exact(from, through) && is_direct(through, to)).then(|| on(instr, &[x]))?
}

/// Whether every value of `from` is one of `to`.
fn is_exact(from: DType, to: DType) -> bool {
    let bits = |dtype: DType| if dtype == DType::Pred { 1 } else { dtype.bits() };
    match (from.class(), to.class()) {
        _ if from == to => true,
        (Class::Bool, Class::Signed | Class::Unsigned) => to.bits() >= 8,
        (Class::Signed, Class::Signed) | (Class::Unsigned, Class::Unsigned) => bits(from) <= bits(to),
        (Class::Unsigned, Class::Signed) => bits(from) < bits(to),
        (Class::Bool | Class::Signed | Class::Unsigned, Class::Float) => bits(from) <= significand(to),
        // Narrower floats all fit into the two wide formats; among each other no two do.
        (Class::Float, Class::Float) => match to {
            DType::F32 => from.bits() <= 16,
            DType::F64 => true,
            _ => false,
        },
        _ => false,
    }
}

/// Bits of the integers that a float type holds without gaps.
fn significand(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        DType::Bf16 => 8,
        _ => 0,
    }
}

/// Whether a conversion from `through` says by its numbers alone what becomes of them: integers are cut off
/// where they come from integers and clamped where they come from floats, so that those may not be exchanged.
fn is_direct(through: DType, to: DType) -> bool {
    let is_float = |dtype: DType| dtype.class() == Class::Float;
    match to.class() {
        Class::Float | Class::Bool => true,
        Class::Signed | Class::Unsigned => !is_float(through),
        Class::Complex => false,
    }
}
