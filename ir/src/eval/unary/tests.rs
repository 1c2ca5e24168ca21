//! Functions of one element at points where their values are known.

use crate::eval::check::{check, result};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_3, FRAC_PI_6, LN_2, SQRT_2};

/// Real functions, a point and the value there.
const REAL: &[(&str, f64, f64)] = &[
    ("acos", 0.5, FRAC_PI_3),
    ("acosh", 2.0, 1.3169579),
    ("asin", 0.5, FRAC_PI_6),
    ("asinh", 0.5, 0.4812118),
    ("atanh", 0.5, 0.5493061),
    ("cbrt", 0.5, 0.7937005),
    ("cosh", 0.5, 1.1276260),
    ("cosine", 0.5, 0.8775826),
    ("exponential", 0.5, 1.6487213),
    ("exponential-minus-one", 0.5, 0.6487213),
    ("log", 0.5, -LN_2),
    ("log-plus-one", 0.5, 0.4054651),
    ("logistic", 0.5, 0.6224593),
    ("negate", 0.5, -0.5),
    ("rsqrt", 0.5, SQRT_2),
    ("sign", 0.5, 1.0),
    ("sine", 0.5, 0.4794255),
    ("sinh", 0.5, 0.5210953),
    ("sqrt", 0.5, FRAC_1_SQRT_2),
    ("tan", 0.5, 0.5463025),
    ("tanh", 0.5, 0.4621172),
];

fn unary(op: &str, from: &str, to: &str, x: &str) -> String {
    let found = result(&format!("x: {from}[1]; ROOT y = {to}[1] {op}(x)"), &[&format!("{{{x}}}")]);
    found.trim_matches(['{', '}']).to_owned()
}

#[track_caller]
fn assert_near(text: &str, expected: f64, what: &str) {
    let found: f64 = text.trim().parse().unwrap_or_else(|_| panic!("{what}: {text}"));
    assert!((found - expected).abs() < 1e-6, "{what}: {found}, expected {expected}");
}

#[test]
fn real_functions_have_their_values_in_both_widths() {
    for &(op, x, expected) in REAL {
        for dtype in ["f32", "f64"] {
            assert_near(&unary(op, dtype, dtype, &x.to_string()), expected, op);
        }
    }
    assert_near(&unary("erf", "f32", "f32", "0.5"), 0.5204999, "erf");
    assert_near(&unary("erf", "f64", "f64", "0.5"), 0.5204999, "erf");
}

#[test]
fn complex_functions_have_the_real_ones_values_on_the_real_line() {
    for &(op, x, expected) in REAL.iter().filter(|(op, ..)| *op != "acosh") {
        for dtype in ["c64", "c128"] {
            let found = unary(op, dtype, dtype, &format!("({x}, 0)"));
            let (re, im) =
                found.trim_matches(['(', ')']).split_once(',').unwrap_or_else(|| panic!("{op}: {found}"));
            assert_near(re, expected, op);
            assert_near(im, 0.0, op);
        }
    }
    let found = unary("acosh", "c128", "c128", "(2, 0)");
    assert_near(found.trim_matches(['(', ')']).split_once(',').expect("a pair").0, 1.3169579, "acosh");
    assert_eq!(unary("sign", "c64", "c64", "(3, 4)"), "(0.6, 0.8)");
    assert_eq!(unary("sign", "c64", "c64", "(0, 0)"), "(0, 0)");
    assert_eq!(unary("abs", "c128", "f64", "(3, -4)"), "5");
}

#[test]
fn rounding_goes_down_up_or_to_the_nearest() {
    let of = |op: &str, x: &str| unary(op, "f64", "f64", x);
    assert_eq!([of("floor", "-1.5"), of("ceil", "-1.5"), of("abs", "-1.5")], ["-2", "-1", "1.5"]);
    assert_eq!([of("round-nearest-even", "2.5"), of("round-nearest-even", "3.5")], ["2", "4"]);
    assert_eq!([of("round-nearest-afz", "2.5"), of("round-nearest-afz", "-2.5")], ["3", "-3"]);
    assert_eq!([of("sign", "-7"), of("sign", "0"), of("sign", "nan")], ["-1", "0", "nan"]);
}

