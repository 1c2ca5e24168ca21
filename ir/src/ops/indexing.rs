//! Slices at computed places: `dynamic-slice`, `dynamic-update-slice`. Gather and scatter have files of their
//! own.

use super::linear;
use super::maps::{equal_dims, operand_dims, resized};
use super::read::{Inferred, array, describe_array, expect_size, like, mixed_dtype};
use crate::attr::Key;
use crate::eval::movement as eval;
use crate::fusion::{FusionKind, Touch};
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Rule};
use crate::view::View;
use crate::work::Work;

pub use super::gather::GATHER;
pub use super::scatter::SCATTER;

/// `dynamic-slice`: a dimension taken in full passes.
pub const DYNAMIC_SLICE: OpDef = OpDef::new(
    Arity::AtLeast(1),
    infer_dynamic_slice,
    rule_dynamic_slice,
    |_| Work::default(),
    FusionKind::Loop,
)
.touching(Touch::Part)
.linear_in(linear::first)
.evaluated(eval::dynamic_slice);
/// `dynamic-update-slice`: operand and result pass everywhere, the update where it covers a dimension.
///
/// A device that holds a part of an updated dimension has to test whether the update falls into it.
pub const DYNAMIC_UPDATE_SLICE: OpDef = OpDef::new(
    Arity::AtLeast(2),
    infer_dynamic_update_slice,
    rule_dynamic_update_slice,
    |_| Work::default(),
    FusionKind::Root,
)
.touching(Touch::Update)
.linear_in(linear::first_two)
.evaluated(eval::dynamic_update_slice);

/// Starts: one scalar per dimension, or one vector (older programs).
fn check_starts(view: &View, from: usize, rank: usize) -> Result<(), String> {
    let op = view.instr.op.as_str();
    let n_starts = view.n_operands().saturating_sub(from);
    if n_starts == 1 {
        let starts = view.array(from)?;
        if *starts.dims == [rank as i64] {
            return Ok(());
        }
    }
    expect_size(&format!("the number of starts of `{op}`"), rank as i64, n_starts as i64)?;
    (from..view.n_operands()).try_for_each(|index| super::read::expect_scalar(view, index).map(drop))
}

fn infer_dynamic_slice(view: &View) -> Inferred {
    let operand = view.array(0)?;
    check_starts(view, 1, operand.rank())?;
    let sizes = view.instr.ints(Key::DynamicSliceSizes);
    expect_size("the number of `dynamic_slice_sizes`", operand.rank() as i64, sizes.len() as i64)?;
    for (&size, &whole) in sizes.iter().zip(&operand.dims) {
        if !(0..=whole).contains(&size) {
            return Err(format!("`dynamic-slice` of {size} does not fit a dimension of size {whole}"));
        }
    }
    array(operand.dtype, sizes.iter().copied())
}

fn rule_dynamic_slice(view: &View) -> Rule {
    let mut rule = equal_dims(view, FactorKind::Replicate);
    start_maps(view, 1, &mut rule);
    rule
}

/// Starts are on every device: scalars, or a vector of its own.
fn start_maps(view: &View, from: usize, rule: &mut Rule) {
    for index in from..view.n_operands() {
        let map = rule.fresh(operand_dims(view, index), FactorKind::Replicate);
        rule.operands.push(map);
    }
}

fn infer_dynamic_update_slice(view: &View) -> Inferred {
    let (operand, update) = (view.array(0)?, view.array(1)?);
    mixed_dtype(view, operand.dtype, update.dtype)?;
    check_starts(view, 2, operand.rank())?;
    let fits = update.rank() == operand.rank() && update.dims.iter().zip(&operand.dims).all(|(a, b)| a <= b);
    if !fits {
        let (a, b) = (describe_array(update), describe_array(operand));
        return Err(format!("`dynamic-update-slice` of {a} does not fit {b}"));
    }
    Ok(Some(like(operand)))
}

