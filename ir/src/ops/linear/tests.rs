//! In what each op is linear: a list of operands that are summands together.

use crate::ops::check::with_root;

/// The operands' numbers, per way in which the root is linear.
#[track_caller]
fn check(body: &str, expected: &[&[usize]]) {
    let found: Vec<Vec<usize>> = with_root(body, |view| {
        let ways = (view.instr.op.def().linear)(view);
        ways.iter().map(|&way| (0..64).filter(|bit| way >> bit & 1 == 1).collect()).collect()
    });
    assert_eq!(found, expected, "{body}");
}

#[test]
fn sums_and_differences_are_linear_in_both_and_products_in_either() {
    let binary =
        |op: &str, dtype: &str| format!("x: {dtype}[2]; y: {dtype}[2]; ROOT z = {dtype}[2] {op}(x, y)");
    for dtype in ["f32", "s32", "c64"] {
        check(&binary("add", dtype), &[&[0, 1]]);
        check(&binary("subtract", dtype), &[&[0, 1]]);
        check(&binary("multiply", dtype), &[&[0], &[1]]);
    }
    check(&binary("divide", "f32"), &[&[0]]);
    check(&binary("divide", "c64"), &[&[0]]);
    check(&binary("divide", "s32"), &[]);
    check(&binary("maximum", "f32"), &[]);
    check(&binary("add", "pred"), &[]);
    check(
        "x: f32[2,3]; y: f32[3,2]; ROOT z = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        &[&[0], &[1]],
    );
}

#[test]
fn what_moves_elements_is_linear_in_them() {
    check("x: f32[2]; ROOT z = f32[2] negate(x)", &[&[0]]);
    check("x: f32[2]; ROOT z = f32[2] abs(x)", &[]);
    check("x: f32[2,3]; ROOT z = f32[3,2] transpose(x), dimensions={1,0}", &[&[0]]);
    check(
        "x: f32[2]; y: f32[2]; w: f32[2]; ROOT z = f32[6] concatenate(x, y, w), dimensions={0}",
        &[&[0, 1, 2]],
    );
    check("p: pred[2]; x: f32[2]; y: f32[2]; ROOT z = f32[2] select(p, x, y)", &[&[1, 2]]);
    check("x: f32[4]; i: s32[]; ROOT z = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}", &[&[0]]);
    check("x: f32[4]; u: f32[2]; i: s32[]; ROOT z = f32[4] dynamic-update-slice(x, u, i)", &[&[0, 1]]);
}

#[test]
fn bits_that_are_read_as_another_type_are_no_sum() {
    check("x: f32[6]; ROOT y = f32[2,3] bitcast(x)", &[&[0]]);
    check("x: f32[6]; ROOT y = s32[6] bitcast(x)", &[]);
    check("x: f32[6]; ROOT y = s32[6] bitcast-convert(x)", &[]);
}

#[test]
fn conversions_are_linear_where_they_round_nothing() {
    let convert = |from: &str, to: &str| format!("x: {from}[2]; ROOT z = {to}[2] convert(x)");
    for (from, to) in [("bf16", "f32"), ("f16", "f64"), ("f32", "f64"), ("s32", "s32")] {
        check(&convert(from, to), &[&[0]]);
    }
    for (from, to) in [("f32", "bf16"), ("f64", "f32"), ("s32", "f32"), ("bf16", "f16")] {
        check(&convert(from, to), &[]);
    }
}

#[test]
fn padding_and_reducing_are_linear_from_zero_on() {
    let pad = |value: &str| {
        format!("x: f32[2]; v = f32[] constant({value}); ROOT z = f32[4] pad(x, v), padding=1_1")
    };
    check(&pad("0"), &[&[0]]);
    check(&pad("1"), &[]);
    let reduce = |start: &str, op: &str| {
        format!(
            "x: f32[2]; v = f32[] constant({start}); ROOT z = f32[] reduce(x, v), dimensions={{0}}, to_apply={op}"
        )
    };
    check(&reduce("0", "add"), &[&[0]]);
    check(&reduce("1", "add"), &[]);
    check(&reduce("0", "max"), &[]);
    let several = "x: f32[2]; y: s32[2]; v = f32[] constant(0); w = s32[] constant(0); ROOT z = (f32[], s32[]) reduce(x, y, v, w), dimensions={0}, to_apply=sums";
    check(several, &[]);
}

#[test]
fn a_zero_may_have_been_spread_moved_or_marked() {
    let mark = "custom_call_target=\"Sharding\", sharding={replicated}";
    let from = |steps: &str| {
        format!("x: f32[2]; c = s32[1] constant({{0}}); {steps}; ROOT z = f32[4] pad(x, v), padding=1_1")
    };
    check(&from("r = s32[] reshape(c); v = f32[] convert(r)"), &[&[0]]);
    check(
        &from(&format!("r = s32[] reshape(c); m = s32[] custom-call(r), {mark}; v = f32[] convert(m)")),
        &[&[0]],
    );
    check(&from("n = s32[1] negate(c); r = s32[] reshape(n); v = f32[] convert(r)"), &[]);
    check(&format!("x: f32[2]; ROOT z = f32[2] custom-call(x), {mark}"), &[&[0]]);
    check("x: f32[2]; ROOT z = f32[2] custom-call(x), custom_call_target=\"other\"", &[]);
}
