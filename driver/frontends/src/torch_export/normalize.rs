//! Softmax and normalisation, with the statistics that gradients need.

use super::movement::Parts;
use super::node::Cx;
use crate::onnx::{self, Attribute};
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};

/// `softmax` and `log_softmax`.
pub(super) fn softmax(cx: &mut Cx, op: &str) -> Result<InstrId> {
    let x = cx.like_out("self")?;
    cx.onnx(op, &[x.into()], vec![Attribute::int("axis", cx.int("dim", -1)?)])
}

/// `_softmax_backward_data` and `_log_softmax_backward_data`.
pub(super) fn softmax_backward(cx: &mut Cx, is_log: bool) -> Result<InstrId> {
    let (grad, y) = (cx.like_out("grad_output")?, cx.like_out("output")?);
    let dim = cx.dim("dim", -1, cx.b.rank(y))?;
    if cx.b.dims(grad) != cx.b.dims(y) {
        return Err(Diagnostic::error("the gradient has other sizes than the result"));
    }
    let (factor, scaled) = if is_log { (cx.b.exp(y), grad) } else { (y, cx.b.mul(grad, y)) };
    let sum = cx.b.sum(scaled, &[dim]);
    let sum = cx.plain().spread(sum, y, &[dim]);
    let part = cx.b.mul(factor, sum);
    Ok(cx.b.sub(scaled, part))
}

/// In at least 32 bits.
fn widened(cx: &mut Cx, x: InstrId) -> InstrId {
    let dtype = cx.b.dtype(x);
    cx.b.convert(x, if dtype.bits() < 32 { DType::F32 } else { dtype })
}

/// The last dimensions, those of `normalized_shape`.
fn normalized(cx: &Cx, x: InstrId) -> Result<Vec<usize>> {
    let (sizes, dims) = (cx.list("normalized_shape")?, cx.b.dims(x));
    match dims.ends_with(&sizes) {
        true => Ok((dims.len() - sizes.len()..dims.len()).collect()),
        false => {
            Err(Diagnostic::error(format!("`normalized_shape` {sizes:?} of an array of sizes {dims:?}")))
        }
    }
}

/// Times `weight` plus `bias`, as far as they are given.
fn affine(cx: &mut Cx, mut x: InstrId) -> Result<InstrId> {
    for (name, op) in [("weight", Opcode::Multiply), ("bias", Opcode::Add)] {
        if let Some(factor) = cx.optional(name)? {
            let factor = cx.b.convert(factor, cx.b.dtype(x));
            x = cx.plain().binary(op, x, factor)?;
        }
    }
    Ok(x)
}

/// With dimensions of size 1 where it was reduced.
fn statistic(cx: &mut Cx, made: InstrId, x: InstrId, dims: &[usize]) -> Result<Option<InstrId>> {
    let mut sizes = cx.b.dims(x);
    dims.iter().for_each(|&dim| sizes[dim] = 1);
    cx.plain().reshape(made, &sizes).map(Some)
}

/// `native_layer_norm` and `layer_norm`.
pub(super) fn layer(cx: &mut Cx) -> Parts {
    let x = cx.tensor("input")?;
    cx.expect_floats(x)?;
    let (x, dims) = (widened(cx, x), normalized(cx, x)?);
    let epsilon = cx.float("eps", 1e-5)?;
    let (made, mean, inverse) = onnx::standard(&mut cx.plain(), x, &dims, epsilon);
    let made = affine(cx, made)?;
    let mean = if cx.is_read(1) { statistic(cx, mean, x, &dims)? } else { None };
    let inverse = if cx.is_read(2) { statistic(cx, inverse, x, &dims)? } else { None };
    Ok(vec![Some(made), mean, inverse])
}

/// `rms_norm` and `_fused_rms_norm`; without `eps` it is the type's own.
pub(super) fn rms(cx: &mut Cx) -> Parts {
    let x = cx.tensor("input")?;
    cx.expect_floats(x)?;
    let own = match cx.b.dtype(x) {
        DType::F64 => f64::EPSILON,
        DType::F16 => 9.765_625e-4,
        DType::Bf16 => 7.812_5e-3,
        _ => f64::from(f32::EPSILON),
    };
    let (x, dims, epsilon) = (widened(cx, x), normalized(cx, x)?, cx.float("eps", own)?);
    let (made, inverse) = onnx::unit(&mut cx.plain(), x, &dims, epsilon);
    let made = affine(cx, made)?;
    let inverse = if cx.is_read(1) { statistic(cx, inverse, x, &dims)? } else { None };
    Ok(vec![Some(made), inverse])
}

