//! The mapper: the best mapping of a contraction, exactly.
//!
//! Branch and bound from the outside to the inside: tiles of the global buffer, tiles of a core with the grid,
//! tiles of the registers with an order, factors of the array. Each step visits the least bound first and stops
//! at the first one that the incumbent excludes.

#[cfg(test)]
mod tests;

use super::cost::{Boundary, Cost, Mapping, Order, feed_cycles, least_pj, orders};
use super::feed::{Feed, Shares};
use super::fit::{fit_axes, fit_core, fit_registers};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, is_divisor, over, times};
use super::refill::{Load, Refill, each_refill, loads};
use super::tiles::Tiles;
use phzc_ir::{Diagnostic, Result};

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
    n_pes: f64,
    best: Option<Candidate>,
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
        let (tiles, mut registers) = (Tiles::new(nest), Vec::new());
        tiles
            .each(&nest.sizes, &|tile| fit_registers(nest, machine, tile), &mut |tile| registers.push(*tile));
        let n_pes = (machine.array[0] * machine.array[1]) as f64;
        let orders = orders(nest);
        Search { nest, machine, objective, tiles, orders, registers, n_pes, best: None }
    }

    fn run(&mut self) {
        let mut cores = Vec::new();
        let fits = |tile: &Loops| fit_core(self.nest, self.machine, tile);
        self.tiles.each(&self.nest.sizes, &fits, &mut |tile| cores.push(*tile));
        let floor = self.feed_floor(&self.nest.sizes);
        let loads = loads(self.nest, self.machine, &self.tiles, &self.orders);
        let bounded = loads.iter().map(|load| (self.score_of(load, None, (floor, self.n_pes)), load));
        for (bound, load) in sorted(bounded.collect()) {
            if self.is_excluded(bound) {
                break;
            }
            self.refill(load, &cores);
        }
    }

    /// Goes through the ways to hand out what a load brings.
    fn refill(&mut self, load: &Load, cores: &[Loops]) {
        let mut bounded = Vec::new();
        let mut floor = ([0; N_LOOPS], Boundary { cycles: 0.0, energy_pj: 0.0 });
        let parts = (&self.tiles, self.orders.as_slice());
        each_refill(self.nest, self.machine, parts, cores, &load.tile, &mut |refill| {
            if floor.0 != refill.core {
                floor = (refill.core, self.feed_floor(&refill.core));
            }
            let bound = self.score_of(load, Some(&refill), (floor.1, self.n_pes));
            if !self.is_excluded(bound) {
                bounded.push((bound, refill));
            }
        });
        for (bound, refill) in sorted(bounded) {
            if self.is_excluded(bound) {
                break;
            }
            self.feed(load, &refill);
        }
    }

    /// Goes through the registers' tiles of a core's tile.
    fn feed(&mut self, load: &Load, refill: &Refill) {
        let mut bounded = Vec::new();
        for registers in self.registers.iter().filter(|tile| is_divisor(tile, &refill.core)) {
            let shares = Shares::within(&over(&refill.core, registers), self.n_pes);
            for order in &self.orders {
                let feed = Feed::new(self.nest, &refill.core, registers, *order);
                let floor = feed.floor(self.nest, self.machine, &shares);
                let bound = self.score_of(load, Some(refill), (floor, self.n_pes));
                if !self.is_excluded(bound) {
                    bounded.push((bound, feed));
                }
            }
        }
        for (bound, feed) in sorted(bounded) {
            if self.is_excluded(bound) {
                break;
            }
            let room = over(&refill.core, &feed.registers);
            self.unroll((load, refill, &feed), &self.tiles.loops(), room, [1; N_LOOPS]);
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
            if array[*at] > most || !room[*at].is_multiple_of(array[*at]) || n_chosen > self.n_pes {
                continue;
            }
            let shares = Shares::between(&array, &left, self.n_pes);
            let floor = feed.floor(self.nest, self.machine, &shares);
            if !self.is_excluded(self.score_of(load, Some(refill), (floor, shares.n_pes))) {
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

    /// No registers and array of a core take less for a tile.
    fn feed_floor(&self, core: &Loops) -> Boundary {
        let mut least = Boundary { cycles: f64::INFINITY, energy_pj: f64::INFINITY };
        let shares = Shares::within(core, self.n_pes);
        let fits = |tile: &Loops| fit_registers(self.nest, self.machine, tile);
        for registers in self.registers.iter().filter(|tile| is_divisor(tile, core)) {
            if self.tiles.can_grow(registers, &over(core, registers), 0, &fits) {
                continue;
            }
            for order in &self.orders {
                let floor =
                    Feed::new(self.nest, core, registers, *order).floor(self.nest, self.machine, &shares);
                least.cycles = least.cycles.min(floor.cycles);
                least.energy_pj = least.energy_pj.min(floor.energy_pj);
            }
        }
        least
    }

    fn score_of(&self, load: &Load, refill: Option<&Refill>, feed: (Boundary, f64)) -> Score {
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
