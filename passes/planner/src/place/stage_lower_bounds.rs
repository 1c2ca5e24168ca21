//! What no plan takes less than: on stages with equal numbers of devices per number of microbatches, and
//! block by block on stages of several sizes.

use super::candidate::{Evaluated, Placement};
use super::search_control::End;
use super::{Problem, Recompute};
use crate::shard::control::asked_mesh;
use crate::shard::model::Input;
use crate::shard::{Least, block_floors, least_secs, meshes};
use phzc_cost::{Cluster, Schedule};
use phzc_ir::{Mesh, notes};
use rayon::prelude::*;

/// What is known of the least seconds of every number of device groups and microbatches. Most is known of
/// those that bound all plans: to know as much of the others takes long and says nothing.
pub struct LowerBounds {
    /// Whether one group is among them.
    has_one: bool,
    many: Vec<usize>,
    known: Vec<Bound>,
}

/// What no plan with some numbers of groups and microbatches takes less than.
struct Bound {
    n_groups: usize,
    n_microbatches: usize,
    secs: f64,
    from: From,
}

/// What a bound is taken from.
#[derive(PartialEq)]
enum From {
    /// Fewer microbatches, which take no more work: fewer launches of larger kernels.
    Fewer,
    /// Work without movements, per mesh of a group.
    Work(Vec<f64>),
    /// Work and movements: it rises no more.
    All,
}

impl LowerBounds {
    /// Of these numbers, nothing yet.
    pub fn new(one: &[usize], many: &[usize]) -> LowerBounds {
        LowerBounds { has_one: !one.is_empty(), many: many.to_vec(), known: Vec::new() }
    }

    /// Works out what bounds all plans now that there is one to beat.
    pub fn learn(&mut self, problem: &Problem, best: &Evaluated) {
        if let Evaluated::Placed(best) = best {
            problem.control.bounded(self.least(problem, best));
        }
    }

    /// Those of some numbers of groups that may beat a plan, as far as is known.
    pub fn open(&self, n_groups: &[usize], best_secs: f64) -> Vec<usize> {
        n_groups.iter().copied().filter(|&count| self.of(count) < best_secs).collect()
    }

    /// No plan with these numbers of groups takes less. Stages with different numbers of devices count where
    /// the best plan has them, or where there `may_be` some and a limit or the user ended the search.
    pub fn of_all(&mut self, problem: &Problem, best: &Placement, may_be: bool) -> f64 {
        let least = self.least(problem, best);
        let counts = best.is_unequal()
            || may_be && matches!(problem.control.ended(), Some(End::Limit | End::Interrupted));
        let unequal = counts.then(|| problem.unequal_floor_secs());
        unequal.into_iter().fold(least, f64::min)
    }

    /// No plan with these numbers of groups takes less, where none was found that beats the problem's.
    pub fn unbeaten(&mut self, problem: &Problem) -> f64 {
        let to_beat = problem.worth.secs;
        if to_beat.is_infinite() {
            return 0.0;
        }
        self.raise(problem, self.has_one, to_beat).min(to_beat)
    }

    /// What is known of a number of groups; nothing where none of its plans is bounded.
    pub fn of(&self, n_groups: usize) -> f64 {
        let all = self.known.iter().filter(|it| it.n_groups == n_groups).map(|it| it.secs);
        all.reduce(f64::min).unwrap_or(0.0)
    }

    /// What all plans that beat one take at least; of one group what `shard` noted, if the plan is of its
    /// kind.
    fn least(&mut self, problem: &Problem, best: &Placement) -> f64 {
        let is_noted = self.has_one && best.is_plain() && problem.more_take_no_less();
        let secs = self.raise(problem, self.has_one && !is_noted, best.time_secs);
        if is_noted { secs.min(problem.noted_bound().lower_bound_secs) } else { secs }
    }

    /// Raises the least of the bounds until that rises no more, or all are as high as a plan to beat or as is
    /// of use; bounds of one group are asked for, or left out.
    fn raise(&mut self, problem: &Problem, with_one: bool, to_beat: f64) -> f64 {
        let is_new = |count: &usize| !self.known.iter().any(|it| it.n_groups == *count);
        let all = with_one.then_some(1).into_iter().chain(self.many.iter().copied()).filter(is_new);
        let new: Vec<Bound> = all.flat_map(|n_groups| problem.unknown(n_groups)).collect();
        if !new.is_empty() {
            problem.control.bounding();
            self.known.extend(new);
        }
        let to_beat = to_beat.min(problem.worth.bound_secs);
        loop {
            let asked = (0..self.known.len()).filter(|&at| with_one || self.known[at].n_groups > 1);
            let least = asked.min_by(|&a, &b| self.known[a].secs.total_cmp(&self.known[b].secs));
            let Some(at) = least else { return f64::INFINITY };
            let it = &self.known[at];
            if it.from == From::All || it.secs >= to_beat || problem.control.is_interrupted() {
                return it.secs;
            }
            self.raise_one(problem, self.first_of(at), to_beat);
        }
    }

