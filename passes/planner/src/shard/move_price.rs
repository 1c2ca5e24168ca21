//! What it takes to bring a tensor from one layout to another.

use super::model::Model;
use super::reshard_cost::{Source, Step};
use super::sharding_request::Want;
use super::zero::gathers;
use phzc_analysis::graph::TensorId;
use phzc_cost::Collective;
use phzc_ir::Layout;
use phzc_plan::pricing;

/// A slice takes no time; of choices that take equally long, the one with fewer slices is better. In seconds,
/// above the solver's tolerance and below what any report prints.
pub(super) const SLICE_SECS: f64 = 1e-10;

impl Model<'_> {
    /// Seconds to bring a tensor from one layout to another, moved or made again.
    pub(super) fn move_secs(&mut self, tensor: TensorId, source: Source, target: Want) -> f64 {
        let moved = self.moved_secs(tensor, source, target);
        match self.remade(tensor, source, target, moved) {
            Some(remade) => remade.secs,
            None => moved,
        }
    }

    /// The same so many times; none is possible that cannot be done once.
    pub(super) fn moves_secs(&mut self, trips: f64, tensor: TensorId, source: Source, target: Want) -> f64 {
        let secs = self.move_secs(tensor, source, target);
        if secs.is_infinite() { secs } else { trips * secs }
    }

    /// The same where it is moved.
    pub(super) fn moved_secs(&mut self, tensor: TensorId, source: Source, target: Want) -> f64 {
        let sums = source.partial & !target.partial;
        if sums != 0 && source.layout == target.layout && self.input.forbid.forbids(Collective::AllReduce) {
            return f64::INFINITY;
        }
        let n_axes = self.mesh.n_axes();
        if self.is_ungathered[tensor as usize] && gathers(source.layout, target.layout, n_axes) {
            return f64::INFINITY;
        }
        let is_stored = self.input.is_stored[tensor as usize];
        let spill_secs = if is_stored { 0.0 } else { self.spill_secs(tensor, source.layout, target.layout) };
        let (dims, bytes) = (&self.input.graph.tensors[tensor as usize].dims, self.input.moved_bytes(tensor));
        let (cluster, mesh) = (self.input.cluster, &self.mesh);
        let price = |kind, axes, bytes| pricing::collective_secs(cluster, mesh, kind, axes, bytes);
        let secs = self.reshards.secs(source, target, (dims, bytes), &price);
        match secs {
            None => f64::INFINITY,
            Some(0.0) if source.layout == target.layout => 0.0,
            // What is sliced is made where it is read.
            Some(0.0) => SLICE_SECS,
            Some(secs) => secs + spill_secs,
        }
    }

    /// Seconds to write a value, in one layout, and read it, in another, that would else stay in registers.
    pub(super) fn spill_secs(&self, tensor: TensorId, source: Layout, target: Layout) -> f64 {
        let bytes = self.input.moved_bytes(tensor);
        let local = |layout: Layout| bytes / layout.n_tiles(&self.mesh) as f64;
        pricing::spill_secs(self.input.cluster, [local(source), local(target)])
    }

    /// The cheapest steps between two layouts of a tensor.
    pub fn steps(&mut self, tensor: TensorId, source: Source, target: Want) -> Vec<Step> {
        let (dims, bytes) = (&self.input.graph.tensors[tensor as usize].dims, self.input.moved_bytes(tensor));
        let (cluster, mesh) = (self.input.cluster, &self.mesh);
        let price = |kind, axes, bytes| pricing::collective_secs(cluster, mesh, kind, axes, bytes);
        self.reshards.steps(source, target, (dims, bytes), &price).unwrap_or_default()
    }
}
