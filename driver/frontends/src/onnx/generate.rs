//! Values that are made of nothing, or of sizes alone.

use super::node::{Cx, Value, constant as made};
use super::tensor::{self, INDEX};
use phzc_ir::eval::Array;
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};
use std::path::Path;

/// A known list of integers.
fn list(values: Vec<i64>) -> Result<Vec<Value>> {
    known(Array::from_vec(INDEX, &[values.len()], values))
}

fn known(array: Option<Array>) -> Result<Vec<Value>> {
    let wrong = || Diagnostic::error("the value cannot be represented");
    Ok(vec![Value::Known(array.ok_or_else(wrong)?)])
}

/// `Constant`.
pub(super) fn constant(cx: &mut Cx) -> Result<Vec<Value>> {
    let none = || Diagnostic::error("a constant without a value of a supported kind");
    let one = cx.node.attribute.first().ok_or_else(none)?;
    match &*one.name {
        "value" => {
            let value = one.t.as_ref().filter(|value| value.data_location == 0).ok_or_else(none)?;
            Ok(vec![Value::Known(tensor::array(value, Path::new(""))?)])
        }
        "value_int" => known(Array::from_vec(INDEX, &[], vec![one.i])),
        "value_ints" => list(one.ints.clone()),
        "value_float" => known(Array::from_vec(DType::F32, &[], vec![one.f])),
        "value_floats" => known(Array::from_vec(DType::F32, &[one.floats.len()], one.floats.clone())),
        _ => Err(none()),
    }
}

/// `Identity`.
pub(super) fn identity(cx: &mut Cx) -> Result<Vec<Value>> {
    let missing = || Diagnostic::error("input 0 is missing");
    Ok(vec![cx.inputs.first().cloned().flatten().ok_or_else(missing)?])
}

/// `Shape`, or a part of it: known, whatever the array is.
pub(super) fn shape(cx: &mut Cx) -> Result<Vec<Value>> {
    let dims = sizes(cx)?;
    let n = dims.len() as i64;
    let bound = |at: i64| if at < 0 { at.saturating_add(n).max(0) } else { at.min(n) } as usize;
    let (start, end) = (bound(cx.attr_int("start", 0)), bound(cx.attr_int("end", n)));
    list(dims.get(start..end).unwrap_or_default().to_vec())
}

/// `Size`: the number of elements.
pub(super) fn size(cx: &mut Cx) -> Result<Vec<Value>> {
    known(Array::from_vec(INDEX, &[], vec![sizes(cx)?.iter().product::<i64>()]))
}

fn sizes(cx: &mut Cx) -> Result<Vec<i64>> {
    match cx.inputs.first() {
        Some(Some(Value::Known(array))) => Ok(array.dims().iter().map(|&size| size as i64).collect()),
        _ => cx.input(0).map(|x| cx.b.dims(x).to_vec()),
    }
}

/// `ConstantOfShape`.
pub(super) fn constant_of_shape(cx: &mut Cx) -> Result<InstrId> {
    let dims = cx.ints(0)?;
    tensor::checked(&dims)?;
    let value = cx.attr("value").and_then(|value| value.t.as_ref());
    let value =
        value.map_or(Ok(Array::zeros(DType::F32, &[])), |value| tensor::array(value, Path::new("")))?;
    if value.len() != 1 {
        return Err(Diagnostic::error("`value` must be one element"));
    }
    let value = made(cx.b, &value);
    let scalar = cx.reshape(value, &[])?;
    Ok(cx.b.broadcast(scalar, &dims, &[]))
}

/// `Range`: from a start in steps to before a limit.
pub(super) fn range(cx: &mut Cx) -> Result<InstrId> {
    let bounds = [0, 1, 2].map(|index| cx.known(index).map(Array::to_f64_vec));
    let mut numbers = Vec::new();
    for bound in bounds {
        numbers.push(bound?.first().copied().unwrap_or(0.0));
    }
    let n = ((numbers[1] - numbers[0]) / numbers[2]).ceil().max(0.0);
    if numbers[2] == 0.0 || !n.is_finite() {
        return Err(Diagnostic::error("the range has no end"));
    }
    tensor::checked(&[n as i64])?;
    let (start, step) = (cx.input(0)?, cx.input(2)?);
    let (start, step) = (cx.reshape(start, &[])?, cx.reshape(step, &[])?);
    let count = cx.b.iota(cx.b.dtype(start), &[n as i64], 0);
    let offset = cx.binary(Opcode::Multiply, count, step)?;
    cx.binary(Opcode::Add, offset, start)
}

/// `NonZero` of a known array: the places of what is not zero, one row per dimension.
pub(super) fn non_zero(cx: &mut Cx) -> Result<Vec<Value>> {
    let array = cx.known(0)?;
    let places: Vec<usize> =
        array.to_f64_vec().iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(at, _)| at).collect();
    let mut rows = Vec::new();
    let mut stride = array.len();
    for &size in array.dims() {
        stride /= size.max(1);
        rows.extend(places.iter().map(|place| (place / stride.max(1) % size.max(1)) as i64));
    }
    known(Array::from_vec(INDEX, &[array.rank(), places.len()], rows))
}

/// `OneHot`: `values[1]` where the new dimension's place is the index, else `values[0]`.
pub(super) fn one_hot(cx: &mut Cx) -> Result<InstrId> {
    let (places, depth, values) = (cx.input(0)?, one_number(cx, 1)?, cx.input(2)?);
    if cx.b.dims(values)[..] != [2] {
        return Err(Diagnostic::error("`values` must be two"));
    }
    let mut dims = cx.b.dims(places);
    let axis = cx.axis(cx.attr_int("axis", -1), dims.len() + 1)?;
    dims.insert(axis, depth);
    tensor::checked(&dims)?;
    let places = cx.b.convert(places, INDEX);
    let places = super::index::from_start(cx, places, depth);
    let at: Vec<usize> = (0..dims.len()).filter(|&dim| dim != axis).collect();
    let (places, own) = (cx.b.broadcast(places, &dims, &at), cx.b.iota(INDEX, &dims, axis));
    let is_hot = cx.b.compare(places, own, "EQ");
    let [off, on] = [0, 1].map(|at| cx.b.slice(values, &[at], &[at + 1]));
    let [off, on] = [cx.reshape(off, &[])?, cx.reshape(on, &[])?];
    let [off, on] = [off, on].map(|value| cx.b.broadcast(value, &dims, &[]));
    cx.op(Opcode::Select, &[is_hot, on, off], Vec::new())
}

/// A known input of one number, whatever its type.
fn one_number(cx: &Cx, index: usize) -> Result<i64> {
    match cx.known(index)?.to_f64_vec()[..] {
        [number] => Ok(number as i64),
        _ => Err(Diagnostic::error(format!("input {index} must be one number"))),
    }
}

/// `EyeLike`: ones on a diagonal.
pub(super) fn eye_like(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let (dims, k) = (cx.b.dims(x), cx.attr_int("k", 0));
    let dtype = match cx.attr_int("dtype", 0) {
        0 => cx.b.dtype(x),
        code => tensor::dtype(i32::try_from(code).unwrap_or(0))?,
    };
    if dims.len() != 2 {
        return Err(Diagnostic::error("the operand must be a matrix"));
    }
    let [row, column] = [0, 1].map(|along| cx.b.iota(INDEX, &dims, along));
    let k = cx.b.literal(INDEX, &[], &k.to_string());
    let k = cx.b.broadcast_like(k, row, &[]);
    let row = cx.b.add(row, k);
    let is_on = cx.b.compare(row, column, "EQ");
    Ok(cx.b.convert(is_on, dtype))
}
