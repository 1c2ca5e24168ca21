//! Elements at places that are computed.

use super::reduce::reducer;
use crate::stablehlo::ast::{Attr, Ints, Op};
use crate::stablehlo::lower::{Lowerer, Made, attr, flag, ints};
use phzc_ir::{InstrId, Key, Opcode, Result, Value};

/// `dynamic_slice %x, %i, %j, sizes = [1, 4]`.
pub(super) fn dynamic_slice<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let sizes = op.ints(&["sizes", "slice_sizes"])?;
    cx.emit(op, Opcode::DynamicSlice, operands, vec![ints(Key::DynamicSliceSizes, sizes)])
}

/// `"gather"(%x, %indices) <{dimension_numbers = #stablehlo.gather<…>, slice_sizes, indices_are_sorted}>`.
pub(super) fn gather<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let numbers = op.attr(&["dimension_numbers"]);
    let list = |name: &str| field(numbers, name);
    let mut attrs = vec![
        ints(Key::OffsetDims, list("offset_dims")),
        ints(Key::CollapsedSliceDims, list("collapsed_slice_dims")),
        ints(Key::StartIndexMap, list("start_index_map")),
    ];
    attrs.extend(unless_empty(Key::OperandBatchingDims, list("operand_batching_dims")));
    attrs.extend(unless_empty(Key::StartIndicesBatchingDims, list("start_indices_batching_dims")));
    attrs.push(attr(Key::IndexVectorDim, Value::Int(index_vector_dim(numbers))));
    attrs.push(ints(Key::SliceSizes, op.ints(&["slice_sizes"])?));
    attrs.extend(flag(op, "indices_are_sorted", Key::IndicesAreSorted));
    cx.emit(op, Opcode::Gather, operands, attrs)
}

/// `"scatter"(%x, %indices, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<…>, …}>
/// ({computation})`.
pub(super) fn scatter<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let numbers = op.attr(&["scatter_dimension_numbers"]);
    let list = |name: &str| field(numbers, name);
    let mut attrs = vec![
        ints(Key::UpdateWindowDims, list("update_window_dims")),
        ints(Key::InsertedWindowDims, list("inserted_window_dims")),
        ints(Key::ScatterDimsToOperandDims, list("scatter_dims_to_operand_dims")),
    ];
    attrs.extend(unless_empty(Key::InputBatchingDims, list("input_batching_dims")));
    attrs.extend(unless_empty(Key::ScatterIndicesBatchingDims, list("scatter_indices_batching_dims")));
    attrs.push(attr(Key::IndexVectorDim, Value::Int(index_vector_dim(numbers))));
    attrs.extend(flag(op, "indices_are_sorted", Key::IndicesAreSorted));
    attrs.extend(flag(op, "unique_indices", Key::UniqueIndices));
    attrs.push(attr(Key::ToApply, Value::Comp(reducer(cx, op.region(0)?, op)?)));
    cx.emit_all(op, Opcode::Scatter, operands, attrs)
}

/// A list among dimension numbers; absent ones are empty.
fn field(numbers: Option<&Attr>, name: &str) -> Ints {
    numbers.and_then(|numbers| numbers.field(name)?.ints()).unwrap_or_default()
}

fn index_vector_dim(numbers: Option<&Attr>) -> i64 {
    numbers.and_then(|numbers| numbers.field("index_vector_dim")?.int()).unwrap_or(0)
}

fn unless_empty(key: Key, list: Ints) -> Option<phzc_ir::Attr> {
    (!list.is_empty()).then(|| ints(key, list))
}
