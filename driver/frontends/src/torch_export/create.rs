//! Arrays that are made of numbers.

use super::node::Cx;
use crate::onnx;
use phzc_ir::{DType, Diagnostic, InstrId, Result};

/// The sizes of a new array: given, or those of another.
fn sizes(cx: &mut Cx) -> Result<Vec<i64>> {
    let sizes = match cx.ints("size")? {
        Some(sizes) => sizes,
        None => {
            let like = cx.tensor("self")?;
            cx.b.dims(like).to_vec()
        }
    };
    onnx::checked(&sizes)?;
    Ok(sizes)
}

/// `full`, `zeros`, `ones`, `empty`, and those like another array.
pub(super) fn full(cx: &mut Cx, default: f64) -> Result<InstrId> {
    let (sizes, dtype) = (sizes(cx)?, cx.out()?);
    let value = cx.operand_or("fill_value", dtype, default)?;
    let value = cx.plain().reshape(value, &[])?;
    Ok(cx.b.broadcast(value, &sizes, &[]))
}

/// `fill`: a number or a scalar everywhere.
pub(super) fn fill(cx: &mut Cx) -> Result<InstrId> {
    let (sizes, dtype) = (sizes(cx)?, cx.out()?);
    let value = cx.operand_or("value", dtype, 0.0)?;
    Ok(cx.b.broadcast(value, &sizes, &[]))
}

/// `scalar_tensor`.
pub(super) fn scalar(cx: &mut Cx) -> Result<InstrId> {
    let dtype = cx.out()?;
    cx.operand_or("s", dtype, 0.0)
}

/// `arange`: from a start in steps to before an end.
pub(super) fn arange(cx: &mut Cx) -> Result<InstrId> {
    let missing = || Diagnostic::error("the argument `end` must be a number");
    let (start, step) = (cx.float("start", 0.0)?, cx.float("step", 1.0)?);
    let end = cx.number("end")?.ok_or_else(missing)?;
    steps(cx, start, step, ((end - start) / step).ceil().max(0.0))
}

/// `linspace`: so many numbers, both ends among them.
pub(super) fn linspace(cx: &mut Cx) -> Result<InstrId> {
    let (start, end, n) = (cx.float("start", 0.0)?, cx.float("end", 0.0)?, cx.int("steps", 0)?);
    steps(cx, start, (end - start) / (n - 1).max(1) as f64, n as f64)
}

fn steps(cx: &mut Cx, start: f64, step: f64, n: f64) -> Result<InstrId> {
    if !n.is_finite() || !(0.0..1e15).contains(&n) {
        return Err(Diagnostic::error("the range has no end"));
    }
    onnx::checked(&[n as i64])?;
    let dtype = cx.out()?;
    let count = cx.b.iota(dtype, &[n as i64], 0);
    let scaled = if step == 1.0 { count } else { cx.b.scale(count, step) };
    Ok(if start == 0.0 { scaled } else { cx.b.shift(scaled, start) })
}

/// `eye`: ones on the diagonal.
pub(super) fn eye(cx: &mut Cx) -> Result<InstrId> {
    let (n, dtype) = (cx.int("n", 0)?, cx.out()?);
    let dims = [n, cx.int("m", n)?];
    onnx::checked(&dims)?;
    let [row, column] = [0, 1].map(|along| cx.b.iota(DType::S64, &dims, along));
    let is_on = cx.b.compare(row, column, "EQ");
    Ok(cx.b.convert(is_on, dtype))
}

/// `one_hot`: a new dimension, 1 at the place that is given.
pub(super) fn one_hot(cx: &mut Cx) -> Result<InstrId> {
    let (places, n) = (cx.tensor("self")?, cx.int("num_classes", -1)?);
    if n < 0 {
        return Err(Diagnostic::error("`num_classes` must be given"));
    }
    let mut dims = cx.b.dims(places);
    let at: Vec<usize> = (0..dims.len()).collect();
    dims.push(n);
    onnx::checked(&dims)?;
    let places = cx.b.convert(places, DType::S64);
    let (places, own) = (cx.b.broadcast(places, &dims, &at), cx.b.iota(DType::S64, &dims, at.len()));
    let is_hot = cx.b.compare(places, own, "EQ");
    Ok(cx.b.convert(is_hot, DType::S64))
}
