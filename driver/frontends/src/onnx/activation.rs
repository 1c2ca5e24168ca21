//! Activation functions.

use super::node::Cx;
use phzc_ir::{InstrId, Opcode, Result};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// max(x, 0).
pub(super) fn relu(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let zero = cx.b.full_like(x, 0.0);
    cx.op(Opcode::Maximum, &[x, zero], Vec::new())
}

/// Between two scalars, either of which may be left out.
pub(super) fn clip(cx: &mut Cx) -> Result<InstrId> {
    let mut x = cx.input(0)?;
    for (index, op) in [(1, Opcode::Maximum), (2, Opcode::Minimum)] {
        if let Some(bound) = cx.optional(index)? {
            x = cx.binary(op, x, bound)?;
        }
    }
    Ok(x)
}

/// x·Φ(x), or its approximation by tanh.
pub(super) fn gelu(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let curve = if cx.attr_text("approximate", "none") == "tanh" {
        let square = cx.b.square(x);
        let cube = cx.b.mul(square, x);
        let cube = cx.b.scale(cube, 0.044715);
        let sum = cx.b.add(x, cube);
        let inner = cx.b.scale(sum, FRAC_2_PI.sqrt());
        cx.b.tanh(inner)
    } else {
        let inner = cx.b.scale(x, FRAC_1_SQRT_2);
        cx.b.erf(inner)
    };
    let (half, curve) = (cx.b.scale(x, 0.5), cx.b.shift(curve, 1.0));
    Ok(cx.b.mul(half, curve))
}

/// x where it is positive, else something else of it.
fn or_negative(cx: &mut Cx, x: InstrId, negative: InstrId) -> InstrId {
    let zero = cx.b.full_like(x, 0.0);
    let is_positive = cx.b.compare(x, zero, "GT");
    cx.b.select(is_positive, x, negative)
}

/// x, or α·x below zero.
pub(super) fn leaky_relu(cx: &mut Cx) -> Result<InstrId> {
    let (x, alpha) = (cx.float(0)?, cx.attr_float("alpha", 0.01));
    let negative = cx.b.scale(x, alpha);
    Ok(or_negative(cx, x, negative))
}

/// x, or slope·x below zero, with slopes that are broadcast.
pub(super) fn prelu(cx: &mut Cx) -> Result<InstrId> {
    let (x, slope) = (cx.float(0)?, cx.input(1)?);
    let dims = cx.b.dims(x);
    let slope = cx.broadcast_to(slope, &dims)?;
    let negative = cx.op(Opcode::Multiply, &[x, slope], Vec::new())?;
    Ok(or_negative(cx, x, negative))
}

/// α·(eˣ − 1).
fn exp_minus_one(cx: &mut Cx, x: InstrId, alpha: f64) -> Result<InstrId> {
    let curve = cx.op(Opcode::ExponentialMinusOne, &[x], Vec::new())?;
    Ok(cx.b.scale(curve, alpha))
}

/// x, or α·(eˣ − 1) below zero.
pub(super) fn elu(cx: &mut Cx) -> Result<InstrId> {
    let (x, alpha) = (cx.float(0)?, cx.attr_float("alpha", 1.0));
    let negative = exp_minus_one(cx, x, alpha)?;
    Ok(or_negative(cx, x, negative))
}

/// x, or α·(e^(x/α) − 1) below zero.
pub(super) fn celu(cx: &mut Cx) -> Result<InstrId> {
    let (x, alpha) = (cx.float(0)?, cx.attr_float("alpha", 1.0));
    let scaled = cx.b.scale(x, 1.0 / alpha);
    let negative = exp_minus_one(cx, scaled, alpha)?;
    Ok(or_negative(cx, x, negative))
}

/// x above α, else 0.
pub(super) fn thresholded_relu(cx: &mut Cx) -> Result<InstrId> {
    let (x, alpha) = (cx.float(0)?, cx.attr_float("alpha", 1.0));
    let [alpha, zero] = [alpha, 0.0].map(|bound| cx.b.full_like(x, bound));
    let is_above = cx.b.compare(x, alpha, "GT");
    Ok(cx.b.select(is_above, x, zero))
}

/// γ·x, or γ·α·(eˣ − 1) below zero; the defaults are those of the operator's definition.
pub(super) fn selu(cx: &mut Cx) -> Result<InstrId> {
    let (x, alpha) = (cx.float(0)?, cx.attr_float("alpha", 1.673_263_192_176_818_8));
    let negative = exp_minus_one(cx, x, alpha)?;
    let curve = or_negative(cx, x, negative);
    Ok(cx.b.scale(curve, cx.attr_float("gamma", 1.050_701_022_148_132_3)))
}

/// α·x + β between 0 and 1.
fn hard(cx: &mut Cx, x: InstrId, alpha: f64, beta: f64) -> InstrId {
    let scaled = cx.b.scale(x, alpha);
    let line = cx.b.shift(scaled, beta);
    let [zero, one] = [0.0, 1.0].map(|bound| cx.b.full_like(x, bound));
    let line = cx.b.max(line, zero);
    cx.b.min(line, one)
}

/// α·x + β between 0 and 1.
pub(super) fn hard_sigmoid(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let (alpha, beta) = (cx.attr_float("alpha", 0.2), cx.attr_float("beta", 0.5));
    Ok(hard(cx, x, alpha, beta))
}

/// x·(x/6 + 1/2 between 0 and 1).
pub(super) fn hard_swish(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let gate = hard(cx, x, 1.0 / 6.0, 0.5);
    Ok(cx.b.mul(x, gate))
}

/// x·σ(α·x).
pub(super) fn swish(cx: &mut Cx) -> Result<InstrId> {
    let (x, alpha) = (cx.float(0)?, cx.attr_float("alpha", 1.0));
    let scaled = if alpha == 1.0 { x } else { cx.b.scale(x, alpha) };
    let gate = cx.b.logistic(scaled);
    Ok(cx.b.mul(x, gate))
}

/// ln(1 + eˣ) without overflow: max(x, 0) + ln(1 + e^−|x|).
fn soft_plus(cx: &mut Cx, x: InstrId) -> Result<InstrId> {
    let size = cx.b.abs(x);
    let negative = cx.b.neg(size);
    let small = cx.b.exp(negative);
    let curve = cx.op(Opcode::LogPlusOne, &[small], Vec::new())?;
    let zero = cx.b.full_like(x, 0.0);
    let line = cx.b.max(x, zero);
    Ok(cx.b.add(line, curve))
}

/// ln(1 + eˣ).
pub(super) fn softplus(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    soft_plus(cx, x)
}

/// x·tanh(ln(1 + eˣ)).
pub(super) fn mish(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let curve = soft_plus(cx, x)?;
    let gate = cx.b.tanh(curve);
    Ok(cx.b.mul(x, gate))
}

/// x/(1 + |x|).
pub(super) fn softsign(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let size = cx.b.abs(x);
    let divisor = cx.b.shift(size, 1.0);
    Ok(cx.b.div(x, divisor))
}
