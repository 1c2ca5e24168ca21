//! The edges of neighbouring tiles: what windows read beyond their own.

use super::build::Builder;
use super::collectives::Collectives;
use super::lower::Op;
use phzc_ir::attr::{SliceDim, WindowKey};
use phzc_ir::ops::{local_padding, local_window, outside};
use phzc_ir::{Attr, DType, Dims, Halo, InstrId, Key, Opcode, Value};

/// The operands with the edges that they lack.
pub fn exchange(
    build: &mut Builder,
    collectives: &mut Collectives,
    op: &Op,
    operands: &[InstrId],
) -> Vec<InstrId> {
    let mut operands = operands.to_vec();
    for (halo, dim, axis) in along(op) {
        let fill = outside(&op.view, halo.operand).map(|at| operands[at]);
        let own = operands[halo.operand];
        let size = build.dims(own)[dim];
        // The last elements of the tile before, the first of the tile behind.
        let parts = [(1, size - halo.low..size), (-1, 0..halo.high)];
        let [before, behind] = parts.map(|(step, range)| {
            let is_empty = range.is_empty();
            (!is_empty).then(|| {
                let edge = slice(build, own, dim, (range.start, range.end));
                let received = collectives.shift(build, edge, axis, step);
                filled(build, received, fill, (axis, step))
            })
        });
        let parts: Vec<InstrId> = [before, Some(own), behind].into_iter().flatten().collect();
        operands[halo.operand] = joined(build, &parts, dim);
    }
    operands
}

/// The halos that are exchanged, each with its dimension of the operand and the axis that splits it.
fn along<'o>(op: &'o Op) -> impl Iterator<Item = (&'o Halo, usize, usize)> {
    op.rule.halos.iter().filter_map(|halo| {
        let mut dims = op.rule.operands[halo.operand].iter();
        let dim = dims.position(|dim| dim.first() == Some(&halo.factor))?;
        Some((halo, dim, op.loops.axis_of(halo.factor)?))
    })
}

fn slice(build: &mut Builder, value: InstrId, dim: usize, (start, limit): (i64, i64)) -> InstrId {
    let mut dims = build.dims(value);
    let whole = |&limit: &i64| SliceDim { start: 0, limit, stride: 1 };
    let mut ranges: Vec<SliceDim> = dims.iter().map(whole).collect();
    (ranges[dim].start, ranges[dim].limit, dims[dim]) = (start, limit, limit - start);
    let attrs = vec![Attr { key: Key::Slice, value: Value::Slices(ranges) }];
    build.array(Opcode::Slice, &[value], (build.dtype(value), &dims), attrs)
}

/// Devices without a neighbour there receive zeros: what windows find outside of the array, or else `fill`.
fn filled(build: &mut Builder, edge: InstrId, fill: Option<InstrId>, (axis, step): (usize, i64)) -> InstrId {
    let Some(fill) = fill else { return edge };
    let (place, dims) = (build.offset(&[axis], 1), build.dims(edge));
    let end = if step > 0 { 0 } else { build.mesh.sizes[axis] - 1 };
    let end = build.int(DType::S32, end);
    let is_end = build.compare(place, end, "EQ");
    let (is_end, fill) = (build.broadcast(is_end, &dims, &[]), build.broadcast(fill, &dims, &[]));
    build.array(Opcode::Select, &[is_end, fill, edge], (build.dtype(edge), &dims), Vec::new())
}

fn joined(build: &mut Builder, parts: &[InstrId], dim: usize) -> InstrId {
    if let [only] = parts {
        return *only;
    }
    let mut dims: Dims = build.dims(parts[0]);
    dims[dim] = parts.iter().map(|&part| build.dims(part)[dim]).sum();
    let attrs = vec![Attr { key: Key::Dimensions, value: super::moves::along(dim) }];
    build.array(Opcode::Concatenate, parts, (build.dtype(parts[0]), &dims), attrs)
}

/// Changes the windows along split dimensions: a tile's edges stand where padding was.
pub fn narrow(op: &Op, attrs: &mut [Attr], (read, made): (&[i64], &[i64])) {
    let labels = op.view.instr.attr(Key::DimLabels);
    for (halo, dim, _) in along(op).filter(|(halo, ..)| halo.operand == 0) {
        // The place in the window, and in the result.
        let places = match labels {
            Some(Value::DimLabels(labels)) => labels.lhs.spatial.iter().position(|&other| other == dim),
            _ => Some(dim),
        };
        let Some(at) = places else { continue };
        let to = if let Some(Value::DimLabels(labels)) = labels { labels.out.spatial[at] } else { dim };
        for attr in attrs.iter_mut() {
            match &mut attr.value {
                Value::Window(window) => {
                    window.dims[at] = local_window(&window.dims[at], halo.low, [read[dim], made[to]]);
                    if !window.keys.contains(&WindowKey::Pad) {
                        window.keys.push(WindowKey::Pad);
                    }
                }
                Value::Padding(padding) => {
                    padding[at] = local_padding(&padding[at], halo.low, [read[dim], made[to]]);
                }
                _ => {}
            }
        }
    }
}
