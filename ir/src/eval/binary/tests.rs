//! Elementwise arithmetic: overflow, division by zero, shifts, NaN, rounding, comparisons.

use crate::eval::check::{check, result};

fn binary(op: &str, dtype: &str, a: &str, b: &str) -> String {
    let body = format!("x: {dtype}[1]; y: {dtype}[1]; ROOT z = {dtype}[1] {op}(x, y)");
    let found = result(&body, &[&format!("{{{a}}}"), &format!("{{{b}}}")]);
    found.trim_matches(['{', '}']).to_owned()
}

#[test]
fn integers_wrap_around() {
    assert_eq!(binary("add", "s8", "127", "1"), "-128");
    assert_eq!(binary("subtract", "u8", "0", "1"), "255");
    assert_eq!(binary("multiply", "s32", "65536", "65536"), "0");
    assert_eq!(binary("multiply", "u64", "18446744073709551615", "2"), "18446744073709551614");
    assert_eq!(binary("mulhi", "u32", "4294967295", "4294967295"), "4294967294");
    assert_eq!(binary("power", "s32", "3", "4"), "81");
    assert_eq!(binary("power", "s32", "2", "-1"), "0");
}

#[test]
fn division_by_zero_has_values() {
    assert_eq!(binary("divide", "s32", "7", "0"), "-1");
    assert_eq!(binary("divide", "u8", "7", "0"), "255");
    assert_eq!(binary("divide", "s8", "-128", "-1"), "-128");
    assert_eq!(binary("divide", "s32", "-7", "2"), "-3");
    assert_eq!(binary("remainder", "s32", "-7", "2"), "-1");
    assert_eq!(binary("remainder", "u32", "7", "0"), "7");
    assert_eq!(binary("remainder", "f32", "-7", "2"), "-1");
    assert_eq!(binary("divide", "f32", "1", "0"), "inf");
}

#[test]
fn shifts_by_the_width_or_more_leave_zero_or_the_sign() {
    assert_eq!(binary("shift-left", "u32", "1", "31"), "2147483648");
    assert_eq!(binary("shift-left", "u32", "1", "32"), "0");
    assert_eq!(binary("shift-right-logical", "s32", "-1", "28"), "15");
    assert_eq!(binary("shift-right-logical", "s8", "-1", "8"), "0");
    assert_eq!(binary("shift-right-arithmetic", "s32", "-8", "1"), "-4");
    assert_eq!(binary("shift-right-arithmetic", "s32", "-8", "99"), "-1");
    assert_eq!(binary("shift-right-arithmetic", "u8", "128", "7"), "255");
}

#[test]
fn nan_spreads() {
    assert_eq!(binary("maximum", "f32", "nan", "1"), "nan");
    assert_eq!(binary("minimum", "f32", "1", "nan"), "nan");
    assert_eq!(binary("maximum", "u64", "18446744073709551615", "1"), "18446744073709551615");
    assert_eq!(binary("add", "pred", "true", "true"), "true");
    let clamp = "x: f32[3]; ROOT y = f32[3] clamp(f32[] constant(-1), x, f32[] constant(1))";
    let clamp = clamp.replace("f32[] constant(-1)", "l").replace("f32[] constant(1)", "h");
    let clamp = format!("l = f32[] constant(-1); h = f32[] constant(1); {clamp}");
    check(&clamp, &["{-5, 0.5, nan}"], "{-1, 0.5, nan}");
}

#[test]
fn narrow_floats_are_rounded_after_every_op() {
    assert_eq!(binary("add", "bf16", "256", "1"), "256");
    assert_eq!(binary("add", "f16", "2048", "1"), "2048");
    assert_eq!(binary("multiply", "f8e4m3fn", "1.125", "1.125"), "1.25");
    check("x: f32[2]; ROOT y = bf16[2] convert(x)", &["{1.00390625, 1.01171875}"], "{1, 1.015625}");
}

