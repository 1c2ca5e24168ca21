//! What no plan takes less than: on stages with equal numbers of devices per number of microbatches, and
//! block by block on stages of several sizes.

use super::candidate::{Evaluated, Placement};
use super::search_control::End;
use super::{Problem, Recompute};
use crate::shard::control::asked_mesh;
use crate::shard::model::Input;
use crate::shard::{Least, block_floors, least_secs, meshes};
use phzc_cost::{Cluster, Schedule};
use phzc_ir::Mesh;
use rayon::prelude::*;

/// What is known of the least seconds of every number of device groups.
pub struct LowerBounds {
    /// Whether one group is among them.
    has_one: bool,
    many: Vec<usize>,
    known: Vec<(usize, f64)>,
}

impl LowerBounds {
    /// Of these numbers, nothing yet.
    pub fn new(one: &[usize], many: &[usize]) -> LowerBounds {
        LowerBounds { has_one: !one.is_empty(), many: many.to_vec(), known: Vec::new() }
    }

    /// Works out what bounds all plans now that there is one to beat.
    pub fn learn(&mut self, problem: &Problem, best: &Evaluated) {
        if let Evaluated::Placed(best) = best {
            self.add(problem, best);
            problem.control.bounded(self.least(problem, best));
        }
    }

    /// Whether a number of groups may beat a plan.
    pub fn is_open_at(&self, n_groups: usize, best_secs: f64) -> bool {
        self.of(n_groups).is_none_or(|secs| secs < best_secs)
    }

    /// No plan with these numbers of groups takes less. Stages with different numbers of devices count where
    /// the best plan has them, or where there `may_be` some and a limit or the user ended the search.
    pub fn of_all(&mut self, problem: &Problem, best: &Placement, may_be: bool) -> f64 {
        self.add(problem, best);
        let counts = best.is_unequal()
            || may_be && matches!(problem.control.ended(), Some(End::Limit | End::Interrupted));
        let unequal = counts.then(|| problem.unequal_floor_secs());
        unequal.into_iter().fold(self.least(problem, best), f64::min)
    }

    /// No plan with these numbers of groups takes less, where none was found that beats the problem's.
    pub fn unbeaten(&mut self, problem: &Problem) -> f64 {
        if problem.to_beat.is_infinite() {
            return 0.0;
        }
        let all = self.has_one.then_some(1).into_iter().chain(self.many.iter().copied());
        let new: Vec<usize> = all.filter(|count| self.of(*count).is_none()).collect();
        self.known.extend(problem.least_all(&new, problem.to_beat));
        self.known.iter().map(|it| it.1).fold(problem.to_beat, f64::min)
    }

    fn of(&self, n_groups: usize) -> Option<f64> {
        self.known.iter().find(|(known, _)| *known == n_groups).map(|it| it.1)
    }

    /// Adds what is needed to bound plans that beat one; of one group `shard` has bounded its own kind.
    fn add(&mut self, problem: &Problem, best: &Placement) {
        let needs_one = self.has_one && !best.is_plain();
        let all = needs_one.then_some(1).into_iter().chain(self.many.iter().copied());
        let new: Vec<usize> = all.filter(|count| self.of(*count).is_none()).collect();
        if !new.is_empty() {
            problem.control.bounding();
            self.known.extend(problem.least_all(&new, best.time_secs));
        }
    }

    /// The least of what is known; of one group what `shard` noted, if the plan is of its kind.
    fn least(&self, problem: &Problem, best: &Placement) -> f64 {
        let of_one = match self.has_one && best.is_plain() {
            true => Some(problem.noted_bound().lower_bound_secs),
            false => self.of(1),
        };
        let of_many = self.many.iter().filter_map(|&count| self.of(count));
        of_many.chain(of_one).fold(f64::INFINITY, f64::min)
    }
}

