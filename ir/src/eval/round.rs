//! Cutting results down to the width of their type: integers wrap around, floats are rounded to nearest, ties
//! to even.

use super::map::map_in_place;
use super::value::Data;
use crate::dtype::{Class, DType};

/// The data with every element cut down to `dtype`.
pub(crate) fn to_width(dtype: DType, data: Data) -> Data {
    match data {
        Data::Int(buf) if dtype.bits() < 64 => Data::Int(map_in_place(buf, move |x| wrap(dtype, x))),
        Data::F32(buf) if dtype == DType::Bf16 => {
            Data::F32(map_in_place(buf, |x| half::bf16::from_f32(x).to_f32()))
        }
        Data::F32(buf) if dtype == DType::F16 => {
            Data::F32(map_in_place(buf, |x| half::f16::from_f32(x).to_f32()))
        }
        Data::F32(buf) => match Format::of(dtype) {
            Some(format) => Data::F32(map_in_place(buf, move |x| format.round(f64::from(x)))),
            None => Data::F32(buf),
        },
        other => other,
    }
}

/// The integer modulo 2^bits, in the range of `dtype`.
pub(crate) fn wrap(dtype: DType, x: i64) -> i64 {
    let unused = 64 - dtype.bits();
    match dtype.class() {
        Class::Signed => x << unused >> unused,
        _ => ((x as u64) << unused >> unused) as i64,
    }
}

/// An `f64` as the nearest value of a float type of at most 32 bits.
pub(crate) fn narrow(dtype: DType, x: f64) -> f32 {
    match dtype {
        // `from_f64` of both looks at the upper 20 bits of the mantissa alone, or rounds twice.
        DType::Bf16 => half::bf16::from_f32(to_odd(x)).to_f32(),
        DType::F16 => half::f16::from_f32(to_odd(x)).to_f32(),
        _ => Format::of(dtype).map_or(x as f32, |format| format.round(x)),
    }
}

/// Towards zero, with the last bit set if anything was cut off: what rounds it again sees on which side it
/// lay.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    if x.is_nan() || f64::from(near) == x {
        return near;
    }
    let is_away = f64::from(near).abs() > x.abs();
    f32::from_bits((near.to_bits() - u32::from(is_away)) | 1)
}

/// What a value beyond the largest becomes.
#[derive(Clone, Copy, PartialEq)]
enum Overflow {
    Infinity,
    Nan,
    Largest,
}

/// A float of at most 8 bits.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    mantissa_bits: i32,
    /// Exponent of the smallest normal number.
    min_exponent: i32,
    largest: f64,
    overflow: Overflow,
    /// Whether there is a negative zero; types without one have no other zero of that sign either.
    negative_zero: bool,
}

impl Format {
    /// The format of an 8-bit or 4-bit float.
    pub fn of(dtype: DType) -> Option<Format> {
        use Overflow::{Infinity, Largest, Nan};
        let (mantissa_bits, min_exponent, largest, overflow, negative_zero) = match dtype {
            DType::F4e2m1fn => (1, 0, 6.0, Largest, true),
            DType::F8e3m4 => (4, -2, 15.5, Infinity, true),
            DType::F8e4m3 => (3, -6, 240.0, Infinity, true),
            DType::F8e4m3fn => (3, -6, 448.0, Nan, true),
            DType::F8e4m3b11fnuz => (3, -10, 30.0, Nan, false),
            DType::F8e4m3fnuz => (3, -7, 240.0, Nan, false),
            DType::F8e5m2 => (2, -14, 57344.0, Infinity, true),
            DType::F8e5m2fnuz => (2, -15, 57344.0, Nan, false),
            // Powers of two only: no sign, no zero.
            DType::F8e8m0fnu => (0, -127, 2f64.powi(127), Nan, false),
            _ => return None,
        };
        Some(Format { mantissa_bits, min_exponent, largest, overflow, negative_zero })
    }

    fn is_scale(self) -> bool {
        self.mantissa_bits == 0
    }

