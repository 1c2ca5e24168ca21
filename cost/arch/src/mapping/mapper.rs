//! The mapper: the best mapping of a contraction, exactly.
//!
//! Branch and bound from the outside to the inside: tiles of the global buffer, tiles of a core with the
//! grid, tiles of the registers with an order, factors of the array. Each step visits the least bound first
//! and stops at the first one that the incumbent excludes.

#[cfg(test)]
mod tests;

use super::cost::{Boundary, Cost, Mapping, Order, feed_cycles, least_pj, orders};
use super::feed::{Feed, Shares, relaxed_feeds};
use super::fit::{fit_axes, fit_core};
use super::machine::Machine;
use super::nest::{Loops, Nest, Tensor, common, is_divisor, over, times, volume};
use super::objective::{Objective, Score};
use super::refill::{Load, Refill, load_floor, loads, refill_floor, refills};
use super::tiles::Tiles;
use phzc_ir::{Diagnostic, Result};

const NO_MAPPING: &str = "a buffer holds not even one element of each operand";

/// Tiles of a core that are tried before all others.
const N_FIRST: usize = 4;

/// The best mapping with factors that divide, and what it takes.
///
/// # Errors
/// Where the nest cannot be priced, or not even single elements fit.
pub fn best(nest: &Nest, machine: &Machine, objective: Objective) -> Result<(Mapping, Cost)> {
    nest.check()?;
    let mut search = Search::new(nest, machine, objective);
    search.run();
    let best = search.best.map(|best| (best.mapping(nest), best.cost));
    best.ok_or_else(|| Diagnostic::error(NO_MAPPING))
}

/// What every mapping takes at least, whatever its objective: cycles and energy each have a mapping of
/// their own.
///
/// The array at its fullest, with the best registers; every tensor over every boundary once.
///
/// # Errors
/// Where [`best`] has none.
pub fn floor(nest: &Nest, machine: &Machine) -> Result<Cost> {
    nest.check()?;
    let search = Search::new(nest, machine, Objective::Latency);
    let feed = least(search.feeds(&nest.sizes, |_| true).iter().map(|feed| feed.floor));
    let refill = refill_floor(nest, machine, &search.orders, &nest.sizes);
    let cost = search.cost([load_floor(nest, machine), refill, feed], [search.n_cores, search.n_pes]);
    let is_possible = cost.cycles.is_finite() && cost.energy_pj.is_finite();
    is_possible.then_some(cost).ok_or_else(|| Diagnostic::error(NO_MAPPING))
}

struct Search<'a> {
    nest: &'a Nest,
    machine: &'a Machine,
    objective: Objective,
    tiles: Tiles,
    orders: Vec<Order>,
    /// All tiles that the registers can hold, in all orders, in a core that holds everything.
    relaxed: Vec<Feed>,
    n_pes: f64,
    n_cores: f64,
    macs: f64,
    least_pj: f64,
    best: Option<Candidate>,
}

/// A tile of the buffer of a core, and what filling it and, by stationary tensor, working on it take at
/// least.
struct Core {
    tile: Loops,
    refill: Boundary,
    feeds: [Boundary; 3],
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

impl<'a> Search<'a> {
    fn new(nest: &'a Nest, machine: &'a Machine, objective: Objective) -> Search<'a> {
        let (tiles, orders) = (Tiles::new(nest), orders(nest));
        let relaxed = relaxed_feeds(nest, machine, (&tiles, &orders));
        let [n_pes, n_cores] = [machine.array, machine.grid].map(|sides| (sides[0] * sides[1]) as f64);
        let (macs, least_pj) = (nest.macs(), least_pj(nest, machine));
        Search {
            nest,
            machine,
            objective,
            tiles,
            orders,
            relaxed,
            n_pes,
            n_cores,
            macs,
            least_pj,
            best: None,
        }
    }

    fn run(&mut self) {
        let loads = loads(self.nest, self.machine, &self.tiles, &self.orders);
        let (cores, load) = (self.cores(&loads), least(loads.iter().map(|load| load.cost)));
        // The tiles with most work first: their mappings are good ones, and exclude most of the others.
        let by_work = cores.iter().map(|core| ((-volume(&core.tile), 0.0), core));
        for (_, core) in sorted(by_work.collect()).into_iter().take(N_FIRST) {
            self.hand_out(&loads, load, core);
        }
        self.drop_excluded_feeds([load, least(cores.iter().map(|core| core.refill))]);
        let bounded = cores.iter().map(|core| {
            let feeds = core.feeds.into_iter();
            (self.bound([load, core.refill], self.n_cores, feeds), core)
        });
        for (bound, core) in sorted(bounded.collect()) {
            if self.is_excluded(bound) {
                break;
            }
            self.hand_out(&loads, load, core);
        }
    }

