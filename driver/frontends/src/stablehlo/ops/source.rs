//! Values that are made of nothing: constants, counters, random bits.

use crate::stablehlo::ast::{Attr, Op};
use crate::stablehlo::dense::Literal;
use crate::stablehlo::lower::{Lowerer, Made, attr, result};
use phzc_ir::{InstrId, Key, Opcode, Result, Value};

/// `constant dense<…>`; an array of equal elements is one element, broadcast.
pub(super) fn constant<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, _: &[InstrId]) -> Result<Made> {
    let Some(Attr::Dense(dense)) = op.attr(&["value"]) else {
        return Err(op.error("`constant` needs a literal such as `dense<0.0> : tensor<f32>`"));
    };
    let array = result(op, 0)?;
    if Some(&array) != dense.shape.as_array() {
        return Err(op.error("the literal has another type than the constant"));
    }
    let blob = cx.file.blobs.get(dense.text.trim()).copied().filter(|_| dense.is_resource);
    let text = match dense.literal(blob)? {
        Literal::Splat(element) => {
            let scalar = cx.b.literal(array.dtype, &[], &element);
            if array.dims.is_empty() {
                return Ok(Made::One(scalar));
            }
            let none = phzc_ir::build::ints(Key::Dimensions, []);
            return cx.emit(op, Opcode::Broadcast, &[scalar], vec![none]);
        }
        Literal::All(text) => text,
        Literal::Elided => "{...}".to_owned(),
    };
    Ok(Made::One(cx.b.literal(array.dtype, &array.dims, &text)))
}

/// `iota dim = 0`.
pub(super) fn iota<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let along = op.need_int(&["dim", "iota_dimension"])?;
    cx.emit(op, Opcode::Iota, operands, vec![attr(Key::IotaDimension, Value::Int(along))])
}

/// `rng_bit_generator %state, algorithm = DEFAULT`.
pub(super) fn rng_bit_generator<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let algorithm = match op.word(&["algorithm", "rng_algorithm"], 0) {
        Some("THREE_FRY") => "rng_three_fry",
        Some("PHILOX") => "rng_philox",
        _ => "rng_default",
    };
    let algorithm = attr(Key::Algorithm, Value::Word(algorithm.into()));
    cx.emit_all(op, Opcode::RngBitGenerator, operands, vec![algorithm])
}

/// `rng %a, %b, %shape, distribution = UNIFORM`: the shape is the result's.
pub(super) fn rng<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let distribution = match op.word(&["distribution", "rng_distribution"], 0) {
        Some("NORMAL") => "rng_normal",
        _ => "rng_uniform",
    };
    let bounds = &operands[..operands.len().min(2)];
    cx.emit(op, Opcode::Rng, bounds, vec![attr(Key::Distribution, Value::Word(distribution.into()))])
}
