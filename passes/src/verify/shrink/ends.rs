//! Dimensions that are cut or lengthened by an element or two at an end: shifted labels, rolls and their gradients.
//!
//! Both sides of such an op may become shorter by the same number of elements.

use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::{Key, Opcode, Value, View};

/// Elements from an end that still are at that end; every size that shrinks stays at least as large.
const NEAR: i64 = 2;
/// The smallest size whose two ends are apart.
const LEAST_APART: i64 = 4 * NEAR;

/// A dimension that an op cuts or lengthens at its ends only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The operand.
    pub operand: usize,
    /// The dimension, of operand and result.
    pub dim: usize,
    /// Whether the result gets shorter with the operand; else it is an end and stays.
    pub moves: bool,
}

/// The dimensions that an op cuts or lengthens at their ends.
pub fn ends(view: &View) -> Vec<End> {
    let attr = |key| view.instr.attr(key);
    match (view.instr.op, attr(Key::Slice), attr(Key::Padding)) {
        (Opcode::Slice, Some(Value::Slices(slices)), _) => of_slice(dims(view, 0), slices),
        (Opcode::Pad, _, Some(Value::Padding(padding))) => of_pad(dims(view, 0), padding),
        (Opcode::Concatenate, ..) => of_concatenate(view),
        _ => Vec::new(),
    }
}

fn dims<'a>(view: &View<'a>, operand: usize) -> &'a [i64] {
    view.operand_shape(operand).and_then(|shape| shape.as_array()).map_or(&[], |array| &array.dims)
}

fn of_slice(dims: &[i64], slices: &[SliceDim]) -> Vec<End> {
    let end = |(dim, (&size, slice)): (usize, (&i64, &SliceDim))| {
        let is_head = |at: i64| at <= NEAR;
        let is_tail = |at: i64| size - at <= NEAR;
        let SliceDim { start, limit, stride } = *slice;
        let is_cut = limit - start != size && stride == 1 && size >= LEAST_APART;
        let is_at_ends = is_head(limit) || is_tail(start) || (is_head(start) && is_tail(limit));
        let moves = is_head(start) && is_tail(limit);
        (is_cut && is_at_ends).then_some(End { operand: 0, dim, moves })
    };
    dims.iter().zip(slices).enumerate().filter_map(end).collect()
}

fn of_pad(dims: &[i64], padding: &[PadDim]) -> Vec<End> {
    let end = |(dim, (&size, pad)): (usize, (&i64, &PadDim))| {
        let is_small = pad.low.abs() <= NEAR && pad.high.abs() <= NEAR && pad.interior == 0;
        let is_padded = *pad != PadDim::default() && is_small && size >= LEAST_APART;
        is_padded.then_some(End { operand: 0, dim, moves: true })
    };
    dims.iter().zip(padding).enumerate().filter_map(end).collect()
}

/// One long operand with short ones around it.
fn of_concatenate(view: &View) -> Vec<End> {
    let Some(&dim) = view.instr.ints(Key::Dimensions).first() else { return Vec::new() };
    let dim = dim as usize;
    let long: Vec<usize> =
        (0..view.n_operands()).filter(|&index| dims(view, index).get(dim) > Some(&NEAR)).collect();
    match *long {
        [operand] if dims(view, operand)[dim] >= LEAST_APART => vec![End { operand, dim, moves: true }],
        _ => Vec::new(),
    }
}

/// Where a bound of a slice is after its dimension went from `old` to `new` elements.
pub fn moved(bound: i64, old: i64, new: i64) -> i64 {
    if old != new && old - bound <= NEAR { bound - (old - new) } else { bound }
}
