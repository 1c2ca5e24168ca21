//! What one device's part of an op reads: operands that the op splits further are cut first.

use super::slices::{Piece, Pieces};
use phzc_ir::{FactorId, Layout, Mesh, Rule, TensorMap};
use phzc_plan::derive::Loops;

/// The axes that split a loop, major to minor.
pub fn axes_of_loop(loops: &Loops, factor: FactorId, mesh: &Mesh) -> Vec<usize> {
    (0..mesh.n_axes()).filter(|&axis| loops.split[axis] == Some(factor)).collect()
}

/// The cuts that bring an operand, which lies as `layout`, to the loops' parts.
pub fn pieces(rule: &Rule, map: &TensorMap, layout: Layout, loops: &Loops, mesh: &Mesh) -> Pieces {
    let piece = |&factor: &FactorId| {
        let (mut size, mut missing) = (rule.factors[factor as usize].size, Vec::new());
        for axis in axes_of_loop(loops, factor, mesh) {
            match layout.dim_of(axis) {
                Some(_) => size /= mesh.sizes[axis],
                None => missing.push(axis),
            }
        }
        Piece { size, axes: missing }
    };
    map.iter().map(|dim| dim.iter().map(piece).collect()).collect()
}

/// The layout in which the op makes a result with these factors.
pub fn natural(map: &TensorMap, loops: &Loops, mesh: &Mesh) -> Layout {
    (0..mesh.n_axes()).fold(Layout::REPLICATED, |layout, axis| {
        let dim = loops.split[axis].and_then(|id| map.iter().position(|dim| dim.contains(&id)));
        layout.with(axis, dim)
    })
}