/// `native_group_norm` and `group_norm`.
pub(super) fn group(cx: &mut Cx, groups: &str) -> Parts {
    let (x, n) = (cx.tensor("input")?, cx.int(groups, 0)?);
    cx.expect_floats(x)?;
    let dims = cx.b.dims(x);
    if dims.len() < 2 || n < 1 || dims[1] % n != 0 {
        return Err(Diagnostic::error(format!("{n} groups of the features of {dims:?}")));
    }
    let x = widened(cx, x);
    let split = cx.plain().reshape(x, &[dims[0], n, dims[1..].iter().product::<i64>() / n])?;
    let epsilon = cx.float("eps", 1e-5)?;
    let (made, mean, inverse) = onnx::standard(&mut cx.plain(), split, &[2], epsilon);
    let made = cx.plain().reshape(made, &dims)?;
    let made = per_feature_affine(cx, made)?;
    Ok(vec![Some(made), Some(mean), Some(inverse)])
}

/// Times `weight` plus `bias`, one of each per feature.
fn per_feature_affine(cx: &mut Cx, mut x: InstrId) -> Result<InstrId> {
    for (name, op) in [("weight", Opcode::Multiply), ("bias", Opcode::Add)] {
        if let Some(factor) = cx.optional(name)? {
            let factor = cx.b.convert(factor, cx.b.dtype(x));
            let factor = cx.plain().per_feature(factor, x)?;
            x = cx.op(op, &[x, factor])?;
        }
    }
    Ok(x)
}

/// Batch normalisation: the result, the mean and the inverse deviation of the batch, and the next running
/// statistics, if there are any.
pub(super) fn batch(cx: &mut Cx, is_training: bool) -> Parts {
    let x = cx.tensor("input")?;
    cx.expect_floats(x)?;
    if cx.b.rank(x) < 2 {
        return Err(Diagnostic::error("the input must have a dimension of images and one of features"));
    }
    let x = widened(cx, x);
    let running = [cx.optional("running_mean")?, cx.optional("running_var")?];
    let is_training = cx.flag("training", is_training) || running == [None, None];
    let ([mean, variance], n) = match (is_training, running) {
        (false, [Some(mean), Some(variance)]) => ([mean, variance], 0),
        (true, _) => batch_moments(cx, x),
        _ => return Err(Diagnostic::error("running statistics are missing")),
    };
    let shifted = cx.b.shift(variance, cx.float("eps", 1e-5)?);
    let inverse = cx.b.rsqrt(shifted);
    let [spread, factor] = [mean, inverse].map(|of| cx.plain().per_feature(of, x));
    let centred = cx.op(Opcode::Subtract, &[x, spread?])?;
    let scaled = cx.op(Opcode::Multiply, &[centred, factor?])?;
    let made = per_feature_affine(cx, scaled)?;
    let mut parts = vec![Some(made), is_training.then_some(mean), is_training.then_some(inverse)];
    if let (true, [Some(old_mean), Some(old_variance)]) = (is_training, running) {
        let unbiased = cx.b.scale(variance, n as f64 / (n - 1).max(1) as f64);
        for (old, new) in [(old_mean, mean), (old_variance, unbiased)] {
            parts.push(Some(moved(cx, old, new)?));
        }
    } else {
        parts.extend(running);
    }
    Ok(parts)
}

/// The mean and the variance of each feature, and of how many elements they are.
fn batch_moments(cx: &mut Cx, x: InstrId) -> ([InstrId; 2], i64) {
    let dims = cx.b.dims(x);
    let others: Vec<usize> = (0..dims.len()).filter(|&dim| dim != 1).collect();
    let n = others.iter().map(|&dim| dims[dim]).product();
    let mean = cx.b.mean(x, &others);
    let spread = cx.plain().spread(mean, x, &others);
    let centred = cx.b.sub(x, spread);
    let square = cx.b.square(centred);
    ([mean, cx.b.mean(square, &others)], n)
}

/// A running statistic after one more batch.
fn moved(cx: &mut Cx, old: InstrId, new: InstrId) -> Result<InstrId> {
    let momentum = cx.float("momentum", 0.1)?;
    let new = cx.b.convert(new, cx.b.dtype(old));
    let (kept, added) = (cx.b.scale(old, 1.0 - momentum), cx.b.scale(new, momentum));
    cx.plain().binary(Opcode::Add, kept, added)
}

/// Batch normalisation whose running statistics change unseen in training.
pub(super) fn unseen_batch(cx: &mut Cx) -> Parts {
    if cx.flag("training", false) && cx.optional("running_mean")?.is_some() {
        let error = Diagnostic::error("it changes its running statistics");
        return Err(error.help("write the program in core operators: `.run_decompositions()`"));
    }
    batch(cx, false)
}

/// `dropout`, where nothing is dropped, and its mask.
pub(super) fn dropout(cx: &mut Cx) -> Parts {
    if cx.flag("train", true) && cx.float("p", 0.5)? != 0.0 {
        let error = Diagnostic::error("random numbers are not supported");
        return Err(error.help("export the model in inference mode, `model.eval()`, or without dropout"));
    }
    let x = cx.tensor("input")?;
    let dims = cx.b.dims(x);
    let mask = if cx.is_read(1) { Some(cx.b.full(DType::Pred, &dims, 1.0)) } else { None };
    Ok(vec![Some(x), mask])
}
