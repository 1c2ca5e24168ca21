//! Building factor rules: the few patterns that most ops are made of.

use crate::rule::{FactorId, FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use smallvec::SmallVec;

/// Sizes of a leaf; none for a token.
pub(crate) fn leaf_dims(leaf: &Shape) -> &[i64] {
    leaf.as_array().map_or(&[], |array: &ArrayShape| &array.dims)
}

/// Sizes of an array operand.
pub(crate) fn operand_dims<'a>(view: &View<'a>, index: usize) -> &'a [i64] {
    view.operand_shape(index).map_or(&[], leaf_dims)
}

/// Sizes of the result, or of a tuple's first leaf.
pub(crate) fn result_dims<'a>(view: &View<'a>) -> &'a [i64] {
    view.instr.shape.leaves().first().map_or(&[], |leaf| leaf_dims(leaf))
}

/// One dimension of one factor.
pub(crate) fn dim(factor: FactorId) -> SmallVec<[FactorId; 2]> {
    SmallVec::from_slice(&[factor])
}

/// The all-replicated rule of this instruction, as a rule of its own and not for want of one.
pub(crate) fn all_replicated(view: &View) -> Rule {
    Rule { is_fallback: false, ..fallback(view) }
}

/// The all-replicated rule for want of one.
pub(crate) fn fallback(view: &View) -> Rule {
    let operands: Vec<&[i64]> = operand_leaves(view).into_iter().map(leaf_dims).collect();
    let results: Vec<&[i64]> = view.instr.shape.leaves().into_iter().map(leaf_dims).collect();
    Rule::replicated(&operands, &results)
}

/// The arrays of all operands, tuples taken apart.
pub(crate) fn operand_leaves<'a>(view: &View<'a>) -> Vec<&'a Shape> {
    (0..view.n_operands()).flat_map(|index| view.operand(index).shape.leaves()).collect()
}

/// Every result leaf is the operand leaf at the same place: tuples, barriers, copies.
pub(crate) fn identity(view: &View) -> Rule {
    let operands = operand_leaves(view);
    let results = view.instr.shape.leaves();
    let mut rule = Rule::default();
    for leaf in &operands {
        let map = rule.fresh(leaf_dims(leaf), FactorKind::Pass);
        rule.operands.push(map);
    }
    for (index, leaf) in results.iter().enumerate() {
        let same = operands.get(index).filter(|operand| leaf_dims(operand) == leaf_dims(leaf));
        let map = match same {
            Some(_) => rule.operands[index].clone(),
            None => rule.fresh(leaf_dims(leaf), FactorKind::Replicate),
        };
        rule.results.push(map);
    }
    rule
}

/// Operands and results are indexed alike; scalars among the operands have no dimensions.
pub(crate) fn pointwise(view: &View) -> Rule {
    alike(view, |_| FactorKind::Pass)
}

/// As [`pointwise`], with dimension `d` of kind `kind(d)`.
pub(crate) fn alike(view: &View, kind: impl Fn(usize) -> FactorKind) -> Rule {
    let dims = result_dims(view);
    let mut rule = Rule::default();
    let map: TensorMap =
        dims.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    for leaf in operand_leaves(view) {
        let own = shared(&mut rule, leaf, dims, &map);
        rule.operands.push(own);
    }
    for leaf in view.instr.shape.leaves() {
        let own = shared(&mut rule, leaf, dims, &map);
        rule.results.push(own);
    }
    rule
}

/// `map` if the leaf has these sizes, else nothing (scalars) or dimensions of its own.
fn shared(rule: &mut Rule, leaf: &Shape, dims: &[i64], map: &TensorMap) -> TensorMap {
    let own = leaf_dims(leaf);
    if own == dims { map.clone() } else { rule.fresh(own, FactorKind::Replicate) }
}

/// Results that are free in every dimension, from nothing.
pub(crate) fn source(view: &View, kind: FactorKind) -> Rule {
    let mut rule = Rule::default();
    for leaf in view.instr.shape.leaves() {
        let map = rule.fresh(leaf_dims(leaf), kind);
        rule.results.push(map);
    }
    rule
}

/// Operand 0 and the result share the dimensions of equal size; others are each of kind `kind`, apart.
pub(crate) fn equal_dims(view: &View, kind: FactorKind) -> Rule {
    let (input, output) = (operand_dims(view, 0), result_dims(view));
    let mut rule = Rule::default();
    let map = input.iter().zip(output).map(|(&a, &b)| {
        let kind = if a == b { FactorKind::Pass } else { kind };
        dim(rule.factor(a, kind))
    });
    let map: TensorMap = map.collect();
    let result = resized(&mut rule, &map, input, output, kind);
    rule.operands.push(map);
    rule.results.push(result);
    rule
}

/// `map` of `dims` for a tensor of `sizes`: equal dimensions shared, others apart.
pub(crate) fn resized(
    rule: &mut Rule,
    map: &TensorMap,
    dims: &[i64],
    sizes: &[i64],
    kind: FactorKind,
) -> TensorMap {
    let pairs = map.iter().zip(dims).zip(sizes);
    pairs.map(|((own, a), &b)| if *a == b { own.clone() } else { dim(rule.factor(b, kind)) }).collect()
}

/// Adds scalar operands: maps without dimensions.
pub(crate) fn scalars(rule: &mut Rule, count: usize) {
    rule.operands.extend(std::iter::repeat_n(TensorMap::new(), count));
}
