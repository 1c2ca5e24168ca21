//! What no plan takes less than: on stages with equal numbers of devices per number of microbatches, and
//! block by block on stages of several sizes.

use super::candidate::Placement;
use super::{Problem, Recompute};
use crate::shard::control::asked_mesh;
use crate::shard::model::Input;
use crate::shard::{Least, least_secs, meshes};
use phzc_cost::Schedule;
use phzc_ir::Mesh;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Per number of devices, per block: its part of the least seconds of a step in which all devices are as busy
/// as those that run it.
#[derive(Default)]
pub struct StageLowerBounds(Mutex<BTreeMap<usize, Vec<f64>>>);

impl StageLowerBounds {
    /// Adds what is known of the blocks on one mesh; of several meshes each block has its least.
    pub fn add(&self, n_devices: usize, share: f64, blocks: &[f64]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(n_devices).or_insert_with(|| vec![f64::INFINITY; blocks.len()]);
        own.iter_mut().zip(blocks).for_each(|(own, block)| *own = own.min(share * block));
    }

    /// Whether something is known of stages on so many devices.
    pub fn has(&self, n_devices: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&n_devices)
    }

    /// Seconds of a step with every block on that of these numbers of devices on which it takes least.
    pub fn least_secs(&self, sizes: &[usize]) -> f64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<&Vec<f64>> = sizes.iter().filter_map(|size| all.get(size)).collect();
        let n_blocks = known.first().map_or(0, |blocks| blocks.len());
        let least = |block: usize| known.iter().map(|blocks| blocks[block]).fold(f64::INFINITY, f64::min);
        (0..n_blocks).map(least).sum()
    }
}

impl Problem<'_> {
    /// No plan on `n_groups` equal device groups takes less, whatever layouts, cuts, microbatches, schedule
    /// and recomputation it has of those that may be chosen; infinite if none is legal. A bound of `to_beat`
    /// or more is as good as any.
    pub(super) fn least_secs(&self, n_groups: usize, to_beat: f64) -> f64 {
        let first = self.least_with(n_groups, self.counts[0], to_beat);
        let others = if n_groups == 1 { &[] } else { &self.counts[1..] };
        // To run in more microbatches takes no less work: more launches of smaller kernels.
        let least = |&count: &usize| match self.with_bubbles(n_groups, count, &first) {
            secs if secs >= to_beat => secs,
            _ => self.with_bubbles(n_groups, count, &self.least_with(n_groups, count, to_beat)),
        };
        let all = others.par_iter().map(least).collect::<Vec<f64>>();
        all.into_iter().fold(self.with_bubbles(n_groups, self.counts[0], &first), f64::min)
    }

    /// The same of several numbers of groups, once there is a plan to beat.
    pub(super) fn least_all(&self, n_groups: &[usize], to_beat: f64) -> Vec<(usize, f64)> {
        let some = if to_beat.is_finite() { n_groups } else { &[] };
        some.par_iter().map(|&count| (count, self.least_secs(count, to_beat))).collect()
    }

    /// No plan with these numbers of stages takes less, `one` and `many`: of each that is not known yet, what
    /// is needed. Stages with different numbers of devices count where the best plan has them.
    pub(super) fn bound_secs(
        &self,
        best: &Placement,
        one: &[usize],
        known: &[(usize, f64)],
        many: &[usize],
    ) -> f64 {
        let is_new = |count: &usize| !known.iter().any(|(other, _)| other == count);
        let new: Vec<usize> = many.iter().copied().filter(is_new).collect();
        let of_one = one.iter().map(|_| match best.is_again() {
            true => self.least_secs(1, best.time_secs),
            false => self.noted_bound().lower_bound_secs,
        });
        let unequal = best.is_unequal().then(|| self.unequal_floor_secs());
        let of_many = known.iter().copied().chain(self.least_all(&new, best.time_secs)).map(|it| it.1);
        of_one.chain(of_many).chain(unequal).fold(f64::INFINITY, f64::min)
    }

    /// The mean work of a device group, over the meshes of a stage.
    fn least_with(&self, n_groups: usize, n_microbatches: usize, to_beat: f64) -> Least {
        let n_devices = self.cluster.n_devices() / n_groups;
        let cluster = self.cluster.submesh(n_devices);
        let inputs = self.subject.bounding(&cluster, self.recompute != Recompute::Never);
        let inputs: Vec<Input> = inputs.into_iter().map(|input| Input { n_microbatches, ..input }).collect();
        let is_enough = |least: &Least| self.with_bubbles(n_groups, n_microbatches, least) >= to_beat;
        let meshes = self.meshes(n_devices);
        let weight = 1.0 / n_groups as f64;
        let all = meshes.par_iter().filter_map(|mesh| least_secs(&inputs, mesh, weight, is_enough));
        let all: Vec<(f64, Least)> =
            all.map(|least| (self.with_bubbles(n_groups, n_microbatches, &least), least)).collect();
        let least = all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        least.map_or(Least { secs: f64::INFINITY, work_secs: [0.0; 2] }, |it| it.1)
    }

    /// Mean work with what groups wait for one another, by the schedule that waits least.
    fn with_bubbles(&self, n_groups: usize, n_microbatches: usize, least: &Least) -> f64 {
        let work_secs = least.work_secs.map(|secs| secs * n_groups as f64);
        let waited = |schedule: Schedule| {
            schedule.least_secs(n_groups, n_microbatches, work_secs) - least.work_secs.iter().sum::<f64>()
        };
        let waited_secs = self.schedule.all().into_iter().map(waited).fold(f64::INFINITY, f64::min);
        least.secs + waited_secs.max(0.0)
    }

    /// The meshes of a stage's devices; of all devices the one that `shard` was asked for.
    pub(super) fn meshes(&self, n_devices: usize) -> Vec<Mesh> {
        let is_all = n_devices == self.cluster.n_devices();
        let asked = asked_mesh(self.sharded, n_devices as i64).filter(|_| is_all);
        asked.map_or_else(|| meshes(n_devices as i64), |mesh| vec![mesh])
    }
}