    /// The tiles of a core that some load may be handed out in: those that could not be larger, whatever
    /// the load.
    fn cores(&self, loads: &[Load]) -> Vec<Core> {
        let whole = loads.iter().fold(self.nest.sizes, |least, load| common(&least, &load.tile));
        let fits = |tile: &Loops| fit_core(self.nest, self.machine, tile);
        let (mut cores, relaxed) = (Vec::new(), self.least_feeds());
        self.tiles.each(&self.nest.sizes, &fits, &mut |tile| {
            if self.tiles.forced(tile, &whole, self.n_cores as u64, &fits).is_some() {
                let refill = refill_floor(self.nest, self.machine, &self.orders, tile);
                cores.push(Core { tile: *tile, refill, feeds: self.feed_floors(tile, &relaxed) });
            }
        });
        cores
    }

    /// By stationary tensor: the fewest words of the other two, and the least energy, whatever a core's tile.
    fn least_feeds(&self) -> [(f64, f64); 3] {
        let mut relaxed = [(f64::INFINITY, f64::INFINITY); 3];
        for feed in self.feeds(&self.nest.sizes, |_| true) {
            let (words, energy_pj) = &mut relaxed[feed.order.stationary as usize];
            (*words, *energy_pj) = (words.min(feed.shared_words), energy_pj.min(feed.floor.energy_pj));
        }
        relaxed
    }

    /// What working on a tile takes at least, by its stationary tensor, which is read once.
    fn feed_floors(&self, tile: &Loops, relaxed: &[(f64, f64); 3]) -> [Boundary; 3] {
        let stationary_words = self.stationary_words(tile);
        [0, 1, 2].map(|stationary| {
            let (shared_words, energy_pj) = relaxed[stationary];
            let words = shared_words + stationary_words[stationary];
            Boundary { cycles: words / self.machine.words_per_cycle[0], energy_pj }
        })
    }

    /// By tensor: its words if every tile of a core has them once.
    fn stationary_words(&self, tile: &Loops) -> [f64; 3] {
        let n_tiles = self.macs / volume(tile);
        Tensor::ALL.map(|tensor| self.nest.words(tensor, tile) * n_tiles)
    }

    /// The ways to work on a core's tile, less those whose floor is not wanted.
    fn feeds(&self, core: &Loops, wants: impl Fn(Boundary) -> bool) -> Vec<Feed> {
        let words = self.stationary_words(core);
        let is_open =
            |feed: &&Feed| wants(self.relaxed_floor(feed, &words)) && is_divisor(&feed.registers, core);
        let within = self.relaxed.iter().filter(is_open).map(|it| it.within(self.nest, self.machine, core));
        let wanted = within.filter(|feed| wants(feed.floor));
        wanted.filter_map(|feed| feed.forced(self.nest, self.machine, &self.tiles, core)).collect()
    }

    /// What a relaxed feed takes at least in a core whose tile has such stationary words.
    fn relaxed_floor(&self, feed: &Feed, stationary_words: &[f64; 3]) -> Boundary {
        let words = feed.shared_words + stationary_words[feed.order.stationary as usize];
        Boundary { cycles: words / self.machine.words_per_cycle[0], energy_pj: feed.floor.energy_pj }
    }

    /// Drops the feeds that are in no core better than the incumbent.
    fn drop_excluded_feeds(&mut self, [load, refill]: [Boundary; 2]) {
        let (mut relaxed, words) =
            (std::mem::take(&mut self.relaxed), self.stationary_words(&self.nest.sizes));
        relaxed.retain(|feed| self.may_win([load, refill, self.relaxed_floor(feed, &words)]));
        self.relaxed = relaxed;
    }

    /// Goes through the loads that can be handed out in one tile of a core; none takes less than
    /// `least_load`.
    fn hand_out(&mut self, loads: &[Load], least_load: Boundary, core: &Core) {
        let feeds = self.feeds(&core.tile, |floor| self.may_win([least_load, core.refill, floor]));
        let floor = least(feeds.iter().map(|feed| feed.floor));
        let is_open = |load: &&Load| {
            self.may_win([load.cost, core.refill, floor]) && is_divisor(&core.tile, &load.tile)
        };
        let bounded = loads
            .iter()
            .filter(is_open)
            .map(|load| (self.score([load.cost, core.refill, floor], [self.n_cores, self.n_pes]), load));
        for (bound, load) in sorted(bounded.collect()) {
            if self.is_excluded(bound) {
                break;
            }
            self.refill(load, core, &feeds);
        }
    }

