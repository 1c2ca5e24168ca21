//! Look-ups in dimensions that are split: gather, scatter, dynamic-update-slice.
//!
//! Every device gets all look-ups of its part and subtracts where its part of the dimension starts. A gather
//! answers those that fall outside with zeros, so that the sum over devices is the result; a scatter drops
//! them by itself; an update is written back as what was there.

use super::build::Builder;
use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::{Attr, DType, Dims, Instr, InstrId, Key, Opcode, Reducer, Value};

/// A split dimension of the array that is looked up in.
#[derive(Clone, Debug)]
pub struct Span {
    /// The axes that split it, major to minor.
    pub axes: Vec<usize>,
    /// Its size in the whole program.
    pub global: i64,
    /// Its size on one device.
    pub local: i64,
}

/// The components of an index vector, each an `s32` array of look-ups, and the arrays' dimension for each.
struct Components {
    values: Vec<InstrId>,
    dims: Vec<usize>,
    /// The dimension of the indices that they came from, if there was one.
    vector: Option<usize>,
}

impl Components {
    fn take_apart(build: &mut Builder, indices: InstrId, instr: &Instr, map: Key) -> Components {
        let all = build.dims(indices);
        let dims: Vec<usize> = instr.ints(map).iter().map(|&dim| dim as usize).collect();
        let vector = instr.int(Key::IndexVectorDim).map_or(all.len(), |dim| dim as usize);
        let values = (0..dims.len()).map(|index| component(build, indices, vector, index)).collect();
        Components { values, dims, vector: Some(vector).filter(|&vector| vector < all.len()) }
    }

    fn put_together(&self, build: &mut Builder) -> InstrId {
        let Some(vector) = self.vector else { return self.values[0] };
        let mut dims = build.dims(self.values[0]);
        dims.insert(vector, 1);
        let parts: Vec<InstrId> = self.values.iter().map(|&value| build.reshape(value, &dims)).collect();
        if parts.len() == 1 {
            return parts[0];
        }
        dims[vector] = parts.len() as i64;
        let attrs = vec![Attr { key: Key::Dimensions, value: super::moves::along(vector) }];
        build.array(Opcode::Concatenate, &parts, (DType::S32, &dims), attrs)
    }
}

/// One component of every index vector, without its dimension.
fn component(build: &mut Builder, indices: InstrId, vector: usize, index: usize) -> InstrId {
    let mut dims = build.dims(indices);
    if vector == dims.len() {
        return indices;
    }
    let range = |(dim, &size): (usize, &i64)| match dim == vector {
        true => SliceDim { start: index as i64, limit: index as i64 + 1, stride: 1 },
        false => SliceDim { start: 0, limit: size, stride: 1 },
    };
    let ranges: Vec<SliceDim> = dims.iter().enumerate().map(range).collect();
    let is_all = dims[vector] == 1;
    dims[vector] = 1;
    let attrs = vec![Attr { key: Key::Slice, value: Value::Slices(ranges) }];
    let part = match is_all {
        true => indices,
        false => build.array(Opcode::Slice, &[indices], (build.dtype(indices), &dims), attrs),
    };
    dims.remove(vector);
    build.reshape(part, &dims)
}

/// An array of one integer, like `like`.
fn filled(build: &mut Builder, like: InstrId, value: i64) -> InstrId {
    let scalar = build.int(build.dtype(like), value);
    build.broadcast(scalar, &build.dims(like), &[])
}

/// The values between two bounds, as `s32`.
fn bounded(build: &mut Builder, value: InstrId, (low, high): (i64, i64)) -> InstrId {
    let (min, max) = range(build.dtype(value));
    if low <= min && high >= max {
        return build.convert(value, DType::S32);
    }
    let low = build.int(build.dtype(value), low.max(min));
    let high = build.int(build.dtype(value), high.min(max));
    let value = build.clamp(low, value, high);
    build.convert(value, DType::S32)
}

