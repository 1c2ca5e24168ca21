//! Reductions: known ones, others, several arrays at once.

use crate::eval::check::{check, result};

const MATRIX: &str = "{{1, 2, 3}, {4, 5, 6}}";

#[test]
fn sums_run_over_any_dimensions() {
    let sum = |dims: &str, made: &str| {
        format!(
            "x: f32[2,3]; z = f32[] constant(0); ROOT y = f32[{made}] reduce(x, z), dimensions={{{dims}}}, to_apply=add"
        )
    };
    check(&sum("1", "2"), &[MATRIX], "{6, 15}");
    check(&sum("0", "3"), &[MATRIX], "{5, 7, 9}");
    check(&sum("0,1", ""), &[MATRIX], "21");
    check(&sum("", "2,3"), &[MATRIX], MATRIX);
}

/// `x` of a type reduced by an op of two of its scalars.
fn reduced(dtype: &str, op: &str, initial: &str, x: &str) -> String {
    let n = x.matches(", ").count() + 1;
    let comp = format!(
        "r {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT c = {dtype}[] {op}(a, b) }}"
    );
    let body = format!(
        "x: {dtype}[{n}]; z = {dtype}[] constant({initial}); ROOT y = {dtype}[] reduce(x, z), dimensions={{0}}, to_apply=r"
    );
    result(&format!("{comp}\n---\n{body}"), &[x])
}

#[test]
fn every_known_reduction_of_integers() {
    let of = |dtype: &str, op: &str, initial: &str| reduced(dtype, op, initial, "{12, 10, 7}");
    assert_eq!([of("s32", "add", "1"), of("s32", "multiply", "2")], ["30", "1680"]);
    assert_eq!([of("s32", "maximum", "-9"), of("s32", "minimum", "99")], ["12", "7"]);
    assert_eq!([of("s32", "and", "-1"), of("s32", "or", "0"), of("s32", "xor", "0")], ["0", "15", "1"]);
    let huge = "{18446744073709551615, 1, 2}";
    assert_eq!(
        [reduced("u64", "maximum", "0", huge), reduced("u64", "minimum", "9", huge)],
        ["18446744073709551615", "1"]
    );
    assert_eq!(
        [reduced("s64", "maximum", "-9", "{-1, -3, -2}"), reduced("s64", "minimum", "9", "{-1, 3, 2}")],
        ["-1", "-1"]
    );
}

#[test]
fn every_known_reduction_of_truth_values() {
    let of = |op: &str, initial: &str, x: &str| reduced("pred", op, initial, x);
    for op in ["and", "multiply", "minimum"] {
        assert_eq!(
            [of(op, "true", "{true, true, false}"), of(op, "true", "{true, true}")],
            ["false", "true"],
            "{op}"
        );
    }
    for op in ["or", "add", "maximum"] {
        assert_eq!(
            [of(op, "false", "{true, true, false}"), of(op, "false", "{false, false}")],
            ["true", "false"],
            "{op}"
        );
    }
    assert_eq!(
        [of("xor", "false", "{true, true, false}"), of("xor", "false", "{true, true, true}")],
        ["false", "true"]
    );
}

#[test]
fn every_known_reduction_of_floats_and_complex_numbers() {
    for dtype in ["f32", "f64"] {
        let of = |op: &str, initial: &str| reduced(dtype, op, initial, "{1.5, -2, 4}");
        assert_eq!(
            [of("add", "1"), of("multiply", "1"), of("maximum", "-inf"), of("minimum", "inf")],
            ["4.5", "-12", "4", "-2"]
        );
    }
    for dtype in ["c64", "c128"] {
        let of = |op: &str, initial: &str| {
            let comp = format!(
                "r {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT c = {dtype}[] {op}(a, b) }}"
            );
            let body = format!(
                "x: {dtype}[2]; z = {dtype}[] constant({initial}); ROOT y = {dtype}[] reduce(x, z), dimensions={{0}}, to_apply=r"
            );
            result(&format!("{comp}\n---\n{body}"), &["{(1, 2), (3, -1)}"])
        };
        assert_eq!([of("add", "(0, 0)"), of("multiply", "(1, 0)")], ["(4, 1)", "(5, 5)"]);
    }
}

#[test]
fn long_sums_are_exact_enough() {
    // Added one by one in f32, 2^20 times 0.1 is 104858.0 and some hundreds off.
    let body = "c = f32[] constant(0.1); z = f32[] constant(0); x = f32[1024,1024] broadcast(c), dimensions={}; y = f32[1024,1024] copy(x); ROOT s = f32[] reduce(y, z), dimensions={0,1}, to_apply=add";
    check(body, &[], "104857.62");
}

#[test]
fn a_strided_dimension_is_summed_where_it_lies() {
    let body = "i = s32[300,2] iota(), iota_dimension=0; x = f32[300,2] convert(i); z = f32[] constant(0); ROOT s = f32[2] reduce(x, z), dimensions={0}, to_apply=add";
    check(body, &[], "{44850, 44850}");
    let middle = "i = s32[2,300,2] iota(), iota_dimension=1; x = f32[2,300,2] convert(i); z = f32[] constant(0); ROOT s = f32[2,2] reduce(x, z), dimensions={1}, to_apply=add";
    check(middle, &[], "{{44850, 44850}, {44850, 44850}}");
    let outer = "i = s32[2,300,2] iota(), iota_dimension=1; x = f32[2,300,2] convert(i); z = f32[] constant(0); ROOT s = f32[300] reduce(x, z), dimensions={0,2}, to_apply=max";
    let expected: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    check(outer, &[], &format!("{{{}}}", expected.join(", ")));
}

#[test]
fn several_arrays_are_reduced_together() {
    let body = "x: f32[5]; i = s32[5] iota(), iota_dimension=0; m = f32[] constant(-inf); z = s32[] constant(0); ROOT y = (f32[], s32[]) reduce(x, i, m, z), dimensions={0}, to_apply=argmax";
    check(body, &["{3, 9, 2, 7, 1}"], "(9, 1)");
    let rows = "x: f32[2,3]; i = s32[2,3] iota(), iota_dimension=1; m = f32[] constant(-inf); z = s32[] constant(0); ROOT y = (f32[2], s32[2]) reduce(x, i, m, z), dimensions={1}, to_apply=argmax";
    check(rows, &["{{3, 9, 2}, {7, 1, 8}}"], "({9, 8}, {1, 2})");
}

#[test]
fn nothing_reduces_to_the_initial_value() {
    check(
        "x: f32[0,2]; z = f32[] constant(7); ROOT y = f32[2] reduce(x, z), dimensions={0}, to_apply=add",
        &["{}"],
        "{7, 7}",
    );
    check(
        "x: f32[2,0]; z = f32[] constant(7); ROOT y = f32[0] reduce(x, z), dimensions={0}, to_apply=add",
        &["{{}, {}}"],
        "{}",
    );
}

#[test]
fn narrow_floats_add_up_in_wide_ones() {
    let body =
        "x: bf16[3]; z = bf16[] constant(0); ROOT y = bf16[] reduce(x, z), dimensions={0}, to_apply=addb";
    check(body, &["{256, 1, 1}"], "258");
}
