//! Operations of CHLO: opcodes of HLO or combinations of a few; longer ones are written out.

use crate::stablehlo::ast::{Attr, Op};
use crate::stablehlo::expand;
use crate::stablehlo::lower::{Lowerer, Made, attr, result};
use phzc_ir::{DType, InstrId, Key, Opcode, Result, Shape, Value};

/// `square %x`.
pub(super) fn square<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let x = cx.take(op, operands, 0)?;
    cx.emit(op, Opcode::Multiply, &[x, x], Vec::new())
}

/// `atan %x`: the angle of (1, x).
pub(super) fn atan<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let array = cx.array(op, operands, 0)?;
    let one = cx.b.full(array.dtype, &array.dims, 1.0);
    cx.emit(op, Opcode::Atan2, &[operands[0], one], Vec::new())
}

/// `conj %x`.
pub(super) fn conj<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let array = cx.array(op, operands, 0)?;
    let dtype = if array.dtype == DType::C128 { DType::F64 } else { DType::F32 };
    let part = Shape::array(dtype, &array.dims);
    let real = cx.b.try_shaped(Opcode::Real, &operands[..1], part.clone(), Vec::new())?;
    let imag = cx.b.try_shaped(Opcode::Imag, &operands[..1], part.clone(), Vec::new())?;
    let negated = cx.b.try_shaped(Opcode::Negate, &[imag], part, Vec::new())?;
    cx.emit(op, Opcode::Complex, &[real, negated], Vec::new())
}

/// `is_inf %x`.
pub(super) fn is_inf<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let array = cx.array(op, operands, 0)?;
    let magnitude = cx.b.try_shaped(Opcode::Abs, &operands[..1], Shape::Array(array), Vec::new())?;
    equals(cx, op, magnitude, f64::INFINITY)
}

/// `is_pos_inf %x`.
pub(super) fn is_pos_inf<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let x = cx.take(op, operands, 0)?;
    equals(cx, op, x, f64::INFINITY)
}

/// `is_neg_inf %x`.
pub(super) fn is_neg_inf<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let x = cx.take(op, operands, 0)?;
    equals(cx, op, x, f64::NEG_INFINITY)
}

fn equals<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, x: InstrId, value: f64) -> Result<Made> {
    let array = cx.array(op, &[x], 0)?;
    let value = cx.b.full(array.dtype, &array.dims, value);
    cx.emit(op, Opcode::Compare, &[x, value], vec![attr(Key::Direction, Value::Word("EQ".into()))])
}

/// `top_k(%x, k = 2)`: HLO's opcode.
pub(super) fn top_k<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let own = op.attr(&["mhlo.attributes"]);
    let field = |key: &str| op.int(&[key]).or_else(|| own?.field(key)?.int());
    let k = field("k").ok_or_else(|| op.error("`top_k` needs `k`"))?;
    let largest = !matches!(own.and_then(|own| own.field("largest")), Some(Attr::Bool(false)));
    let attrs = vec![attr(Key::K, Value::Int(k)), attr(Key::Largest, Value::Bool(largest))];
    cx.emit_all(op, Opcode::Topk, operands, attrs)
}

/// An operation that XLA writes out, element by element.
pub(super) fn written_out<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let name = op.name.strip_prefix("chlo.").unwrap_or(op.name);
    let array = result(op, 0)?;
    for index in 0..operands.len() {
        if cx.array(op, operands, index)? != array {
            return Err(op.error(format!("`{}` needs operands of the result's type", op.name)));
        }
    }
    expand::expand(&mut cx.b, name, &array, operands).map(Made::One).map_err(|message| op.error(message))
}
