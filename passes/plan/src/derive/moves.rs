//! A change of layout as a sequence of single movements, in closed form: slices, then permutes, then
//! all-to-alls, then all-gathers (reference/cfp-alpa.md 4.2).
//!
//! Several axes of one dimension are gathered at once. A slice adds, and a gather removes, the minor axis of
//! a dimension; where the axis is not the minor one, the tiles are permuted first.

use crate::pricing::AxisMask;
use phzc_cost::Collective;
use phzc_ir::{Layout, Mesh};
use smallvec::SmallVec;

/// One movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The collective; none for a slice, which is local.
    pub kind: Option<Collective>,
    /// The axes whose devices talk.
    pub axes: AxisMask,
    /// The layout afterwards.
    pub layout: Layout,
}

/// The movements from one layout of a tensor with these dimensions to another. Where slices would cut a
/// dimension too small, before others have made it whole again, what goes elsewhere is gathered first.
pub fn moves(from: Layout, to: Layout, dims: &[i64], mesh: &Mesh) -> Vec<Move> {
    let mover = || Mover { mesh, rank: dims.len(), at: from, to, found: Vec::new() };
    let mut usual = mover();
    usual.slices();
    usual.permutes();
    usual.all_to_alls();
    usual.gathers();
    if usual.found.iter().all(|step| step.layout.divides(dims, mesh)) {
        return usual.found;
    }
    let mut careful = mover();
    careful.gathers();
    careful.slices();
    careful.found
}

struct Mover<'a> {
    mesh: &'a Mesh,
    rank: usize,
    at: Layout,
    to: Layout,
    found: Vec<Move>,
}

impl Mover<'_> {
    fn axes(&self) -> std::ops::Range<usize> {
        0..self.mesh.n_axes()
    }

    fn go(&mut self, kind: Option<Collective>, axes: AxisMask, layout: Layout) {
        self.found.push(Move { kind, axes, layout });
        self.at = layout;
    }

    /// An axis of equal size that leaves the dimension which `axis` enters and is used nowhere else
    /// afterwards; the first to enter takes the place of the first to leave.
    fn replaced_by(&self, axis: usize) -> Option<usize> {
        let dim = self.to.dim_of(axis)?;
        let alike = self.axes().filter(|&other| self.mesh.sizes[other] == self.mesh.sizes[axis]);
        let enters = |other: &usize| self.at.dim_of(*other).is_none() && self.to.dim_of(*other) == Some(dim);
        let leaves = |other: &usize| self.at.dim_of(*other) == Some(dim) && self.to.dim_of(*other).is_none();
        let place = alike.clone().filter(enters).position(|other| other == axis)?;
        alike.filter(leaves).nth(place)
    }

    fn slices(&mut self) {
        for axis in self.axes() {
            if self.at.dim_of(axis).is_none()
                && self.to.dim_of(axis).is_some()
                && self.replaced_by(axis).is_none()
            {
                let dim = self.to.dim_of(axis);
                let layout = self.at.with(axis, dim);
                self.go(None, 1 << axis, layout);
                self.reorder(axis, dim);
            }
        }
    }

    /// A permute where `axis` is not the minor one of `dim`.
    fn reorder(&mut self, axis: usize, dim: Option<usize>) {
        let minor: AxisMask = dim.map_or(0, |dim| {
            self.at.axes_of(dim).filter(|&other| other > axis).fold(0, |mask, other| mask | 1 << other)
        });
        if minor != 0 {
            let layout = self.at;
            self.go(Some(Collective::Permute), minor | 1 << axis, layout);
        }
    }

    /// Replaces and swaps axes where that leaves every dimension's tile count: tiles only change places.
    fn permutes(&mut self) {
        let (mut layout, mut axes) = (self.at, 0);
        for axis in self.axes() {
            if self.at.dim_of(axis).is_none()
                && let Some(other) = self.replaced_by(axis).filter(|other| axes >> other & 1 == 0)
            {
                layout = layout.with(other, None).with(axis, self.to.dim_of(axis));
                axes |= 1 << axis | 1 << other;
            }
        }
        let same_tiles = |a: Layout, b: Layout| {
            (0..self.rank).all(|dim| a.tiles(dim, self.mesh) == b.tiles(dim, self.mesh))
        };
        if layout != self.to && same_tiles(layout, self.to) {
            let differs = self.axes().filter(|&axis| layout.dim_of(axis) != self.to.dim_of(axis));
            axes = differs.fold(axes, |mask, axis| mask | 1 << axis);
            layout = self.to;
        }
        if axes != 0 {
            self.go(Some(Collective::Permute), axes, layout);
        }
    }

    /// Moves axes from dimension to dimension, those of one pair of dimensions at once.
    fn all_to_alls(&mut self) {
        for axis in self.axes().rev() {
            let (from, to) = (self.at.dim_of(axis), self.to.dim_of(axis));
            if from.is_none() || to.is_none() || from == to {
                continue;
            }
            let together: SmallVec<[usize; 4]> = self
                .axes()
                .filter(|&other| self.at.dim_of(other) == from && self.to.dim_of(other) == to)
                .collect();
            self.expose(&together, from);
            let layout = together.iter().fold(self.at, |layout, &axis| layout.with(axis, to));
            self.go(Some(Collective::AllToAll), mask(&together), layout);
            self.expose(&together, to);
        }
    }

    fn gathers(&mut self) {
        for dim in 0..self.rank {
            let leaving: SmallVec<[usize; 4]> =
                self.at.axes_of(dim).filter(|&axis| self.to.dim_of(axis) != Some(dim)).collect();
            if !leaving.is_empty() {
                self.expose(&leaving, Some(dim));
                let layout = leaving.iter().fold(self.at, |layout, &axis| layout.with(axis, None));
                self.go(Some(Collective::AllGather), mask(&leaving), layout);
            }
        }
    }

    /// A permute where these axes are not the minor ones of the dimension; more major ones take no part in
    /// it.
    fn expose(&mut self, axes: &[usize], dim: Option<usize>) {
        let Some(dim) = dim else { return };
        let minor: SmallVec<[usize; 4]> =
            self.at.axes_of(dim).filter(|axis| axes.first().is_some_and(|first| axis >= first)).collect();
        if minor[..] != *axes {
            let layout = self.at;
            self.go(Some(Collective::Permute), mask(&minor), layout);
        }
    }
}

fn mask(axes: &[usize]) -> AxisMask {
    axes.iter().fold(0, |mask, &axis| mask | 1 << axis)
}
