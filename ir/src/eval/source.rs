//! Values from nothing: `iota`, sizes, device numbers.

use super::map::map_in_place;
use super::value::{Array, Buf, Data, Value, sizes};
use super::{Call, Joint, Lanes};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use crate::opcode::Opcode;
use ndarray::IxDyn;

/// `iota`: every element is its index along one dimension.
pub(crate) fn iota(call: &Call, _: Vec<Value>) -> Result<Value> {
    let shape = call.view.instr.shape.as_array().ok_or_else(|| Diagnostic::error("`iota` makes an array"))?;
    let along = call.view.instr.ints(Key::IotaDimension).first().map_or(0, |&dim| dim as usize);
    let dims = sizes(&shape.dims)?;
    let mut counts = ndarray::ArrayD::<i64>::zeros(IxDyn(&dims));
    for (index, mut part) in counts.axis_iter_mut(ndarray::Axis(along)).enumerate() {
        part.fill(index as i64);
    }
    let counts = counts.into_shared();
    Ok(match shape.dtype.class() {
        Class::Signed | Class::Unsigned => Array::new(shape.dtype, Data::Int(counts)),
        _ => super::convert::convert(Array::exact(DType::S64, Data::Int(counts)), shape.dtype),
    }
    .into())
}

/// `get-dimension-size`.
pub(crate) fn dimension_size(call: &Call, args: Vec<Value>) -> Result<Value> {
    let along = call.view.instr.ints(Key::Dimensions).first().map_or(0, |&dim| dim as usize);
    let size = args[0].as_array().and_then(|array| array.dims().get(along).copied());
    let size = size.ok_or_else(|| Diagnostic::error("there is no such dimension"))?;
    Ok(Array::scalar(DType::S32, size as i64).into())
}

/// `set-dimension-size` to the full size; arrays of other sizes than their bound are not evaluated.
pub(crate) fn set_dimension_size(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let along = call.view.instr.ints(Key::Dimensions).first().map_or(0, |&dim| dim as usize);
    let wanted = args.swap_remove(1).array()?.buf::<i64>()?[[]];
    let array = args.swap_remove(0).array()?;
    match array.dims().get(along) {
        Some(&size) if size as i64 == wanted => Ok(array.into()),
        _ => Err(Diagnostic::error("arrays whose size is known at run time only are not evaluated")),
    }
}

/// `partition-id`, `replica-id`.
pub(crate) fn device_id(joint: &Joint, _: Vec<Lanes>) -> Result<Lanes> {
    let devices = joint.machine.devices;
    if joint.n_lanes != devices.n_devices() {
        return Err(Diagnostic::error("a computation of scalars cannot ask for its device"));
    }
    let number = |lane: usize| match joint.view.instr.op {
        Opcode::ReplicaId => lane / devices.n_partitions,
        _ => devices.first.unwrap_or(0) + lane % devices.n_partitions,
    };
    Ok((0..joint.n_lanes).map(|lane| Array::scalar(DType::U32, number(lane) as i64).into()).collect())
}

/// An array of indices into dimensions, as `i64`; what a `u64` cannot say as such is huge.
pub(crate) fn indices(array: Array) -> Result<Buf<i64>> {
    let is_huge = array.dtype() == DType::U64;
    let buf = array.buf::<i64>()?;
    Ok(if is_huge { map_in_place(buf, |x| if x < 0 { i64::MAX } else { x }) } else { buf })
}

#[cfg(test)]
mod tests {
    use crate::eval::check::check;

    #[test]
    fn sizes_are_read_and_set_where_they_do_not_change() {
        check(
            "x: f32[4,2]; ROOT y = s32[] get-dimension-size(x), dimensions={0}",
            &["{{1, 2}, {3, 4}, {5, 6}, {7, 8}}"],
            "4",
        );
        let set = |size: u32| {
            format!(
                "x: f32[2]; n = s32[] constant({size}); ROOT y = f32[2] set-dimension-size(x, n), dimensions={{0}}"
            )
        };
        check(&set(2), &["{1, 2}"], "{1, 2}");
        check(&set(1), &["{1, 2}"], "error: arrays whose size is known at run time only are not evaluated");
    }

    #[test]
    fn indices_are_as_large_as_they_say() {
        let slice = |dtype: &str| {
            format!("x: f32[4]; i: {dtype}[]; ROOT y = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={{2}}")
        };
        let x = "{1, 2, 3, 4}";
        check(&slice("u64"), &[x, "18446744073709551615"], "{3, 4}");
        check(&slice("u64"), &[x, "0"], "{1, 2}");
        check(&slice("s64"), &[x, "-1"], "{1, 2}");
        check(&slice("s32"), &[x, "1"], "{2, 3}");
    }
}
