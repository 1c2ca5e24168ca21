//! Normalisation, softmax and dropout, as they are in inference.

use super::elementwise::expect_floats;
use super::node::{Cx, Value};
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};

/// Mean 0 and variance 1 along some dimensions; also the mean and 1/√(variance + ε).
pub(crate) fn standard(cx: &mut Cx, x: InstrId, dims: &[usize], epsilon: f64) -> (InstrId, InstrId, InstrId) {
    let mean = cx.b.mean(x, dims);
    let spread = cx.spread(mean, x, dims);
    let centred = cx.b.sub(x, spread);
    let (made, inverse) = unit(cx, centred, dims, epsilon);
    (made, mean, inverse)
}

/// Mean square 1 along some dimensions; also what it was multiplied by.
pub(crate) fn unit(cx: &mut Cx, x: InstrId, dims: &[usize], epsilon: f64) -> (InstrId, InstrId) {
    let square = cx.b.square(x);
    let mean = cx.b.mean(square, dims);
    let shifted = cx.b.shift(mean, epsilon);
    let inverse = cx.b.rsqrt(shifted);
    let spread = cx.spread(inverse, x, dims);
    (cx.b.mul(x, spread), inverse)
}

fn epsilon(cx: &Cx) -> f64 {
    cx.attr_float("epsilon", 1e-5)
}

/// The input in at least 32 bits, its own type, and the dimensions from `axis` on.
fn stashed(cx: &mut Cx) -> Result<(InstrId, DType, Vec<usize>)> {
    let x = cx.float(0)?;
    let (axis, own) = (cx.attr_axis(x, -1)?, cx.b.dtype(x));
    let dtype = if own.bits() < 32 { DType::F32 } else { own };
    Ok((cx.b.convert(x, dtype), own, (axis..cx.b.rank(x)).collect()))
}

/// `LayerNormalization`, with the mean and the inverse deviation.
pub(super) fn layer(cx: &mut Cx) -> Result<Vec<Value>> {
    let (x, own, dims) = stashed(cx)?;
    let (made, mean, inverse) = standard(cx, x, &dims, epsilon(cx));
    let made = cx.b.convert(made, own);
    let made = affine(cx, made)?;
    let mut sizes = cx.b.dims(x);
    dims.iter().for_each(|&dim| sizes[dim] = 1);
    let used = cx.node.output.len();
    let mut outputs = vec![Value::Made(made)];
    for statistic in [mean, inverse].into_iter().take(used.saturating_sub(1)) {
        outputs.push(Value::Made(cx.reshape(statistic, &sizes)?));
    }
    Ok(outputs)
}

/// Times the second input plus the third, if there is one.
fn affine(cx: &mut Cx, x: InstrId) -> Result<InstrId> {
    let dims = cx.b.dims(x);
    let scale = cx.input(1)?;
    let scale = cx.broadcast_to(scale, &dims)?;
    let scaled = cx.op(Opcode::Multiply, &[x, scale], Vec::new())?;
    let Some(bias) = cx.optional(2)? else { return Ok(scaled) };
    let bias = cx.broadcast_to(bias, &dims)?;
    cx.op(Opcode::Add, &[scaled, bias], Vec::new())
}

/// `RMSNormalization`.
pub(super) fn rms(cx: &mut Cx) -> Result<InstrId> {
    let (x, own, dims) = stashed(cx)?;
    let (made, _) = unit(cx, x, &dims, epsilon(cx));
    let made = cx.b.convert(made, own);
    affine(cx, made)
}

/// `BatchNormalization` by given statistics.
pub(super) fn batch(cx: &mut Cx) -> Result<InstrId> {
    if cx.attr_int("training_mode", 0) != 0 {
        return Err(Diagnostic::error(
            "`training_mode` is not supported: export the model in inference mode",
        ));
    }
    let x = cx.float(0)?;
    let [scale, bias, mean, variance] = [cx.float(1)?, cx.float(2)?, cx.float(3)?, cx.float(4)?];
    let shifted = cx.b.shift(variance, epsilon(cx));
    let inverse = cx.b.rsqrt(shifted);
    let factor = cx.op(Opcode::Multiply, &[scale, inverse], Vec::new())?;
    let mean = cx.per_feature(mean, x)?;
    let centred = cx.op(Opcode::Subtract, &[x, mean], Vec::new())?;
    per_feature_affine(cx, centred, factor, bias)
}

