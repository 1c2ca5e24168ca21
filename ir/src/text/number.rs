//! Numbers as XLA's printer writes them, so that equal constants are equal texts.

use crate::dtype::{Class, DType};

/// An element of a type that is no complex one: `0.1`, `1e-06`, `-3`, `true`; integers up to 2^53 exactly.
///
/// `f32` and `f64` have as few digits as read back the same, out of two counts; narrower floats always have
/// enough (`xla/literal.cc`, `xla/util.cc`).
pub fn number(dtype: DType, value: f64) -> String {
    match dtype.class() {
        Class::Bool => (value != 0.0).to_string(),
        Class::Signed | Class::Unsigned => format!("{}", value as i128),
        Class::Float | Class::Complex if value.is_nan() => {
            if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned()
        }
        Class::Float | Class::Complex if value.is_infinite() => {
            if value > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        Class::Float | Class::Complex => float(dtype, value),
    }
}

fn float(dtype: DType, value: f64) -> String {
    let (few, enough) = digits(dtype);
    let short = general(value, few);
    let reads_back = |text: &str| match dtype {
        DType::F64 | DType::C128 => text.parse() == Ok(value),
        _ => text.parse::<f32>().map(f64::from) == Ok(value),
    };
    if few != enough && reads_back(&short) { short } else { general(value, enough) }
}

/// Significant digits: those that a decimal number keeps, and those that tell all values apart.
fn digits(dtype: DType) -> (usize, usize) {
    match dtype {
        DType::F64 | DType::C128 => (15, 17),
        DType::F32 | DType::C64 => (6, 9),
        DType::F16 => (5, 5),
        DType::Bf16 => (4, 4),
        DType::F8e5m2 | DType::F8e5m2fnuz | DType::F4e2m1fn => (2, 2),
        DType::F8e8m0fnu => (1, 1),
        _ => (3, 3),
    }
}

/// C's `%.{digits}g`.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits as i32).contains(&exponent) {
        let fixed = format!("{value:.*}", (digits as i32 - 1 - exponent) as usize);
        return without_zeros(&fixed).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts: XLA 0.10.2's own.
    #[track_caller]
    fn check(dtype: DType, values: &[f64], texts: &[&str]) {
        assert_eq!(values.iter().map(|&value| number(dtype, value)).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn floats_are_written_as_xla_writes_them() {
        let f32s = [1e-30, 1e10, 123_456_792.0, 16_777_216.0, 0.1, 1e-5, 1e-4, 3.4e38, 1e6, 0.3, 0.9];
        let rounded = f32s.map(|value: f64| f64::from(value as f32));
        check(
            DType::F32,
            &rounded,
            &[
                "1e-30",
                "1e+10",
                "123456792",
                "16777216",
                "0.1",
                "1e-05",
                "0.0001",
                "3.4e+38",
                "1e+06",
                "0.3",
                "0.9",
            ],
        );
        check(DType::F32, &[f64::from(0.9_f32 - 2e-7), -0.0], &["0.899999797", "-0"]);
        check(
            DType::F64,
            &[1e10, 1.0 / 3.0, 1e17, 1e300],
            &["10000000000", "0.33333333333333331", "1e+17", "1e+300"],
        );
        check(DType::F16, &[65504.0, 0.099_975_585_937_5], &["65504", "0.099976"]);
        check(
            DType::Bf16,
            &[0.300_781_25, f64::from(f32::from_bits(0x4E93 << 16))],
            &["0.3008", "1.233e+09"],
        );
    }

    #[test]
    fn other_numbers_are_words_and_digits() {
        check(DType::F32, &[f64::NAN, f64::NEG_INFINITY], &["nan", "-inf"]);
        check(DType::Pred, &[0.0, 1.0], &["false", "true"]);
        check(DType::S32, &[-3.0], &["-3"]);
    }

    #[test]
    fn narrow_floats_have_as_many_digits_as_tell_them_apart() {
        check(DType::F8e8m0fnu, &[128.0, 2.0], &["1e+02", "2"]);
        check(DType::F8e5m2, &[57344.0, 1.75], &["5.7e+04", "1.8"]);
        check(DType::F8e4m3fn, &[448.0, 1.125], &["448", "1.12"]);
        check(DType::S64, &[-7.0, 9007199254740992.0], &["-7", "9007199254740992"]);
        check(DType::Pred, &[0.0, 1.0], &["false", "true"]);
        check(
            DType::F32,
            &[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN],
            &["inf", "-inf", "nan", "-nan"],
        );
    }
}
