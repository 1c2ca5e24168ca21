//! The cotangent of an array of which slices were read.

use phzc_ir::attr::{PadDim, SliceDim};
use phzc_ir::build::Builder;
use phzc_ir::{ArrayShape, InstrId};

/// An array of zeros with its slices put in: one after another if they lie so, else padded and added.
pub(super) fn join(
    b: &mut Builder,
    shape: &ArrayShape,
    mut pieces: Vec<(Vec<SliceDim>, InstrId)>,
) -> InstrId {
    if let Some(dim) = common_dim(shape, &pieces) {
        pieces.sort_by_key(|(slices, _)| slices[dim].start);
        if let Some(joined) = in_a_row(b, shape, dim, &pieces) {
            return joined;
        }
    }
    let zero = b.scalar(shape.dtype, 0.0);
    let mut sum = None;
    for (slices, ct) in pieces {
        let dims: Vec<PadDim> =
            slices.iter().zip(&shape.dims).map(|(slice, &size)| pad_dim(slice, size)).collect();
        let padded = b.pad(ct, zero, &dims);
        sum = Some(sum.map_or(padded, |sum| b.add(sum, padded)));
    }
    sum.expect("there are pieces")
}

fn pad_dim(slice: &SliceDim, size: i64) -> PadDim {
    let n = (slice.limit - slice.start + slice.stride - 1) / slice.stride;
    let last = slice.start + (n - 1).max(0) * slice.stride;
    match n {
        0 => PadDim { low: size, high: 0, interior: 0 },
        _ => PadDim { low: slice.start, high: size - last - 1, interior: slice.stride - 1 },
    }
}

/// The only dimension that slices are not whole in.
fn common_dim(shape: &ArrayShape, pieces: &[(Vec<SliceDim>, InstrId)]) -> Option<usize> {
    let cut = |slices: &[SliceDim]| -> Vec<usize> {
        let all = slices.iter().zip(&shape.dims).enumerate();
        all.filter(|(_, (it, size))| (it.start, it.limit) != (0, **size)).map(|(dim, _)| dim).collect()
    };
    let &[dim] = cut(&pieces[0].0).as_slice() else { return None };
    let fits = |(slices, _): &(Vec<SliceDim>, InstrId)| {
        slices.iter().all(|slice| slice.stride == 1) && cut(slices) == [dim]
    };
    (pieces.len() > 1 && pieces.iter().all(fits)).then_some(dim)
}

/// The sorted slices one after another, with zeros where there is none; `None` if two overlap.
fn in_a_row(
    b: &mut Builder,
    shape: &ArrayShape,
    dim: usize,
    pieces: &[(Vec<SliceDim>, InstrId)],
) -> Option<InstrId> {
    let (mut parts, mut end) = (Vec::new(), 0);
    let gap = |b: &mut Builder, size: i64| {
        let mut dims = shape.dims.clone();
        dims[dim] = size;
        b.full(shape.dtype, &dims, 0.0)
    };
    for (slices, ct) in pieces {
        let SliceDim { start, limit, .. } = slices[dim];
        if start < end {
            return None;
        }
        if start > end {
            parts.push(gap(b, start - end));
        }
        parts.push(*ct);
        end = limit;
    }
    if end < shape.dims[dim] {
        parts.push(gap(b, shape.dims[dim] - end));
    }
    Some(b.concatenate(&parts, dim))
}
