//! Reductions: known ones, others, several arrays at once.

use crate::eval::check::check;

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
