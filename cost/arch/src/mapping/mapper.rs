//! The mapper: the best mapping of a contraction, exactly.
//!
//! Branch and bound from the outside to the inside: tiles of the global buffer, tiles of a core with the grid,
//! tiles of the registers with an order, factors of the array. Each step visits the least bound first and stops
//! at the first one that the incumbent excludes.

#[cfg(test)]
mod tests;

use super::cost::{Boundary, Cost, Mapping, Order, feed_cycles, least_pj, orders};
use super::feed::{Feed, Shares, feeds};
use super::fit::{fit_axes, fit_core, fit_registers};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, is_divisor, over, times};
use super::refill::{Load, Refill, loads, refills};
use super::tiles::Tiles;
use phzc_ir::{Diagnostic, Result};
use std::rc::Rc;

/// What a mapping is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// Cycles, then energy.
    Latency,
    /// Energy times cycles, Phaze's choice, then cycles.
    Edp,
}

impl Objective {
    /// What is least in the best mapping.
    pub fn score(self, cost: Cost) -> (f64, f64) {
        match self {
            Objective::Latency => (cost.cycles, cost.energy_pj),
            Objective::Edp => (cost.edp(), cost.cycles),
        }
    }
}

/// The best mapping with factors that divide, and what it takes.
///
/// # Errors
/// Where the nest cannot be priced, or not even single elements fit.
pub fn best(nest: &Nest, machine: &Machine, objective: Objective) -> Result<(Mapping, Cost)> {
    nest.check()?;
    let mut search = Search::new(nest, machine, objective);
    search.run();
    let best = search.best.map(|best| (best.mapping(nest), best.cost));
    best.ok_or_else(|| Diagnostic::error("a buffer holds not even one element of each operand"))
}

struct Search<'a> {
    nest: &'a Nest,
    machine: &'a Machine,
    objective: Objective,
    tiles: Tiles,
    orders: Vec<Order>,
    /// What the registers hold, by all tiles that they can hold.
    registers: Vec<Loops>,
    /// The tiles that the buffer of a core can hold.
    cores: Vec<Core>,
    n_pes: f64,
    best: Option<Candidate>,
}

/// A tile of the buffer of a core, and the ways to work on it once they are known.
struct Core {
    tile: Loops,
    feeds: Rc<[Feed]>,
}

/// A mapping by its steps.
#[derive(Clone, Copy)]
struct Candidate {
    load: Load,
    refill: Refill,
    feed: Feed,
    array: Loops,
    cost: Cost,
}

/// A score: least first, then second.
type Score = (f64, f64);

