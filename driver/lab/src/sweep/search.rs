//! The best plan of one cluster: order of nodes, degrees, microbatch, layers of each stage.
//!
//! Orders of nodes are all, or a part of them where they are many (`orders.rs`). For each, a lower
//! bound over all cuts (`bound.rs`) is taken first; where it beats what is known, the cut that has it is
//! improved by moving layers between stages, and then all cuts are tried whose bound is lower still.

use super::alike;
use super::bound::Bounding;
use super::orders::{exchanged, orders};
use phzc_cost::fasop::{Cost, Degrees, Fleet, Placement, Times, Transformer, Variant};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// So many tasks of pipelines are replayed to try all cuts of one order and degrees; where there are more,
/// the bound stays.
const MAX_TASKS: usize = 4_000_000;
/// All cuts are tried of so many orders and degrees at most.
const MAX_SEARCHED: usize = 4096;
/// Entries are moved out of so many of the slowest stages, fewer where a round takes more tasks.
const N_SLOW: usize = 6;
const MAX_ROUND_TASKS: usize = 2_000_000;
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
    /// Seconds that no plan on all these nodes can beat, of the orders that are searched.
    pub bound_secs: f64,
    /// The same of all orders.
    pub any_order_secs: f64,
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
    placement: Placement<'a>,
    times: Times,
    bound_secs: f64,
    cut: Vec<usize>,
}

impl<'a> Problem<'a> {
    /// The fastest plan on so many nodes of each kind, all of them used.
    pub(super) fn best(&self, counts: &[usize]) -> Best {
        let degrees = self.degrees(counts);
        let orders = orders(counts, self.fleet);
        let mut best = None::<Plan>;
        let mut ways = Vec::new();
        for some in self.seen(&orders.list, &degrees).chunks(CHUNK) {
            let known = secs_of(&best);
            if some[0].0 >= known {
                break;
            }
            let pairs = some.iter().map(|(_, order, degrees)| (&orders.list[*order], *degrees)).collect();
            let bounded = self.bounded(pairs, known);
            best = improved(&bounded, secs_of(&best)).or(best);
            ways.extend(bounded);
        }
        if !orders.is_whole {
            self.exchange(&mut best, &mut ways);
        }
        let best = self.proved(ways, best);
        match orders.is_whole {
            true => Best { any_order_secs: best.bound_secs, ..best },
            false => Best { any_order_secs: best.bound_secs.min(self.any_order(counts, &degrees)), ..best },
        }
    }

    /// Seconds that no cut beats at a glance, the number of the order, degrees, the least first; of orders
    /// that are the same to all stages, one.
    fn seen(&self, orders: &[Vec<usize>], degrees: &[Degrees]) -> Vec<(f64, usize, Degrees)> {
        let pairs: Vec<(usize, Degrees)> =
            (0..orders.len()).flat_map(|order| degrees.iter().map(move |it| (order, *it))).collect();
        let glance = |(order, degrees): (usize, Degrees)| {
            let (placement, times) = self.placed(&orders[order], degrees);
            let secs = Bounding::new(&placement, &times).glance_secs();
            (secs, order, degrees, alike::signature(&placement, &times))
        };
        let mut seen: Vec<(f64, usize, Degrees, Vec<u64>)> = pairs.into_par_iter().map(glance).collect();
        let mut known = BTreeSet::new();
        seen.retain(|(_, _, degrees, signature)| known.insert((*degrees, signature.clone())));
        seen.sort_by(|a, b| a.0.total_cmp(&b.0));
        seen.into_iter().map(|(secs, order, degrees, _)| (secs, order, degrees)).collect()
    }

