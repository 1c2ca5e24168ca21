//! Sorting, transforms, decompositions and normalisations.

use crate::stablehlo::ast::{Attr, Op};
use crate::stablehlo::lower::{Lowerer, Made, attr, flag, ints};
use phzc_ir::{InstrId, Key, Opcode, Result, Value};

/// `"sort"(%a, %b) <{dimension, is_stable}> ({comparator})`.
pub(super) fn sort<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let rank = cx.array(op, operands, 0)?.rank() as i64;
    let dim = op.int(&["dimension"]).unwrap_or(-1);
    let mut attrs = vec![ints(Key::Dimensions, [if dim < 0 { dim + rank } else { dim }])];
    attrs.extend(flag(op, "is_stable", Key::IsStable));
    let name = cx.region_name();
    attrs.push(attr(Key::ToApply, Value::Comp(cx.region(op.region(0)?, &name, op)?)));
    cx.emit_all(op, Opcode::Sort, operands, attrs)
}

/// `fft %x, type = RFFT, length = [3]`.
pub(super) fn fft<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let kind =
        op.word(&["type", "fft_type"], 0).ok_or_else(|| op.error("`fft` needs a type such as `RFFT`"))?;
    let attrs = vec![
        attr(Key::FftType, Value::Word(kind.into())),
        ints(Key::FftLength, op.ints(&["length", "fft_length"])?),
    ];
    cx.emit(op, Opcode::Fft, operands, attrs)
}

/// `cholesky %x, lower = true`.
pub(super) fn cholesky<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let attrs = flag(op, "lower", Key::Lower).into_iter().collect();
    cx.emit(op, Opcode::Cholesky, operands, attrs)
}

/// `"triangular_solve"(%a, %b) <{left_side, lower, unit_diagonal, transpose_a}>`.
pub(super) fn triangular_solve<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let mut attrs: Vec<phzc_ir::Attr> = flag(op, "left_side", Key::LeftSide).into_iter().collect();
    attrs.extend(flag(op, "lower", Key::Lower));
    attrs.extend(flag(op, "unit_diagonal", Key::UnitDiagonal));
    let transposed = op.word(&["transpose_a"], 0).unwrap_or("NO_TRANSPOSE");
    attrs.push(attr(Key::TransposeA, Value::Word(transposed.into())));
    cx.emit(op, Opcode::TriangularSolve, operands, attrs)
}

/// `"batch_norm_training"(%x, %scale, %offset) <{epsilon, feature_index}>`.
pub(super) fn batch_norm_training<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let attrs = batch_norm(op)?;
    cx.emit_all(op, Opcode::BatchNormTraining, operands, attrs)
}

/// `"batch_norm_inference"(%x, %scale, %offset, %mean, %variance) <{epsilon, feature_index}>`.
pub(super) fn batch_norm_inference<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let attrs = batch_norm(op)?;
    cx.emit(op, Opcode::BatchNormInference, operands, attrs)
}

/// `"batch_norm_grad"(%x, %scale, %mean, %variance, %grad) <{epsilon, feature_index}>`.
pub(super) fn batch_norm_grad<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let attrs = batch_norm(op)?;
    cx.emit_all(op, Opcode::BatchNormGrad, operands, attrs)
}

fn batch_norm(op: &Op) -> Result<Vec<phzc_ir::Attr>> {
    let epsilon = match op.attr(&["epsilon"]) {
        Some(Attr::Word(text)) => text.parse::<f32>().ok().map(f64::from),
        Some(Attr::Int(int)) => Some(*int as f64),
        _ => None,
    };
    let epsilon = epsilon.ok_or_else(|| op.error(format!("`{}` needs `epsilon`", op.name)))?;
    let epsilon = phzc_ir::text::number::number(phzc_ir::DType::F32, epsilon);
    Ok(vec![
        attr(Key::Epsilon, Value::Word(epsilon.into())),
        attr(Key::FeatureIndex, Value::Int(op.need_int(&["feature_index"])?)),
    ])
}
