//! Attributes of several numbers: windows, dimension numbers, paddings.

use super::{attr, flag, int, ints, word};
use crate::hlo_proto::message::{
    ConvolutionDimensionNumbers, DotDimensionNumbers, Instruction, RaggedDotDimensionNumbers, Window,
};
use phzc_ir::attr::{DimLabels, LabelledDims, PadDim, SliceDim, WindowDim};
use phzc_ir::{Attr, Diagnostic, Key, Result, Value};

/// Numbers of `PrecisionConfig.Algorithm`.
pub(super) const ALGORITHMS: &[&str] = &[
    "unset",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
];

pub(super) fn slices(proto: &Instruction) -> Value {
    let dim = |&super::super::message::SliceDimensions { start, limit, stride }: &_| SliceDim {
        start,
        limit,
        stride,
    };
    Value::Slices(proto.slice_dimensions.iter().map(dim).collect())
}

pub(super) fn padding(proto: &Instruction) -> Value {
    let dims = proto.padding_config.iter().flat_map(|config| &config.dimensions);
    let dims = dims.map(|dim| PadDim {
        low: dim.edge_padding_low,
        high: dim.edge_padding_high,
        interior: dim.interior_padding,
    });
    Value::Padding(dims.collect())
}

/// The window, with the keys that are not as usual; none without dimensions.
pub(super) fn window(proto: Option<&Window>) -> Option<Attr> {
    let dims = proto?.dimensions.iter().map(|dim| WindowDim {
        size: dim.size,
        stride: dim.stride,
        pad_low: dim.padding_low,
        pad_high: dim.padding_high,
        lhs_dilate: dim.base_dilation.max(1),
        rhs_dilate: dim.window_dilation.max(1),
        reversed: dim.window_reversal,
    });
    let mut window = phzc_ir::attr::Window { dims: dims.collect(), keys: smallvec::SmallVec::new() };
    window.keys = crate::element::window_keys(&window);
    (!window.dims.is_empty()).then(|| attr(Key::Window, Value::Window(Box::new(window))))
}

pub(super) fn dot(proto: Option<&DotDimensionNumbers>, out: &mut Vec<Attr>) {
    let Some(numbers) = proto else { return };
    if !numbers.lhs_batch_dimensions.is_empty() {
        out.push(ints(Key::LhsBatchDims, &numbers.lhs_batch_dimensions));
    }
    out.push(ints(Key::LhsContractingDims, &numbers.lhs_contracting_dimensions));
    if !numbers.rhs_batch_dimensions.is_empty() {
        out.push(ints(Key::RhsBatchDims, &numbers.rhs_batch_dimensions));
    }
    out.push(ints(Key::RhsContractingDims, &numbers.rhs_contracting_dimensions));
}

pub(super) fn ragged_dot(proto: Option<&RaggedDotDimensionNumbers>, out: &mut Vec<Attr>) {
    let Some(numbers) = proto else { return };
    dot(numbers.dot_dimension_numbers.as_ref(), out);
    out.push(ints(Key::LhsRaggedDims, &numbers.lhs_ragged_dimensions));
    if !numbers.rhs_group_dimensions.is_empty() {
        out.push(ints(Key::RhsGroupDims, &numbers.rhs_group_dimensions));
    }
}

pub(super) fn gather(proto: &Instruction, out: &mut Vec<Attr>) {
    let Some(numbers) = &proto.gather_dimension_numbers else { return };
    out.push(ints(Key::OffsetDims, &numbers.offset_dims));
    out.push(ints(Key::CollapsedSliceDims, &numbers.collapsed_slice_dims));
    out.push(ints(Key::StartIndexMap, &numbers.start_index_map));
    unless_empty(out, Key::OperandBatchingDims, &numbers.operand_batching_dims);
    unless_empty(out, Key::StartIndicesBatchingDims, &numbers.start_indices_batching_dims);
    out.push(int(Key::IndexVectorDim, numbers.index_vector_dim));
    out.push(ints(Key::SliceSizes, &proto.gather_slice_sizes));
    flag(out, Key::IndicesAreSorted, proto.indices_are_sorted);
}

