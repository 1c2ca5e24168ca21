//! Arithmetic element by element: numbers stand beside tensors, and types are promoted.

use super::node::Cx;
use crate::onnx::Attribute;
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};

/// One operand, in the type of the result.
pub(super) fn map(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let x = cx.like_out("self")?;
    cx.op(op, &[x])
}

/// One of ONNX's operators of one operand.
pub(super) fn named(cx: &mut Cx, op: &str, attributes: Vec<Attribute>) -> Result<InstrId> {
    let x = cx.like_out("self")?;
    cx.onnx(op, &[x.into()], attributes)
}

/// One of ONNX's activations, with arguments of numbers as attributes.
pub(super) fn activation(cx: &mut Cx, op: &str, arguments: &[(&str, &str, f64)]) -> Result<InstrId> {
    let mut attributes = Vec::new();
    for (name, attribute, default) in arguments {
        attributes.push(Attribute::float(attribute, cx.float(name, *default)?));
    }
    named(cx, op, attributes)
}

/// `elu`: scale · (x above 0, else α (exp(x · input_scale) - 1)), so SELU too.
pub(super) fn elu(cx: &mut Cx) -> Result<InstrId> {
    let (alpha, scale) = (cx.float("alpha", 1.0)?, cx.float("scale", 1.0)?);
    let input_scale = cx.float("input_scale", 1.0)?;
    let x = cx.like_out("self")?;
    let scaled = if input_scale == 1.0 { x } else { cx.b.scale(x, input_scale) };
    let low = cx.op(Opcode::ExponentialMinusOne, &[scaled])?;
    let low = if alpha == 1.0 { low } else { cx.b.scale(low, alpha) };
    let zero = cx.b.full_like(x, 0.0);
    let is_high = cx.b.compare(x, zero, "GT");
    let made = cx.op(Opcode::Select, &[is_high, x, low])?;
    Ok(if scale == 1.0 { made } else { cx.b.scale(made, scale) })
}

/// `round`, to whole numbers.
pub(super) fn round(cx: &mut Cx) -> Result<InstrId> {
    match cx.int("decimals", 0)? {
        0 => map(cx, Opcode::RoundNearestEven),
        n => Err(Diagnostic::error(format!("rounding to {n} decimals is not read, only to whole numbers"))),
    }
}

/// Two operands, broadcast, in the type of the result.
pub(super) fn combine(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let dtype = cx.out()?;
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    cx.plain().binary(op, a, b)
}

/// `add` and `sub`: the second operand times `alpha`.
pub(super) fn sum(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let (dtype, alpha) = (cx.out()?, cx.float("alpha", 1.0)?);
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    let b = if alpha == 1.0 { b } else { cx.b.scale(b, alpha) };
    // Truth values are added as they are joined.
    let op = if dtype == DType::Pred && op == Opcode::Add { Opcode::Or } else { op };
    cx.plain().binary(op, a, b)
}

/// `rsub`: the other way round.
pub(super) fn reverse_sub(cx: &mut Cx) -> Result<InstrId> {
    let (dtype, alpha) = (cx.out()?, cx.float("alpha", 1.0)?);
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    let a = if alpha == 1.0 { a } else { cx.b.scale(a, alpha) };
    cx.plain().binary(Opcode::Subtract, b, a)
}

/// `div`, rounded as `rounding_mode` says, and `floor_divide`.
pub(super) fn divide(cx: &mut Cx, mode: &str) -> Result<InstrId> {
    let (mode, dtype) = (cx.text("rounding_mode", mode), cx.out()?);
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    let is_float = dtype.class() == Class::Float;
    match &*mode {
        "" => cx.plain().binary(Opcode::Divide, a, b),
        "trunc" if !is_float => cx.plain().binary(Opcode::Divide, a, b),
        "trunc" => {
            let quotient = cx.plain().binary(Opcode::Divide, a, b)?;
            truncated(cx, quotient)
        }
        "floor" if is_float => {
            let quotient = cx.plain().binary(Opcode::Divide, a, b)?;
            cx.op(Opcode::Floor, &[quotient])
        }
        "floor" => {
            // What is left has the divisor's sign, so that the rest divides exactly.
            let rest = cx.onnx("Mod", &[a.into(), b.into()], Vec::new())?;
            let whole = cx.plain().binary(Opcode::Subtract, a, rest)?;
            cx.plain().binary(Opcode::Divide, whole, b)
        }
        other => Err(Diagnostic::error(format!("`rounding_mode` is `{other}`"))),
    }
}

/// `remainder`, with the sign of the divisor, and `fmod`, with that of the dividend.
pub(super) fn remainder(cx: &mut Cx, is_c: bool) -> Result<InstrId> {
    let dtype = cx.out()?;
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    cx.onnx("Mod", &[a.into(), b.into()], vec![Attribute::int("fmod", i64::from(is_c))])
}