/// Least and greatest value of an integer type, as far as an `i64` holds them.
fn range(dtype: DType) -> (i64, i64) {
    let bits = dtype.bits().min(63);
    match dtype.class() {
        phzc_ir::dtype::Class::Unsigned => (0, ((1i128 << bits) - 1) as i64),
        _ if dtype.bits() >= 64 => (i64::MIN, i64::MAX),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// `value` minus where the device's part starts.
fn shifted(build: &mut Builder, value: InstrId, span: &Span) -> InstrId {
    let start = build.offset(&span.axes, span.local);
    let start = build.broadcast(start, &build.dims(value), &[]);
    build.elementwise(Opcode::Subtract, &[value, start])
}

/// Whether a shifted value falls into the device's part.
fn inside(build: &mut Builder, value: InstrId, span: &Span) -> InstrId {
    let (zero, size) = (filled(build, value, 0), filled(build, value, span.local));
    let (above, below) = (build.compare(value, zero, "GE"), build.compare(value, size, "LT"));
    build.elementwise(Opcode::And, &[above, below])
}

/// The indices of a gather for this device, and whether each look-up falls into its part.
///
/// `spans` has an entry for each split dimension of which single elements are looked up.
pub fn gather_indices(
    build: &mut Builder,
    instr: &Instr,
    indices: InstrId,
    operand: &[i64],
    spans: &[Option<Span>],
) -> (InstrId, InstrId) {
    let mut parts = Components::take_apart(build, indices, instr, Key::StartIndexMap);
    let windows: Vec<i64> = instr.ints(Key::SliceSizes).to_vec();
    let mut mask = None;
    for (value, &dim) in parts.values.iter_mut().zip(&parts.dims) {
        // A gather moves windows that would reach out of the whole array into it.
        *value = bounded(build, *value, (0, operand[dim] - windows[dim]));
        let Some(span) = &spans[dim] else { continue };
        *value = shifted(build, *value, span);
        let own = inside(build, *value, span);
        mask = Some(mask.map_or(own, |mask| build.elementwise(Opcode::And, &[mask, own])));
    }
    let mask = mask.unwrap_or(parts.values[0]);
    (parts.put_together(build), mask)
}

/// The gathered values where the look-up fell into the device's part, else zeros.
pub fn masked(build: &mut Builder, instr: &Instr, gathered: InstrId, mask: InstrId) -> InstrId {
    let dims = build.dims(gathered);
    let windows = instr.ints(Key::OffsetDims);
    let counting: Vec<usize> = (0..dims.len()).filter(|&dim| !windows.contains(&(dim as i64))).collect();
    let mask = build.broadcast(mask, &dims, &counting);
    let dtype = build.dtype(gathered);
    let zero = build.constant(dtype, zero(dtype));
    let zeros = build.broadcast(zero, &dims, &[]);
    build.array(Opcode::Select, &[mask, gathered, zeros], (dtype, &dims), Vec::new())
}

/// The value on the first device along these axes, elements that change nothing on the others.
pub fn on_first(build: &mut Builder, value: InstrId, axes: &[usize], reducer: Reducer) -> InstrId {
    let (dims, dtype) = (build.dims(value), build.dtype(value));
    let (place, first) = (build.offset(axes, 1), build.int(DType::S32, 0));
    let is_first = build.compare(place, first, "EQ");
    let mask = build.broadcast(is_first, &dims, &[]);
    let neutral = match (reducer, dtype.class()) {
        (Reducer::Mul, phzc_ir::dtype::Class::Complex) => "(1, 0)",
        (Reducer::Mul, phzc_ir::dtype::Class::Bool) => "true",
        (Reducer::Mul, _) => "1",
        _ => zero(dtype),
    };
    let neutral = build.constant(dtype, neutral);
    let neutral = build.broadcast(neutral, &dims, &[]);
    build.array(Opcode::Select, &[mask, value, neutral], (dtype, &dims), Vec::new())
}

fn zero(dtype: DType) -> &'static str {
    match dtype.class() {
        phzc_ir::dtype::Class::Bool => "false",
        phzc_ir::dtype::Class::Complex => "(0, 0)",
        _ => "0",
    }
}

/// The indices of a scatter for this device: those of other devices' parts lie outside of its own.
pub fn scatter_indices(
    build: &mut Builder,
    instr: &Instr,
    indices: InstrId,
    operand: &[i64],
    spans: &[Option<Span>],
) -> InstrId {
    let mut parts = Components::take_apart(build, indices, instr, Key::ScatterDimsToOperandDims);
    for (value, &dim) in parts.values.iter_mut().zip(&parts.dims) {
        // What is outside of the whole array has to stay outside.
        *value = bounded(build, *value, (-1, operand[dim]));
        if let Some(span) = &spans[dim] {
            *value = shifted(build, *value, span);
        }
    }
    parts.put_together(build)
}

/// A dynamic-update-slice of dimensions of which each device holds a part, with starts as scalars.
///
/// `spans` has an entry for each split dimension that the update does not cover.
pub fn update(
    build: &mut Builder,
    (array, update): (InstrId, InstrId),
    starts: &[InstrId],
    spans: &[Option<Span>],
) -> InstrId {
    let sizes = build.dims(update);
    let mut starts = starts.to_vec();
    let mut mask = None;
    for (dim, span) in spans.iter().enumerate() {
        let Some(span) = span else { continue };
        let start = bounded(build, starts[dim], (0, span.global - sizes[dim]));
        starts[dim] = shifted(build, start, span);
        if sizes[dim] == 1 {
            let own = inside(build, starts[dim], span);
            mask = Some(mask.map_or(own, |mask| build.elementwise(Opcode::And, &[mask, own])));
        }
    }
    // One type for all starts.
    for start in &mut starts {
        *start = bounded(build, *start, (i64::from(i32::MIN), i64::from(i32::MAX)));
    }
    let is_wide = |dim: usize| spans[dim].is_some() && sizes[dim] > 1;
    let margins: Dims = (0..sizes.len()).map(|dim| if is_wide(dim) { sizes[dim] } else { 0 }).collect();
    let wide = widened(build, array, &margins);
    for (start, &margin) in starts.iter_mut().zip(&margins).filter(|(_, margin)| **margin > 0) {
        let margin = build.int(DType::S32, margin);
        *start = build.elementwise(Opcode::Add, &[*start, margin]);
    }
    let update = match mask {
        Some(mask) => {
            let old = build.dynamic_slice(wide, &starts, &sizes);
            let mask = build.broadcast(mask, &sizes, &[]);
            let dtype = build.dtype(update);
            build.array(Opcode::Select, &[mask, update, old], (dtype, &sizes), Vec::new())
        }
        None => update,
    };
    let operands: Vec<InstrId> = [wide, update].into_iter().chain(starts).collect();
    let (dtype, dims) = (build.dtype(wide), build.dims(wide));
    let written = build.array(Opcode::DynamicUpdateSlice, &operands, (dtype, &dims), Vec::new());
    narrowed(build, written, &margins)
}

/// The array with margins, into which updates that reach over its ends may write.
fn widened(build: &mut Builder, array: InstrId, margins: &[i64]) -> InstrId {
    if margins.iter().all(|&margin| margin == 0) {
        return array;
    }
    let (dtype, mut dims) = (build.dtype(array), build.dims(array));
    dims.iter_mut().zip(margins).for_each(|(size, margin)| *size += 2 * margin);
    let padding = margins.iter().map(|&low| PadDim { low, high: low, interior: 0 }).collect();
    let value = build.constant(dtype, zero(dtype));
    let attrs = vec![Attr { key: Key::Padding, value: Value::Padding(padding) }];
    build.array(Opcode::Pad, &[array, value], (dtype, &dims), attrs)
}

fn narrowed(build: &mut Builder, array: InstrId, margins: &[i64]) -> InstrId {
    if margins.iter().all(|&margin| margin == 0) {
        return array;
    }
    let wide = build.dims(array);
    let range = |(&size, &margin): (&i64, &i64)| SliceDim { start: margin, limit: size - margin, stride: 1 };
    let ranges: Vec<SliceDim> = wide.iter().zip(margins).map(range).collect();
    let dims: Dims = ranges.iter().map(|range| range.limit - range.start).collect();
    let attrs = vec![Attr { key: Key::Slice, value: Value::Slices(ranges) }];
    build.array(Opcode::Slice, &[array], (build.dtype(array), &dims), attrs)
}

/// Positions from the device's first one on, along a dimension that is split.
pub fn iota(build: &mut Builder, shape: (DType, &[i64]), dim: usize, span: &Span) -> InstrId {
    let (dtype, dims) = shape;
    let is_wide = matches!(dtype, DType::S64 | DType::U64);
    // Counted in integers: a short float would round the sum of start and place once more.
    let counted = if is_wide { dtype } else { DType::S32 };
    let attrs = vec![Attr { key: Key::IotaDimension, value: Value::Int(dim as i64) }];
    let places = build.array(Opcode::Iota, &[], (counted, dims), attrs);
    let start = build.offset(&span.axes, span.local);
    let start = build.convert(start, counted);
    let start = build.broadcast(start, dims, &[]);
    let all = build.elementwise(Opcode::Add, &[places, start]);
    build.convert(all, dtype)
}

/// A constant of one element throughout.
pub fn splat(build: &mut Builder, (dtype, dims): (DType, &[i64]), element: &str) -> InstrId {
    let scalar = build.constant(dtype, element);
    build.broadcast(scalar, dims, &[])
}

/// One start per dimension, from scalars or from one vector.
pub fn scalar_starts(build: &mut Builder, operands: &[InstrId], rank: usize) -> Vec<InstrId> {
    match operands {
        [vector] if build.dims(*vector).len() == 1 => {
            let vector = *vector;
            let element = |index: i64| {
                let range = vec![SliceDim { start: index, limit: index + 1, stride: 1 }];
                let attrs = vec![Attr { key: Key::Slice, value: Value::Slices(range) }];
                let one = build.array(Opcode::Slice, &[vector], (build.dtype(vector), &[1]), attrs);
                build.reshape(one, &[])
            };
            (0..rank as i64).map(element).collect()
        }
        scalars => scalars.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_the_range_of_their_bits() {
        let ranges = [DType::S8, DType::U8, DType::S32, DType::U32, DType::S64, DType::U64].map(range);
        let (s32, u32) = ((i64::from(i32::MIN), i64::from(i32::MAX)), (0, i64::from(u32::MAX)));
        assert_eq!(ranges, [(-128, 127), (0, 255), s32, u32, (i64::MIN, i64::MAX), (0, i64::MAX)]);
    }
}