pub(super) fn scatter(proto: &Instruction, out: &mut Vec<Attr>) {
    let Some(numbers) = &proto.scatter_dimension_numbers else { return };
    out.push(ints(Key::UpdateWindowDims, &numbers.update_window_dims));
    out.push(ints(Key::InsertedWindowDims, &numbers.inserted_window_dims));
    out.push(ints(Key::ScatterDimsToOperandDims, &numbers.scatter_dims_to_operand_dims));
    unless_empty(out, Key::InputBatchingDims, &numbers.input_batching_dims);
    unless_empty(out, Key::ScatterIndicesBatchingDims, &numbers.scatter_indices_batching_dims);
    out.push(int(Key::IndexVectorDim, numbers.index_vector_dim));
    flag(out, Key::IndicesAreSorted, proto.indices_are_sorted);
    flag(out, Key::UniqueIndices, proto.unique_indices);
}

fn unless_empty(out: &mut Vec<Attr>, key: Key, list: &[i64]) {
    if !list.is_empty() {
        out.push(ints(key, list));
    }
}

pub(super) fn triangular_solve(proto: &Instruction, out: &mut Vec<Attr>) {
    let Some(options) = &proto.triangular_solve_options else { return };
    flag(out, Key::LeftSide, options.left_side);
    flag(out, Key::Lower, options.lower);
    flag(out, Key::UnitDiagonal, options.unit_diagonal);
    let known = ["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
    out.push(word(Key::TransposeA, super::nth(&known, options.transpose_a)));
}

/// `b01f_01io->b01f`.
pub(super) fn labels(proto: &ConvolutionDimensionNumbers) -> Result<Value> {
    let sides = [
        ("bf", proto.input_batch_dimension, proto.input_feature_dimension, &proto.input_spatial_dimensions),
        (
            "oi",
            proto.kernel_output_feature_dimension,
            proto.kernel_input_feature_dimension,
            &proto.kernel_spatial_dimensions,
        ),
        (
            "bf",
            proto.output_batch_dimension,
            proto.output_feature_dimension,
            &proto.output_spatial_dimensions,
        ),
    ];
    let sides: Option<Vec<(LabelledDims, String)>> = sides
        .into_iter()
        .map(|(letters, major, minor, spatial)| side(letters, major, minor, spatial))
        .collect();
    let sides =
        sides.filter(|sides| sides.iter().all(|(side, _)| side.spatial.len() == sides[0].0.spatial.len()));
    let Some([(lhs, a), (rhs, b), (out, c)]) = sides.and_then(|sides| <[_; 3]>::try_from(sides).ok()) else {
        return Err(Diagnostic::error(
            "the dimension numbers of a convolution do not name each dimension once",
        ));
    };
    let text = format!("{a}_{b}->{c}").into();
    Ok(Value::DimLabels(Box::new(DimLabels { lhs, rhs, out, text })))
}

fn side(letters: &str, major: i64, minor: i64, spatial: &[i64]) -> Option<(LabelledDims, String)> {
    let rank = spatial.len() + 2;
    let mut text = vec![b'?'; rank.min(12)];
    let mut put = |place: i64, label: u8| {
        let slot = usize::try_from(place).ok().and_then(|place| text.get_mut(place))?;
        let fresh = *slot == b'?';
        *slot = label;
        fresh.then_some(place as usize)
    };
    let letters = letters.as_bytes();
    let (major, minor) = (put(major, letters[0])?, put(minor, letters[1])?);
    let spatial =
        spatial.iter().zip(b'0'..).map(|(&place, digit)| put(place, digit)).collect::<Option<_>>()?;
    Some((LabelledDims { major, minor, spatial }, String::from_utf8(text).ok()?))
}
