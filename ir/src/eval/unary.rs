//! Functions of one element.

use super::map::{map, map_in_place};
use super::number::Real;
use super::value::{Array, Buf, Data, Element, Value};
use super::{Call, undefined};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use crate::opcode::Opcode;
use num_complex::Complex;

/// `negate`, `tanh`, `popcnt`, …
pub(crate) fn unary(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let operand = args.swap_remove(0).array()?;
    let (op, dtype, dims) = (call.view.instr.op, operand.dtype(), operand.dims().to_vec());
    let data = operand.stored();
    let rank = data.shape().len();
    let made = match (op, data) {
        (Opcode::ReducePrecision, data) => Array::new(dtype, reduce_precision(call, dtype, data)?),
        (_, Data::F32(buf)) => Array::new(dtype, Data::F32(real_map(op, buf)?)),
        (_, Data::F64(buf)) => Array::new(dtype, Data::F64(real_map(op, buf)?)),
        (_, Data::Int(buf)) => Array::new(dtype, Data::Int(map_in_place(buf, int(op, dtype)?))),
        (Opcode::Not, Data::Pred(buf)) => Array::new(dtype, Data::Pred(map_in_place(buf, |x| !x))),
        (Opcode::Abs, Data::C64(buf)) => Array::new(DType::F32, Data::F32(map(buf.view(), |x| x.norm()))),
        (Opcode::Abs, Data::C128(buf)) => Array::new(DType::F64, Data::F64(map(buf.view(), |x| x.norm()))),
        (_, Data::C64(buf)) => Array::new(dtype, Data::C64(map_in_place(buf, complex(op)?))),
        (_, Data::C128(buf)) => Array::new(dtype, Data::C128(map_in_place(buf, complex(op)?))),
        (_, Data::Pred(_)) => return Err(undefined(op, dtype)),
    };
    Ok(if rank == dims.len() { made } else { made.spread(&dims) }.into())
}

fn real_map<T: Real>(op: Opcode, buf: Buf<T>) -> Result<Buf<T>> {
    Ok(match op {
        // These two are too short for a call per element.
        Opcode::Negate => map_in_place(buf, |x| -x),
        Opcode::Abs => map_in_place(buf, |x| x.abs()),
        _ => map_in_place(buf, real(op)?),
    })
}

fn real<T: Real>(op: Opcode) -> Result<fn(T) -> T> {
    Ok(match op {
        Opcode::Acos => T::acos,
        Opcode::Acosh => T::acosh,
        Opcode::Asin => T::asin,
        Opcode::Asinh => T::asinh,
        Opcode::Atanh => T::atanh,
        Opcode::Cbrt => T::cbrt,
        Opcode::Ceil => T::ceil,
        Opcode::Cosh => T::cosh,
        Opcode::Cosine => T::cos,
        Opcode::Erf => T::erf,
        Opcode::Exponential => T::exp,
        Opcode::ExponentialMinusOne => T::exp_m1,
        Opcode::Floor => T::floor,
        Opcode::Log => T::ln,
        Opcode::LogPlusOne => T::ln_1p,
        Opcode::Logistic => |x| T::one() / (T::one() + (-x).exp()),
        Opcode::RoundNearestAfz => T::round,
        Opcode::RoundNearestEven => T::round_even,
        Opcode::Rsqrt => |x| T::one() / x.sqrt(),
        Opcode::Sign => |x| if x == T::zero() || x.is_nan() { x } else { x.signum() },
        Opcode::Sine => T::sin,
        Opcode::Sinh => T::sinh,
        Opcode::Sqrt => T::sqrt,
        Opcode::Tan => T::tan,
        Opcode::Tanh => T::tanh,
        _ => return Err(undefined(op, DType::F32)),
    })
}

fn int(op: Opcode, dtype: DType) -> Result<Box<dyn Fn(i64) -> i64 + Sync>> {
    let (bits, signed) = (dtype.bits(), dtype.class() == Class::Signed);
    let pattern = move |x: i64| x as u64 & (u64::MAX >> (64 - bits));
    Ok(match op {
        Opcode::Abs => Box::new(move |x| if signed { x.wrapping_abs() } else { x }),
        Opcode::Negate => Box::new(i64::wrapping_neg),
        Opcode::Not => Box::new(|x: i64| !x),
        Opcode::Sign => Box::new(move |x| if signed { x.signum() } else { i64::from(x != 0) }),
        Opcode::Popcnt => Box::new(move |x| i64::from(pattern(x).count_ones())),
        Opcode::CountLeadingZeros => {
            Box::new(move |x| i64::from(pattern(x).leading_zeros()) - i64::from(64 - bits))
        }
        _ => return Err(undefined(op, dtype)),
    })
}

