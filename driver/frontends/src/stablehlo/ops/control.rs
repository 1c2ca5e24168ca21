//! Loops, branches, tuples.

use crate::stablehlo::ast::{Op, Region, Use};
use crate::stablehlo::capture::free;
use crate::stablehlo::lower::{Ids, Lowerer, Made, attr};
use phzc_ir::{CompId, InstrId, Key, Opcode, Result, Shape, Value};

/// `while(%a = %x) cond {…} do {…}`: the state is a tuple of the operands and of what the regions read from
/// outside.
pub(super) fn while_op<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let (condition, body) = (op.region(0)?, op.region(1)?);
    if condition.args.len() != operands.len() || body.args.len() != operands.len() {
        return Err(op.error("the regions of `while` must have an argument per operand"));
    }
    let captured = free(&[condition, body]);
    let mut state: Ids = operands.iter().copied().collect();
    for used in &captured {
        state.push(cx.operand(used)?);
    }
    let is_single = state.len() == 1;
    let packed = cx.packed(&state);
    let shape = cx.b.shape(packed).clone();
    let keep = !captured.is_empty();
    let name = cx.region_name();
    let body = cx.packed_region(body, (&format!("{name}_body"), shape.clone()), &captured, keep, op)?;
    let condition =
        cx.packed_region(condition, (&format!("{name}_condition"), shape.clone()), &captured, false, op)?;
    let attrs = vec![attr(Key::Condition, Value::Comp(condition)), attr(Key::Body, Value::Comp(body))];
    let made = cx.b.try_shaped(Opcode::While, &[packed], shape, attrs)?;
    if is_single {
        return Ok(Made::One(made));
    }
    if captured.is_empty() {
        return Ok(Made::Tuple(made));
    }
    Ok(Made::Many((0..operands.len()).map(|index| cx.b.element(made, index)).collect()))
}

/// `"case"(%index) ({…}, {…})`: what a branch reads from outside is its operand.
pub(super) fn case<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let mut all: Ids = Ids::from_slice(&[cx.take(op, operands, 0)?]);
    let mut branches = Vec::new();
    for region in &op.regions {
        let (comp, operand) = branch(cx, region, op)?;
        branches.push(comp);
        all.push(operand);
    }
    cx.emit_all(op, Opcode::Conditional, &all, vec![attr(Key::BranchComputations, Value::Comps(branches))])
}

/// `"if"(%predicate) ({…}, {…})`.
pub(super) fn if_op<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let mut all: Ids = Ids::from_slice(&[cx.take(op, operands, 0)?]);
    let mut attrs = Vec::new();
    for (index, key) in [Key::TrueComputation, Key::FalseComputation].into_iter().enumerate() {
        let (comp, operand) = branch(cx, op.region(index)?, op)?;
        attrs.push(attr(key, Value::Comp(comp)));
        all.push(operand);
    }
    cx.emit_all(op, Opcode::Conditional, &all, attrs)
}

fn branch<'a>(cx: &mut Lowerer<'a, '_>, region: &Region<'a>, op: &Op<'a>) -> Result<(CompId, InstrId)> {
    if !region.args.is_empty() {
        return Err(op.error(format!("a branch of `{}` takes no arguments", op.name)));
    }
    let captured: Vec<Use> = free(&[region]);
    let values: Ids = captured.iter().map(|used| cx.operand(used)).collect::<Result<_>>()?;
    let operand = cx.packed(&values);
    let (name, shape) = (cx.region_name(), cx.b.shape(operand).clone());
    // One captured tuple would look like several values.
    let is_ambiguous = values.len() == 1 && matches!(shape, Shape::Tuple(_));
    let operand = if is_ambiguous { cx.b.tuple(&values) } else { operand };
    let shape = cx.b.shape(operand).clone();
    Ok((cx.packed_region(region, (&name, shape), &captured, false, op)?, operand))
}

/// `optimization_barrier %a, %b`.
pub(super) fn optimization_barrier<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let packed = cx.packed(operands);
    let shape = cx.b.shape(packed).clone();
    let made = cx.b.try_shaped(Opcode::OptBarrier, &[packed], shape, Vec::new())?;
    Ok(if operands.len() == 1 && op.regions.is_empty() { Made::One(made) } else { Made::Tuple(made) })
}

/// `get_tuple_element %t[0]`.
pub(super) fn get_tuple_element<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let index = op.ints(&["brackets"])?.first().copied().or_else(|| op.int(&["index"]));
    let index = index.ok_or_else(|| op.error("`get_tuple_element` needs an index"))?;
    cx.emit(op, Opcode::GetTupleElement, operands, vec![attr(Key::Index, Value::Int(index))])
}
