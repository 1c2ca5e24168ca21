//! The best plan of one cluster: order of nodes, degrees, microbatch, layers of each stage.
//!
//! Orders are the rotations of nodes sorted by kind, and all orders where these are few. For each, a lower
//! bound over all cuts (`bound.rs`) is taken first; where it beats what is known, the cut that has it is
//! improved by moving layers between stages, and then all cuts are tried whose bound is lower still.

use super::bound::Bounding;
use phzc_cost::fasop::{Cost, Degrees, Fleet, Placement, Times, Transformer, Variant};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Orders are all tried up to this number of them.
const MAX_ORDERS: usize = 200;
/// So many tasks of pipelines are replayed to try all cuts of one order and degrees; where there are more,
/// the bound stays.
const MAX_TASKS: usize = 4_000_000;
/// Entries are moved out of so many of the slowest stages.
const N_SLOW: usize = 6;
/// So many placements are bounded at once.
const CHUNK: usize = 16;

/// A plan and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Per node in the order of ranks, its kind.
    pub order: Vec<usize>,
    pub degrees: Degrees,
    /// Entries of each stage.
    pub cut: Vec<usize>,
    pub cost: Cost,
}

/// The best plan of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Best {
    /// It, if one fits.
    pub plan: Option<Plan>,
    /// Seconds that no plan on all these nodes can beat.
    pub bound_secs: f64,
}

/// What is planned.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub fleet: &'a Fleet,
    pub model: &'a Transformer,
    pub variant: Variant,
}

/// One way to place the model, with a bound over all cuts and the cut that has it.
struct Way<'a> {
    placement: &'a Placement<'a>,
    times: &'a Times,
    bound_secs: f64,
    cut: Vec<usize>,
}

impl Problem<'_> {
    /// The fastest plan on so many nodes of each kind, all of them used.
    pub(super) fn best(&self, counts: &[usize]) -> Best {
        let degrees = self.degrees(counts);
        let orders = orders(counts);
        let pairs: Vec<(&Vec<usize>, Degrees)> =
            orders.iter().flat_map(|order| degrees.iter().map(move |it| (order, *it))).collect();
        let seen: Vec<(f64, Placement, Times)> =
            pairs.into_par_iter().map(|(order, degrees)| self.seen(order, degrees)).collect();
        let mut seen: Vec<&(f64, Placement, Times)> = seen.iter().collect();
        seen.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut best, mut ways) = (None::<Plan>, Vec::new());
        for some in seen.chunks(CHUNK) {
            let known = secs_of(&best);
            if some[0].0 >= known {
                break;
            }
            let bounded = some.par_iter().filter_map(|(_, placement, times)| Way::of(placement, times));
            let mut bounded: Vec<Way> = bounded.filter(|way| way.bound_secs < known).collect();
            bounded.sort_by(|a, b| a.bound_secs.total_cmp(&b.bound_secs));
            for way in &bounded {
                best = way.improved(secs_of(&best)).or(best);
            }
            ways.extend(bounded);
        }
        self.proved(ways, best)
    }

    /// The best plan once all cuts were tried whose bound is below it, as far as these are not too many.
    fn proved(&self, mut ways: Vec<Way>, mut best: Option<Plan>) -> Best {
        ways.sort_by(|a, b| a.bound_secs.total_cmp(&b.bound_secs));
        let mut open_secs = f64::INFINITY;
        for way in &ways {
            let known = secs_of(&best);
            if way.bound_secs >= known {
                break;
            }
            let (better, is_whole) = way.searched(known);
            best = better.or(best);
            if !is_whole {
                open_secs = open_secs.min(way.bound_secs);
            }
        }
        // What was not looked at takes the known time or longer.
        let bound_secs = open_secs.min(secs_of(&best));
        Best { plan: best, bound_secs }
    }

    /// A placement with what no cut of it beats at a glance.
    fn seen(&self, order: &[usize], degrees: Degrees) -> (f64, Placement<'_>, Times) {
        let Problem { fleet, model, variant } = *self;
        let placement = Placement { fleet, model, variant, order: order.to_vec(), degrees };
        let times = Times::of(&placement);
        let secs = Bounding::new(&placement, &times).glance_secs();
        (secs, placement, times)
    }

    /// Degrees and microbatches on so many nodes of each kind.
    pub(super) fn degrees(&self, counts: &[usize]) -> Vec<Degrees> {
        let per_node = self.fleet.per_node;
        let (world, batch) = (counts.iter().sum::<usize>() * per_node, self.model.batch);
        let used = self.model.times.iter().zip(counts).filter(|(_, n)| **n > 0);
        let n_measured = used.map(|(times, _)| times.len()).min().unwrap_or(0);
        let tensor = (0..n_measured).map(|power| 1 << power).filter(|it| per_node.is_multiple_of(*it));
        let of_tensor = |tensor: usize| {
            let data = divisors(world / tensor).into_iter().filter(|it| batch.is_multiple_of(*it));
            data.flat_map(move |data| self.of_copies(world, tensor, data))
        };
        tensor.flat_map(of_tensor).collect()
    }

    fn of_copies(&self, world: usize, tensor: usize, data: usize) -> Vec<Degrees> {
        let stages = world / (tensor * data);
        if stages > self.model.roles.len() - 2 {
            return Vec::new();
        }
        let sizes = divisors(self.model.batch / data).into_iter();
        sizes.map(|micro_batch| Degrees { tensor, data, stages, micro_batch }).collect()
    }
}