#[test]
fn conversions_saturate() {
    check("x: f32[4]; ROOT y = s8[4] convert(x)", &["{300, -300, nan, -1.9}"], "{127, -128, 0, -1}");
    check("x: f32[2]; ROOT y = u64[2] convert(x)", &["{-1, inf}"], "{0, 18446744073709551615}");
    check("x: s32[2]; ROOT y = s8[2] convert(x)", &["{300, -1}"], "{44, -1}");
    check("x: s32[2]; ROOT y = pred[2] convert(x)", &["{0, -1}"], "{false, true}");
    check("x: u64[1]; ROOT y = f32[1] convert(x)", &["{18446744073709551615}"], "{1.8446744e19}");
    check("x: f32[1]; ROOT y = c64[1] convert(x)", &["{2}"], "{(2, 0)}");
}

#[test]
fn long_integers_are_rounded_once() {
    // Just above the middle of two f32: by way of an f64 it would be the middle, and its even neighbour be
    // taken.
    check("x: s64[1]; ROOT y = f32[1] convert(x)", &["{1152921573326323713}"], "{1.1529216e18}");
    check("x: s64[1]; ROOT y = f32[1] convert(x)", &["{-1152921573326323713}"], "{-1.1529216e18}");
    check("x: u64[1]; ROOT y = f32[1] convert(x)", &["{9223372586610589697}"], "{9.223373e18}");
}

#[test]
fn long_floats_keep_what_tips_the_scale() {
    // 1.00390625 is the middle of two bf16; the second is nearer to it than an f32 can be.
    check(
        "x: f64[2]; ROOT y = bf16[2] convert(x)",
        &["{1.0039067, -1.00390625001}"],
        "{1.0078125, -1.0078125}",
    );
    check("ROOT x = bf16[1] constant({1.0039067})", &[], "{1.0078125}");
}

#[test]
fn bits_are_read_as_other_elements() {
    check("x: f32[2]; ROOT y = u32[2] bitcast-convert(x)", &["{1, -0}"], "{1065353216, 2147483648}");
    check("x: u32[1]; ROOT y = u8[1,4] bitcast-convert(x)", &["{67305985}"], "{{1, 2, 3, 4}}");
    check("x: u8[1,4]; ROOT y = u32[1] bitcast-convert(x)", &["{{1, 2, 3, 4}}"], "{67305985}");
    check("x: u16[1]; ROOT y = bf16[1] bitcast-convert(x)", &["{16256}"], "{1}");
    check("x: u8[3]; ROOT y = f8e4m3fn[3] bitcast-convert(x)", &["{56, 1, 126}"], "{1, 0.001953125, 448}");
    check("x: f8e5m2[2]; ROOT y = u8[2] bitcast-convert(x)", &["{1, -inf}"], "{60, 252}");
}

#[test]
fn comparisons_with_nan_are_false_unless_the_order_is_total() {
    let compare = |rest: &str| {
        let body = format!("x: f32[2]; y: f32[2]; ROOT z = pred[2] compare(x, y), direction={rest}");
        result(&body, &["{nan, -0}", "{1, 0}"])
    };
    assert_eq!(compare("LT"), "{false, false}");
    assert_eq!(compare("NE"), "{true, false}");
    assert_eq!(compare("GT, type=TOTALORDER"), "{true, false}");
    assert_eq!(compare("LT, type=TOTALORDER"), "{false, true}");
}

#[test]
fn directions_compare_every_type_in_its_order() {
    let compare = |dtype: &str, direction: &str, x: &str, y: &str| {
        let body =
            format!("x: {dtype}[3]; y: {dtype}[3]; ROOT z = pred[3] compare(x, y), direction={direction}");
        result(&body, &[x, y]).replace("true", "1").replace("false", "0")
    };
    let less_equal_greater = [
        ("s32", "{-2, 7, 9}", "{1, 7, 8}"),
        ("u64", "{1, 7, 18446744073709551615}", "{2, 7, 1}"),
        ("f32", "{-2, 7, 9}", "{1, 7, 8}"),
        ("f64", "{-2, 7, 9}", "{1, 7, 8}"),
    ];
    for (dtype, x, y) in less_equal_greater {
        let of = |direction| compare(dtype, direction, x, y);
        assert_eq!([of("EQ"), of("NE"), of("LT")], ["{0, 1, 0}", "{1, 0, 1}", "{1, 0, 0}"], "{dtype}");
        assert_eq!([of("LE"), of("GT"), of("GE")], ["{1, 1, 0}", "{0, 0, 1}", "{0, 1, 1}"], "{dtype}");
    }
    let pred = |direction| compare("pred", direction, "{false, true, true}", "{true, true, false}");
    assert_eq!([pred("LT"), pred("GE")], ["{1, 0, 0}", "{0, 1, 1}"]);
    for dtype in ["c64", "c128"] {
        let of =
            |direction| compare(dtype, direction, "{(1, 2), (1, 2), (1, 2)}", "{(1, 2), (1, 3), (2, 2)}");
        assert_eq!([of("EQ"), of("NE")], ["{1, 0, 0}", "{0, 1, 1}"]);
    }
}

