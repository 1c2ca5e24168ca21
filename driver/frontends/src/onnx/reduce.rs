//! Reductions and running sums.

use super::convolution::windowed;
use super::node::Cx;
use phzc_ir::attr::{PadDim, WindowDim};
use phzc_ir::dtype::Class;
use phzc_ir::{Attr, Diagnostic, InstrId, Key, Opcode, Result, attr};

/// What is made of the elements along some dimensions.
type Along = fn(&mut Cx, InstrId, &[usize]) -> Result<InstrId>;

/// `Reduce…`: dimensions stay with size 1 unless `keepdims` is 0.
pub(super) fn reduce(cx: &mut Cx, along: Along) -> Result<InstrId> {
    let x = cx.input(0)?;
    expect_numbers(cx, x)?;
    let given = cx.axes_given(1)?.unwrap_or_default();
    let mut sizes = cx.b.dims(x);
    if given.is_empty() && cx.attr_int("noop_with_empty_axes", 0) != 0 {
        return Ok(x);
    }
    let all: Vec<i64> = (0..sizes.len() as i64).collect();
    let dims = cx.axes(if given.is_empty() { &all } else { &given }, sizes.len())?;
    let made = along(cx, x, &dims)?;
    if cx.attr_int("keepdims", 1) == 0 {
        return Ok(made);
    }
    dims.iter().for_each(|&dim| sizes[dim] = 1);
    cx.reshape(made, &sizes)
}

/// An error unless the array is of numbers.
pub(super) fn expect_numbers(cx: &Cx, x: InstrId) -> Result<()> {
    match cx.b.dtype(x).class() {
        Class::Float | Class::Signed | Class::Unsigned => Ok(()),
        _ => Err(Diagnostic::error("the operand must be of numbers")),
    }
}

/// The sum.
pub(super) fn sum(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    expect_numbers(cx, x)?;
    Ok(cx.b.sum(x, dims))
}

/// The mean.
pub(super) fn mean(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    Ok(cx.b.mean(x, dims))
}

/// The product.
pub(super) fn product(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    Ok(cx.b.reduce(x, 1.0, Opcode::Multiply, dims))
}

/// The largest.
pub(super) fn largest(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    Ok(cx.b.max_of(x, dims))
}

/// The smallest.
pub(super) fn smallest(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    let dtype = cx.b.dtype(x);
    let greatest = match dtype.class() {
        Class::Float => f64::INFINITY,
        Class::Signed => 2f64.powi(dtype.bits() as i32 - 1) - 1.0,
        _ => 2f64.powi(dtype.bits() as i32) - 1.0,
    };
    Ok(cx.b.reduce(x, greatest, Opcode::Minimum, dims))
}

/// The sum of sizes.
pub(super) fn l1(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    let size = cx.op(Opcode::Abs, &[x], Vec::new())?;
    sum(cx, size, dims)
}

/// The sum of squares.
pub(super) fn sum_square(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    let square = cx.b.square(x);
    sum(cx, square, dims)
}

/// The root of the sum of squares.
pub(super) fn l2(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    let sum = sum_square(cx, x, dims)?;
    cx.op(Opcode::Sqrt, &[sum], Vec::new())
}

/// The logarithm of the sum.
pub(super) fn log_sum(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    let sum = sum(cx, x, dims)?;
    cx.op(Opcode::Log, &[sum], Vec::new())
}

/// The logarithm of the sum of exponentials, less the largest so that nothing overflows.
pub(super) fn log_sum_exp(cx: &mut Cx, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    let largest = cx.b.max_of(x, dims);
    let spread = cx.spread(largest, x, dims);
    let lowered = cx.b.sub(x, spread);
    let power = cx.op(Opcode::Exponential, &[lowered], Vec::new())?;
    let log = log_sum(cx, power, dims)?;
    Ok(cx.b.add(log, largest))
}

/// `CumSum`: the sums of windows that end at each element.
pub(super) fn cumsum(cx: &mut Cx) -> Result<InstrId> {
    let mut x = cx.input(0)?;
    expect_numbers(cx, x)?;
    let (axis, dims) = (cx.axis(cx.int(1)?, cx.b.rank(x))?, cx.b.dims(x));
    let is_reverse = cx.attr_int("reverse", 0) != 0;
    if is_reverse {
        x = cx.b.reverse(x, &[axis]);
    }
    if cx.attr_int("exclusive", 0) != 0 && dims[axis] > 0 {
        let zero = cx.b.scalar(cx.b.dtype(x), 0.0);
        let by = |dim| if dim == axis { PadDim { low: 1, high: -1, interior: 0 } } else { PadDim::default() };
        x = cx.b.pad(x, zero, &(0..dims.len()).map(by).collect::<Vec<_>>());
    }
    let window = |dim| {
        let size = if dim == axis { dims[axis].max(1) } else { 1 };
        WindowDim { size, pad_low: size - 1, ..WindowDim::default() }
    };
    let dtype = cx.b.dtype(x);
    let zero = cx.b.scalar(dtype, 0.0);
    let comp = Attr { key: Key::ToApply, value: attr::Value::Comp(cx.b.reducer(Opcode::Add, dtype)) };
    let window = windowed((0..dims.len()).map(window).collect());
    let sums = cx.op(Opcode::ReduceWindow, &[x, zero], vec![window, comp])?;
    Ok(if is_reverse { cx.b.reverse(sums, &[axis]) } else { sums })
}