    /// What to raise for a bound: where fewer microbatches say something of it, those first that may bound
    /// all plans themselves.
    fn first_of(&self, at: usize) -> usize {
        let it = &self.known[at];
        if it.from != From::Fewer {
            return at;
        }
        let own = self.known.iter().filter(|it| it.from != From::Fewer).map(|it| it.secs);
        let least = own.fold(f64::INFINITY, f64::min);
        let is_first =
            |other: &Bound| other.from == From::Fewer && other.n_groups == it.n_groups && other.secs < least;
        self.known.iter().position(is_first).unwrap_or(at)
    }

    /// Raises one bound, and with it those of more microbatches that can do nothing with less work.
    fn raise_one(&mut self, problem: &Problem, at: usize, to_beat: f64) {
        let it = &mut self.known[at];
        let (n_groups, n_microbatches) = (it.n_groups, it.n_microbatches);
        if let From::Work(of_meshes) = &it.from {
            it.secs = it.secs.max(problem.with_moves(n_groups, n_microbatches, of_meshes, to_beat));
            // One that was given up at the time to beat rises on when that rises.
            if it.secs < to_beat {
                it.from = From::All;
            }
            return;
        }
        let (of_meshes, work) = problem.work(n_groups, n_microbatches);
        it.secs = of_meshes.iter().copied().fold(f64::INFINITY, f64::min).max(it.secs);
        it.from = From::Work(of_meshes);
        if !problem.more_take_no_less() {
            return;
        }
        let has_more =
            |it: &&mut Bound| it.n_groups == n_groups && it.n_microbatches.is_multiple_of(n_microbatches);
        for it in self.known.iter_mut().filter(has_more) {
            it.secs = it.secs.max(problem.with_bubbles(n_groups, it.n_microbatches, &work));
        }
    }
}