#[test]
fn bits_and_extremes_of_integers() {
    let both = |op: &str| [binary(op, "s8", "-4", "6"), binary(op, "u8", "252", "6")];
    assert_eq!(both("and"), ["4", "4"]);
    assert_eq!(both("or"), ["-2", "254"]);
    assert_eq!(both("xor"), ["-6", "250"]);
    assert_eq!(both("maximum"), ["6", "252"]);
    assert_eq!(both("minimum"), ["-4", "6"]);
    assert_eq!(both("remainder"), ["-4", "0"]);
    assert_eq!(binary("maximum", "u64", "1", "18446744073709551615"), "18446744073709551615");
    assert_eq!(binary("minimum", "u64", "18446744073709551615", "1"), "1");
    assert_eq!(binary("mulhi", "s32", "-65536", "65536"), "-1");
    assert_eq!(binary("mulhi", "s64", "4611686018427387904", "8"), "2");
    assert_eq!(binary("divide", "u64", "18446744073709551615", "2"), "9223372036854775807");
    assert_eq!(binary("remainder", "u64", "18446744073709551615", "10"), "5");
    assert_eq!(binary("remainder", "s32", "7", "0"), "7");
}

#[test]
fn integer_powers_of_either_sign() {
    let power = |dtype, base, exponent| binary("power", dtype, base, exponent);
    assert_eq!(
        [power("s32", "3", "5"), power("s32", "-2", "3"), power("u8", "3", "5")],
        ["243", "-8", "243"]
    );
    assert_eq!(
        [power("s32", "1", "-3"), power("s32", "-1", "-3"), power("s32", "-1", "-4")],
        ["1", "-1", "1"]
    );
    assert_eq!([power("s32", "2", "-1"), power("s32", "7", "0"), power("u8", "2", "255")], ["0", "1", "0"]);
}

#[test]
fn truth_values_add_up_and_multiply() {
    let table = |op: &str| {
        let body = format!("x: pred[4]; y: pred[4]; ROOT z = pred[4] {op}(x, y)");
        result(&body, &["{false, false, true, true}", "{false, true, false, true}"])
            .replace("true", "1")
            .replace("false", "0")
    };
    assert_eq!(["and", "multiply", "minimum"].map(table), ["{0, 0, 0, 1}", "{0, 0, 0, 1}", "{0, 0, 0, 1}"]);
    assert_eq!(["or", "add", "maximum"].map(table), ["{0, 1, 1, 1}", "{0, 1, 1, 1}", "{0, 1, 1, 1}"]);
    assert_eq!(table("xor"), "{0, 1, 1, 0}");
}

#[test]
fn floats_of_both_widths() {
    for dtype in ["f32", "f64"] {
        let of = |op: &str| binary(op, dtype, "2", "0.5");
        assert_eq!([of("add"), of("subtract"), of("multiply"), of("divide")], ["2.5", "1.5", "1", "4"]);
        assert_eq!([of("maximum"), of("minimum"), of("remainder")], ["2", "0.5", "0"]);
        assert_eq!(binary("power", dtype, "2", "3"), "8");
        assert_eq!(binary("maximum", dtype, "0.5", "2"), "2");
        assert_eq!(binary("minimum", dtype, "nan", "2"), "nan");
        assert!(binary("atan2", dtype, "1", "1").starts_with("0.785398"));
    }
    assert!(binary("shift-left", "f32", "1", "1").contains("shift-left"));
}

