//! Products by columns and by rows on perceptrons with a residual.

use super::*;
use crate::derive::derive;
use crate::testing::staged;

/// The splits of a program whose data are `x`, whose state `w0` is handed on, in `tensor` parts.
fn split(tensor: i64, lines: &[&str]) -> ColumnsRows {
    let fixed =
        ["x = f32[8,32] parameter(0)", "w0 = f32[32,64] parameter(1)", "w1 = f32[64,32] parameter(2)"];
    let root = "ROOT t = (f32[32,64], f32[64,32]) tuple(w0, w1)";
    let all = fixed.iter().chain(lines).map(|line| (*line, "fwd", 0)).chain([(root, "upd", 0)]);
    let aliases = " {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) ";
    let module = staged(aliases, "0:x=4", "{}", &all.collect::<Vec<_>>());
    columns_rows(&module, &derive(&module).expect("legal notes"), tensor)
}

fn dims(found: &[SplitValue], name: &str) -> String {
    let own = found.iter().find(|value| value.name == name);
    own.map_or("none".to_owned(), |own| format!("{:?}", own.dims))
}

const UP: &str = "h = f32[8,64] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
const ACT: &str = "a = f32[8,64] tanh(h)";
const DOWN: &str = "y = f32[8,32] dot(a, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
const RESIDUAL: &str = "r = f32[8,32] add(x, y)";
const HEAD: &str = "z = f32[8,64] dot(r, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}";

#[test]
fn columns_then_rows_then_the_head_by_columns() {
    let found = split(4, &[UP, ACT, DOWN, RESIDUAL, HEAD]);
    assert_eq!(dims(&found.weights, "w0"), "[Nothing, Tensor]");
    assert_eq!(dims(&found.weights, "w1"), "[Tensor, Nothing]");
    assert_eq!(dims(&found.results, "h"), "[Batch, Tensor]");
    assert_eq!(dims(&found.results, "y"), "[Batch, Nothing]");
    assert_eq!(dims(&found.results, "z"), "[Batch, Tensor]");
    assert_eq!((dims(&found.data, "x"), found.whole.len()), ("[Batch, Places]".to_owned(), 0));
    // What reads the sum is the residual stream.
    assert_eq!(dims(&found.results, "r"), "[Batch, SummedPlaces]");
}

#[test]
fn a_product_whose_columns_meet_the_residual_stream_is_whole() {
    let narrow = "n = f32[8,32] slice(h), slice={[0:8], [0:32]}";
    let found = split(4, &[UP, narrow, "r = f32[8,32] add(x, n)", HEAD]);
    assert_eq!((dims(&found.results, "h"), found.whole), ("none".to_owned(), vec!["h".to_owned()]));
    let found = split(
        4,
        &[
            "g = f32[32,32] dot(w0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "y = f32[8,32] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            RESIDUAL,
            HEAD,
        ],
    );
    assert_eq!(
        (dims(&found.results, "z"), found.whole),
        ("[Batch, Tensor]".to_owned(), vec!["y".to_owned()])
    );
}

#[test]
fn a_residual_stream_is_never_split_by_its_width() {
    // Columns of `y` could be carried on to rows of `z`, but a norm sums over them.
    let norm = [
        "w2 = f32[32,32] slice(w0), slice={[0:32], [0:32]}",
        "y = f32[8,32] dot(x, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "n = f32[8] dot(y, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, \
         rhs_contracting_dims={1}",
        "m = f32[8,32] broadcast(n), dimensions={0}",
        "r = f32[8,32] subtract(y, m)",
        HEAD,
    ];
    let found = split(4, &norm);
    assert_eq!(
        (dims(&found.results, "z"), found.whole),
        ("[Batch, Tensor]".to_owned(), vec!["y".to_owned()])
    );
}

#[test]
fn what_three_parts_do_not_divide_and_one_part_are_whole() {
    assert_eq!(split(3, &[UP, ACT, DOWN, RESIDUAL]).whole, ["h", "y"]);
    let found = split(1, &[UP, ACT, DOWN, RESIDUAL]);
    assert_eq!((dims(&found.weights, "w0"), found.whole.len()), ("[Nothing, Nothing]".to_owned(), 0));
}
