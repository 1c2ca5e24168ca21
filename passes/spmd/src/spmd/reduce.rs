//! Partial results: all-reduces, and reduce-scatters where the text says all-reduce and slice.
//!
//! A reduce-scatter is done where the value is made; the slices after it then have less left to cut. What is
//! scattered is a tile of the *last* slice's layout: where axes that are cut later are major to it, the
//! dimension is taken apart and the tiles scattered from its middle.

use super::build::Builder;
use super::collectives::Collectives;
use phzc_cost::Collective;
use phzc_ir::{Dims, InstrId, Layout, Reducer};
use phzc_plan::pricing::{AxisMask, axes_of};

/// A reduction that a value needs.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// All-reduce or reduce-scatter.
    pub kind: Collective,
    /// The axes over which the value is partial.
    pub axes: AxisMask,
    /// What combines the parts.
    pub reducer: Reducer,
}

/// `value`, which lies as `from` and is partial, reduced; with the layout that it has then.
///
/// `to` is the layout in which the scattered axes, and others that are cut later, split it.
pub fn lower(
    build: &mut Builder,
    collectives: &mut Collectives,
    mut value: InstrId,
    (from, to): (Layout, Layout),
    reductions: &[Reduction],
) -> (InstrId, Layout) {
    let mut at = from;
    for it in reductions {
        if it.kind == Collective::AllReduce {
            value = collectives.all_reduce(build, value, it.axes, it.reducer);
        } else {
            value = scatter(build, collectives, value, (at, to), it);
            at = axes_of(it.axes).fold(at, |layout, axis| layout.with(axis, to.dim_of(axis)));
        }
    }
    (value, at)
}

/// One dimension, or one tile count within it, as the reduce-scatter sees it.
struct Part {
    size: i64,
    /// The axis whose tiles these are.
    axis: Option<usize>,
}

fn scatter(
    build: &mut Builder,
    collectives: &mut Collectives,
    value: InstrId,
    (at, to): (Layout, Layout),
    it: &Reduction,
) -> InstrId {
    let dims = build.dims(value);
    if let Some(dim) = leading_dim(at, to, dims.len(), it.axes) {
        return collectives.reduce_scatter(build, value, it.axes, (dim, it.reducer));
    }
    let is_scattered = |part: &Part| part.axis.is_some_and(|axis| it.axes >> axis & 1 == 1);
    let (mut parts, mut made): (Vec<Part>, Dims) = (Vec::new(), Dims::new());
    for (dim, &size) in dims.iter().enumerate() {
        let added: Vec<usize> = added(at, to, dim).collect();
        let tiles = added.iter().map(|&axis| Part { size: build.mesh.sizes[axis], axis: Some(axis) });
        let rest = size / added.iter().map(|&axis| build.mesh.sizes[axis]).product::<i64>();
        let of_dim: Vec<Part> = tiles.chain([Part { size: rest, axis: None }]).collect();
        made.push(of_dim.iter().filter(|part| !is_scattered(part)).map(|part| part.size).product());
        parts.extend(of_dim);
    }
    let apart: Dims = parts.iter().map(|part| part.size).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    // The scattered tiles in front, in the order of the mesh's axes: that of the group.
    order.sort_by_key(|&index| match parts[index].axis {
        Some(axis) if is_scattered(&parts[index]) => (0, axis),
        _ => (1, index),
    });
    let value = build.reshape(value, &apart);
    let value = build.transpose(value, &order);
    let n: i64 = axes_of(it.axes).map(|axis| build.mesh.sizes[axis]).product();
    let flat: Dims = std::iter::once(n).chain(made.iter().copied()).collect();
    let value = build.reshape(value, &flat);
    let value = collectives.reduce_scatter(build, value, it.axes, (0, it.reducer));
    build.reshape(value, &made)
}

/// The axes that `to` has on a dimension and `at` has not.
fn added(at: Layout, to: Layout, dim: usize) -> impl Iterator<Item = usize> {
    to.axes_of(dim).filter(move |&axis| at.dim_of(axis).is_none())
}

/// The dimension of which these axes' tiles are the major ones, if it is one.
fn leading_dim(at: Layout, to: Layout, rank: usize, axes: AxisMask) -> Option<usize> {
    (0..rank).find(|&dim| {
        let mut first = 0;
        let n = axes.count_ones() as usize;
        added(at, to, dim).take(n).for_each(|axis| first |= 1 << axis);
        first == axes
    })
}