impl Problem<'_> {
    /// Whether more microbatches take no less work. A kernel of fused attention may take less for half of a
    /// batch: of its last wave of blocks fewer cores wait (`cost/src/attention.rs`).
    fn more_take_no_less(&self) -> bool {
        !self.sharded.comps.iter().flat_map(|comp| &comp.instrs).any(|it| it.note(notes::ATTENTION).is_some())
    }

    /// Nothing is known of these yet.
    fn unknown(&self, n_groups: usize) -> Vec<Bound> {
        let is_one_enough = n_groups == 1 && self.more_take_no_less();
        let counts = if is_one_enough { &self.counts[..1] } else { &self.counts[..] };
        let unknown =
            |&n_microbatches: &usize| Bound { n_groups, n_microbatches, secs: 0.0, from: From::Fewer };
        counts.iter().map(unknown).collect()
    }

    /// A step's least seconds without movements per mesh of a stage; and of the mean work of a device group
    /// the least of all meshes, each figure by itself: with more microbatches another mesh may be the best.
    fn work(&self, n_groups: usize, n_microbatches: usize) -> (Vec<f64>, Least) {
        let cluster = self.cluster.submesh(self.cluster.n_devices() / n_groups);
        let inputs = self.bounding(&cluster, n_microbatches);
        let none = Least { secs: f64::INFINITY, work_secs: [f64::INFINITY; 2] };
        let of_mesh = |mesh: &Mesh| {
            least_secs(&inputs, mesh, 1.0 / n_groups as f64, |_| f64::NEG_INFINITY).unwrap_or(none)
        };
        let all: Vec<Least> = self.meshes(cluster.n_devices()).par_iter().map(of_mesh).collect();
        let secs = all.iter().map(|least| self.with_bubbles(n_groups, n_microbatches, least)).collect();
        (secs, all.into_iter().fold(none, Least::min))
    }

    /// A step's least seconds by the best of a stage's meshes, of which those without movements are known: of
    /// the most promising mesh all that can be known below the seconds `to_beat`, of the others whether they
    /// are less.
    fn with_moves(&self, n_groups: usize, n_microbatches: usize, work_secs: &[f64], to_beat: f64) -> f64 {
        let cluster = self.cluster.submesh(self.cluster.n_devices() / n_groups);
        let (inputs, meshes) = (self.bounding(&cluster, n_microbatches), self.meshes(cluster.n_devices()));
        let of_mesh = |at: usize, to_beat: f64| match work_secs[at] >= to_beat {
            true => work_secs[at],
            false => self.on_mesh(n_groups, &inputs, &meshes[at], to_beat),
        };
        let mut order: Vec<usize> = (0..meshes.len()).collect();
        order.sort_by(|&a, &b| work_secs[a].total_cmp(&work_secs[b]));
        let Some((&first, others)) = order.split_first() else { return f64::INFINITY };
        let secs = of_mesh(first, to_beat);
        let others = others.par_iter().map(|&at| of_mesh(at, to_beat.min(secs)));
        others.collect::<Vec<f64>>().into_iter().fold(secs, f64::min)
    }

    /// A step's least seconds on one mesh, or more than `to_beat`.
    fn on_mesh(&self, n_groups: usize, inputs: &[Input], mesh: &Mesh, to_beat: f64) -> f64 {
        let n_microbatches = inputs[0].n_microbatches;
        let with_bubbles = |least: &Least| self.with_bubbles(n_groups, n_microbatches, least);
        let enough = |least: &Least| match self.control.is_interrupted() {
            // Who waits no longer for plans has a weaker bound soon.
            true => f64::NEG_INFINITY,
            false => to_beat - (with_bubbles(least) - least.secs),
        };
        let least = least_secs(inputs, mesh, 1.0 / n_groups as f64, enough);
        least.map_or(f64::INFINITY, |least| with_bubbles(&least))
    }

    /// What bounds are taken from.
    fn bounding<'a>(&'a self, cluster: &'a Cluster, n_microbatches: usize) -> Vec<Input<'a>> {
        let in_tasks = cluster.n_devices() < self.cluster.n_devices();
        let inputs = self.subject.bounding(cluster, in_tasks, self.recompute != Recompute::Never);
        inputs.into_iter().map(|input| Input { n_microbatches, ..input }).collect()
    }

    /// No plan takes less whose stages have different numbers of devices, each block in one of them. `T >=
    /// max_j B t_j + u_j >= sum_j (g_j/D) (B t_j + u_j)` with stages on `g_j` of `D` devices: per block what
    /// is least over sizes and meshes; layouts move for free.
    fn unequal_floor_secs(&self) -> f64 {
        self.block_floors(&self.groups.sizes(), self.cluster.n_devices()).iter().sum()
    }

    /// Per block: the least seconds times devices on any number of them.
    pub(super) fn block_device_secs(&self) -> Vec<f64> {
        let mut sizes = self.groups.sizes();
        sizes.push(self.cluster.n_devices());
        self.block_floors(&sizes, 1)
    }

    /// Per block what is least over numbers of devices and their meshes: the seconds on `g` devices, times
    /// `g/D`.
    fn block_floors(&self, sizes: &[usize], n_devices: usize) -> Vec<f64> {
        let of_size = |&size: &usize| {
            let (cluster, share) = (self.cluster.submesh(size), size as f64 / n_devices as f64);
            let inputs = self.bounding(&cluster, self.counts[0]);
            let of_meshes = self.meshes(size).into_iter().map(|mesh| block_floors(&inputs, &mesh, share));
            of_meshes.reduce(each_least).unwrap_or_default()
        };
        let all: Vec<Vec<f64>> = sizes.par_iter().map(of_size).collect();
        all.into_iter().reduce(each_least).unwrap_or_default()
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

    /// The meshes of a stage's devices; of all devices the one that `shard` was asked for, or those of given
    /// layouts.
    pub(super) fn meshes(&self, n_devices: usize) -> Vec<Mesh> {
        let is_all = n_devices == self.cluster.n_devices();
        if let Some(given) = self.subject.given_meshes.as_ref().filter(|_| is_all) {
            return given.clone();
        }
        let asked = asked_mesh(self.sharded, n_devices as i64).filter(|_| is_all);
        asked.map_or_else(|| meshes(n_devices as i64), |mesh| vec![mesh])
    }
}

/// The lesser of two figures for each block.
fn each_least(a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    a.into_iter().zip(b).map(|(a, b)| a.min(b)).collect()
}