impl Problem<'_> {
    /// No plan on `n_groups` equal device groups takes less, whatever layouts, cuts, microbatches, schedule
    /// and recomputation it has of those that may be chosen; infinite if none is legal. A bound of `to_beat`
    /// or more is as good as any.
    pub(super) fn least_secs(&self, n_groups: usize, to_beat: f64) -> f64 {
        let (first_secs, first) = self.least_with(n_groups, self.counts[0], to_beat);
        let others = if n_groups == 1 { &[] } else { &self.counts[1..] };
        // To run in more microbatches takes no less work: more launches of smaller kernels.
        let least = |&count: &usize| match self.with_bubbles(n_groups, count, &first) {
            secs if secs >= to_beat || self.control.is_interrupted() => secs,
            _ => self.least_with(n_groups, count, to_beat).0,
        };
        let all = others.par_iter().map(least).collect::<Vec<f64>>();
        all.into_iter().fold(first_secs, f64::min)
    }

    /// The same of several numbers of groups.
    fn least_all(&self, n_groups: &[usize], to_beat: f64) -> Vec<(usize, f64)> {
        n_groups.par_iter().map(|&count| (count, self.least_secs(count, to_beat))).collect()
    }

    /// A step's least seconds by the best of a stage's meshes; and of the mean work of a device group the
    /// least of all meshes, each figure by itself: with more microbatches another mesh may be the best.
    fn least_with(&self, n_groups: usize, n_microbatches: usize, to_beat: f64) -> (f64, Least) {
        let n_devices = self.cluster.n_devices() / n_groups;
        let cluster = self.cluster.submesh(n_devices);
        let inputs = self.bounding(&cluster, n_microbatches);
        let with_bubbles = |least: &Least| self.with_bubbles(n_groups, n_microbatches, least);
        let of_mesh = |mesh: &Mesh| {
            least_secs(&inputs, mesh, 1.0 / n_groups as f64, |least| match self.control.is_interrupted() {
                // Who waits no longer for plans has a weaker bound soon.
                true => f64::NEG_INFINITY,
                false => to_beat - (with_bubbles(least) - least.secs),
            })
        };
        let meshes = self.meshes(n_devices);
        let all: Vec<Least> = meshes.par_iter().filter_map(of_mesh).collect();
        let secs = all.iter().map(with_bubbles).fold(f64::INFINITY, f64::min);
        let none = Least { secs: f64::INFINITY, work_secs: [f64::INFINITY; 2] };
        (secs, all.into_iter().fold(none, Least::min))
    }

    /// What bounds are taken from.
    fn bounding<'a>(&'a self, cluster: &'a Cluster, n_microbatches: usize) -> Vec<Input<'a>> {
        let inputs = self.subject.bounding(cluster, self.recompute != Recompute::Never);
        inputs.into_iter().map(|input| Input { n_microbatches, ..input }).collect()
    }

    /// No plan takes less whose stages have different numbers of devices, each block in one of them. `T >=
    /// max_j B t_j + u_j >= sum_j (g_j/D) (B t_j + u_j)` with stages on `g_j` of `D` devices: per block what
    /// is least over sizes and meshes; layouts move for free.
    fn unequal_floor_secs(&self) -> f64 {
        let of_size = |&size: &usize| {
            let (cluster, share) =
                (self.cluster.submesh(size), size as f64 / self.cluster.n_devices() as f64);
            let inputs = self.bounding(&cluster, self.counts[0]);
            let of_meshes = self.meshes(size).into_iter().map(|mesh| block_floors(&inputs, &mesh, share));
            of_meshes.reduce(each_least).unwrap_or_default()
        };
        let all: Vec<Vec<f64>> = self.groups.sizes().par_iter().map(of_size).collect();
        all.into_iter().reduce(each_least).unwrap_or_default().iter().sum()
    }

    /// Mean work with what groups wait for one another, by the schedule that waits least.
    fn with_bubbles(&self, n_groups: usize, n_microbatches: usize, least: &Least) -> f64 {
        let work_secs = least.work_secs.map(|secs| secs * n_groups as f64);
        if least.secs.is_infinite() {
            return least.secs;
        }
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

/// The lesser of two figures for each block.
fn each_least(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    a.into_iter().zip(b).map(|(a, b)| a.min(b)).collect()
}
