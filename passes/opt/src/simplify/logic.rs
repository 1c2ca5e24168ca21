//! Rules about truth values: bitwise ops, comparisons, selections.

use super::arithmetic::{direction, is_ordered, pair};
use super::draft::Draft;
use super::rules::{Made, filled, instead, on};
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Instr, InstrId, Key, Opcode, Value};

/// Whether all bits of a value are this.
fn is_bits(cx: &Draft, id: InstrId, bit: bool) -> bool {
    let Some(array) = cx.array(id) else { return false };
    match array.dtype.class() {
        Class::Bool => cx.is_all(id, f64::from(u8::from(bit))),
        Class::Signed => cx.is_all(id, if bit { -1.0 } else { 0.0 }),
        Class::Unsigned if bit => cx.element(id) == Some(&((1i128 << array.dtype.bits()) - 1).to_string()),
        _ => cx.is_all(id, 0.0),
    }
}

/// `and(x, true)`, `or(x, false)`, `xor(x, false)`.
pub(super) fn bits_neutral(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    let bit = instr.op == Opcode::And;
    match (is_bits(cx, a, bit), is_bits(cx, b, bit)) {
        (_, true) => Some(Made::Value(a)),
        (true, _) => Some(Made::Value(b)),
        _ => None,
    }
}

/// `and(x, false)`, `or(x, true)`.
pub(super) fn bits_absorbing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let bit = instr.op == Opcode::Or;
    instr.operands.iter().copied().find(|&id| is_bits(cx, id, bit)).map(Made::Value)
}

/// What is so where `direction` is not; with NaN both `LT` and `GE` are false.
fn inverse(direction: &str, is_ordered: bool) -> Option<&'static str> {
    match direction {
        "EQ" => Some("NE"),
        "NE" => Some("EQ"),
        "LT" if is_ordered => Some("GE"),
        "GE" if is_ordered => Some("LT"),
        "GT" if is_ordered => Some("LE"),
        "LE" if is_ordered => Some("GT"),
        _ => None,
    }
}

pub(super) fn not_of_compare(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let compare = cx.made_by(instr.operands[0], Opcode::Compare)?;
    let inverse = inverse(direction(compare)?, is_ordered(cx, compare.operands[0]))?;
    let mut attrs = compare.attrs.clone();
    attrs.retain(|attr| matches!(attr.key, Key::Direction | Key::Type));
    attrs
        .iter_mut()
        .filter(|attr| attr.key == Key::Direction)
        .for_each(|attr| attr.value = Value::Word(inverse.into()));
    instead(instr, Opcode::Compare, &compare.operands, attrs)
}

/// Not for floats: NaN does not equal itself.
pub(super) fn compare_with_itself(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    if a != b || !is_ordered(cx, a) {
        return None;
    }
    let answer = matches!(direction(instr)?, "EQ" | "LE" | "GE");
    filled(cx, instr, if answer { "true" } else { "false" })
}

/// `compare(p, false), direction=NE`, as `if (p != 0)` is written.
pub(super) fn compare_with_truth(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [a, b] = pair(instr)?;
    if cx.array(a)?.dtype != DType::Pred {
        return None;
    }
    let truth = cx.element(b).map(|_| cx.is_all(b, 1.0))?;
    match (direction(instr)?, truth) {
        ("EQ", true) | ("NE", false) => Some(Made::Value(a)),
        ("EQ", false) | ("NE", true) => instead(instr, Opcode::Not, &[a], Vec::new()),
        _ => None,
    }
}

fn branches(instr: &Instr) -> Option<[InstrId; 3]> {
    instr.operands.as_slice().try_into().ok()
}

pub(super) fn select_by_constant(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [by, yes, no] = branches(instr)?;
    cx.element(by)?;
    Some(Made::Value(if cx.is_all(by, 1.0) { yes } else { no }))
}

pub(super) fn select_of_same(_: &mut Draft, instr: &Instr) -> Option<Made> {
    let [_, yes, no] = branches(instr)?;
    (yes == no).then_some(Made::Value(yes))
}

pub(super) fn select_by_not(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [by, yes, no] = branches(instr)?;
    let by = cx.operand_of(by, Opcode::Not)?;
    on(instr, &[by, no, yes])
}

/// A selection by what was selected by before.
pub(super) fn select_of_select(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [by, yes, no] = branches(instr)?;
    let inner = |id: InstrId| branches(cx.made_by(id, Opcode::Select)?).filter(|inner| inner[0] == by);
    match (inner(yes), inner(no)) {
        (Some([_, yes, _]), _) => on(instr, &[by, yes, no]),
        (_, Some([_, _, no])) => on(instr, &[by, yes, no]),
        _ => None,
    }
}

/// `select(p, true, false)`, `select(p, false, true)`.
pub(super) fn select_of_truth(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let [by, yes, no] = branches(instr)?;
    let is_pred = instr.shape.as_array()?.dtype == DType::Pred && cx.array(by)? == instr.shape.as_array()?;
    let truth = |id| cx.element(id).map(|_| cx.is_all(id, 1.0));
    match (truth(yes)?, truth(no)?) {
        (true, false) if is_pred => Some(Made::Value(by)),
        (false, true) if is_pred => instead(instr, Opcode::Not, &[by], Vec::new()),
        _ => None,
    }
}
