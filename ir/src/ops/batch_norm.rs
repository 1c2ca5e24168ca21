//! Batch normalisation: one feature dimension, statistics over all others.

use super::linalg::expect_features;
use super::maps::{dim, operand_dims};
use super::read::{Inferred, like, one_dim, plain, same_dims};
use crate::attr::Key;
use crate::eval::batch_norm as eval;
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims, Shape};
use crate::view::View;
use crate::work::Work;

/// `batch-norm-training`: input, scale, offset to output, mean, variance.
pub const BATCH_NORM_TRAINING: OpDef =
    OpDef::new(Arity::Exactly(3), infer_statistics, rule_statistics, |_| Work::default(), FusionKind::Opaque)
        .evaluated(eval::training);
/// `batch-norm-inference`: input, scale, offset, mean, variance to output.
pub const BATCH_NORM_INFERENCE: OpDef =
    OpDef::new(Arity::Exactly(5), infer_inference, rule_inference, |_| Work::default(), FusionKind::Opaque)
        .evaluated(eval::inference);
/// `batch-norm-grad`: input, scale, mean, variance, gradient to gradients of input, scale, offset.
pub const BATCH_NORM_GRAD: OpDef =
    OpDef::new(Arity::Exactly(5), infer_grad, rule_statistics, |_| Work::default(), FusionKind::Opaque)
        .evaluated(eval::grad);

/// Checks operands `1..=n_features` to be per feature; the input shape and its feature dimension.
fn input<'a>(view: &View<'a>, n_per_feature: usize) -> Result<(&'a ArrayShape, usize), String> {
    let operand = view.array(0)?;
    let feature = one_dim(view, Key::FeatureIndex, operand.rank())?;
    for index in 1..=n_per_feature {
        expect_features(view.array(index)?, operand.dims[feature])?;
    }
    Ok((operand, feature))
}

fn infer_statistics(view: &View) -> Inferred {
    let (operand, feature) = input(view, 2)?;
    Ok(Some(with_statistics(operand, feature)))
}

fn with_statistics(operand: &ArrayShape, feature: usize) -> Shape {
    let per_feature = plain(operand.dtype, Dims::from_slice(&[operand.dims[feature]]));
    Shape::Tuple(vec![like(operand), per_feature.clone(), per_feature])
}

fn infer_inference(view: &View) -> Inferred {
    let (operand, _) = input(view, 4)?;
    Ok(Some(like(operand)))
}

fn infer_grad(view: &View) -> Inferred {
    let (operand, feature) = input(view, 3)?;
    same_dims(view, operand, view.array(4)?)?;
    Ok(Some(with_statistics(operand, feature)))
}

/// Statistics need all elements of a feature.
fn rule_statistics(view: &View) -> Rule {
    per_feature(view, FactorKind::Replicate)
}

fn rule_inference(view: &View) -> Rule {
    per_feature(view, FactorKind::Pass)
}

/// Arrays like the input share its dimensions, vectors its feature dimension.
fn per_feature(view: &View, others: FactorKind) -> Rule {
    let (sizes, feature) = (operand_dims(view, 0), super::read::dim_of(view, Key::FeatureIndex));
    let mut rule = Rule::default();
    let kind = |dim| if dim == feature { FactorKind::Pass } else { others };
    let map: TensorMap =
        sizes.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    // The vectors' places are known: an input of rank 1 looks like one of them.
    let vectors = TensorMap::from_iter([map[feature].clone()]);
    let last = view.n_operands() - 1;
    for index in 0..=last {
        let is_array = index == 0 || (index == last && operand_dims(view, last).len() == sizes.len());
        rule.operands.push(if is_array { map.clone() } else { vectors.clone() });
    }
    for index in 0..view.instr.shape.n_leaves() {
        rule.results.push(if index == 0 { map.clone() } else { vectors.clone() });
    }
    rule
}
