//! Derivatives of ops on elements at computed places: what is read is added to, what is written is read.

use super::movement::dims;
use super::scope::Cx;
use phzc_ir::attr::Value;
use phzc_ir::build::{dimensions, ints};
use phzc_ir::dtype::Class;
use phzc_ir::ops::reducer;
use phzc_ir::{Attr, DType, InstrId, Key, Opcode, Reducer, Result, View};

/// The values of the operands from `first` on.
fn values(cx: &mut Cx, first: usize) -> Vec<InstrId> {
    (first..cx.instr.operands.len()).map(|operand| cx.x(operand)).collect()
}

/// The operand's cotangent so far, enlarged in place.
pub(super) fn dynamic_slice(cx: &mut Cx) -> Result<()> {
    let (ct, starts) = (cx.ct(), values(cx, 1));
    let sizes = cx.result().dims.clone();
    let made = match cx.known_accumulator(0) {
        None => {
            let zeros = cx.accumulator(0);
            cx.b.dynamic_update_slice(zeros, ct, &starts)
        }
        Some(so_far) => {
            let part = cx.b.dynamic_slice(so_far, &starts, &sizes);
            let sum = cx.b.add(part, ct);
            cx.b.dynamic_update_slice(so_far, sum, &starts)
        }
    };
    cx.give(0, made);
    Ok(())
}

/// What was overwritten has no cotangent; the update's is what is there now.
pub(super) fn dynamic_update_slice(cx: &mut Cx) -> Result<()> {
    let (ct, starts) = (cx.ct(), values(cx, 2));
    let update = cx.shape(1);
    cx.give_with(1, |cx| cx.b.dynamic_slice(ct, &starts, &update.dims));
    cx.give_with(0, |cx| {
        let zeros = cx.b.full(update.dtype, &update.dims, 0.0);
        cx.b.dynamic_update_slice(ct, zeros, &starts)
    });
    Ok(())
}

/// How a gather and a scatter call the same things.
const PAIRS: [(Key, Key); 6] = [
    (Key::OffsetDims, Key::UpdateWindowDims),
    (Key::CollapsedSliceDims, Key::InsertedWindowDims),
    (Key::StartIndexMap, Key::ScatterDimsToOperandDims),
    (Key::OperandBatchingDims, Key::InputBatchingDims),
    (Key::StartIndicesBatchingDims, Key::ScatterIndicesBatchingDims),
    (Key::IndexVectorDim, Key::IndexVectorDim),
];

/// Attributes of a gather for a scatter, or the other way round.
fn renamed(cx: &Cx, to_scatter: bool) -> Vec<Attr> {
    let pairs = PAIRS.map(|(gather, scatter)| if to_scatter { (gather, scatter) } else { (scatter, gather) });
    let found = pairs.into_iter().filter_map(|(from, to)| {
        let value = cx.instr.attr(from.clone())?.clone();
        // An empty list of batching dimensions is the usual one.
        let is_usual = matches!(&value, Value::Ints(list) if list.is_empty())
            && matches!(
                from,
                Key::OperandBatchingDims
                    | Key::StartIndicesBatchingDims
                    | Key::InputBatchingDims
                    | Key::ScatterIndicesBatchingDims
            );
        (!is_usual).then_some(Attr { key: to, value })
    });
    let kept = [Key::IndicesAreSorted, Key::UniqueIndices].into_iter().filter_map(|key| {
        let value = cx.instr.attr(key.clone())?.clone();
        (to_scatter || key == Key::IndicesAreSorted).then_some(Attr { key, value })
    });
    found.chain(kept).collect()
}

/// Added up where it was read, in zeros: of updates that are split over devices each device makes a part of
/// the sum, and what the operand's cotangent has been so far must be in it once.
pub(super) fn gather(cx: &mut Cx) -> Result<()> {
    let (ct, dtype) = (cx.ct(), cx.result().dtype);
    let limits = limits(cx, cx.instr.ints(Key::SliceSizes), Key::StartIndexMap);
    let indices = cx.x(1);
    let indices = clamped(cx, indices, &limits);
    let table = cx.shape(0);
    let zeros = cx.b.full(table.dtype, &table.dims, 0.0);
    let mut attrs = renamed(cx, true);
    attrs.push(Attr { key: Key::ToApply, value: Value::Comp(cx.b.reducer(Opcode::Add, dtype)) });
    let made = cx.b.op(Opcode::Scatter, &[zeros, indices, ct], attrs);
    cx.give(0, made);
    Ok(())
}

/// The largest start of each coordinate of an index.
fn limits(cx: &Cx, sizes: &[i64], map: Key) -> Vec<i64> {
    let shape = cx.shape(0);
    cx.instr.ints(map).iter().map(|&dim| shape.dims[dim as usize] - sizes[dim as usize]).collect()
}

/// Indices as a gather takes them: within bounds. A scatter leaves out what is not.
fn clamped(cx: &mut Cx, indices: InstrId, limits: &[i64]) -> InstrId {
    let (dtype, sizes) = (cx.b.dtype(indices), cx.b.dims(indices));
    let limits: Vec<i64> = limits.iter().map(|&limit| limit.min(largest(dtype))).collect();
    if limits.windows(2).all(|pair| pair[0] == pair[1]) {
        let Some(&limit) = limits.first() else { return indices };
        let [low, high] = [0, limit].map(|c| cx.b.scalar(dtype, c as f64));
        return cx.b.op(Opcode::Clamp, &[low, indices, high], Vec::new());
    }
    let low = cx.b.full(dtype, &sizes, 0.0);
    let high = coordinates(cx, indices, &limits);
    cx.b.op(Opcode::Clamp, &[low, indices, high], Vec::new())
}