fn complex<T: Real>(op: Opcode) -> Result<fn(Complex<T>) -> Complex<T>> {
    Ok(match op {
        Opcode::Negate => |x| -x,
        Opcode::Exponential => |x| x.exp(),
        Opcode::ExponentialMinusOne => |x| x.exp() - T::one(),
        Opcode::Log => |x| x.ln(),
        Opcode::LogPlusOne => |x| (x + T::one()).ln(),
        Opcode::Logistic => |x| Complex::from(T::one()) / ((-x).exp() + T::one()),
        Opcode::Sqrt => |x| x.sqrt(),
        Opcode::Rsqrt => |x| x.sqrt().inv(),
        Opcode::Cbrt => |x| x.cbrt(),
        Opcode::Sine => |x| x.sin(),
        Opcode::Cosine => |x| x.cos(),
        Opcode::Tan => |x| x.tan(),
        Opcode::Sinh => |x| x.sinh(),
        Opcode::Cosh => |x| x.cosh(),
        Opcode::Tanh => |x| x.tanh(),
        Opcode::Asin => |x| x.asin(),
        Opcode::Acos => |x| x.acos(),
        Opcode::Asinh => |x| x.asinh(),
        Opcode::Acosh => |x| x.acosh(),
        Opcode::Atanh => |x| x.atanh(),
        Opcode::Sign => |x| if x.norm() == T::zero() { x } else { x.unscale(x.norm()) },
        _ => return Err(undefined(op, DType::C64)),
    })
}

/// `is-finite`.
pub(crate) fn is_finite(_: &Call, mut args: Vec<Value>) -> Result<Value> {
    let operand = args.swap_remove(0).array()?;
    let made = match operand.dense() {
        Data::F32(buf) => map(buf.view(), f32::is_finite),
        Data::F64(buf) => map(buf.view(), f64::is_finite),
        other => map_all(&other, true),
    };
    Ok(Array::exact(DType::Pred, Data::Pred(made)).into())
}

fn map_all<T: Element>(data: &Data, value: T) -> Buf<T> {
    Buf::from_elem(ndarray::IxDyn(data.shape()), value)
}

/// `real`, `imag`.
pub(crate) fn real_part(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let is_real = call.view.instr.op == Opcode::Real;
    let operand = args.swap_remove(0).array()?;
    Ok(match operand.clone().dense() {
        Data::C64(buf) => {
            Array::exact(DType::F32, Data::F32(map(buf.view(), move |x| if is_real { x.re } else { x.im })))
        }
        Data::C128(buf) => {
            Array::exact(DType::F64, Data::F64(map(buf.view(), move |x| if is_real { x.re } else { x.im })))
        }
        _ if is_real => operand,
        _ => Array::zeros(operand.dtype(), operand.dims()),
    }
    .into())
}

/// Rounds to fewer exponent and mantissa bits; what is too small becomes zero, what is too large infinite.
fn reduce_precision(call: &Call, dtype: DType, data: Data) -> Result<Data> {
    let bits = |key: Key| {
        let value = call.view.instr.int(key.clone()).and_then(|bits| i32::try_from(bits).ok());
        let value = value.filter(|bits| (0..=52).contains(bits));
        value.ok_or_else(|| {
            Diagnostic::error(format!("`reduce-precision` needs `{}` of 0 to 52", key.as_str()))
        })
    };
    let (exponent, mantissa) = (bits(Key::ExponentBits)?.clamp(1, 11), bits(Key::MantissaBits)?);
    match data {
        Data::F32(buf) => {
            let f = move |x: f32| precision(f64::from(x), exponent, mantissa.min(23)) as f32;
            Ok(Data::F32(map_in_place(buf, f)))
        }
        Data::F64(buf) => Ok(Data::F64(map_in_place(buf, move |x| precision(x, exponent, mantissa)))),
        _ => Err(undefined(Opcode::ReducePrecision, dtype)),
    }
}

fn precision(x: f64, exponent_bits: i32, mantissa_bits: i32) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    let dropped = 52 - mantissa_bits;
    let bits = x.to_bits();
    // Adding half of the last kept place, less one unless that place is odd, rounds ties to even.
    let half = if dropped == 0 { 0 } else { (1u64 << (dropped - 1)) - 1 + (bits >> dropped & 1) };
    let rounded = f64::from_bits((bits + half) >> dropped << dropped);
    let exponent = (rounded.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    match exponent {
        _ if exponent > bias => f64::INFINITY.copysign(x),
        _ if exponent < 1 - bias => 0f64.copysign(x),
        _ => rounded,
    }
}

#[cfg(test)]
mod tests;
