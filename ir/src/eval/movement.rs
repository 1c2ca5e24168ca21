//! Ops that move elements.

use super::Call;
use super::source::indices;
use super::value::{Array, Buf, Element, Sizes, Value, both, each, owned, sizes};
use crate::attr::{Key, PadDim, SliceDim, Value as Attr};
use crate::diag::{Diagnostic, Result};
use crate::shape::ArrayShape;
use ndarray::{ArrayD, Axis, IxDyn, Slice};

fn result<'a>(call: &Call<'a>) -> Result<&'a ArrayShape> {
    call.view.instr.shape.as_array().ok_or_else(|| Diagnostic::error("the result must be an array"))
}

fn dims_of(call: &Call, key: Key) -> Sizes {
    call.view.instr.ints(key).iter().map(|&dim| dim as usize).collect()
}

fn operand(args: &mut Vec<Value>) -> Result<Array> {
    args.swap_remove(0).array()
}

/// `broadcast`: operand dimension `i` is the result's `dimensions[i]`.
pub(crate) fn broadcast(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let array = operand(&mut args)?;
    let dims = sizes(&result(call)?.dims)?;
    let places = dims_of(call, Key::Dimensions);
    if dims.is_empty() || array.is_spread() || array.rank() == 0 {
        // Of a scalar; or, where scalars are computed many at once, of as many scalars.
        return Ok(if dims.is_empty() { array } else { scalar_of(array).spread(&dims) }.into());
    }
    let mut expanded: Sizes = dims.iter().map(|_| 1).collect();
    for (place, size) in places.iter().zip(array.dims()) {
        expanded[*place] = *size;
    }
    // Places in rising order alone make the operand's elements the result's in order.
    let array = if places.is_sorted() { array } else { transposed(array, &by_place(&places)) };
    let dtype = array.dtype();
    let data = each!(array.reshaped(&expanded).stored(), buf => {
        let view = buf.broadcast(IxDyn(&dims)).ok_or_else(|| Diagnostic::error("sizes do not fit"))?;
        owned(view)
    });
    Ok(Array::exact(dtype, data).into())
}

fn scalar_of(array: Array) -> Array {
    let dtype = array.dtype();
    Array::exact(dtype, array.stored())
}

/// The permutation that sorts `places`.
fn by_place(places: &[usize]) -> Sizes {
    let mut order: Sizes = (0..places.len()).collect();
    order.sort_by_key(|&at| places[at]);
    order
}

/// `reshape`.
pub(crate) fn reshape(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (array, dims) = (operand(&mut args)?, sizes(&result(call)?.dims)?);
    let n: usize = dims.iter().product();
    // Where scalars are computed many at once, sizes are theirs.
    Ok(if array.len() == n { array.reshaped(&dims) } else { array }.into())
}

/// `bitcast`: the same elements in physical order.
pub(crate) fn bitcast(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (array, shape) = (operand(&mut args)?, result(call)?);
    if array.dtype() != shape.dtype {
        return Err(Diagnostic::error("a `bitcast` to another element type is not evaluated"));
    }
    let from = call.view.array(0).map_err(Diagnostic::error)?;
    let dims = sizes(&shape.dims)?;
    let (major_from, major_to) = (physical(from), physical(shape));
    let stored: Sizes = major_to.iter().map(|&dim| dims[dim]).collect();
    let array = transposed(array, &major_from).reshaped(&stored);
    Ok(transposed(array, &by_place(&major_to)).into())
}

/// Dimensions from the slowest to the fastest varying in memory.
fn physical(shape: &ArrayShape) -> Sizes {
    match &shape.layout {
        Some(layout) if layout.minor_to_major.len() == shape.rank() => {
            layout.minor_to_major.iter().rev().map(|&dim| usize::from(dim)).collect()
        }
        _ => (0..shape.rank()).collect(),
    }
}

/// `transpose`: `dimensions[d]` is the operand's dimension at result position `d`.
pub(crate) fn transpose(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    Ok(transposed(operand(&mut args)?, &dims_of(call, Key::Dimensions)).into())
}

