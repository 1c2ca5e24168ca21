//! Numbers from type to type, and the bits of narrow floats.

use crate::eval::check::{check, result};

fn converted(from: &str, to: &str, x: &str) -> String {
    let found = result(&format!("x: {from}[1]; ROOT y = {to}[1] convert(x)"), &[&format!("{{{x}}}")]);
    found.trim_matches(['{', '}']).to_owned()
}

#[test]
fn a_number_stays_the_same_in_every_type_that_has_it() {
    let types = ["s8", "s64", "u8", "u64", "bf16", "f16", "f32", "f64", "f8e5m2", "c64", "c128"];
    for from in types {
        for to in types {
            let text = |dtype: &str| if dtype.starts_with('c') { "(3, 0)" } else { "3" };
            assert_eq!(converted(from, to, text(from)), text(to), "{from} to {to}");
        }
        let text = if from.starts_with('c') { "(3, 0)" } else { "3" };
        assert_eq!(converted(from, "pred", text), "true", "{from}");
        assert_eq!(converted(from, "pred", &text.replace('3', "0")), "false", "{from}");
        assert_eq!(converted("pred", from, "true"), text.replace('3', "1"), "{from}");
    }
}

#[test]
fn complex_numbers_keep_both_parts_or_the_real_one() {
    assert_eq!(converted("c64", "c128", "(0.5, -2)"), "(0.5, -2)");
    assert_eq!(converted("c128", "c64", "(0.5, -2)"), "(0.5, -2)");
    assert_eq!([converted("c64", "f64", "(0.5, -2)"), converted("c128", "s32", "(-7.5, 1)")], ["0.5", "-7"]);
}

#[test]
fn integers_saturate_at_the_ends_of_their_types() {
    assert_eq!([converted("f64", "s16", "40000"), converted("f64", "s16", "-40000")], ["32767", "-32768"]);
    assert_eq!([converted("f64", "u16", "70000"), converted("f64", "u16", "-1")], ["65535", "0"]);
    assert_eq!(
        [converted("u64", "f64", "18446744073709551615"), converted("u64", "s8", "257")],
        ["1.8446744073709552e19", "1"]
    );
}

#[test]
fn floats_of_two_widths_meet_in_the_wider() {
    let body = "x: f32[1]; y: bf16[1]; z = f32[1] convert(y); ROOT w = f32[1] add(x, z)";
    check(body, &["{0.001}", "{1}"], "{1.001}");
}

/// Patterns of narrow floats and what they stand for.
fn decoded(dtype: &str, codes: &str) -> String {
    let n = codes.split(',').count();
    result(&format!("x: u8[{n}]; ROOT y = {dtype}[{n}] bitcast-convert(x)"), &[codes])
}

fn encoded(dtype: &str, values: &str) -> String {
    let n = values.split(',').count();
    result(&format!("x: {dtype}[{n}]; ROOT y = u8[{n}] bitcast-convert(x)"), &[values])
}

#[test]
fn patterns_of_8_bit_floats_are_those_of_their_standards() {
    // Smallest, smallest normal, one, largest.
    let check = |dtype: &str, codes: &str, values: &str| {
        let numbers = |text: &str| -> Vec<f32> {
            text.trim_matches(['{', '}'])
                .split(", ")
                .map(|number| number.parse().expect("a number"))
                .collect()
        };
        assert_eq!(numbers(&decoded(dtype, codes)), numbers(values), "{dtype}");
        assert_eq!(encoded(dtype, values), codes, "{dtype}");
    };
    check("f8e5m2", "{1, 4, 60, 123, 124}", "{0.000015258789, 0.000061035156, 1, 57344, inf}");
    check("f8e4m3", "{1, 8, 56, 119, 120}", "{0.001953125, 0.015625, 1, 240, inf}");
    check("f8e4m3fn", "{1, 8, 56, 126, 184}", "{0.001953125, 0.015625, 1, 448, -1}");
    check("f8e3m4", "{1, 16, 48, 111, 112}", "{0.015625, 0.25, 1, 15.5, inf}");
    check("f8e4m3b11fnuz", "{1, 8, 88, 127}", "{0.00012207031, 0.0009765625, 1, 30}");
    check("f8e4m3fnuz", "{1, 8, 64, 127}", "{0.0009765625, 0.0078125, 1, 240}");
    check("f8e5m2fnuz", "{1, 4, 64, 127}", "{0.0000076293945, 0.000030517578, 1, 57344}");
    check("f8e8m0fnu", "{0, 127, 128, 254}", "{5.877472e-39, 1, 2, 1.7014118e38}");
}

#[test]
fn patterns_that_are_no_numbers() {
    assert_eq!(decoded("f8e5m2", "{125, 252, 128}"), "{nan, -inf, -0}");
    assert_eq!(decoded("f8e4m3fn", "{127, 255, 128}"), "{nan, nan, -0}");
    assert_eq!(decoded("f8e4m3fnuz", "{128, 0}"), "{nan, 0}");
    assert_eq!(decoded("f8e8m0fnu", "{255}"), "{nan}");
}

#[test]
fn bits_of_other_widths_and_types() {
    check("x: f64[1]; ROOT y = u64[1] bitcast-convert(x)", &["{1}"], "{4607182418800017408}");
    check("x: u64[1]; ROOT y = f64[1] bitcast-convert(x)", &["{4607182418800017408}"], "{1}");
    check("x: f16[1]; ROOT y = u16[1] bitcast-convert(x)", &["{1}"], "{15360}");
    check("x: u16[1]; ROOT y = f16[1] bitcast-convert(x)", &["{15360}"], "{1}");
    check("x: bf16[1]; ROOT y = s16[1] bitcast-convert(x)", &["{1}"], "{16256}");
    check("x: s8[2]; ROOT y = u8[2] bitcast-convert(x)", &["{-1, 5}"], "{255, 5}");
    check("x: pred[2]; ROOT y = u8[2] bitcast-convert(x)", &["{true, false}"], "{1, 0}");
    check("x: u8[2]; ROOT y = pred[2] bitcast-convert(x)", &["{1, 0}"], "{true, false}");
    check("x: u64[1]; ROOT y = u16[1,4] bitcast-convert(x)", &["{1125912791875585}"], "{{1, 2, 3, 4}}");
    check("x: s8[1,4]; ROOT y = u32[1] bitcast-convert(x)", &["{{-1, 1, 1, 1}}"], "{16843263}");
    check("x: u32[1]; ROOT y = f8e4m3fn[1,4] bitcast-convert(x)", &["{943208504}"], "{{1, 1, 1, 1}}");
    check("x: u8[1,4]; ROOT y = f32[1] bitcast-convert(x)", &["{{0, 0, 128, 63}}"], "{1}");
    check("x: u16[1,4]; ROOT y = u64[1] bitcast-convert(x)", &["{{1, 2, 3, 4}}"], "{1125912791875585}");
}
