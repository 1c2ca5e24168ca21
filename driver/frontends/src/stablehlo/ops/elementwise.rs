//! Operations on elements that need attributes.

use crate::stablehlo::ast::Op;
use crate::stablehlo::lower::{Lowerer, Made, attr};
use phzc_ir::{InstrId, Key, Opcode, Result, Value};

/// `compare LT, %a, %b, FLOAT`; types that follow from the elements are not written.
pub(super) fn compare<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let direction = op.word(&["comparison_direction"], 0);
    let direction = direction.ok_or_else(|| op.error("`compare` needs a direction such as `LT`"))?;
    if !["EQ", "NE", "GE", "GT", "LE", "LT"].contains(&direction) {
        return Err(op.error(format!("`{direction}` is no direction of a comparison")));
    }
    let mut attrs = vec![attr(Key::Direction, Value::Word(direction.into()))];
    if op.word(&["compare_type"], 1) == Some("TOTALORDER") {
        attrs.push(attr(Key::Type, Value::Word("TOTALORDER".into())));
    }
    cx.emit(op, Opcode::Compare, operands, attrs)
}

/// `reduce_precision %x, format = e8m7`.
pub(super) fn reduce_precision<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let format = op.word(&["format"], 0).and_then(|format| format.strip_prefix('e')?.split_once('m'));
    let (exponent, mantissa) = match format {
        Some((exponent, mantissa)) => (exponent.parse().ok(), mantissa.parse().ok()),
        None => (op.int(&["exponent_bits"]), op.int(&["mantissa_bits"])),
    };
    let (Some(exponent), Some(mantissa)) = (exponent, mantissa) else {
        return Err(op.error("`reduce_precision` needs a format such as `e8m7`"));
    };
    let attrs =
        vec![attr(Key::ExponentBits, Value::Int(exponent)), attr(Key::MantissaBits, Value::Int(mantissa))];
    cx.emit(op, Opcode::ReducePrecision, operands, attrs)
}

/// `"map"(%a, %b) <{dimensions}> ({computation})`.
pub(super) fn map<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let name = cx.region_name();
    let comp = cx.region(op.region(0)?, &name, op)?;
    let dims = phzc_ir::build::ints(Key::Dimensions, op.ints(&["dimensions"])?);
    cx.emit(op, Opcode::Map, operands, vec![dims, attr(Key::ToApply, Value::Comp(comp))])
}
