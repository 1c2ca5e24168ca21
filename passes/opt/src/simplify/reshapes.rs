//! Rules about reshapes: chains are one, and copies or counts under a reshape stay what they are.

use super::broadcasts::{Spread, iota, spread};
use super::draft::Draft;
use super::rules::{Made, broadcast, instead};
use phzc_ir::{ArrayShape, Instr, InstrId, Key, Opcode, Shape};

pub(super) fn nothing(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    (cx.instr(instr.operands[0]).shape == instr.shape).then(|| Made::Value(instr.operands[0]))
}

pub(super) fn of_reshape(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let x = cx.operand_of(instr.operands[0], Opcode::Reshape)?;
    instead(instr, Opcode::Reshape, &[x], Vec::new())
}

/// The dimension of `to` that dimension `dim` of `from` is, after a reshape: of its size, and as many
/// elements before it. None for sizes below 2, which tell nothing.
fn same_dim(from: &ArrayShape, to: &ArrayShape, dim: usize) -> Option<usize> {
    let before = |array: &ArrayShape, dim: usize| array.dims[..dim].iter().product::<i64>();
    let is_same = |&at: &usize| to.dims[at] == from.dims[dim] && before(to, at) == before(from, dim);
    (0..to.rank()).filter(|_| from.dims[dim] > 1 && !from.dims.contains(&0)).find(is_same)
}

/// Of copies whose own dimensions the reshape keeps.
pub(super) fn of_broadcast(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let Spread { x, at } = spread(cx, instr.operands[0])?;
    let (from, to) = (cx.array(instr.operands[0])?, instr.shape.as_array()?);
    let long = at.iter().filter(|&&dim| from.dims[dim] != 1);
    let at = long.map(|&dim| same_dim(from, to, dim)).collect::<Option<Vec<usize>>>()?;
    let x = squeezed(cx, x)?;
    broadcast(instr, x, &at)
}

/// Without its dimensions of size 1.
fn squeezed(cx: &mut Draft, x: InstrId) -> Option<InstrId> {
    let array = cx.array(x)?;
    let long: Vec<i64> = array.dims.iter().copied().filter(|&size| size != 1).collect();
    if long.len() == array.rank() {
        return Some(x);
    }
    let shape = Shape::array(array.dtype, &long);
    Some(cx.add(Opcode::Reshape, &[x], shape, Vec::new()))
}

pub(super) fn of_iota(cx: &mut Draft, instr: &Instr) -> Option<Made> {
    let along = cx.made_by(instr.operands[0], Opcode::Iota)?.int(Key::IotaDimension)? as usize;
    iota(instr, same_dim(cx.array(instr.operands[0])?, instr.shape.as_array()?, along)?)
}