/// A view, without moving anything yet.
pub(crate) fn transposed(array: Array, order: &[usize]) -> Array {
    if order.is_sorted() {
        return array;
    }
    if array.is_spread() {
        let dims: Sizes = order.iter().map(|&dim| array.dims()[dim]).collect();
        return scalar_of(array).spread(&dims);
    }
    let dtype = array.dtype();
    Array::exact(dtype, each!(array.stored(), buf => buf.permuted_axes(IxDyn(order))))
}

/// `slice`.
pub(crate) fn slice(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let array = operand(&mut args)?;
    let Some(Attr::Slices(bounds)) = call.view.instr.attr(Key::Slice) else {
        return Err(Diagnostic::error("`slice` needs bounds"));
    };
    Ok(strided(array, bounds).into())
}

/// Every `stride`-th element of `start..limit` in each dimension.
pub(crate) fn strided(array: Array, bounds: &[SliceDim]) -> Array {
    let part = |dim: usize| {
        let SliceDim { start, limit, stride } = bounds[dim];
        Slice::new(start as isize, Some(limit.max(start) as isize), stride.max(1) as isize)
    };
    if array.is_spread() {
        let size = |bound: &SliceDim| {
            ((bound.limit - bound.start).max(0) as usize).div_ceil(bound.stride.max(1) as usize)
        };
        let dims: Sizes = bounds.iter().map(size).collect();
        return scalar_of(array).spread(&dims);
    }
    let dtype = array.dtype();
    let data = each!(array.stored(), buf => owned(buf.slice_each_axis(|axis| part(axis.axis.index()))));
    Array::exact(dtype, data)
}

/// `reverse`.
pub(crate) fn reverse(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (array, dims) = (operand(&mut args)?, dims_of(call, Key::Dimensions));
    if array.is_spread() {
        return Ok(array.into());
    }
    let dtype = array.dtype();
    let data = each!(array.stored(), buf => {
        let mut view = buf.view();
        dims.iter().for_each(|&dim| view.invert_axis(Axis(dim)));
        owned(view)
    });
    Ok(Array::exact(dtype, data).into())
}

/// `pad`: around, between and, where negative, off.
pub(crate) fn pad(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (value, array) = (args.swap_remove(1).array()?, operand(&mut args)?);
    let Some(Attr::Padding(padding)) = call.view.instr.attr(Key::Padding) else {
        return Err(Diagnostic::error("`pad` needs `padding`"));
    };
    Ok(padded(array, value, padding)?.into())
}

/// The array with `value` around it and between its elements.
pub(crate) fn padded(array: Array, value: Array, padding: &[PadDim]) -> Result<Array> {
    let dtype = array.dtype();
    let value = super::convert::convert(value, dtype);
    let data = both!(array.dense(), value.dense(), a, b => padded_buf(&a, b[[]], padding))?;
    Ok(Array::exact(dtype, data))
}

fn padded_buf<T: Element>(array: &Buf<T>, value: T, padding: &[PadDim]) -> Buf<T> {
    // Per dimension: size, the first element that stays, where it goes, how many stay.
    let placed = |(&size, pad): (&usize, &PadDim)| {
        let (size, step) = (size as i64, pad.interior + 1);
        let span = if size == 0 { 0 } else { (size - 1) * step + 1 };
        let total = (span + pad.low + pad.high).max(0);
        let first = if pad.low < 0 { (-pad.low + step - 1) / step } else { 0 };
        let at = pad.low + first * step;
        let n = if total > at { ((total - at + step - 1) / step).min(size - first).max(0) } else { 0 };
        (total as usize, first as usize, at as usize, n as usize, step as usize)
    };
    let places: Vec<_> = array.shape().iter().zip(padding).map(placed).collect();
    let dims: Vec<usize> = places.iter().map(|place| place.0).collect();
    let mut made = ArrayD::from_elem(IxDyn(&dims), value);
    if places.iter().all(|place| place.3 > 0) {
        let from = array.slice_each_axis(|axis| {
            let (_, first, _, n, _) = places[axis.axis.index()];
            (first..first + n).into()
        });
        let mut to = made.slice_each_axis_mut(|axis| {
            let (_, _, at, n, step) = places[axis.axis.index()];
            Slice::new(at as isize, Some((at + (n - 1) * step + 1) as isize), step as isize)
        });
        to.assign(&from);
    }
    made.into_shared()
}

