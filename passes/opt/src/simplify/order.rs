//! Rules about the order of elements: transposes and reversals.

use super::broadcasts::{Spread, iota, spread};
use super::draft::Draft;
use super::rules::{Made, broadcast, dims, instead};
use phzc_ir::build::dimensions;
use phzc_ir::{Instr, InstrId, Key, Opcode};

/// The transpose that makes a value: of what, in which order.
pub(super) fn transposed(cx: &Draft, id: InstrId) -> Option<(InstrId, Vec<usize>)> {
    let instr = cx.made_by(id, Opcode::Transpose)?;
    Some((instr.operands[0], dims(instr, Key::Dimensions)))
}

/// Where the dimension goes.
pub(super) fn place(order: &[usize], dim: usize) -> Option<usize> {
    order.iter().position(|&from| from == dim)
}

/// Whether the numbers rise.
pub(super) fn is_sorted(dims: &[usize]) -> bool {
    dims.windows(2).all(|pair| pair[0] < pair[1])
}

pub(super) fn transpose_nothing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = instr.operands[0];
    (is_sorted(&dims(instr, Key::Dimensions)) && cx.instr(x).shape == instr.shape).then_some(Made::Value(x))
}

pub(super) fn transpose_of_transpose(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let (x, inner) = transposed(cx, instr.operands[0])?;
    let order: Vec<usize> = dims(instr, Key::Dimensions).into_iter().map(|dim| inner[dim]).collect();
    instead(instr, Opcode::Transpose, &[x], vec![dimensions(Key::Dimensions, &order)])
}

pub(super) fn transpose_of_broadcast(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let Spread { x, at } = spread(cx, instr.operands[0])?;
    let order = dims(instr, Key::Dimensions);
    let at = at.into_iter().map(|dim| place(&order, dim)).collect::<Option<Vec<usize>>>()?;
    if is_sorted(&at) { broadcast(instr, x, &at) } else { None }
}

pub(super) fn transpose_of_iota(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let along = cx.made_by(instr.operands[0], Opcode::Iota)?.int(Key::IotaDimension)? as usize;
    iota(instr, place(&dims(instr, Key::Dimensions), along)?)
}

/// A transpose that only moves dimensions of size 1.
pub(super) fn transpose_as_reshape(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = instr.operands[0];
    let sizes = &cx.array(x)?.dims;
    let mut order = dims(instr, Key::Dimensions);
    order.retain(|&dim| sizes[dim] != 1);
    if is_sorted(&order) { instead(instr, Opcode::Reshape, &[x], Vec::new()) } else { None }
}

/// A reversal of dimensions of one element.
pub(super) fn reverse_nothing(_: &mut Draft, instr: &Instr) -> Option<Made> {
    let array = instr.shape.as_array()?;
    let is_short = |dim: usize| array.dims[dim] <= 1;
    dims(instr, Key::Dimensions).into_iter().all(is_short).then(|| Made::Value(instr.operands[0]))
}

/// A dimension that is reversed twice is as it was.
pub(super) fn reverse_of_reverse(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let inner = cx.made_by(instr.operands[0], Opcode::Reverse)?;
    let (first, second) = (dims(inner, Key::Dimensions), dims(instr, Key::Dimensions));
    let rank = instr.shape.as_array()?.rank();
    let left: Vec<usize> = (0..rank).filter(|dim| first.contains(dim) != second.contains(dim)).collect();
    instead(instr, Opcode::Reverse, &[inner.operands[0]], vec![dimensions(Key::Dimensions, &left)])
}
