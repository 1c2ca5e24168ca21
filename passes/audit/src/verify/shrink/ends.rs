//! Dimensions that an op cuts or lengthens, and that can shrink all the same.
//!
//! By an element or two at an end (shifted labels, rolls, their gradients): both sides become shorter by the
//! same number. In blocks of one size (heads and projections side by side): the block shrinks, their number
//! stays. By a window over all that comes before (running sums): the window is as long as the dimension.

use phzc_ir::attr::{PadDim, SliceDim, WindowDim};
use phzc_ir::{Instr, Key, Opcode, Value, View};

/// Elements from an end that still are at that end; every size that shrinks stays at least as large.
const NEAR: i64 = 2;
/// The smallest size whose two ends are apart.
const LEAST_APART: i64 = 4 * NEAR;

/// A dimension that an op cuts or lengthens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The operand.
    pub operand: usize,
    /// The dimension, of operand and result.
    pub dim: usize,
    /// How.
    pub kind: EndKind,
}

/// How the sizes of operand and result belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// The result gets shorter with the operand.
    Moves,
    /// The result is an end and stays.
    Stays,
    /// Both consist of blocks of this size.
    Blocks(i64),
    /// Operand, result and window are of one size.
    Running,
}

/// The dimensions that an op cuts or lengthens in a way that can shrink.
pub fn ends(view: &View) -> Vec<End> {
    let sizes = dims(view, 0).iter().copied().enumerate();
    let of = |kind: &dyn Fn(usize, i64) -> Option<EndKind>| {
        sizes
            .clone()
            .filter_map(|(dim, size)| Some(End { operand: 0, dim, kind: kind(dim, size)? }))
            .collect()
    };
    match (view.instr.op, cutting(view.instr)) {
        (Opcode::Slice, Some(Value::Slices(slices))) => of(&|dim, size| of_slice(size, slices[dim])),
        (Opcode::Pad, Some(Value::Padding(padding))) => of(&|dim, size| of_pad(size, padding[dim])),
        (Opcode::ReduceWindow, Some(Value::Window(window))) => {
            of(&|dim, size| is_running(size, window.dims.get(dim)?).then_some(EndKind::Running))
        }
        (Opcode::Concatenate, _) => of_concatenate(view),
        _ => Vec::new(),
    }
}

fn cutting(instr: &Instr) -> Option<&Value> {
    [Key::Slice, Key::Padding, Key::Window].into_iter().find_map(|key| instr.attr(key))
}

fn dims<'a>(view: &View<'a>, operand: usize) -> &'a [i64] {
    view.operand_shape(operand).and_then(|shape| shape.as_array()).map_or(&[], |array| &array.dims)
}

fn of_slice(size: i64, SliceDim { start, limit, stride }: SliceDim) -> Option<EndKind> {
    if limit - start == size || stride != 1 {
        return None;
    }
    let (is_head, is_tail) = (|at: i64| at <= NEAR, |at: i64| size - at <= NEAR);
    match size >= LEAST_APART {
        true if is_head(start) && is_tail(limit) => Some(EndKind::Moves),
        true if is_head(limit) || is_tail(start) => Some(EndKind::Stays),
        _ => blocks([size, start, limit]),
    }
}

fn of_pad(size: i64, pad: PadDim) -> Option<EndKind> {
    if pad == PadDim::default() || pad.interior != 0 {
        return None;
    }
    let is_small = pad.low.abs() <= NEAR && pad.high.abs() <= NEAR;
    match is_small && size >= LEAST_APART {
        true => Some(EndKind::Moves),
        false => blocks([size, pad.low, pad.high]),
    }
}

fn is_running(size: i64, window: &WindowDim) -> bool {
    let pads = (window.pad_low, window.pad_high);
    let is_plain = window.stride == 1 && window.lhs_dilate == 1 && window.rhs_dilate == 1;
    size > NEAR && window.size == size && is_plain && (pads == (size - 1, 0) || pads == (0, size - 1))
}

/// One long operand with short ones around it, or blocks.
fn of_concatenate(view: &View) -> Vec<End> {
    let Some(&dim) = view.instr.ints(Key::Dimensions).first() else { return Vec::new() };
    let dim = dim as usize;
    let sizes: Vec<i64> = (0..view.n_operands()).map(|index| dims(view, index)[dim]).collect();
    let long: Vec<usize> = (0..sizes.len()).filter(|&index| sizes[index] > NEAR).collect();
    match *long {
        [operand] if sizes.len() > 1 && sizes[operand] >= LEAST_APART => {
            vec![End { operand, dim, kind: EndKind::Moves }]
        }
        _ => {
            let kind = blocks(sizes.iter().copied());
            let end = |operand| Some(End { operand, dim, kind: kind? });
            (0..sizes.len()).filter_map(end).collect()
        }
    }
}

/// Blocks that all these numbers are multiples of.
fn blocks(numbers: impl IntoIterator<Item = i64>) -> Option<EndKind> {
    let block = numbers.into_iter().fold(0, gcd);
    (block > NEAR).then_some(EndKind::Blocks(block))
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

/// Where a bound of a slice is after its dimension went from `old` to `new` elements.
pub fn moved(bound: i64, old: i64, new: i64) -> i64 {
    if old - bound <= NEAR { bound - (old - new) } else { scaled(bound, old, new) }
}

/// A number of elements that is a few at an end, or whole blocks, of a dimension that went from `old` to
/// `new`.
pub fn scaled(count: i64, old: i64, new: i64) -> i64 {
    if old == new || count.abs() <= NEAR {
        return count;
    }
    i64::try_from(i128::from(count) * i128::from(new) / i128::from(old)).unwrap_or(count)
}

/// The window of a running sum over a dimension that went from `old` to `new` elements.
pub fn rewindow(window: &mut WindowDim, old: i64, new: i64) {
    if is_running(old, window) {
        window.size = new;
        let pad = if window.pad_low > 0 { &mut window.pad_low } else { &mut window.pad_high };
        *pad = new - 1;
    }
}