fn truncated(cx: &mut Cx, x: InstrId) -> Result<InstrId> {
    let (sign, size) = (cx.b.sign(x), cx.b.abs(x));
    let floor = cx.op(Opcode::Floor, &[size])?;
    Ok(cx.b.mul(sign, floor))
}

/// `trunc`.
pub(super) fn trunc(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    if cx.b.dtype(x).class() == Class::Float { truncated(cx, x) } else { Ok(x) }
}

/// `pow`, of and by numbers too; small powers are products and roots.
pub(super) fn pow(cx: &mut Cx) -> Result<InstrId> {
    let dtype = cx.out()?;
    let (x, exponent) = (cx.operand("self", dtype)?, cx.number("exponent")?);
    let is_float = dtype.class() == Class::Float;
    match exponent {
        Some(1.0) => Ok(x),
        Some(2.0) => Ok(cx.b.square(x)),
        Some(3.0) => {
            let square = cx.b.square(x);
            Ok(cx.b.mul(square, x))
        }
        Some(0.5) if is_float => Ok(cx.b.sqrt(x)),
        Some(-0.5) if is_float => Ok(cx.b.rsqrt(x)),
        _ => {
            let exponent = cx.operand("exponent", dtype)?;
            cx.plain().binary(Opcode::Power, x, exponent)
        }
    }
}

/// The type in which two operands are compared: of a number beside a tensor its kind alone counts.
fn promoted(cx: &mut Cx, [a, b]: [&str; 2]) -> Result<DType> {
    let mut of = |name: &str| -> Result<(u8, DType, bool)> {
        if let Some(super::schema::Argument::AsFloat(_)) = cx.arg(name) {
            return Ok((2, DType::F32, false));
        }
        if cx.number(name)?.is_some() {
            return Ok((1, DType::S64, false));
        }
        let x = cx.tensor(name)?;
        let (dtype, has_dims) = (cx.b.dtype(x), cx.b.rank(x) > 0);
        let kind = match dtype.class() {
            Class::Float => 2,
            Class::Bool => 0,
            _ => 1,
        };
        Ok((kind, dtype, has_dims))
    };
    let (a, b) = (of(a)?, of(b)?);
    Ok(match a.0.cmp(&b.0) {
        std::cmp::Ordering::Greater => a.1,
        std::cmp::Ordering::Less => b.1,
        _ if a.2 != b.2 => {
            if a.2 {
                a.1
            } else {
                b.1
            }
        }
        // The two 16-bit floats have only a wider one in common.
        _ if a.1 != b.1 && a.1.bits() == 16 && b.1.bits() == 16 && a.0 == 2 => DType::F32,
        _ => {
            if a.1.bits() >= b.1.bits() {
                a.1
            } else {
                b.1
            }
        }
    })
}

/// A relation.
pub(super) fn compare(cx: &mut Cx, direction: &str) -> Result<InstrId> {
    let dtype = promoted(cx, ["self", "other"])?;
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    let [a, b] = cx.plain().alike([a, b])?;
    Ok(cx.b.compare(a, b, direction))
}

/// `logical_…`: numbers are true unless they are zero.
pub(super) fn logical(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let (a, b) = (cx.operand("self", DType::Pred)?, cx.operand("other", DType::Pred)?);
    cx.plain().binary(op, a, b)
}

/// `logical_not`.
pub(super) fn logical_not(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.operand("self", DType::Pred)?;
    Ok(cx.b.not(x))
}

/// `isnan`, `isinf`, `isfinite`: none of integers, all of them are finite.
pub(super) fn is(cx: &mut Cx, what: &str) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    if cx.b.dtype(x).class() != Class::Float {
        let dims = cx.b.dims(x);
        return Ok(cx.b.full(DType::Pred, &dims, f64::from(u8::from(what == "IsFinite"))));
    }
    if what == "IsFinite" { cx.op(Opcode::IsFinite, &[x]) } else { cx.onnx(what, &[x.into()], Vec::new()) }
}

/// `where`.
pub(super) fn choose(cx: &mut Cx) -> Result<InstrId> {
    let (condition, dtype) = (cx.operand("condition", DType::Pred)?, cx.out()?);
    let (a, b) = (cx.operand("self", dtype)?, cx.operand("other", dtype)?);
    select(cx, condition, a, b)
}

/// `masked_fill`: a value where the mask is true.
pub(super) fn masked_fill(cx: &mut Cx) -> Result<InstrId> {
    let (x, mask, dtype) = (cx.like_out("self")?, cx.operand("mask", DType::Pred)?, cx.out()?);
    let value = cx.operand("value", dtype)?;
    select(cx, mask, value, x)
}

/// One of two arrays, all broadcast.
pub(super) fn select(cx: &mut Cx, condition: InstrId, a: InstrId, b: InstrId) -> Result<InstrId> {
    cx.onnx("Where", &[condition.into(), a.into(), b.into()], Vec::new())
}