    /// The nearest value of the format.
    pub fn round(self, x: f64) -> f32 {
        if x.is_nan() || (self.is_scale() && x < 0.0) {
            return f32::NAN;
        }
        let exponent = if x == 0.0 { self.min_exponent } else { exponent(x.abs()).max(self.min_exponent) };
        let step = 2f64.powi(exponent - self.mantissa_bits);
        let mut size = (x.abs() / step).round_ties_even() * step;
        if self.is_scale() {
            size = size.max(2f64.powi(self.min_exponent));
        }
        if size > self.largest {
            size = match self.overflow {
                Overflow::Infinity => f64::INFINITY,
                Overflow::Nan => f64::NAN,
                Overflow::Largest => self.largest,
            };
        }
        let signed = if size == 0.0 && !self.negative_zero { size } else { size.copysign(x) };
        signed as f32
    }
}

impl Format {
    /// The value of a bit pattern.
    pub fn decode(self, code: u32, bits: u32) -> f32 {
        let top = 1u32 << (bits - 1);
        if self.is_scale() {
            return if code == 255 { f32::NAN } else { 2f64.powi(code as i32 - 127) as f32 };
        }
        let (sign, size) = (code & top != 0, code & (top - 1));
        if !self.negative_zero && sign && size == 0 {
            return f32::NAN;
        }
        let (field, mantissa) = (size >> self.mantissa_bits, size & ((1 << self.mantissa_bits) - 1));
        let whole = if field == 0 { 0 } else { 1 << self.mantissa_bits };
        let exponent = self.min_exponent + field.max(1) as i32 - 1 - self.mantissa_bits;
        let value = f64::from(whole + mantissa) * 2f64.powi(exponent);
        let value = match (self.overflow, value > self.largest) {
            (Overflow::Infinity, true) if mantissa == 0 => f64::INFINITY,
            (_, true) => f64::NAN,
            _ => value,
        };
        (if sign { -value } else { value }) as f32
    }
}

/// `floor(log2(x))` of a positive number, or a large one for infinity.
fn exponent(x: f64) -> i32 {
    let bits = x.to_bits() >> 52;
    if bits == 0 { -1023 } else { bits as i32 - 1023 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap() {
        assert_eq!(wrap(DType::S8, 130), -126);
        assert_eq!(wrap(DType::U8, -1), 255);
        assert_eq!(wrap(DType::U64, -1), -1);
        assert_eq!(wrap(DType::S1, 1), -1);
    }

    #[test]
    fn narrow_floats_round_to_nearest_even() {
        let round = |dtype, x| narrow(dtype, x);
        assert_eq!(round(DType::Bf16, 1.003), 1.0);
        assert_eq!(round(DType::Bf16, 1.003_906_250_01), 1.007_812_5);
        assert_eq!(round(DType::Bf16, 1e300), f32::INFINITY);
        assert_eq!(round(DType::Bf16, -1e-300), 0.0);
        assert_eq!(round(DType::F16, 1.000_488_281_260), 1.000_976_6);
        assert_eq!(round(DType::F16, 1.000_488_281_240), 1.0);
        assert_eq!(round(DType::F16, 65520.0), f32::INFINITY);
        assert_eq!(round(DType::F8e4m3fn, 1.0625), 1.0);
        assert_eq!(round(DType::F8e4m3fn, 1.1875), 1.25);
        assert_eq!(round(DType::F8e4m3fn, 448.0), 448.0);
        assert!(round(DType::F8e4m3fn, 480.0).is_nan());
        assert_eq!(round(DType::F8e5m2, 1e9), f32::INFINITY);
        assert_eq!(round(DType::F8e5m2, 2f64.powi(-17)), 0.0);
        assert_eq!(round(DType::F8e5m2, 2f64.powi(-16)), 2f32.powi(-16));
        assert_eq!(round(DType::F4e2m1fn, 100.0), 6.0);
        assert!(round(DType::F8e4m3fnuz, -1e-9).is_sign_positive());
        assert_eq!(round(DType::F8e8m0fnu, 3.1), 4.0);
    }
}