/// Seconds of the best plan, if there is one.
fn secs_of(best: &Option<Plan>) -> f64 {
    best.as_ref().map_or(f64::INFINITY, |plan| plan.cost.step_secs)
}

impl<'a> Way<'a> {
    fn of(placement: &'a Placement<'a>, times: &'a Times) -> Option<Way<'a>> {
        let (bound_secs, cut) = Bounding::new(placement, times).least()?;
        Some(Way { placement, times, bound_secs, cut })
    }

    /// The best plan near the bound's cut that fits and takes less than `to_beat`: entries move between two
    /// stages as long as one move helps.
    fn improved(&self, to_beat: f64) -> Option<Plan> {
        let mut cut = self.cut.clone();
        let mut cost = self.placement.cost_in(self.times, &cut);
        while let Some((better, next)) = self.moved(&cut, &cost) {
            (cost, cut) = (better, next);
        }
        let is_best = cost.fits && cost.step_secs < to_beat;
        is_best.then(|| self.plan(&cut, cost))
    }

    /// The best plan of all cuts whose bound is below `to_beat`, and whether these were all tried.
    fn searched(&self, to_beat: f64) -> (Option<Plan>, bool) {
        let (mut best, mut limit) = (None, to_beat);
        let mut see = |cut: &[usize]| {
            let cost = self.placement.cost_in(self.times, cut);
            if cost.fits && cost.step_secs < limit {
                limit = cost.step_secs;
                best = Some(self.plan(cut, cost));
            }
            limit
        };
        let is_whole = Bounding::new(self.placement, self.times).visit(to_beat, MAX_TASKS, &mut see);
        (best, is_whole)
    }

    fn plan(&self, cut: &[usize], cost: Cost) -> Plan {
        let (order, degrees) = (self.placement.order.clone(), self.placement.degrees);
        Plan { order, degrees, cut: cut.to_vec(), cost }
    }

    /// The best of all cuts with one entry moved out of a slow stage, if it is better: one that fits before
    /// one that does not.
    fn moved(&self, cut: &[usize], cost: &Cost) -> Option<(Cost, Vec<usize>)> {
        let n = cut.len();
        let secs = self.times.stage_secs(cut);
        let mut slowest: Vec<usize> = (0..n).filter(|stage| cut[*stage] > 1).collect();
        slowest.sort_by(|a, b| secs[*b].total_cmp(&secs[*a]));
        slowest.truncate(N_SLOW);
        let pairs = slowest.into_iter().flat_map(|from| (0..n).map(move |to| (from, to)));
        let moved = pairs.filter(|(from, to)| from != to).map(|(from, to)| {
            let mut next = cut.to_vec();
            next[from] -= 1;
            next[to] += 1;
            (self.placement.cost_in(self.times, &next), next)
        });
        let best = moved.min_by(|a, b| rank(&a.0).total_cmp(&rank(&b.0)))?;
        (rank(&best.0) < rank(cost)).then_some(best)
    }
}

/// Seconds, and behind all that fit what does not, the larger the later.
fn rank(cost: &Cost) -> f64 {
    if cost.fits { cost.step_secs } else { 1e9 * (1.0 + cost.memory_gib) }
}

/// All divisors, ascending.
fn divisors(n: usize) -> Vec<usize> {
    (1..=n).filter(|it| n.is_multiple_of(*it)).collect()
}

/// Orders of so many nodes of each kind: all, or the rotations of those sorted by kind.
pub(super) fn orders(counts: &[usize]) -> Vec<Vec<usize>> {
    let sorted: Vec<usize> =
        counts.iter().enumerate().flat_map(|(kind, n)| std::iter::repeat_n(kind, *n)).collect();
    if n_orders(counts) <= MAX_ORDERS as f64 {
        let mut all = Vec::new();
        permute(&mut counts.to_vec(), &mut Vec::new(), &mut all);
        return all;
    }
    let rotated = (0..sorted.len()).map(|by| [&sorted[by..], &sorted[..by]].concat());
    rotated.collect::<BTreeSet<Vec<usize>>>().into_iter().collect()
}

/// The number of distinct orders.
fn n_orders(counts: &[usize]) -> f64 {
    let factorial = |n: usize| (1..=n).map(|it| it as f64).product::<f64>();
    factorial(counts.iter().sum()) / counts.iter().map(|n| factorial(*n)).product::<f64>()
}

fn permute(left: &mut Vec<usize>, order: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    if left.iter().all(|n| *n == 0) {
        return all.push(order.clone());
    }
    for kind in 0..left.len() {
        if left[kind] > 0 {
            left[kind] -= 1;
            order.push(kind);
            permute(left, order, all);
            order.pop();
            left[kind] += 1;
        }
    }
}
