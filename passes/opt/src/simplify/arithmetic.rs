//! Rules about arithmetic: neutral elements, signs, bounds.

use super::draft::Draft;
use super::rules::{Made, filled, instead, on};
use phzc_ir::dtype::Class;
use phzc_ir::{ArrayShape, DType, Instr, InstrId, Key, Opcode};

/// The other operand where one is this number.
fn other(cx: &Draft, instr: &Instr, number: f64) -> Option<Made> {
    let [a, b] = pair(instr)?;
    match (cx.is_all(a, number), cx.is_all(b, number)) {
        (_, true) => Some(Made::Value(a)),
        (true, _) => Some(Made::Value(b)),
        _ => None,
    }
}

/// The operands of a binary op.
pub(super) fn pair(instr: &Instr) -> Option<[InstrId; 2]> {
    instr.operands.as_slice().try_into().ok()
}

fn dtype(instr: &Instr) -> Option<DType> {
    Some(instr.shape.as_array()?.dtype)
}

fn is_integer(instr: &Instr) -> bool {
    dtype(instr).is_some_and(|dtype| matches!(dtype.class(), Class::Signed | Class::Unsigned))
}

/// Truth values are added and multiplied as they are or-ed and and-ed, which have rules of their own.
fn is_number(instr: &Instr) -> bool {
    dtype(instr).is_some_and(|dtype| dtype != DType::Pred)
}

pub(super) fn add_zero(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    other(cx, instr, 0.0)
}

pub(super) fn subtract_zero(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    (is_number(instr) && cx.is_all(b, 0.0)).then_some(Made::Value(a))
}

pub(super) fn multiply_one(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    other(cx, instr, 1.0)
}

/// `x / 1`, and `x` to the power of 1.
pub(super) fn divide_one(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    (is_number(instr) && cx.is_all(b, 1.0)).then_some(Made::Value(a))
}

/// Not for floats, of which infinity and NaN times 0 are NaN.
pub(super) fn integer_times_zero(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let zero = instr.operands.iter().copied().find(|&id| cx.is_all(id, 0.0));
    zero.filter(|_| is_integer(instr)).map(Made::Value)
}

/// Not for floats, of which infinity minus itself is NaN.
pub(super) fn integer_minus_itself(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    if a == b && is_integer(instr) { filled(cx, instr, "0") } else { None }
}

/// `(x + 1) + 2`. Sums of integers wrap around, so their order is free; floats would round otherwise.
pub(super) fn integer_sums(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr).filter(|_| is_integer(instr))?;
    let (sum, last) = if cx.element(b).is_some() { (a, b) } else { (b, a) };
    cx.element(last)?;
    let [x, first] = pair(cx.made_by(sum, Opcode::Add)?)?;
    let (x, first) = if cx.element(first).is_some() { (x, first) } else { (first, x) };
    cx.element(first)?;
    let constant = cx.add(Opcode::Add, &[first, last], instr.shape.clone(), Vec::new());
    on(instr, &[x, constant])
}

pub(super) fn add_negative(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    match (cx.operand_of(a, Opcode::Negate), cx.operand_of(b, Opcode::Negate)) {
        (_, Some(b)) => instead(instr, Opcode::Subtract, &[a, b], Vec::new()),
        (Some(a), _) => instead(instr, Opcode::Subtract, &[b, a], Vec::new()),
        _ => None,
    }
}

pub(super) fn subtract_negative(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    let b = cx.operand_of(b, Opcode::Negate)?;
    instead(instr, Opcode::Add, &[a, b], Vec::new())
}

/// Not for quotients of integers: the least of them is its own negative.
pub(super) fn product_of_negatives(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr).filter(|_| instr.op == Opcode::Multiply || !is_integer(instr))?;
    let operands = [cx.operand_of(a, Opcode::Negate)?, cx.operand_of(b, Opcode::Negate)?];
    on(instr, &operands)
}

pub(super) fn times_minus_one(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr).filter(|_| is_number(instr))?;
    let x = match (cx.is_all(a, -1.0), cx.is_all(b, -1.0)) {
        (_, true) => a,
        (true, _) if instr.op == Opcode::Multiply => b,
        _ => return None,
    };
    instead(instr, Opcode::Negate, &[x], Vec::new())
}

/// `negate(negate(x))`, `not(not(x))`.
pub(super) fn twice_the_inverse(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    cx.operand_of(instr.operands[0], instr.op).map(Made::Value)
}

/// `abs(abs(x))`, `floor(floor(x))`.
pub(super) fn twice_the_same(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    cx.made_by(instr.operands[0], instr.op).is_some().then(|| Made::Value(instr.operands[0]))
}

pub(super) fn abs_of_negative(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = cx.operand_of(instr.operands[0], Opcode::Negate)?;
    on(instr, &[x])
}

/// `maximum(x, x)`, `and(x, x)`.
pub(super) fn with_itself(_: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    (a == b).then_some(Made::Value(a))
}

/// `maximum(x, -inf)`, `minimum(x, 127)` of bytes.
pub(super) fn extreme_bound(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    let extreme = extreme(instr.shape.as_array()?, instr.op == Opcode::Maximum)?;
    match (cx.element(a) == Some(&extreme), cx.element(b) == Some(&extreme)) {
        (_, true) => Some(Made::Value(a)),
        (true, _) => Some(Made::Value(b)),
        _ => None,
    }
}

/// The least or the greatest number of the type.
fn extreme(array: &ArrayShape, least: bool) -> Option<String> {
    let bits = array.dtype.bits();
    Some(match (array.dtype.class(), least) {
        (Class::Float, true) => "-inf".to_owned(),
        (Class::Float, false) => "inf".to_owned(),
        (Class::Signed, true) => (-(1i128 << (bits - 1))).to_string(),
        (Class::Signed, false) => ((1i128 << (bits - 1)) - 1).to_string(),
        (Class::Unsigned, true) => "0".to_owned(),
        (Class::Unsigned, false) => ((1i128 << bits) - 1).to_string(),
        _ => return None,
    })
}

/// A second clamping to the same bounds.
pub(super) fn clamp_of_clamp(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [low, x, high] = *instr.operands.as_slice() else { return None };
    let inner = cx.made_by(x, Opcode::Clamp)?;
    ((inner.operands[0], inner.operands[2]) == (low, high)).then_some(Made::Value(x))
}

/// `real(complex(a, b))`.
pub(super) fn part_of_complex(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [re, im] = pair(cx.made_by(instr.operands[0], Opcode::Complex)?)?;
    Some(Made::Value(if instr.op == Opcode::Real { re } else { im }))
}

/// Whether the value is of integers or truth values, which have no NaN.
pub(super) fn is_ordered(cx: &Draft, id: InstrId) -> bool {
    cx.array(id).is_some_and(|array| !array.dtype.is_inexact())
}

/// A direction that `compare` takes.
pub(super) fn direction(instr: &Instr) -> Option<&str> {
    instr.word(Key::Direction)
}