/// The largest number of an integer type, as far as sizes go.
fn largest(dtype: DType) -> i64 {
    let bits = dtype.bits() - u32::from(dtype.class() == Class::Signed);
    if bits < 63 { (1 << bits) - 1 } else { i64::MAX }
}

/// A number per coordinate, in the sizes of the indices.
fn coordinates(cx: &mut Cx, indices: InstrId, numbers: &[i64]) -> InstrId {
    let (dtype, sizes) = (cx.b.dtype(indices), cx.b.dims(indices));
    let text = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let row = cx.b.literal(dtype, &[numbers.len() as i64], &format!("{{{text}}}"));
    match cx.instr.int(Key::IndexVectorDim) {
        Some(dim) if (dim as usize) < sizes.len() => cx.b.broadcast(row, &sizes, &[dim as usize]),
        _ => {
            let row = cx.b.reshape(row, &[]);
            cx.b.broadcast(row, &sizes, &[])
        }
    }
}

/// An added update's cotangent is what is where it was added; an overwritten element has none.
pub(super) fn scatter(cx: &mut Cx) -> Result<()> {
    if cx.instr.operands.len() != 3 {
        return Err(cx.refuse("it updates several arrays"));
    }
    let view = View { comps: cx.b.comps(), instrs: cx.scope.instrs(cx.b), instr: &cx.instr };
    let is_sum = reducer(&view, Key::ToApply, 0) == Some(Reducer::Add);
    let is_set = overwrites(cx) && matches!(cx.instr.attr(Key::UniqueIndices), Some(Value::Bool(true)));
    if !is_sum && !is_set {
        return Err(cx.refuse("its computation is no sum, nor the update at indices said to be unique"));
    }
    let (ct, indices) = (cx.ct(), cx.x(1));
    cx.give_with(0, |cx| if is_sum { ct } else { erased(cx, ct, indices) });
    cx.give_with(2, |cx| read_back(cx, ct, indices));
    Ok(())
}

/// Whether the computation returns the update.
fn overwrites(cx: &Cx) -> bool {
    let comp = cx.instr.comp(Key::ToApply).and_then(|id| cx.b.comps().get(id.index()));
    comp.is_some_and(|comp| comp.root().param_number() == Some(1))
}

fn erased(cx: &mut Cx, ct: InstrId, indices: InstrId) -> InstrId {
    let update = cx.shape(2);
    let zeros = cx.b.full(update.dtype, &update.dims, 0.0);
    let attrs = cx.instr.attrs.clone();
    cx.b.op(Opcode::Scatter, &[ct, indices, zeros], attrs)
}

/// The cotangent where the updates went, and zero where they were left out.
fn read_back(cx: &mut Cx, ct: InstrId, indices: InstrId) -> InstrId {
    let (array, update) = (cx.shape(0), cx.shape(2));
    let window = dims(cx, Key::UpdateWindowDims);
    let absent = [dims(cx, Key::InsertedWindowDims), dims(cx, Key::InputBatchingDims)].concat();
    let mut sizes = vec![1; array.rank()];
    let present = (0..array.rank()).filter(|dim| !absent.contains(dim));
    present.zip(&window).for_each(|(dim, &at)| sizes[dim] = update.dims[at]);
    let limits = limits(cx, &sizes, Key::ScatterDimsToOperandDims);
    let mut attrs = renamed(cx, false);
    attrs.push(ints(Key::SliceSizes, sizes));
    let read = cx.b.op(Opcode::Gather, &[ct, indices], attrs);
    let is_inside = is_inside(cx, indices, &limits);
    let counted: Vec<usize> = (0..update.rank()).filter(|dim| !window.contains(dim)).collect();
    let is_inside = cx.b.broadcast(is_inside, &update.dims, &counted);
    let zero = cx.b.full_like(read, 0.0);
    cx.b.select(is_inside, read, zero)
}

/// Whether each index is within bounds.
fn is_inside(cx: &mut Cx, indices: InstrId, limits: &[i64]) -> InstrId {
    let zero = cx.b.full_like(indices, 0.0);
    let limits: Vec<i64> = limits.iter().map(|&limit| limit.min(largest(cx.b.dtype(indices)))).collect();
    let high = coordinates(cx, indices, &limits);
    let [low, high] = [(zero, "GE"), (high, "LE")].map(|(bound, way)| cx.b.compare(indices, bound, way));
    let is_inside = cx.b.and(low, high);
    let along = cx.instr.int(Key::IndexVectorDim).unwrap_or(0) as usize;
    if along == cx.b.rank(indices) {
        return is_inside;
    }
    let all = cx.b.scalar(DType::Pred, 1.0);
    let and = Attr { key: Key::ToApply, value: Value::Comp(cx.b.reducer(Opcode::And, DType::Pred)) };
    cx.b.op(Opcode::Reduce, &[is_inside, all], vec![dimensions(Key::Dimensions, &[along]), and])
}