#[test]
fn integers_have_signs_and_bits() {
    let of = |op: &str, dtype: &str, x: &str| unary(op, dtype, dtype, x);
    assert_eq!([of("abs", "s32", "-5"), of("abs", "u8", "251")], ["5", "251"]);
    assert_eq!([of("negate", "s32", "5"), of("negate", "u8", "5")], ["-5", "251"]);
    assert_eq!([of("sign", "s32", "-5"), of("sign", "u8", "251"), of("sign", "u8", "0")], ["-1", "1", "0"]);
    assert_eq!([of("popcnt", "s16", "-1"), of("popcnt", "u64", "7")], ["16", "3"]);
    assert_eq!([of("count-leading-zeros", "s8", "-1"), of("count-leading-zeros", "u32", "0")], ["0", "32"]);
    assert_eq!([of("not", "s8", "0"), of("not", "pred", "false")], ["-1", "true"]);
}

#[test]
fn functions_that_a_type_does_not_have_are_errors() {
    assert!(result("x: pred[1]; ROOT y = pred[1] not(x)", &["{true}"]) == "{false}");
    for (op, dtype, x) in [("sine", "s32", "1"), ("floor", "c64", "(1, 0)"), ("negate", "pred", "true")] {
        let found = unary(op, dtype, dtype, x);
        assert!(found.starts_with("error") || found.contains("not"), "{op} {dtype}: {found}");
    }
}

#[test]
fn real_and_imaginary_parts() {
    for (complex, real) in [("c64", "f32"), ("c128", "f64")] {
        assert_eq!(unary("real", complex, real, "(3, 4)"), "3");
        assert_eq!(unary("imag", complex, real, "(3, 4)"), "4");
        let both = format!("x: {real}[1]; y: {real}[1]; ROOT z = {complex}[1] complex(x, y)");
        check(&both, &["{3}", "{4}"], "{(3, 4)}");
        assert_eq!(unary("real", real, real, "3"), "3");
        assert_eq!(unary("imag", real, real, "3"), "0");
    }
}

#[test]
fn what_is_finite_is_said_element_by_element() {
    check("x: f32[3]; ROOT y = pred[3] is-finite(x)", &["{1, inf, nan}"], "{true, false, false}");
    check("x: f64[3]; ROOT y = pred[3] is-finite(x)", &["{-1, -inf, nan}"], "{true, false, false}");
}

/// `exponent` and `mantissa` bits of these numbers.
fn precision(dtype: &str, bits: [u32; 2], x: &str) -> String {
    let [exponent, mantissa] = bits;
    let rest = format!("exponent_bits={exponent}, mantissa_bits={mantissa}");
    result(&format!("x: {dtype}[4]; ROOT y = {dtype}[4] reduce-precision(x), {rest}"), &[x])
}

#[test]
fn precision_is_reduced_to_the_nearest_ties_to_even() {
    // Steps of a half between 2 and 4: 2.25 and 2.75 are ties.
    assert_eq!(precision("f32", [8, 2], "{2.25, 2.75, 2.3, -3.9}"), "{2, 3, 2.5, -4}");
    assert_eq!(precision("f64", [8, 2], "{2.25, 2.75, 2.3, inf}"), "{2, 3, 2.5, inf}");
    assert_eq!(precision("f64", [11, 52], "{2.3, 0, nan, -0}"), "{2.3, 0, nan, -0}");
    assert_eq!(precision("f32", [8, 30], "{2.3, 0.1, 0.2, 0.3}"), "{2.3, 0.1, 0.2, 0.3}");
    // Three bits of exponent, biased by 3: from a fourth to below 16.
    assert_eq!(precision("f32", [3, 2], "{14, 15, 0.25, 0.1}"), "{14, inf, 0.25, 0}");
    assert_eq!(precision("f32", [3, 2], "{-15, -0.1, 0.2499, 1}"), "{-inf, -0, 0.25, 1}");
}

#[test]
fn a_scalar_that_stands_for_many_elements_is_computed_once() {
    let body = "c = f32[] constant(4); x = f32[2,2] broadcast(c), dimensions={}; ROOT y = f32[2,2] sqrt(x)";
    check(body, &[], "{{2, 2}, {2, 2}}");
}
