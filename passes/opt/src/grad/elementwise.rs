//! Derivatives of arithmetic element by element.

use super::scope::Cx;
use super::table::splat;
use phzc_ir::{InstrId, Key, Opcode, Result};

/// Rules of one operand: the operand's cotangent from `cx` and the result's.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident($cx:ident, $ct:ident) $body:expr;)*) => {
        $($(#[$doc])* pub(super) fn $name($cx: &mut Cx) -> Result<()> {
            let $ct = $cx.ct();
            let made = $body;
            $cx.give(0, made);
            Ok(())
        })*
    };
}

unary! {
    /// −1.
    negate(cx, ct) cx.b.neg(ct);
    /// The sign.
    abs(cx, ct) { let x = cx.x(0); let sign = cx.b.sign(x); cx.b.mul(ct, sign) };
    /// eˣ.
    exponential(cx, ct) { let y = cx.y(); cx.b.mul(ct, y) };
    /// eˣ.
    exponential_minus_one(cx, ct) { let y = cx.y(); let e = cx.b.shift(y, 1.0); cx.b.mul(ct, e) };
    /// 1/x.
    log(cx, ct) { let x = cx.x(0); cx.b.div(ct, x) };
    /// 1/(1 + x).
    log_plus_one(cx, ct) { let x = cx.x(0); let x1 = cx.b.shift(x, 1.0); cx.b.div(ct, x1) };
    /// 1 − y².
    tanh(cx, ct) { let y = cx.y(); let d = one_minus_square(cx, y); cx.b.mul(ct, d) };
    /// 1 + y².
    tan(cx, ct) { let y = cx.y(); let y2 = cx.b.square(y); let d = cx.b.shift(y2, 1.0); cx.b.mul(ct, d) };
    /// 1/(2y).
    sqrt(cx, ct) { let y = cx.y(); let y2 = cx.b.scale(y, 2.0); cx.b.div(ct, y2) };
    /// 1/(3y²), as y/(3x).
    cbrt(cx, ct) {
        let (x, y) = (cx.x(0), cx.y());
        let x3 = cx.b.scale(x, 3.0);
        let d = cx.b.div(y, x3);
        cx.b.mul(ct, d)
    };
    /// −y/(2x).
    rsqrt(cx, ct) {
        let (x, y) = (cx.x(0), cx.y());
        let slope = cx.b.div(y, x);
        let slope = cx.b.scale(slope, -0.5);
        cx.b.mul(ct, slope)
    };
    /// y(1 − y).
    logistic(cx, ct) {
        let y = cx.y();
        let one = cx.b.full_like(y, 1.0);
        let rest = cx.b.sub(one, y);
        let slope = cx.b.mul(y, rest);
        cx.b.mul(ct, slope)
    };
    /// cos x.
    sine(cx, ct) { let x = cx.x(0); let d = cx.b.cos(x); cx.b.mul(ct, d) };
    /// −sin x.
    cosine(cx, ct) { let x = cx.x(0); let d = cx.b.sin(x); let d = cx.b.neg(d); cx.b.mul(ct, d) };
    /// cosh x.
    sinh(cx, ct) { let x = cx.x(0); let d = cx.b.op(Opcode::Cosh, &[x], Vec::new()); cx.b.mul(ct, d) };
    /// sinh x.
    cosh(cx, ct) { let x = cx.x(0); let d = cx.b.op(Opcode::Sinh, &[x], Vec::new()); cx.b.mul(ct, d) };
    /// 1/√(1 − x²).
    asin(cx, ct) { let x = cx.x(0); let d = one_minus_square(cx, x); let d = cx.b.rsqrt(d); cx.b.mul(ct, d) };
    /// −1/√(1 − x²).
    acos(cx, ct) {
        let x = cx.x(0);
        let d = one_minus_square(cx, x);
        let d = cx.b.rsqrt(d);
        let d = cx.b.mul(ct, d);
        cx.b.neg(d)
    };
    /// 1/√(x² + 1).
    asinh(cx, ct) {
        let x = cx.x(0);
        let d = cx.b.square(x);
        let d = cx.b.shift(d, 1.0);
        let d = cx.b.rsqrt(d);
        cx.b.mul(ct, d)
    };
    /// 1/√(x² − 1), as the product of two roots: no overflow.
    acosh(cx, ct) {
        let x = cx.x(0);
        let [less, more] = [-1.0, 1.0].map(|c| cx.b.shift(x, c));
        let [less, more] = [less, more].map(|part| cx.b.rsqrt(part));
        let d = cx.b.mul(less, more);
        cx.b.mul(ct, d)
    };
    /// 1/(1 − x²).
    atanh(cx, ct) { let x = cx.x(0); let d = one_minus_square(cx, x); cx.b.div(ct, d) };
    /// 2/√π · e^(−x²).
    erf(cx, ct) {
        let x = cx.x(0);
        let x2 = cx.b.square(x);
        let x2 = cx.b.neg(x2);
        let d = cx.b.exp(x2);
        let d = cx.b.scale(d, std::f64::consts::FRAC_2_SQRT_PI);
        cx.b.mul(ct, d)
    };
    /// 1, in the operand's type.
    convert(cx, ct) { let dtype = cx.shape(0).dtype; cx.b.convert(ct, dtype) };
}