/// `clamp`, `clamp_min`, `clamp_max`, `hardtanh`: between bounds, either of which may be left out.
pub(super) fn clamp(cx: &mut Cx, [min, max]: [&str; 2], default: Option<[f64; 2]>) -> Result<InstrId> {
    let (mut x, dtype) = (cx.like_out("self")?, cx.out()?);
    for (at, (name, op)) in [(min, Opcode::Maximum), (max, Opcode::Minimum)].into_iter().enumerate() {
        let bound = match (cx.has(name), default) {
            (true, _) => cx.operand(name, dtype)?,
            (false, Some(bounds)) => cx.b.scalar(dtype, bounds[at]),
            (false, None) => continue,
        };
        x = cx.plain().binary(op, x, bound)?;
    }
    Ok(x)
}

/// A cast, or nothing: the type of the result says which.
pub(super) fn same(cx: &mut Cx) -> Result<InstrId> {
    cx.like_out("self")
}

/// `copy`: the second operand in the place of the first.
pub(super) fn copy(cx: &mut Cx) -> Result<InstrId> {
    let (like, src) = (cx.tensor("self")?, cx.like_out("src")?);
    let dims = cx.b.dims(like);
    cx.plain().broadcast_to(src, &dims)
}

/// `gelu`, by tanh if `approximate` says so.
pub(super) fn gelu(cx: &mut Cx) -> Result<InstrId> {
    let approximate = Attribute::text("approximate", &cx.text("approximate", "none"));
    named(cx, "Gelu", vec![approximate])
}

/// `softplus`, of which `beta` and `threshold` are as usual.
pub(super) fn softplus(cx: &mut Cx) -> Result<InstrId> {
    match cx.float("beta", 1.0)? == 1.0 && cx.float("threshold", 20.0)? >= 20.0 {
        true => named(cx, "Softplus", Vec::new()),
        false => Err(Diagnostic::error("`beta` and `threshold` other than 1 and 20 are not supported")),
    }
}

/// A logarithm to another base.
pub(super) fn log_to(cx: &mut Cx, base: f64) -> Result<InstrId> {
    let log = map(cx, Opcode::Log)?;
    Ok(cx.b.scale(log, 1.0 / base.ln()))
}

/// 2ˣ.
pub(super) fn exp2(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.like_out("self")?;
    let scaled = cx.b.scale(x, std::f64::consts::LN_2);
    cx.op(Opcode::Exponential, &[scaled])
}

/// `erfc`: 1 − erf x.
pub(super) fn erfc(cx: &mut Cx) -> Result<InstrId> {
    let erf = map(cx, Opcode::Erf)?;
    let negative = cx.b.neg(erf);
    Ok(cx.b.shift(negative, 1.0))
}

/// x².
pub(super) fn square(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.like_out("self")?;
    Ok(cx.b.square(x))
}

/// `addcmul` and `addcdiv`: `self` and `value` times a product or a quotient.
pub(super) fn add_combined(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let (x, dtype, value) = (cx.like_out("self")?, cx.out()?, cx.float("value", 1.0)?);
    let (a, b) = (cx.operand("tensor1", dtype)?, cx.operand("tensor2", dtype)?);
    let made = cx.plain().binary(op, a, b)?;
    let made = if value == 1.0 { made } else { cx.b.scale(made, value) };
    cx.plain().binary(Opcode::Add, x, made)
}

/// `threshold_backward`: the gradient where the operand is above the threshold.
pub(super) fn threshold_backward(cx: &mut Cx) -> Result<InstrId> {
    let (grad, x) = (cx.like_out("grad_output")?, cx.like_out("self")?);
    let bound = cx.b.full_like(x, cx.float("threshold", 0.0)?);
    let is_above = cx.b.compare(x, bound, "GT");
    let zero = cx.b.full_like(grad, 0.0);
    select(cx, is_above, grad, zero)
}

/// `tanh_backward` and `sigmoid_backward`: the gradient times the slope, which follows from the result.
pub(super) fn curve_backward(cx: &mut Cx, of: fn(&mut Cx, InstrId) -> InstrId) -> Result<InstrId> {
    let (grad, y) = (cx.like_out("grad_output")?, cx.like_out("output")?);
    let slope = of(cx, y);
    cx.plain().binary(Opcode::Multiply, grad, slope)
}

/// 1 − y².
pub(super) fn tanh_slope(cx: &mut Cx, y: InstrId) -> InstrId {
    let square = cx.b.square(y);
    let negative = cx.b.neg(square);
    cx.b.shift(negative, 1.0)
}

/// y − y².
pub(super) fn sigmoid_slope(cx: &mut Cx, y: InstrId) -> InstrId {
    let square = cx.b.square(y);
    cx.b.sub(y, square)
}

/// `hardsigmoid`: x/6 + 1/2 between 0 and 1.
pub(super) fn hard_sigmoid(cx: &mut Cx) -> Result<InstrId> {
    named(cx, "HardSigmoid", vec![Attribute::float("alpha", 1.0 / 6.0), Attribute::float("beta", 0.5)])
}