fn per_feature_affine(cx: &mut Cx, x: InstrId, scale: InstrId, bias: InstrId) -> Result<InstrId> {
    let (scale, bias) = (cx.per_feature(scale, x)?, cx.per_feature(bias, x)?);
    let scaled = cx.op(Opcode::Multiply, &[x, scale], Vec::new())?;
    cx.op(Opcode::Add, &[scaled, bias], Vec::new())
}

/// `InstanceNormalization`: each feature of each image on its own.
pub(super) fn instance(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let spatial: Vec<usize> = (2..cx.b.rank(x)).collect();
    let (made, ..) = standard(cx, x, &spatial, epsilon(cx));
    let (scale, bias) = (cx.input(1)?, cx.input(2)?);
    per_feature_affine(cx, made, scale, bias)
}

/// `GroupNormalization`: scale and bias are per group before opset 21, per feature since.
pub(super) fn group(cx: &mut Cx) -> Result<InstrId> {
    let (x, n) = (cx.float(0)?, cx.attr_int("num_groups", 0));
    let dims = cx.b.dims(x);
    if dims.len() < 2 || n < 1 || dims[1] % n != 0 {
        return Err(Diagnostic::error(format!("{n} groups of the features of {dims:?}")));
    }
    let (size, spatial) = (dims[1] / n, dims[2..].iter().product::<i64>());
    let split = cx.reshape(x, &[dims[0], n, size * spatial])?;
    let (made, ..) = standard(cx, split, &[2], epsilon(cx));
    let made = cx.reshape(made, &dims)?;
    let (mut factors, is_per_group) = ([cx.input(1)?, cx.input(2)?], cx.opset < 21);
    for factor in factors.iter_mut().filter(|_| is_per_group) {
        let column = cx.reshape(*factor, &[n, 1])?;
        let all = cx.broadcast_to(column, &[n, size])?;
        *factor = cx.reshape(all, &[n * size])?;
    }
    per_feature_affine(cx, made, factors[0], factors[1])
}

/// x less its largest along a dimension, what that is to the power of e, and the sum of it.
fn exponents(cx: &mut Cx, x: InstrId, axis: usize) -> Result<[InstrId; 3]> {
    expect_floats(cx, x)?;
    let largest = cx.b.max_of(x, &[axis]);
    let largest = cx.spread(largest, x, &[axis]);
    let lowered = cx.b.sub(x, largest);
    let power = cx.b.exp(lowered);
    let sum = cx.b.sum(power, &[axis]);
    Ok([lowered, power, sum])
}

/// eˣ over its sum.
pub(super) fn softmax(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let axis = cx.attr_axis(x, -1)?;
    let [_, power, sum] = exponents(cx, x, axis)?;
    let sum = cx.spread(sum, power, &[axis]);
    Ok(cx.b.div(power, sum))
}

/// The logarithm of the same.
pub(super) fn log_softmax(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let axis = cx.attr_axis(x, -1)?;
    log_softmax_along(cx, x, axis)
}

/// The same along a given dimension.
pub(super) fn log_softmax_along(cx: &mut Cx, x: InstrId, axis: usize) -> Result<InstrId> {
    let [lowered, _, sum] = exponents(cx, x, axis)?;
    let log = cx.b.log(sum);
    let log = cx.spread(log, lowered, &[axis]);
    Ok(cx.b.sub(lowered, log))
}

/// `Dropout` in inference: nothing is dropped.
pub(super) fn dropout(cx: &mut Cx) -> Result<Vec<Value>> {
    if cx.has(2) && cx.int(2)? != 0 {
        return Err(Diagnostic::error(
            "`training_mode` is not supported: export the model in inference mode",
        ));
    }
    let x = cx.input(0)?;
    let mut outputs = vec![Value::Made(x)];
    if cx.node.output.len() > 1 {
        let dims = cx.b.dims(x);
        outputs.push(Value::Made(cx.b.full(DType::Pred, &dims, 1.0)));
    }
    Ok(outputs)
}
