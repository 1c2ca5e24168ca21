//! Linearity: which operands may be sums that are still to be done (one summand per device), the result being
//! one too.
//!
//! `f(Σ xᵈ) = Σ f(xᵈ)`, with what is no summand being the same on every device. Where two operands are
//! summands together, as of `add`, both are; `multiply` takes either, but not both. Nothing here rounds more
//! than before: a conversion to a narrower float is not linear, and neither is arithmetic on truth values.

use super::{literal, reducer};
use crate::attr::Key;
use crate::dtype::{Class, DType};
use crate::module::{Instr, InstrId};
use crate::opcode::Opcode;
use crate::rule::Reducer;
use crate::view::View;
use smallvec::{SmallVec, smallvec};

/// Operands (a bit each) that are summands together.
pub type Summands = u64;
/// The ways in which an op is linear; none: it is not.
pub type Linear = SmallVec<[Summands; 2]>;

/// Not linear in anything.
pub fn never(_: &View) -> Linear {
    Linear::new()
}

/// Linear in its first operand: moves, repeats or leaves out elements.
pub fn first(_: &View) -> Linear {
    smallvec![0b1]
}

/// Linear in its first operand, unless it reads bits as another type.
pub fn moved(view: &View) -> Linear {
    if (view.instr.op.def().reads_bits)(view) { Linear::new() } else { first(view) }
}

/// Linear in all of its operands together.
pub fn all(view: &View) -> Linear {
    if view.n_operands() > 64 { Linear::new() } else { smallvec![u64::MAX >> (64 - view.n_operands())] }
}

/// Linear in its first two operands together, the others being places.
pub fn first_two(_: &View) -> Linear {
    smallvec![0b11]
}

/// Linear in either of two operands, the other one being whole.
pub fn either(_: &View) -> Linear {
    smallvec![0b01, 0b10]
}

/// Linear in what a predicate chooses between.
pub fn choices(_: &View) -> Linear {
    smallvec![0b110]
}

/// `add`, `subtract`, `multiply`, `divide`.
pub fn binary(view: &View) -> Linear {
    let class = view.instr.shape.as_array().map(|array| array.dtype.class());
    let is_exact = matches!(class, Some(Class::Float | Class::Complex));
    match view.instr.op {
        _ if class.is_none() || class == Some(Class::Bool) => Linear::new(),
        Opcode::Add | Opcode::Subtract => first_two(view),
        Opcode::Multiply => either(view),
        // Integers are rounded.
        Opcode::Divide if is_exact => first(view),
        _ => Linear::new(),
    }
}

/// `negate`.
pub fn unary(view: &View) -> Linear {
    if view.instr.op == Opcode::Negate { first(view) } else { Linear::new() }
}

/// A conversion to a float that holds every value of the operand's type.
pub fn widening(view: &View) -> Linear {
    let dtype = |instr: &Instr| instr.shape.as_array().map(|array| array.dtype);
    match (dtype(view.operand(0)), dtype(view.instr)) {
        (Some(from), Some(to)) if from == to => first(view),
        (Some(DType::F16 | DType::Bf16), Some(DType::F32 | DType::F64)) => first(view),
        (Some(DType::F32), Some(DType::F64)) => first(view),
        _ => Linear::new(),
    }
}

/// Whether an op is linear but for rounding: a conversion of numbers to floats.
pub fn is_rounding(view: &View) -> bool {
    let class = |instr: &Instr| instr.shape.as_array().map(|array| array.dtype.class());
    let is_number = |class: Option<Class>| class.is_some_and(|class| class != Class::Bool);
    view.instr.op == Opcode::Convert
        && matches!(class(view.instr), Some(Class::Float | Class::Complex))
        && is_number(class(view.operand(0)))
}

/// A pad with zeros.
pub fn padding(view: &View) -> Linear {
    if is_zero(view.instrs, view.instr.operands[1]) { first(view) } else { Linear::new() }
}

/// A sum of one array that starts at zero.
pub fn reduction(view: &View) -> Linear {
    let is_sum = view.n_operands() == 2
        && reducer(view, Key::ToApply, 0) == Some(Reducer::Add)
        && is_zero(view.instrs, view.instr.operands[1]);
    if is_sum { first(view) } else { Linear::new() }
}

/// A call that only marks a layout.
pub fn marker(view: &View) -> Linear {
    if is_marker(view.instr) { first(view) } else { Linear::new() }
}

fn is_marker(instr: &Instr) -> bool {
    instr.op == Opcode::CustomCall
        && instr.word(Key::CustomCallTarget) == Some("Sharding")
        && instr.operands.len() == 1
}

/// Whether a value is a constant of zeros, also one that was spread, moved or converted.
pub fn is_zero(instrs: &[Instr], mut id: InstrId) -> bool {
    use Opcode::{Bitcast, Broadcast, Convert, Copy, Reshape, Slice, Transpose};
    loop {
        let instr = &instrs[id.index()];
        match instr.op {
            Broadcast | Reshape | Transpose | Convert | Copy | Bitcast | Slice => id = instr.operands[0],
            _ if is_marker(instr) => id = instr.operands[0],
            _ => return literal::is_all(instr, 0.0),
        }
    }
}

#[cfg(test)]
mod tests;
