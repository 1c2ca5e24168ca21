//! What several readers write as HLO's text does: elements of arrays from their bytes, the keys of windows.

use phzc_ir::DType;
use phzc_ir::attr::{Window, WindowDim, WindowKey};
use phzc_ir::dtype::Class;
use phzc_ir::text::number::number;

/// The next elements as a literal of these sizes, in braces: `{{1, 2}, {3, 4}}`. There are as many as the
/// sizes say.
pub(crate) fn nest(dims: &[i64], elements: &mut impl Iterator<Item = String>, out: &mut String) {
    let Some((&size, inner)) = dims.split_first() else {
        out.push_str(&elements.next().unwrap_or_default());
        return;
    };
    out.push('{');
    for index in 0..size {
        if index > 0 {
            out.push_str(", ");
        }
        nest(inner, elements, out);
    }
    out.push('}');
}

/// An element from its bytes, least significant first; missing bytes are 0.
pub(crate) fn from_bytes(dtype: DType, bytes: &[u8]) -> String {
    let part = |at: usize| -> u64 {
        let tail = bytes.get(at..).unwrap_or_default();
        tail.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    };
    let (bits, float) = (part(0), |value: f64| number(dtype, value));
    match dtype {
        DType::Pred => (bits != 0).to_string(),
        DType::F64 => float(f64::from_bits(bits)),
        DType::F32 => float(f64::from(f32::from_bits(bits as u32))),
        DType::Bf16 => float(half::bf16::from_bits(bits as u16).to_f64()),
        DType::F16 => float(half::f16::from_bits(bits as u16).to_f64()),
        DType::C64 => format!(
            "({}, {})",
            from_bytes(DType::F32, bytes),
            from_bytes(DType::F32, bytes.get(4..).unwrap_or_default())
        ),
        DType::C128 => format!(
            "({}, {})",
            from_bytes(DType::F64, bytes),
            from_bytes(DType::F64, bytes.get(8..).unwrap_or_default())
        ),
        _ if dtype.class() == Class::Float => float(small_float(dtype, bits as u8)),
        _ if dtype.class() == Class::Signed => {
            let shift = 64 - dtype.bits();
            ((bits << shift) as i64 >> shift).to_string()
        }
        _ => (bits << (64 - dtype.bits()) >> (64 - dtype.bits())).to_string(),
    }
}

/// A float of at most 8 bits: exponent bits, bias, whether it has infinities, and whether -0 is its NaN.
fn small_float(dtype: DType, bits: u8) -> f64 {
    let (exponent_bits, bias, is_ieee, is_uz) = match dtype {
        DType::F8e5m2 => (5, 15, true, false),
        DType::F8e5m2fnuz => (5, 16, false, true),
        DType::F8e4m3 => (4, 7, true, false),
        DType::F8e4m3fnuz => (4, 8, false, true),
        DType::F8e4m3b11fnuz => (4, 11, false, true),
        DType::F8e3m4 => (3, 3, true, false),
        DType::F4e2m1fn => (2, 1, false, false),
        DType::F8e8m0fnu => return if bits == 0xff { f64::NAN } else { 2f64.powi(i32::from(bits) - 127) },
        _ => (4, 7, false, false),
    };
    let width = dtype.bits();
    let mantissa_bits = width - 1 - exponent_bits;
    let bits = u32::from(bits) & ((1 << width) - 1);
    let (sign, exponent) = (bits >> (width - 1), bits >> mantissa_bits & ((1 << exponent_bits) - 1));
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let (top, all) = ((1 << exponent_bits) - 1, (1 << mantissa_bits) - 1);
    if is_uz && sign == 1 && exponent == 0 && mantissa == 0 {
        return f64::NAN;
    }
    if is_ieee && exponent == top {
        return if mantissa != 0 { f64::NAN } else { f64::INFINITY * (1.0 - 2.0 * f64::from(sign)) };
    }
    if !is_ieee && !is_uz && dtype != DType::F4e2m1fn && exponent == top && mantissa == all {
        return f64::NAN;
    }
    let (lead, scale) = if exponent == 0 { (0, 1 - bias) } else { (1, exponent as i32 - bias) };
    let value = f64::from((lead << mantissa_bits) + mantissa) * 2f64.powi(scale - mantissa_bits as i32);
    value * (1.0 - 2.0 * f64::from(sign))
}

/// The keys that XLA writes: the size, and what is not as usual.
pub(crate) fn window_keys(window: &Window) -> smallvec::SmallVec<[WindowKey; 6]> {
    let any = |is: &dyn Fn(&WindowDim) -> bool| window.dims.iter().any(is);
    let keys = [
        (WindowKey::Size, true),
        (WindowKey::Stride, any(&|dim| dim.stride != 1)),
        (WindowKey::Pad, any(&|dim| dim.pad_low != 0 || dim.pad_high != 0)),
        (WindowKey::LhsDilate, any(&|dim| dim.lhs_dilate != 1)),
        (WindowKey::RhsDilate, any(&|dim| dim.rhs_dilate != 1)),
        (WindowKey::RhsReversal, any(&|dim| dim.reversed)),
    ];
    keys.into_iter().filter(|(_, is_written)| *is_written).map(|(key, _)| key).collect()
}
