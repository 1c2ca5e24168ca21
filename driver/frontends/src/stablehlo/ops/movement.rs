//! The same elements elsewhere.

use crate::stablehlo::ast::{Attr, Ints, Op};
use crate::stablehlo::lower::{Lowerer, Made, attr, ints, result};
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::{ArrayShape, InstrId, Key, Opcode, Result, Shape, Value};

/// `broadcast_in_dim %x, dims = [1]`: operand dimension `d` becomes dimension `dims[d]`, one of size 1 is
/// repeated.
///
/// As in XLA: only dimensions of size 1 added is a reshape; ones that are repeated are dropped before. HLO
/// keeps the order of dimensions, so one that changes is a transpose before.
pub(super) fn broadcast_in_dim<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let (from, to) = (cx.array(op, operands, 0)?, result(op, 0)?);
    let dims = op.ints(&["dims", "broadcast_dimensions"])?;
    let (x, from, dims) = in_order(cx, operands[0], from, dims)?;
    let fits = dims.len() == from.rank()
        && dims.windows(2).all(|pair| pair[0] < pair[1])
        && dims.iter().zip(&from.dims).all(|(&dim, &size)| {
            usize::try_from(dim)
                .ok()
                .and_then(|dim| to.dims.get(dim))
                .is_some_and(|&out| size == out || size == 1)
        });
    if !fits || from.dtype != to.dtype {
        return Err(
            op.error("`broadcast_in_dim` needs a list of the operand's places, each once, of its sizes or 1")
        );
    }
    if from.dims == to.dims {
        return Ok(Made::One(x));
    }
    if from.n_elements() == to.n_elements() && !from.dims.is_empty() {
        return cx.emit(op, Opcode::Reshape, &[x], Vec::new());
    }
    let kept: Vec<usize> =
        (0..dims.len()).filter(|&dim| from.dims[dim] == to.dims[dims[dim] as usize]).collect();
    let mut x = x;
    if kept.len() < dims.len() {
        let sizes: Vec<i64> = kept.iter().map(|&dim| from.dims[dim]).collect();
        x = cx.b.try_shaped(Opcode::Reshape, &[x], Shape::array(from.dtype, &sizes), Vec::new())?;
    }
    let places = ints(Key::Dimensions, kept.iter().map(|&dim| dims[dim]));
    cx.emit(op, Opcode::Broadcast, &[x], vec![places])
}

/// The operand with its dimensions in the order of their places in the result.
fn in_order(
    cx: &mut Lowerer,
    x: InstrId,
    mut from: ArrayShape,
    mut dims: Ints,
) -> Result<(InstrId, ArrayShape, Ints)> {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|&at| dims[at]);
    if order.is_sorted() || dims.len() != from.rank() {
        return Ok((x, from, dims));
    }
    let sizes: Vec<i64> = order.iter().map(|&at| from.dims[at]).collect();
    let sorted = Shape::array(from.dtype, &sizes);
    let order = ints(Key::Dimensions, order.iter().map(|&at| at as i64));
    let x = cx.b.try_shaped(Opcode::Transpose, &[x], sorted, vec![order])?;
    from.dims = sizes.into_iter().collect();
    dims.sort_unstable();
    Ok((x, from, dims))
}

/// `broadcast %x, sizes = [2]`: new dimensions in front.
pub(super) fn broadcast<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let (from, to) = (cx.array(op, operands, 0)?, result(op, 0)?);
    let first = to.rank().saturating_sub(from.rank()) as i64;
    cx.emit(op, Opcode::Broadcast, operands, vec![ints(Key::Dimensions, first..first + from.rank() as i64)])
}

/// `reshape %x`.
pub(super) fn reshape<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    cx.emit(op, Opcode::Reshape, operands, Vec::new())
}

/// `transpose %x, dims = [1, 0]`.
pub(super) fn transpose<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let order = op.ints(&["dims", "permutation"])?;
    cx.emit(op, Opcode::Transpose, operands, vec![ints(Key::Dimensions, order)])
}

/// `reverse %x, dims = [0]`.
pub(super) fn reverse<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let dims = op.ints(&["dims", "dimensions"])?;
    cx.emit(op, Opcode::Reverse, operands, vec![ints(Key::Dimensions, dims)])
}

/// `concatenate %a, %b, dim = 0`.
pub(super) fn concatenate<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let dim = op.need_int(&["dim", "dimension"])?;
    cx.emit(op, Opcode::Concatenate, operands, vec![ints(Key::Dimensions, [dim])])
}

/// `slice %x [0:4:2, 1:3]`.
pub(super) fn slice<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let dims: Vec<SliceDim> = match op.attr(&["brackets"]) {
        Some(Attr::Slices(dims)) => dims.clone(),
        _ => {
            let [starts, limits] = [op.ints(&["start_indices"])?, op.ints(&["limit_indices"])?];
            let strides = op.ints(&["strides"])?;
            let bounds = starts.iter().zip(&limits).zip(&strides);
            bounds.map(|((&start, &limit), &stride)| SliceDim { start, limit, stride }).collect()
        }
    };
    cx.emit(op, Opcode::Slice, operands, vec![attr(Key::Slice, Value::Slices(dims))])
}

/// `pad %x, %value, low = [0], high = [1], interior = [0]`.
pub(super) fn pad<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let low = op.ints(&["low", "edge_padding_low"])?;
    let high = op.ints(&["high", "edge_padding_high"])?;
    let interior = op.ints(&["interior", "interior_padding"])?;
    if low.len() != high.len() || low.len() != interior.len() {
        return Err(op.error("`pad` needs as many `low` as `high` and `interior`"));
    }
    let sizes = low.iter().zip(&high).zip(&interior);
    let dims = sizes.map(|((&low, &high), &interior)| PadDim { low, high, interior }).collect();
    cx.emit(op, Opcode::Pad, operands, vec![attr(Key::Padding, Value::Padding(dims))])
}