#[test]
fn complex_numbers() {
    for dtype in ["c64", "c128"] {
        let of = |op: &str| binary(op, dtype, "(1, 2)", "(3, -1)");
        assert_eq!([of("add"), of("subtract"), of("multiply")], ["(4, 1)", "(-2, 3)", "(5, 5)"]);
        let quotient = of("divide");
        assert!(quotient.starts_with("(0.1") && quotient.contains(", 0.7"), "{quotient}");
        assert_eq!(binary("power", dtype, "(7, 1)", "(0, 0)"), "(1, 0)");
        assert_eq!(binary("power", dtype, "(0, 0)", "(2, 0)"), "(0, 0)");
        assert_eq!(binary("power", dtype, "(0, 0)", "(0, 0)"), "(1, 0)");
        let root = binary("power", dtype, "(4, 0)", "(0.5, 0)");
        assert!(root.starts_with("(2") || root.starts_with("(1.999"), "{root}");
    }
    assert!(binary("maximum", "c64", "(1, 2)", "(3, -1)").contains("maximum"));
}

#[test]
fn a_scalar_stands_for_as_many_elements_as_the_other_has() {
    let body = |op: &str| {
        format!(
            "x: s32[2]; c = s32[] constant(5); y = s32[2] broadcast(c), dimensions={{}}; ROOT z = s32[2] {op}"
        )
    };
    check(&body("subtract(x, y)"), &["{1, 9}"], "{-4, 4}");
    check(&body("subtract(y, x)"), &["{1, 9}"], "{4, -4}");
    check(&body("subtract(y, y)"), &["{1, 9}"], "{0, 0}");
    let compare = |operands: &str| {
        body("").replace("ROOT z = s32[2] ", &format!("ROOT z = pred[2] compare({operands}), direction=LT"))
    };
    check(&compare("x, y"), &["{1, 9}"], "{true, false}");
    check(&compare("y, x"), &["{1, 9}"], "{false, true}");
}

#[test]
fn functions_of_one_element() {
    let unary = |op: &str, dtype: &str, x: &str| {
        result(&format!("x: {dtype}[1]; ROOT y = {dtype}[1] {op}(x)"), &[&format!("{{{x}}}")])
    };
    assert_eq!(unary("round-nearest-even", "f32", "2.5"), "{2}");
    assert_eq!(unary("round-nearest-afz", "f32", "2.5"), "{3}");
    assert_eq!(unary("sign", "f32", "-0"), "{-0}");
    assert_eq!(unary("sign", "f32", "nan"), "{nan}");
    assert_eq!(unary("popcnt", "s8", "-1"), "{8}");
    assert_eq!(unary("count-leading-zeros", "u8", "1"), "{7}");
    assert_eq!(unary("not", "u8", "1"), "{254}");
    assert_eq!(unary("erf", "f64", "0.5"), "{0.5204998778130465}");
    assert_eq!(unary("logistic", "f32", "0"), "{0.5}");
    assert_eq!(unary("abs", "s8", "-128"), "{-128}");
    assert_eq!(unary("exponential", "c64", "(0, 0)"), "{(1, 0)}");
    check("x: c64[1]; ROOT y = f32[1] abs(x)", &["{(3, 4)}"], "{5}");
    let reduced = "x: f32[3]; ROOT y = f32[3] reduce-precision(x), exponent_bits=5, mantissa_bits=10";
    check(reduced, &["{1.0001, 1e9, 1e-9}"], "{1, inf, 0}");
}

#[test]
fn select_takes_scalars_and_arrays() {
    let select = "p: pred[2]; x: f32[2]; y: f32[2]; ROOT z = f32[2] select(p, x, y)";
    check(select, &["{true, false}", "{1, 2}", "{3, 4}"], "{1, 4}");
    let whole = "p: pred[]; x: f32[2]; y: f32[2]; ROOT z = f32[2] select(p, x, y)";
    check(whole, &["false", "{1, 2}", "{3, 4}"], "{3, 4}");
}