fn one_minus_square(cx: &mut Cx, x: InstrId) -> InstrId {
    let one = cx.b.full_like(x, 1.0);
    let square = cx.b.square(x);
    cx.b.sub(one, square)
}

/// 1 and 1.
pub(super) fn add(cx: &mut Cx) -> Result<()> {
    let ct = cx.ct();
    (0..2).for_each(|operand| cx.give_with(operand, |_| ct));
    Ok(())
}

/// 1 and −1.
pub(super) fn subtract(cx: &mut Cx) -> Result<()> {
    let ct = cx.ct();
    cx.give_with(0, |_| ct);
    cx.give_with(1, |cx| cx.b.neg(ct));
    Ok(())
}

/// The other operand.
pub(super) fn multiply(cx: &mut Cx) -> Result<()> {
    let ct = cx.ct();
    if cx.instr.operands[0] == cx.instr.operands[1] {
        let x = cx.x(0);
        let x2 = cx.b.scale(x, 2.0);
        let made = cx.b.mul(ct, x2);
        cx.give(0, made);
        return Ok(());
    }
    for operand in 0..2 {
        cx.give_with(operand, |cx| {
            let other = cx.x(1 - operand);
            cx.b.mul(ct, other)
        });
    }
    Ok(())
}

/// 1/b and −y/b.
pub(super) fn divide(cx: &mut Cx) -> Result<()> {
    let (ct, divisor) = (cx.ct(), cx.x(1));
    let first = cx.b.div(ct, divisor);
    cx.give_with(0, |_| first);
    cx.give_with(1, |cx| {
        let y = cx.y();
        let made = cx.b.mul(first, y);
        cx.b.neg(made)
    });
    Ok(())
}

/// 1 and minus the quotient, rounded to zero.
pub(super) fn remainder(cx: &mut Cx) -> Result<()> {
    let ct = cx.ct();
    cx.give_with(0, |_| ct);
    cx.give_with(1, |cx| {
        let (x, y, divisor) = (cx.x(0), cx.y(), cx.x(1));
        let whole = cx.b.sub(x, y);
        let quotient = cx.b.div(whole, divisor);
        let quotient = cx.b.op(Opcode::RoundNearestEven, &[quotient], Vec::new());
        let made = cx.b.mul(ct, quotient);
        cx.b.neg(made)
    });
    Ok(())
}

/// b/(a² + b²) and −a/(a² + b²).
pub(super) fn atan2(cx: &mut Cx) -> Result<()> {
    let (ct, a, b) = (cx.ct(), cx.x(0), cx.x(1));
    let (a2, b2) = (cx.b.square(a), cx.b.square(b));
    let norm = cx.b.add(a2, b2);
    let share = cx.b.div(ct, norm);
    cx.give_with(0, |cx| cx.b.mul(share, b));
    cx.give_with(1, |cx| {
        let made = cx.b.mul(share, a);
        cx.b.neg(made)
    });
    Ok(())
}

/// 1 for the operand that is the result, 1/2 for both where they are equal.
pub(super) fn extremum(cx: &mut Cx) -> Result<()> {
    let (ct, y, x) = (cx.ct(), cx.y(), [cx.x(0), cx.x(1)]);
    if cx.instr.operands[0] == cx.instr.operands[1] {
        cx.give(0, ct);
        return Ok(());
    }
    let [one, half, zero] = [1.0, 0.5, 0.0].map(|c| cx.b.full_like(y, c));
    for operand in 0..2 {
        cx.give_with(operand, |cx| {
            let [is_own, is_other] = [x[operand], x[1 - operand]].map(|x| cx.b.compare(x, y, "EQ"));
            let share = cx.b.select(is_other, half, one);
            let share = cx.b.select(is_own, share, zero);
            cx.b.mul(ct, share)
        });
    }
    Ok(())
}

