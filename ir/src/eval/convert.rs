//! `convert` and `bitcast-convert`.

use super::Call;
use super::bits;
use super::map::map;
use super::round::{narrow, wrap};
use super::value::{Array, Buf, Data, Element, Value};
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use num_complex::Complex;

/// `convert`, `stochastic-convert` without its random bits excepted.
pub(crate) fn convert_op(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let dtype = wanted(call)?;
    Ok(convert(args.swap_remove(0).array()?, dtype).into())
}

fn wanted(call: &Call) -> Result<DType> {
    let shape = call.view.instr.shape.as_array();
    shape.map(|shape| shape.dtype).ok_or_else(|| Diagnostic::error("an array type is needed"))
}

impl Array {
    /// The values in another element type, as `convert` makes them.
    #[must_use]
    pub fn converted(self, to: DType) -> Array {
        convert(self, to)
    }
}

/// The values in another element type: floats to integers saturate, and NaN becomes 0.
pub(crate) fn convert(array: Array, to: DType) -> Array {
    let (from, dims) = (array.dtype(), array.dims().to_vec());
    if from == to {
        return array;
    }
    let data = array.stored();
    let made = Array::exact(to, converted(data, from, to));
    if made.rank() == dims.len() { made } else { made.spread(&dims) }
}

fn converted(data: Data, from: DType, to: DType) -> Data {
    let unsigned = from == DType::U64;
    match data {
        Data::Pred(buf) => {
            numbers(&buf, to, (|x| u8::from(x).into(), |x| u8::from(x).into()), i64::from, |x| x)
        }
        Data::Int(buf) if unsigned => {
            numbers(&buf, to, (|x| x as u64 as f32, |x| x as u64 as f64), |x| x, |x| x != 0)
        }
        Data::Int(buf) => numbers(&buf, to, (|x| x as f32, |x| x as f64), |x| x, |x| x != 0),
        // Widening, or between types that share the storage: no detour through f64.
        Data::F32(buf) if to == DType::F32 => Data::F32(buf),
        Data::F32(buf) if to == DType::Bf16 => super::round::to_width(to, Data::F32(buf)),
        Data::F32(buf) => {
            numbers(&buf, to, (|x| x, f64::from), move |x| saturate(f64::from(x), to), |x| x != 0.0)
        }
        Data::F64(buf) => numbers(&buf, to, (|x| x as f32, |x| x), move |x| saturate(x, to), |x| x != 0.0),
        Data::C64(buf) if to == DType::C128 => {
            Data::C128(map(buf.view(), |x| Complex::new(f64::from(x.re), f64::from(x.im))))
        }
        Data::C64(buf) => converted(Data::F32(map(buf.view(), |x| x.re)), DType::F32, to),
        Data::C128(buf) if to == DType::C64 => {
            Data::C64(map(buf.view(), |x| Complex::new(x.re as f32, x.im as f32)))
        }
        Data::C128(buf) => converted(Data::F64(map(buf.view(), |x| x.re)), DType::F64, to),
    }
}

/// Real numbers to any type; `single` rounds once, where `real` would round long integers a first time.
fn numbers<T: Element>(
    buf: &Buf<T>,
    to: DType,
    (single, real): (impl Fn(T) -> f32 + Sync, impl Fn(T) -> f64 + Sync),
    int: impl Fn(T) -> i64 + Sync,
    truth: impl Fn(T) -> bool + Sync,
) -> Data {
    let view = buf.view();
    match (to.class(), to) {
        (Class::Bool, _) => Data::Pred(map(view, truth)),
        (Class::Signed | Class::Unsigned, _) => Data::Int(map(view, move |x| wrap(to, int(x)))),
        (Class::Float, DType::F64) => Data::F64(map(view, real)),
        (Class::Float, DType::F32) => Data::F32(map(view, single)),
        (Class::Float, _) => Data::F32(map(view, move |x| narrow(to, real(x)))),
        (Class::Complex, DType::C128) => Data::C128(map(view, move |x| Complex::new(real(x), 0.0))),
        (Class::Complex, _) => Data::C64(map(view, move |x| Complex::new(single(x), 0.0))),
    }
}

/// The nearest integer towards zero that the type has.
fn saturate(x: f64, to: DType) -> i64 {
    let bits = to.bits();
    match to.class() {
        Class::Signed => (x as i64).clamp(i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        _ => (x as u64).min(u64::MAX >> (64 - bits)) as i64,
    }
}

/// The first element as a truth value; false of an empty array.
pub(crate) fn first(array: &Array) -> bool {
    match array.clone().stored() {
        Data::Pred(buf) => buf.first().copied().unwrap_or(false),
        Data::Int(buf) => buf.first().is_some_and(|&x| x != 0),
        _ => false,
    }
}

/// `bitcast-convert`: the same bits read as elements of another type, in little-endian order.
pub(crate) fn bitcast_convert(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (array, to) = (args.swap_remove(0).array()?, wanted(call)?);
    if array.dtype() == to {
        return Ok(array.into());
    }
    let (from_bits, to_bits) = (array.dtype().bits() as usize, to.bits() as usize);
    let mut dims = array.dims().to_vec();
    if from_bits > to_bits {
        dims.push(from_bits / to_bits);
    } else if from_bits < to_bits {
        dims.pop();
    }
    let codes = bits::regroup(bits::to_codes(array)?, from_bits, to_bits);
    Ok(bits::from_codes(to, &dims, codes)?.into())
}

#[cfg(test)]
mod tests;
