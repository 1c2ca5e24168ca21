//! `reduce`: an accumulation over dimensions, of one array or several at once.

use super::linear;
use super::maps::{operand_dims, scalars};
use super::read::{
    Inferred, dim_list, dims_of, expect_scalar, expect_size, mixed_dtype, one_or_tuple, plain, same_dims,
};
use super::reducer::{DTypes, applied, check_reducer, common_reducer, is_neutral};
use crate::attr::Key;
use crate::eval::reduce as eval;
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims, Shape};
use crate::view::View;
use crate::work::Work;

/// `reduce`: N operands, N initial scalars, a computation of N accumulators and N elements.
pub const REDUCE: OpDef = OpDef::new(Arity::AtLeast(2), infer, rule, work, FusionKind::Root)
    .linear_in(linear::reduction)
    .evaluated(eval::reduce);

fn infer(view: &View) -> Inferred {
    let n_pairs = view.n_operands() / 2;
    let first = view.array(0)?;
    expect_size("the number of operands of `reduce`", 2 * n_pairs.max(1) as i64, view.n_operands() as i64)?;
    let reduced = dim_list(view, Key::Dimensions, first.rank())?;
    let mut dtypes = DTypes::new();
    for index in 0..n_pairs {
        let operand = view.array(index)?;
        same_dims(view, first, operand)?;
        dtypes.push(mixed_dtype(view, operand.dtype, expect_scalar(view, n_pairs + index)?)?);
    }
    let made = check_reducer(view, Key::ToApply, &dtypes)?;
    let kept = first.dims.iter().enumerate().filter(|(dim, _)| !reduced.contains(dim));
    let dims: Dims = kept.map(|(_, &size)| size).collect();
    Ok(Some(one_or_tuple(made.into_iter().map(|dtype| plain(dtype, dims.clone())).collect::<Vec<Shape>>())))
}

/// Reduced dimensions combine partial results where the computation is a known reduction and the
/// initial value, which every device then starts from, is neutral in it.
fn rule(view: &View) -> Rule {
    let n_pairs = view.n_operands() / 2;
    let reduced = dims_of(view, Key::Dimensions);
    let reducer = common_reducer(view, Key::ToApply, n_pairs)
        .filter(|&reducer| (n_pairs..2 * n_pairs).all(|index| is_neutral(view, index, reducer)));
    let combine = reducer.map_or(FactorKind::Replicate, FactorKind::Reduce);
    let mut rule = Rule::default();
    let sizes = operand_dims(view, 0).iter().enumerate();
    let map: TensorMap = sizes
        .map(|(dim, &size)| {
            let kind = if reduced.contains(&dim) { combine } else { FactorKind::Pass };
            super::maps::dim(rule.factor(size, kind))
        })
        .collect();
    let kept = map.iter().enumerate().filter(|(dim, _)| !reduced.contains(dim));
    let result: TensorMap = kept.map(|(_, factors)| factors.clone()).collect();
    rule.operands.extend(std::iter::repeat_n(map, n_pairs));
    scalars(&mut rule, n_pairs);
    rule.results.extend(std::iter::repeat_n(result, n_pairs));
    rule
}

/// The computation once per element that is combined with another.
fn work(view: &View) -> Work {
    let elements = |shape: Option<&ArrayShape>| shape.map_or(0.0, ArrayShape::n_elements);
    let input = elements(view.operand_shape(0).and_then(Shape::as_array));
    let output = elements(view.instr.shape.leaves().first().and_then(|leaf| leaf.as_array()));
    applied(view, Key::ToApply) * (input - output).max(0.0)
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};

    #[test]
    fn reduced_dimensions_combine() {
        let body =
            "x: f32[8,6]; z = f32[] constant(0); ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add";
        assert_eq!(rule(body), "([a,b],[])->([a]) {a=8, b=6+}");
        assert_eq!(work(body).flops, 40.0);
        let body = "x: f32[8,6]; z: f32[]; ROOT r = f32[] reduce(x, z), dimensions={1,0}, to_apply=max";
        assert_eq!(rule(body), "([a,b],[])->([]) {a=8+, b=6+}");
    }

    #[test]
    fn an_initial_value_that_counts_is_not_counted_twice() {
        let body = "x: f32[8]; z: f32[]; ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add";
        assert_eq!(rule(body), "([a],[])->([]) {a=8!}");
    }

    #[test]
    fn several_arrays_combine_if_all_do_alike() {
        let body = |apply: &str| {
            format!(
                "x: f32[8]; i: s32[8]; z = f32[] constant(0); k = s32[] constant(0)
                ROOT r = (f32[], s32[]) reduce(x, i, z, k), dimensions={{0}}, to_apply={apply}"
            )
        };
        assert_eq!(rule(&body("argmax")), "([a],[a],[],[])->([],[]) {a=8!}");
        assert_eq!(rule(&body("sums")), "([a],[a],[],[])->([],[]) {a=8+}");
    }

    #[test]
    fn says_what_does_not_fit() {
        let check = |op: &str, expected: &str| {
            assert_eq!(error(&format!("x: f32[8]; z: f32[]; n: s32[]; ROOT r = {op}")), expected)
        };
        check("f32[] reduce(x, z), dimensions={0}", "`reduce` needs `to_apply`");
        check(
            "f32[] reduce(x, z), dimensions={1}, to_apply=add",
            "`dimensions` names dimension 1 of a rank-1 array",
        );
        check(
            "f32[] reduce(x, n), dimensions={0}, to_apply=add",
            "`reduce` needs operands of one element type, got f32 and s32",
        );
        check(
            "f32[] reduce(x, x), dimensions={0}, to_apply=add",
            "operand 1 of `reduce` must be a scalar, got f32[8]",
        );
        check("f32[] reduce(x, z), dimensions={0}, to_apply=less", "`less` must return f32[], got pred[]");
        check(
            "f32[] reduce(x, z), dimensions={0}, to_apply=argmax",
            "parameter 1 of `argmax` must be f32[], got s32[]",
        );
        check(
            "f32[] reduce(x, z, z), dimensions={0}, to_apply=add",
            "the number of operands of `reduce` must be 2, got 3",
        );
    }
}
