//! The mapper: the best mapping of a contraction, exactly.
//!
//! A mapping has two halves that meet in the tile of a core's buffer. For every such tile the outer half is a
//! front of (cores, cycles, energy), the inner one a front of (PEs, cycles, energy); tiles are visited from the
//! least bound on, and only those that the bound does not exclude get an inner half.

#[cfg(test)]
mod tests;

use super::cost::{Cost, Mapping, Order, feed_cycles, least_pj, orders};
use super::feed::{Feed, feeds};
use super::machine::Machine;
use super::nest::{Loops, Nest, over, times};
use super::refill::{Refill, global_tile, refills};
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
    let search = Search { nest, machine, objective, tiles: Tiles::new(nest), orders: orders(nest) };
    search.best().ok_or_else(|| Diagnostic::error("a buffer holds not even one element of each operand"))
}

struct Search<'a> {
    nest: &'a Nest,
    machine: &'a Machine,
    objective: Objective,
    tiles: Tiles,
    orders: Vec<Order>,
}

/// A mapping by its halves.
struct Candidate {
    core: Loops,
    refill: Refill,
    feed: Feed,
    cost: Cost,
}

impl Search<'_> {
    fn best(&self) -> Option<(Mapping, Cost)> {
        let refills = refills(self.nest, self.machine, &self.tiles, &self.orders);
        let relaxed = self.feeds(&self.nest.sizes);
        let mut bounded: Vec<_> = refills.iter().map(|it| (self.bound(it.1, &relaxed), it)).collect();
        bounded.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best: Option<Candidate> = None;
        for (bound, (core, refills)) in bounded {
            if best.as_ref().is_some_and(|best| bound > self.objective.score(best.cost).0) {
                break;
            }
            self.improve(core, refills, &mut best);
        }
        best.map(|best| (self.mapping(&best), best.cost))
    }

    fn feeds(&self, core: &Loops) -> Vec<Feed> {
        feeds(self.nest, self.machine, &self.tiles, &self.orders, core)
    }

    /// No mapping with these outer halves scores less: a core's tile is at most the whole.
    fn bound(&self, refills: &[Refill], relaxed: &[Feed]) -> f64 {
        let scores = refills.iter().flat_map(|refill| {
            relaxed.iter().map(move |feed| self.objective.score(self.price(refill, feed)).0)
        });
        scores.fold(f64::INFINITY, f64::min)
    }

    fn improve(&self, core: &Loops, refills: &[Refill], best: &mut Option<Candidate>) {
        let feeds = self.feeds(core);
        for refill in refills {
            for feed in &feeds {
                let cost = self.price(refill, feed);
                let is_better =
                    |best: &Candidate| self.objective.score(cost) < self.objective.score(best.cost);
                if best.as_ref().is_none_or(is_better) {
                    *best = Some(Candidate { core: *core, refill: *refill, feed: *feed, cost });
                }
            }
        }
    }

    fn price(&self, refill: &Refill, feed: &Feed) -> Cost {
        let compute_cycles = self.nest.macs() / (feed.n_pes * refill.n_cores);
        let feed_cycles = feed_cycles(self.machine, feed.cycles, refill.n_cores);
        Cost {
            cycles: compute_cycles.max(feed_cycles).max(refill.cycles),
            energy_pj: least_pj(self.nest, self.machine) + feed.energy_pj + refill.energy_pj,
        }
    }

    fn mapping(&self, best: &Candidate) -> Mapping {
        let Candidate { core, refill, feed, .. } = best;
        let inner = over(core, &times(&feed.registers, &feed.array));
        let hbm = over(&self.nest.sizes, &global_tile(core, refill));
        Mapping {
            factors: [feed.registers, feed.array, inner, refill.grid, refill.global, hbm],
            orders: [feed.order, refill.orders[0], refill.orders[1]],
        }
    }
}