impl<'a> Search<'a> {
    fn new(nest: &'a Nest, machine: &'a Machine, objective: Objective) -> Search<'a> {
        let (tiles, mut registers, mut cores) = (Tiles::new(nest), Vec::new(), Vec::new());
        tiles
            .each(&nest.sizes, &|tile| fit_registers(nest, machine, tile), &mut |tile| registers.push(*tile));
        tiles.each(&nest.sizes, &|tile| fit_core(nest, machine, tile), &mut |tile| {
            cores.push(Core { tile: *tile, feeds: Rc::default() });
        });
        let n_pes = (machine.array[0] * machine.array[1]) as f64;
        let orders = orders(nest);
        Search { nest, machine, objective, tiles, orders, registers, cores, n_pes, best: None }
    }

    fn run(&mut self) {
        let parts = (&self.tiles, self.orders.as_slice());
        let relaxed = feeds(self.nest, self.machine, parts, &self.registers, &self.nest.sizes);
        let loads = loads(self.nest, self.machine, &self.tiles, &self.orders);
        let bounded = loads.iter().map(|load| (self.bound(load, None, &relaxed), load));
        for (bound, load) in sorted(bounded.collect()) {
            if self.is_excluded(bound) {
                break;
            }
            self.refill(load);
        }
    }

    /// Goes through the ways to hand out what a load brings.
    fn refill(&mut self, load: &Load) {
        let mut bounded = Vec::new();
        for at in 0..self.cores.len() {
            let core = self.cores[at].tile;
            if !is_divisor(&core, &load.tile) {
                continue;
            }
            let parts = (&self.tiles, self.orders.as_slice());
            let refills = refills(self.nest, self.machine, parts, &core, &load.tile);
            if refills.is_empty() {
                continue;
            }
            if self.cores[at].feeds.is_empty() {
                self.cores[at].feeds = feeds(self.nest, self.machine, parts, &self.registers, &core).into();
            }
            let feeds = &self.cores[at].feeds;
            let with_bounds = refills.into_iter().map(|it| (self.bound(load, Some(&it), feeds), it));
            bounded.extend(with_bounds.filter(|it| !self.is_excluded(it.0)).map(|it| (it.0, (it.1, at))));
        }
        for (bound, (refill, at)) in sorted(bounded) {
            if self.is_excluded(bound) {
                break;
            }
            self.feed(load, &refill, &Rc::clone(&self.cores[at].feeds));
        }
    }

    /// Goes through the ways to work on a core's tile.
    fn feed(&mut self, load: &Load, refill: &Refill, feeds: &[Feed]) {
        let bounded =
            feeds.iter().map(|feed| (self.score(load, Some(refill), (feed.floor, self.n_pes)), feed));
        for (bound, feed) in sorted(bounded.filter(|it| !self.is_excluded(it.0)).collect()) {
            if self.is_excluded(bound) {
                break;
            }
            let room = over(&refill.core, &feed.registers);
            self.unroll((load, refill, feed), &self.tiles.loops(), room, feed.forced);
        }
    }

    /// Chooses the array's factors of `loops`; `room` has what they can be, `array` those chosen.
    fn unroll(&mut self, steps: (&Load, &Refill, &Feed), loops: &[usize], room: Loops, array: Loops) {
        let (load, refill, feed) = steps;
        let Some((at, rest)) = loops.split_first() else { return self.judge(steps, &array) };
        let mut left = room;
        left[*at] = 1;
        let most = if feed.is_serial(*at) { 1 } else { room[*at] };
        for index in (0..self.tiles.divisors(*at).len()).rev() {
            let mut array = array;
            array[*at] = self.tiles.divisors(*at)[index];
            let n_chosen = array.iter().product::<u64>() as f64;
            let is_factor =
                room[*at].is_multiple_of(array[*at]) && array[*at].is_multiple_of(feed.forced[*at]);
            if array[*at] > most || !is_factor || n_chosen > self.n_pes {
                continue;
            }
            let shares = Shares::between(&array, &left, self.n_pes);
            let floor = feed.floor(self.nest, self.machine, &shares);
            if !self.is_excluded(self.score(load, Some(refill), (floor, shares.n_pes))) {
                self.unroll(steps, rest, left, array);
            }
        }
    }

    /// Keeps a mapping if it is the best so far.
    fn judge(&mut self, (load, refill, feed): (&Load, &Refill, &Feed), array: &Loops) {
        if !fit_axes(array, self.machine.array) {
            return;
        }
        let shares = Shares::of(array);
        let exact = (feed.floor(self.nest, self.machine, &shares), shares.n_pes);
        let cost = self.cost(load, Some(refill), exact);
        if !self.is_excluded(self.objective.score(cost)) {
            let (load, refill, feed, array) = (*load, *refill, *feed, *array);
            self.best = Some(Candidate { load, refill, feed, array, cost });
        }
    }

    /// No array makes these steps score less.
    fn bound(&self, load: &Load, refill: Option<&Refill>, feeds: &[Feed]) -> Score {
        let scores = feeds.iter().map(|feed| self.score(load, refill, (feed.floor, self.n_pes)));
        scores.fold((f64::INFINITY, f64::INFINITY), |least, score| if score < least { score } else { least })
    }

    fn score(&self, load: &Load, refill: Option<&Refill>, feed: (Boundary, f64)) -> Score {
        self.objective.score(self.cost(load, refill, feed))
    }

    /// What the steps take together; without a refill, at least.
    fn cost(&self, load: &Load, refill: Option<&Refill>, (feed, n_pes): (Boundary, f64)) -> Cost {
        let (cores, none) = (&self.machine.grid, Boundary { cycles: 0.0, energy_pj: 0.0 });
        let n_cores = refill.map_or((cores[0] * cores[1]) as f64, |refill| refill.n_cores);
        let refill = refill.map_or(none, |refill| refill.cost);
        let compute_cycles = self.nest.macs() / (n_pes * n_cores);
        let feed_cycles = feed_cycles(self.machine, feed.cycles, n_cores);
        let least_pj = least_pj(self.nest, self.machine);
        Cost {
            cycles: compute_cycles.max(feed_cycles).max(refill.cycles).max(load.cost.cycles),
            energy_pj: least_pj + feed.energy_pj + refill.energy_pj + load.cost.energy_pj,
        }
    }

    fn is_excluded(&self, bound: Score) -> bool {
        self.best.as_ref().is_some_and(|best| bound >= self.objective.score(best.cost))
    }
}

impl Candidate {
    fn mapping(&self, nest: &Nest) -> Mapping {
        let Candidate { load, refill, feed, array, .. } = self;
        let core = over(&refill.core, &times(&feed.registers, array));
        let hbm = over(&nest.sizes, &load.tile);
        Mapping {
            factors: [feed.registers, *array, core, refill.grid, refill.global, hbm],
            orders: [feed.order, refill.order, load.order],
        }
    }
}

/// The least bound first; equal ones as they came.
fn sorted<T>(mut bounded: Vec<(Score, T)>) -> Vec<(Score, T)> {
    let by_bound = |a: &Score, b: &Score| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
    bounded.sort_by(|a, b| by_bound(&a.0, &b.0));
    bounded
}