/// b·a^(b−1), and y·ln a where a is not 0.
pub(super) fn power(cx: &mut Cx) -> Result<()> {
    let ct = cx.ct();
    cx.give_with(0, |cx| {
        let slope = power_slope(cx);
        cx.b.mul(ct, slope)
    });
    cx.give_with(1, |cx| {
        let (base, y) = (cx.x(0), cx.y());
        let [zero, one] = [0.0, 1.0].map(|c| cx.b.full_like(y, c));
        let is_zero = cx.b.compare(base, zero, "EQ");
        let safe = cx.b.select(is_zero, one, base);
        let log = cx.b.log(safe);
        let slope = cx.b.mul(log, y);
        cx.b.mul(ct, slope)
    });
    Ok(())
}

fn power_slope(cx: &mut Cx) -> InstrId {
    let (base, exponent) = (cx.x(0), splat(cx, 1));
    match exponent {
        Some(1.0) => cx.b.full_like(base, 1.0),
        Some(2.0) => cx.b.scale(base, 2.0),
        Some(0.0) => cx.b.full_like(base, 0.0),
        Some(c) => {
            let less = cx.b.full_like(base, c - 1.0);
            let raised = cx.b.power(base, less);
            cx.b.scale(raised, c)
        }
        None => {
            let exponent = cx.x(1);
            let [zero, one] = [0.0, 1.0].map(|c| cx.b.full_like(exponent, c));
            let is_zero = cx.b.compare(exponent, zero, "EQ");
            let less = cx.b.sub(exponent, one);
            let less = cx.b.select(is_zero, one, less);
            let raised = cx.b.power(base, less);
            cx.b.mul(raised, exponent)
        }
    }
}

/// The cotangent where an operand is chosen.
pub(super) fn select(cx: &mut Cx) -> Result<()> {
    let (ct, predicate) = (cx.ct(), cx.x(0));
    let zero = cx.b.full_like(ct, 0.0);
    cx.give_with(1, |cx| cx.b.select(predicate, ct, zero));
    cx.give_with(2, |cx| cx.b.select(predicate, zero, ct));
    Ok(())
}

/// The cotangent where an operand, the least, the value or the greatest, is the result.
pub(super) fn clamp(cx: &mut Cx) -> Result<()> {
    let (ct, x) = (cx.ct(), cx.x(1));
    let dims = cx.b.dims(x);
    let bounds = [cx.x(0), cx.x(2)].map(|bound| cx.b.broadcast(bound, &dims, &[]));
    let zero = cx.b.full_like(ct, 0.0);
    let [is_below, is_above] =
        [(bounds[0], "LT"), (bounds[1], "GT")].map(|(bound, direction)| cx.b.compare(x, bound, direction));
    for (operand, is_outside) in [(0, is_below), (2, is_above)] {
        cx.give_with(operand, |cx| {
            let made = cx.b.select(is_outside, ct, zero);
            let all: Vec<usize> = (cx.shape(operand).rank()..dims.len()).collect();
            cx.b.sum(made, &all)
        });
    }
    cx.give_with(1, |cx| {
        let is_outside = cx.b.or(is_below, is_above);
        cx.b.select(is_outside, zero, ct)
    });
    Ok(())
}

/// Whether an instruction compares, combines or converts single elements: cheap to do twice.
pub(super) fn is_elementwise(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::Abs
            | Opcode::Add
            | Opcode::And
            | Opcode::Clamp
            | Opcode::Compare
            | Opcode::Convert
            | Opcode::Copy
            | Opcode::Divide
            | Opcode::Maximum
            | Opcode::Minimum
            | Opcode::Multiply
            | Opcode::Negate
            | Opcode::Not
            | Opcode::Or
            | Opcode::Remainder
            | Opcode::Select
            | Opcode::Sign
            | Opcode::Subtract
            | Opcode::Xor
            | Opcode::ShiftLeft
            | Opcode::ShiftRightLogical
            | Opcode::ShiftRightArithmetic
    )
}

/// Attributes that say how precisely to multiply.
pub(super) const PRECISION: [Key; 2] = [Key::OperandPrecision, Key::Algorithm];