    /// The bounds of placements as far as these are below the known time, the least first.
    fn bounded(&self, pairs: Vec<(&Vec<usize>, Degrees)>, known: f64) -> Vec<Way<'a>> {
        let way = |(order, degrees): (&Vec<usize>, Degrees)| {
            let (placement, times) = self.placed(order, degrees);
            Way::of(placement, times, known)
        };
        let mut ways: Vec<Way> = pairs.into_par_iter().filter_map(way).collect();
        ways.sort_by(|a, b| a.bound_secs.total_cmp(&b.bound_secs));
        ways
    }

    /// Exchanges blocks of the best plan's order as long as that helps.
    fn exchange(&self, best: &mut Option<Plan>, ways: &mut Vec<Way<'a>>) {
        while let Some(plan) = best.clone() {
            let orders = exchanged(&plan.order);
            let pairs = orders.iter().map(|order| (order, plan.degrees)).collect();
            let bounded = self.bounded(pairs, plan.cost.step_secs);
            *best = improved(&bounded, secs_of(best)).or(best.take());
            ways.extend(bounded);
            if secs_of(best) >= plan.cost.step_secs {
                break;
            }
        }
    }

    /// The best plan once all cuts were tried whose bound is below it, as far as these are not too many.
    fn proved(&self, mut ways: Vec<Way>, mut best: Option<Plan>) -> Best {
        ways.sort_by(|a, b| a.bound_secs.total_cmp(&b.bound_secs));
        let mut open_secs = f64::INFINITY;
        for (index, way) in ways.iter().enumerate() {
            let known = secs_of(&best);
            if way.bound_secs >= known {
                break;
            }
            if index == MAX_SEARCHED {
                open_secs = open_secs.min(way.bound_secs);
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
        Best { plan: best, bound_secs, any_order_secs: bound_secs }
    }

    fn placed(&self, order: &[usize], degrees: Degrees) -> (Placement<'a>, Times) {
        let Problem { fleet, model, variant } = *self;
        let placement = Placement { fleet, model, variant, order: order.to_vec(), degrees };
        let times = Times::of(&placement);
        (placement, times)
    }

    /// Seconds that no plan of any order beats.
    fn any_order(&self, counts: &[usize], degrees: &[Degrees]) -> f64 {
        let secs = degrees.iter().map(|it| alike::any_order_secs(self, counts, *it));
        secs.fold(f64::INFINITY, f64::min)
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

/// The best plan near the cuts of some ways that takes less than `to_beat`.
fn improved(ways: &[Way], to_beat: f64) -> Option<Plan> {
    let plans: Vec<Plan> = ways.par_iter().filter_map(|way| way.improved(to_beat)).collect();
    plans.into_iter().min_by(|a, b| a.cost.step_secs.total_cmp(&b.cost.step_secs))
}

/// Seconds of the best plan, if there is one.
fn secs_of(best: &Option<Plan>) -> f64 {
    best.as_ref().map_or(f64::INFINITY, |plan| plan.cost.step_secs)
}

impl<'a> Way<'a> {
    /// `None` where no cut that fits is bounded below `to_beat`.
    fn of(placement: Placement<'a>, times: Times, to_beat: f64) -> Option<Way<'a>> {
        let (bound_secs, cut) = Bounding::new(&placement, &times).least(to_beat)?;
        Some(Way { placement, times, bound_secs, cut })
    }

    /// The best plan near the bound's cut that fits and takes less than `to_beat`: entries move between two
    /// stages as long as one move helps.
    fn improved(&self, to_beat: f64) -> Option<Plan> {
        let mut cut = self.cut.clone();
        let mut cost = self.placement.cost_in(&self.times, &cut);
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
            let cost = self.placement.cost_in(&self.times, cut);
            if cost.fits && cost.step_secs < limit {
                limit = cost.step_secs;
                best = Some(self.plan(cut, cost));
            }
            limit
        };
        let is_whole = Bounding::new(&self.placement, &self.times).visit(to_beat, MAX_TASKS, &mut see);
        (best, is_whole)
    }

    fn plan(&self, cut: &[usize], cost: Cost) -> Plan {
        let (order, degrees) = (self.placement.order.clone(), self.placement.degrees);
        Plan { order, degrees, cut: cut.to_vec(), cost }
    }

    /// The best of all cuts with one entry moved out of a slow stage, if it is better: one that fits before
    /// one that does not. Those are left out that the cut's own critical path shows to be no better.
    fn moved(&self, cut: &[usize], cost: &Cost) -> Option<(Cost, Vec<usize>)> {
        let bounding = Bounding::new(&self.placement, &self.times);
        let path = bounding.path(cut);
        let bounded = self.moves(cut).into_iter().map(|next| (bounding.secs_along(&path, &next), next));
        let mut bounded: Vec<(f64, Vec<usize>)> = bounded.collect();
        bounded.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut best, mut least) = (None, rank(cost));
        for (bound_secs, next) in bounded {
            if bound_secs >= least {
                break;
            }
            let cost = self.placement.cost_in(&self.times, &next);
            if rank(&cost) < least {
                least = rank(&cost);
                best = Some((cost, next));
            }
        }
        best
    }

    /// All cuts with one entry moved out of a slow stage.
    fn moves(&self, cut: &[usize]) -> Vec<Vec<usize>> {
        let n = cut.len();
        let secs = self.times.stage_secs(cut);
        let mut slowest: Vec<usize> = (0..n).filter(|stage| cut[*stage] > 1).collect();
        slowest.sort_by(|a, b| secs[*b].total_cmp(&secs[*a]));
        let n_tasks = 2 * n * n * self.placement.n_microbatches();
        slowest.truncate((MAX_ROUND_TASKS / n_tasks).clamp(1, N_SLOW));
        let pairs = slowest.into_iter().flat_map(|from| (0..n).map(move |to| (from, to)));
        let moved = pairs.filter(|(from, to)| from != to).map(|(from, to)| {
            let mut next = cut.to_vec();
            next[from] -= 1;
            next[to] += 1;
            next
        });
        moved.collect()
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
