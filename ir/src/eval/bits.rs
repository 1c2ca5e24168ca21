//! Elements as bit patterns and back.

use super::round::{Format, wrap};
use super::value::{Array, Buf, Data};
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use ndarray::{ArrayD, IxDyn};

/// The bit pattern of each element, in row-major order.
pub(crate) fn to_codes(array: Array) -> Result<Vec<u64>> {
    let dtype = array.dtype();
    let mask = u64::MAX >> (64 - dtype.bits().min(64));
    Ok(match array.dense() {
        Data::Pred(buf) => buf.iter().map(|&x| u64::from(x)).collect(),
        Data::Int(buf) => buf.iter().map(|&x| x as u64 & mask).collect(),
        Data::F64(buf) => buf.iter().map(|x| x.to_bits()).collect(),
        Data::F32(buf) => match dtype {
            DType::F32 => buf.iter().map(|x| u64::from(x.to_bits())).collect(),
            DType::Bf16 => buf.iter().map(|&x| u64::from(half::bf16::from_f32(x).to_bits())).collect(),
            DType::F16 => buf.iter().map(|&x| u64::from(half::f16::from_f32(x).to_bits())).collect(),
            _ => encode(dtype, &buf),
        },
        Data::C64(_) | Data::C128(_) => {
            return Err(Diagnostic::error("complex numbers have no bit pattern here"));
        }
    })
}

/// The elements with these bit patterns.
pub(crate) fn from_codes(dtype: DType, dims: &[usize], codes: Vec<u64>) -> Result<Array> {
    fn shaped<T: Clone>(dims: &[usize], values: Vec<T>) -> Result<Buf<T>> {
        let made = ArrayD::from_shape_vec(IxDyn(dims), values);
        made.map(ArrayD::into_shared).map_err(|_| Diagnostic::error("the bits do not fill the result"))
    }
    let floats = |f: &dyn Fn(u64) -> f32| shaped(dims, codes.iter().map(|&code| f(code)).collect());
    let data = match Data::zeros(dtype, &[]) {
        Data::Pred(_) => Data::Pred(shaped(dims, codes.iter().map(|&code| code != 0).collect())?),
        Data::Int(_) => {
            Data::Int(shaped(dims, codes.iter().map(|&code| wrap(dtype, code as i64)).collect())?)
        }
        Data::F64(_) => Data::F64(shaped(dims, codes.into_iter().map(f64::from_bits).collect())?),
        Data::F32(_) => Data::F32(match dtype {
            DType::F32 => floats(&|code| f32::from_bits(code as u32))?,
            DType::Bf16 => floats(&|code| half::bf16::from_bits(code as u16).to_f32())?,
            DType::F16 => floats(&|code| half::f16::from_bits(code as u16).to_f32())?,
            _ => floats(&|code| table(dtype)[code as usize])?,
        }),
        _ => return Err(Diagnostic::error("complex numbers have no bit pattern here")),
    };
    Ok(Array::exact(dtype, data))
}

/// Splits or joins patterns of one width into those of another, the lowest bits first.
pub(crate) fn regroup(codes: Vec<u64>, from: usize, to: usize) -> Vec<u64> {
    let mask = u64::MAX >> (64 - to.min(64));
    if from > to {
        let parts = move |code: u64| (0..from / to).map(move |part| code >> (part * to) & mask);
        return codes.into_iter().flat_map(parts).collect();
    }
    let join = |parts: &[u64]| parts.iter().rev().fold(0u64, |code, part| code << (from % 64) | part);
    codes.chunks(to / from).map(join).collect()
}

/// Values of all patterns of a float of at most 8 bits.
fn table(dtype: DType) -> Vec<f32> {
    let Some(format) = Format::of(dtype) else { return Vec::new() };
    (0..1u32 << dtype.bits()).map(|code| format.decode(code, dtype.bits())).collect()
}

fn encode(dtype: DType, buf: &Buf<f32>) -> Vec<u64> {
    let table = table(dtype);
    let code = |&x: &f32| {
        let same = |y: &f32| y.to_bits() == x.to_bits() || (y.is_nan() && x.is_nan());
        table.iter().position(same).unwrap_or(0) as u64
    };
    buf.iter().map(code).collect()
}