/// `concatenate`.
pub(crate) fn concatenate(call: &Call, args: Vec<Value>) -> Result<Value> {
    let along = dims_of(call, Key::Dimensions).first().copied().unwrap_or(0);
    let arrays = args.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    Ok(joined(&arrays, along)?.into())
}

/// The arrays one after the other along a dimension.
pub(crate) fn joined(arrays: &[Array], along: usize) -> Result<Array> {
    let first = arrays.first().ok_or_else(|| Diagnostic::error("nothing to put together"))?;
    let dtype = arrays.iter().map(Array::dtype).max_by_key(|dtype| dtype.bits()).unwrap_or(first.dtype());
    let mut dims = first.dims().to_vec();
    dims[along] = arrays.iter().map(|array| array.dims()[along]).sum();
    let made = super::Data::zeros(dtype, &dims);
    let data = each!(made, buf => {
        let mut own = buf.into_owned();
        let mut at = 0;
        for array in arrays {
            let part = super::convert::convert(array.clone(), dtype);
            let size = array.dims()[along];
            let target = own.slice_axis_mut(Axis(along), Slice::from(at..at + size));
            assign(target, part)?;
            at += size;
        }
        own.into_shared()
    });
    Ok(Array::exact(dtype, data))
}

/// Overwrites a part of an array.
fn assign<T: Element>(mut target: ndarray::ArrayViewMutD<T>, part: Array) -> Result<()> {
    if part.is_spread() {
        target.fill(scalar_of(part).buf::<T>()?[[]]);
    } else {
        target.assign(&part.buf::<T>()?);
    }
    Ok(())
}

/// Where a dynamic slice of these sizes starts: clamped so that it lies inside.
fn starts(args: Vec<Value>, dims: &[usize], sizes: &[usize]) -> Result<Vec<usize>> {
    let mut wanted = Vec::with_capacity(dims.len());
    for arg in args {
        wanted.extend(indices(arg.array()?)?.iter().copied());
    }
    let clamp = |((&start, &whole), &size): ((&i64, &usize), &usize)| {
        usize::try_from(start).unwrap_or(0).min(whole - size)
    };
    Ok(wanted.iter().zip(dims).zip(sizes).map(clamp).collect())
}

/// `dynamic-slice`.
pub(crate) fn dynamic_slice(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let rest = args.split_off(1);
    let (array, size) = (operand(&mut args)?, dims_of(call, Key::DynamicSliceSizes));
    let start = starts(rest, array.dims(), &size)?;
    let limit: Vec<usize> = start.iter().zip(&size).map(|(start, size)| start + size).collect();
    Ok(array.slice(&start, &limit)?.into())
}

/// `dynamic-update-slice`: in place if nobody else reads the array.
pub(crate) fn dynamic_update_slice(_: &Call, mut args: Vec<Value>) -> Result<Value> {
    let rest = args.split_off(2);
    let (update, array) = (args.swap_remove(1).array()?, operand(&mut args)?);
    let start = starts(rest, array.dims(), update.dims())?;
    let (dtype, size) = (array.dtype(), update.dims().to_vec());
    let data = each!(array.dense(), buf => {
        let mut own = buf.into_owned();
        let target = own.slice_each_axis_mut(|axis| {
            let at = axis.axis.index();
            (start[at]..start[at] + size[at]).into()
        });
        assign(target, super::convert::convert(update, dtype))?;
        own.into_shared()
    });
    Ok(Array::exact(dtype, data).into())
}

#[cfg(test)]
mod tests;