    /// Goes through the ways to hand out one load in one tile of a core.
    fn refill(&mut self, load: &Load, core: &Core, feeds: &[Feed]) {
        let parts = (&self.tiles, self.orders.as_slice());
        let refills = refills(self.nest, self.machine, parts, &core.tile, &load.tile);
        let bounded = refills.into_iter().map(|it| {
            let floors = feeds.iter().map(|feed| feed.floor);
            (self.bound([load.cost, it.cost], it.n_cores, floors), it)
        });
        for (bound, refill) in sorted(bounded.collect()) {
            if self.is_excluded(bound) {
                break;
            }
            self.feed(load, &refill, feeds);
        }
    }

    /// Goes through the ways to work on a core's tile.
    fn feed(&mut self, load: &Load, refill: &Refill, feeds: &[Feed]) {
        let bounded = feeds.iter().map(|feed| {
            (self.score([load.cost, refill.cost, feed.floor], [refill.n_cores, self.n_pes]), feed)
        });
        for (bound, feed) in sorted(bounded.filter(|it| !self.is_excluded(it.0)).collect()) {
            if self.is_excluded(bound) {
                break;
            }
            let room = over(&over(&refill.core, &feed.registers), &feed.forced);
            self.unroll((load, refill, feed), &self.tiles.loops(), room, feed.forced);
        }
    }

    /// Chooses the array's factors of `loops`; `room` has what they can be beside the forced ones, `array`
    /// those chosen.
    fn unroll(&mut self, steps: (&Load, &Refill, &Feed), loops: &[usize], room: Loops, array: Loops) {
        let (load, refill, feed) = steps;
        let Some((at, rest)) = loops.split_first() else { return self.judge(steps, &array) };
        let mut left = room;
        left[*at] = 1;
        for index in (0..self.tiles.divisors(*at).len()).rev() {
            let factor = self.tiles.divisors(*at)[index];
            let mut array = array;
            array[*at] = feed.forced[*at] * factor;
            let n_chosen = array.iter().product::<u64>() as f64;
            let is_serial = feed.is_serial(*at) && array[*at] > 1;
            if is_serial || !room[*at].is_multiple_of(factor) || n_chosen > self.n_pes {
                continue;
            }
            let shares = Shares::between(&array, &left, self.n_pes);
            let floor = feed.floor(self.nest, self.machine, &shares);
            if !self.is_excluded(self.score([load.cost, refill.cost, floor], [refill.n_cores, shares.n_pes]))
            {
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
        let exact = feed.floor(self.nest, self.machine, &shares);
        let cost = self.cost([load.cost, refill.cost, exact], [refill.n_cores, shares.n_pes]);
        if !self.is_excluded(self.objective.score(cost)) {
            let (load, refill, feed, array) = (*load, *refill, *feed, *array);
            self.best = Some(Candidate { load, refill, feed, array, cost });
        }
    }

    /// Nothing scores less with these boundaries from the outside and one of the feeds.
    fn bound(
        &self,
        [load, refill]: [Boundary; 2],
        n_cores: f64,
        feeds: impl Iterator<Item = Boundary>,
    ) -> Score {
        let scores = feeds.map(|feed| self.score([load, refill, feed], [n_cores, self.n_pes]));
        scores.fold((f64::INFINITY, f64::INFINITY), |least, score| if score < least { score } else { least })
    }

    fn score(&self, boundaries: [Boundary; 3], units: [f64; 2]) -> Score {
        self.objective.score(self.cost(boundaries, units))
    }

    /// What three boundaries take together, with so many cores and PEs at work.
    fn cost(&self, [load, refill, feed]: [Boundary; 3], [n_cores, n_pes]: [f64; 2]) -> Cost {
        let compute_cycles = self.macs / (n_pes * n_cores);
        let feed_cycles = feed_cycles(self.machine, feed.cycles, n_cores);
        Cost {
            cycles: compute_cycles.max(feed_cycles).max(refill.cycles).max(load.cycles),
            energy_pj: self.least_pj + feed.energy_pj + refill.energy_pj + load.energy_pj,
        }
    }

    /// Whether a mapping whose boundaries take this at least may be better than the incumbent.
    fn may_win(&self, boundaries: [Boundary; 3]) -> bool {
        !self.is_excluded(self.score(boundaries, [self.n_cores, self.n_pes]))
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

/// The least cycles and the least energy.
fn least(boundaries: impl Iterator<Item = Boundary>) -> Boundary {
    let most = Boundary { cycles: f64::INFINITY, energy_pj: f64::INFINITY };
    boundaries.fold(most, |least, it| Boundary {
        cycles: least.cycles.min(it.cycles),
        energy_pj: least.energy_pj.min(it.energy_pj),
    })
}

/// The least bound first; equal ones as they came.
fn sorted<T>(mut bounded: Vec<(Score, T)>) -> Vec<(Score, T)> {
    let by_bound = |a: &Score, b: &Score| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
    bounded.sort_by(|a, b| by_bound(&a.0, &b.0));
    bounded
}