fn rule_dynamic_update_slice(view: &View) -> Rule {
    let (operand, update) = (operand_dims(view, 0), operand_dims(view, 1));
    let mut rule = Rule::default();
    let map = rule.fresh(operand, FactorKind::Pass);
    let updates = resized(&mut rule, &map, operand, update, FactorKind::Replicate);
    rule.operands.extend([map.clone(), updates]);
    rule.results.push(map);
    start_maps(view, 2, &mut rule);
    rule
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};

    #[test]
    fn a_dynamic_slice_keeps_cut_dimensions_whole() {
        let body =
            "x: f32[8,6]; i: s32[]; ROOT y = f32[8,2] dynamic-slice(x, i, i), dynamic_slice_sizes={8,2}";
        assert_eq!(rule(body), "([a,b],[],[])->([a,c]) {a=8, b=6!, c=2!}");
    }

    #[test]
    fn an_update_is_whole_where_it_is_smaller() {
        let body = "x: f32[8,6]; u: f32[8,2]; i: s32[]; ROOT y = f32[8,6] dynamic-update-slice(x, u, i, i)";
        assert_eq!(rule(body), "([a,b],[a,c],[],[])->([a,b]) {a=8, b=6, c=2!}");
    }

    #[test]
    fn an_embedding_look_up_adds_up_over_the_vocabulary() {
        let body = "t: f32[100,16]; i: s32[4,7,1]
            ROOT y = f32[4,7,16] gather(t, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,16}";
        assert_eq!(rule(body), "([a,b],[c,d,e])->([c,d,b]) {a=100+, b=16, c=4, d=7, e=1!}");
    }

    #[test]
    fn gather_batches_run_together() {
        let body = "t: f32[4,100]; i: s32[4,7,1]
            ROOT y = f32[4,7] gather(t, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}";
        assert_eq!(rule(body), "([a,b],[a,c,d])->([a,c]) {a=4, b=100+, c=7, d=1!}");
    }

    #[test]
    fn partial_windows_are_whole() {
        let body = "t: f32[9,100]; i: s32[5]
            ROOT y = f32[5,3,1] gather(t, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}";
        assert_eq!(rule(body), "([a,b],[c])->([c,d,e]) {a=9!, b=100+, c=5, d=3!, e=1!}");
    }

    const EMBEDDING: &str = "update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2";

    #[test]
    fn scattered_gradients_add_up_over_the_look_ups() {
        let body = |start: &str, apply: &str| {
            format!(
                "p: f32[100,16]; i: s32[4,7,1]; u: f32[4,7,16]; z = f32[] constant(0)
                o = f32[100,16] broadcast(z), dimensions={{}}
                ROOT y = f32[100,16] scatter({start}, i, u), {EMBEDDING}, to_apply={apply}"
            )
        };
        assert_eq!(
            rule(&body("o", "add")),
            "([a,b],[c,d,e],[c,d,b])->([a,b]) {a=100, b=16, c=4+, d=7+, e=1!}"
        );
        // All devices but one start from zeros.
        assert_eq!(
            rule(&body("p", "add")),
            "([a,b],[c,d,e],[c,d,b])->([a,b]) {a=100, b=16, c=4+, d=7+, e=1!}"
        );
        assert_eq!(
            rule(&body("p", "max")),
            "([a,b],[c,d,e],[c,d,b])->([a,b]) {a=100, b=16, c=4+, d=7+, e=1!}"
        );
        assert_eq!(
            rule(&body("o", "set")),
            "([a,b],[c,d,e],[c,d,b])->([a,b]) {a=100, b=16, c=4!, d=7!, e=1!}"
        );
        assert_eq!(work(&body("o", "add")).flops, 448.0);
    }

    #[test]
    fn says_what_does_not_fit() {
        let check = |op: &str, expected: &str| {
            assert_eq!(
                error(&format!("x: f32[8,6]; i: s32[]; v: s32[4,1]; u: f32[4,6]; ROOT y = {op}")),
                expected
            );
        };
        check(
            "f32[8,7] dynamic-slice(x, i, i), dynamic_slice_sizes={8,7}",
            "`dynamic-slice` of 7 does not fit a dimension of size 6",
        );
        check(
            "f32[8,6] dynamic-slice(x, i), dynamic_slice_sizes={8,6}",
            "the number of starts of `dynamic-slice` must be 2, got 1",
        );
        check(
            "f32[8,6] dynamic-update-slice(u, x, i, i)",
            "`dynamic-update-slice` of f32[8,6] does not fit f32[4,6]",
        );
        let gather = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}";
        check(
            &format!("f32[4,6] gather(x, v), {gather}, slice_sizes={{1,6}}"),
            "`index_vector_dim` is missing",
        );
        check(
            &format!("f32[4,6] gather(x, v), {gather}, index_vector_dim=3, slice_sizes={{1,6}}"),
            "`index_vector_dim` must be at most 2",
        );
        check(
            &format!("f32[4,6] gather(x, v), {gather}, index_vector_dim=1, slice_sizes={{2,6}}"),
            "`slice_sizes` must be 1 in dimension 0, got 2",
        );
        check(
            &format!("f32[4,6] gather(x, v), {gather}, index_vector_dim=0, slice_sizes={{1,6}}"),
            "the number of indexed dimensions must be 4, got 1",
        );
        let scatter = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add";
        check(
            &format!("f32[8,6] scatter(x, v, x), {scatter}"),
            "dimension 0 of update f32[8,6] fits neither indices s32[4,1] nor operand f32[8,6]",
        );
    }
}
