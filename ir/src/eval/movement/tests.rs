//! Ops that move elements, and what they undo of each other.

use crate::eval::check::{check, result};

const MATRIX: &str = "{{1, 2, 3}, {4, 5, 6}}";

fn moved(op: &str, shape: &str) -> String {
    result(&format!("x: f32[2,3]; ROOT y = f32[{shape}] {}", op.replace("()", "(x)")), &[MATRIX])
}

#[test]
fn reshape_transpose_reverse_and_slice() {
    assert_eq!(moved("reshape()", "3,2"), "{{1, 2}, {3, 4}, {5, 6}}");
    assert_eq!(moved("transpose(), dimensions={1,0}", "3,2"), "{{1, 4}, {2, 5}, {3, 6}}");
    assert_eq!(moved("reverse(), dimensions={1}", "2,3"), "{{3, 2, 1}, {6, 5, 4}}");
    assert_eq!(moved("slice(), slice={[0:2:1], [0:3:2]}", "2,2"), "{{1, 3}, {4, 6}}");
    assert_eq!(moved("slice(), slice={[1:1], [0:3]}", "0,3"), "{}");
}

#[test]
fn a_bitcast_follows_the_order_in_memory() {
    let body = "x: f32[2,3]{1,0}; ROOT y = f32[3,2]{0,1} bitcast(x)";
    check(body, &[MATRIX], "{{1, 4}, {2, 5}, {3, 6}}");
    let body = "x: f32[2,3]{0,1}; ROOT y = f32[6]{0} bitcast(x)";
    check(body, &[MATRIX], "{1, 4, 2, 5, 3, 6}");
}

#[test]
fn broadcast_places_dimensions() {
    check("x: f32[2]; ROOT y = f32[2,2] broadcast(x), dimensions={0}", &["{1, 2}"], "{{1, 1}, {2, 2}}");
    check("x: f32[2]; ROOT y = f32[2,2] broadcast(x), dimensions={1}", &["{1, 2}"], "{{1, 2}, {1, 2}}");
    check("x: f32[1,2]; ROOT y = f32[2,1] broadcast(x), dimensions={1,0}", &["{{1, 2}}"], "{{1}, {2}}");
    check("x: f32[]; ROOT y = f32[2] broadcast(x), dimensions={}", &["7"], "{7, 7}");
}

#[test]
fn pad_adds_around_and_between_and_crops() {
    let pad = |padding: &str, size: usize| {
        let body =
            format!("x: f32[3]; v = f32[] constant(0); ROOT y = f32[{size}] pad(x, v), padding={padding}");
        result(&body, &["{1, 2, 3}"])
    };
    assert_eq!(pad("1_2", 6), "{0, 1, 2, 3, 0, 0}");
    assert_eq!(pad("0_0_1", 5), "{1, 0, 2, 0, 3}");
    assert_eq!(pad("-1_-1", 1), "{2}");
    assert_eq!(pad("-1_1_1", 5), "{0, 2, 0, 3, 0}");
    assert_eq!(pad("-3_1", 1), "{0}");
}

#[test]
fn concatenate_joins() {
    let body = "x: f32[2]; y: f32[1]; ROOT z = f32[3] concatenate(x, y), dimensions={0}";
    check(body, &["{1, 2}", "{3}"], "{1, 2, 3}");
}

#[test]
fn starts_of_dynamic_slices_are_clamped() {
    let cut = |start: &str| {
        result(
            "x: f32[4]; i: s32[]; ROOT y = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}",
            &["{1, 2, 3, 4}", start],
        )
    };
    assert_eq!(cut("1"), "{2, 3}");
    assert_eq!(cut("9"), "{3, 4}");
    assert_eq!(cut("-9"), "{1, 2}");
    let put = "x: f32[4]; u: f32[2]; i: s32[]; ROOT y = f32[4] dynamic-update-slice(x, u, i)";
    check(put, &["{1, 2, 3, 4}", "{8, 9}", "7"], "{1, 2, 8, 9}");
}

#[test]
fn a_spread_scalar_is_like_its_elements() {
    let ones = "o = f32[] constant(1); b = f32[2,3] broadcast(o), dimensions={}; ";
    let on_ones = |op: &str| result(&format!("{ones}ROOT y = {op}"), &[]);
    assert_eq!(on_ones("f32[3,2] transpose(b), dimensions={1,0}"), "{{1, 1}, {1, 1}, {1, 1}}");
    assert_eq!(on_ones("f32[1,2] slice(b), slice={[0:1], [0:3:2]}"), "{{1, 1}}");
    assert_eq!(on_ones("f32[6] reshape(b)"), "{1, 1, 1, 1, 1, 1}");
    assert_eq!(on_ones("f32[2,3] add(b, b)"), "{{2, 2, 2}, {2, 2, 2}}");
    assert_eq!(on_ones("f32[2] reduce(b, o), dimensions={1}, to_apply=add"), "{4, 4}");
    assert_eq!(on_ones("f32[2,3] reverse(b), dimensions={0}"), "{{1, 1, 1}, {1, 1, 1}}");
    assert_eq!(
        on_ones("f32[2,2] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        "{{3, 3}, {3, 3}}"
    );
}

#[test]
fn iota_counts_along_its_dimension() {
    check("ROOT x = s32[2,3] iota(), iota_dimension=1", &[], "{{0, 1, 2}, {0, 1, 2}}");
    check("ROOT x = bf16[2] iota(), iota_dimension=0", &[], "{0, 1}");
}
