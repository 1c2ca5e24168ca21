//! Arithmetic element by element, with broadcasting.

use super::node::{Cx, is_float};
use super::tensor;
use phzc_ir::build::word;
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Diagnostic, InstrId, Key, Opcode, Result};

/// One operand.
pub(super) fn map(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let x = cx.input(0)?;
    cx.op(op, &[x], Vec::new())
}

/// Two operands or more.
pub(super) fn combine(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let first = cx.input(0)?;
    let mut rest = cx.all()?.into_iter().skip(1);
    rest.try_fold(first, |sum, next| cx.binary(op, sum, next))
}

/// The mean of several operands.
pub(super) fn mean(cx: &mut Cx) -> Result<InstrId> {
    cx.float(0)?;
    let sum = combine(cx, Opcode::Add)?;
    Ok(cx.b.scale(sum, 1.0 / cx.inputs.len() as f64))
}

/// A relation.
pub(super) fn compare(cx: &mut Cx, direction: &str) -> Result<InstrId> {
    let operands = [cx.input(0)?, cx.input(1)?];
    let operands = cx.alike(operands)?;
    cx.op(Opcode::Compare, &operands, vec![word(Key::Direction, direction)])
}

/// `Where`.
pub(super) fn choose(cx: &mut Cx) -> Result<InstrId> {
    let operands = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
    let operands = cx.alike(operands)?;
    cx.op(Opcode::Select, &operands, Vec::new())
}

/// `Cast`.
pub(super) fn cast(cx: &mut Cx) -> Result<InstrId> {
    let (x, to) = (cx.input(0)?, cx.attr_int("to", 0));
    let dtype = tensor::dtype(i32::try_from(to).unwrap_or(0))?;
    Ok(converted(cx, x, dtype))
}

/// `CastLike`.
pub(super) fn cast_like(cx: &mut Cx) -> Result<InstrId> {
    let (x, like) = (cx.input(0)?, cx.input(1)?);
    let dtype = cx.b.dtype(like);
    Ok(converted(cx, x, dtype))
}

/// As another type; a number is true unless it is zero.
fn converted(cx: &mut Cx, x: InstrId, dtype: DType) -> InstrId {
    if dtype != DType::Pred || cx.b.dtype(x) == DType::Pred {
        return cx.b.convert(x, dtype);
    }
    let zero = cx.b.full_like(x, 0.0);
    cx.b.compare(x, zero, "NE")
}

/// `Pow`: the exponent may be of another type; squares are products.
pub(super) fn pow(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.input(0)?;
    let exponent = cx.known(1).ok().filter(|array| array.len() == 1 && array.rank() <= cx.b.rank(x));
    if exponent.is_some_and(|array| array.to_f64_vec() == [2.0]) && cx.b.dtype(x) != DType::Pred {
        return Ok(cx.b.square(x));
    }
    let (exponent, dtype) = (cx.input(1)?, cx.b.dtype(x));
    let exponent = cx.b.convert(exponent, dtype);
    cx.binary(Opcode::Power, x, exponent)
}

/// `Reciprocal`.
pub(super) fn reciprocal(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let one = cx.b.full_like(x, 1.0);
    Ok(cx.b.div(one, x))
}

/// `Mod`: the remainder has the sign of the divisor, unless `fmod` asks for C's.
pub(super) fn modulo(cx: &mut Cx) -> Result<InstrId> {
    let operands = [cx.input(0)?, cx.input(1)?];
    let [a, b] = cx.alike(operands)?;
    let rest = cx.op(Opcode::Remainder, &[a, b], Vec::new())?;
    let class = cx.b.dtype(rest).class();
    if cx.attr_int("fmod", 0) != 0 || class == Class::Unsigned {
        return Ok(rest);
    }
    if !matches!(class, Class::Signed | Class::Float) {
        return Err(Diagnostic::error("the operands must be numbers"));
    }
    let zero = cx.b.full_like(rest, 0.0);
    let is_negative = [rest, b].map(|x| cx.b.compare(x, zero, "LT"));
    let differ = cx.b.compare(is_negative[0], is_negative[1], "NE");
    let is_some = cx.b.compare(rest, zero, "NE");
    let (wrong, moved) = (cx.b.and(differ, is_some), cx.b.add(rest, b));
    Ok(cx.b.select(wrong, moved, rest))
}

/// `IsNaN`: what differs from itself.
pub(super) fn is_nan(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    Ok(cx.b.compare(x, x, "NE"))
}

/// `IsInf`, of the signs that are asked for.
pub(super) fn is_inf(cx: &mut Cx) -> Result<InstrId> {
    let x = cx.float(0)?;
    let is = |cx: &mut Cx, name: &str, value: f64| {
        let value = if cx.attr_int(name, 1) != 0 { value } else { f64::NAN };
        let bound = cx.b.full_like(x, value);
        cx.b.compare(x, bound, "EQ")
    };
    let above = is(cx, "detect_positive", f64::INFINITY);
    let below = is(cx, "detect_negative", f64::NEG_INFINITY);
    Ok(cx.b.or(above, below))
}

/// An error unless the array is of floats.
pub(super) fn expect_floats(cx: &Cx, x: InstrId) -> Result<()> {
    match is_float(cx.b.dtype(x)) {
        true => Ok(()),
        false => Err(Diagnostic::error("the operand must be of floats")),
    }
}
