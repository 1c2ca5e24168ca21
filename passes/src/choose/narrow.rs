//! Finds the best choice between two bounds: messages (`dual`) raise the lower one, choices that they suggest lower the upper
//! one, options beyond both are dropped, and what is left over is eliminated.

use super::descend::Moves;
use super::dual::Dual;
use super::eliminate::{Found, eliminate_all};
use super::plan::Plan;
use super::reduce::{Reduced, reduce};
use super::{Infeasible, Limits, TOLERANCE, relative_gap};

/// Message passes between two looks at the choice that they suggest.
const PASSES: usize = 8;
/// A bound that rises by less in a round, relatively, has come to its end.
const LEAST_RISE: f64 = 1e-7;
/// Table entries that an elimination may evaluate at any time; it then is about as fast as a round of messages.
const SMALL: u64 = 1 << 24;

/// The cheapest choice among the options of `reduced`, which is too large to be eliminated as it is.
pub(super) fn minimise(reduced: &Reduced, limits: &Limits) -> Result<Found, Infeasible> {
    let mut search = Search::new(reduced, limits);
    let mut n_tried = search.n_options();
    for _ in 0..limits.max_rounds {
        let rise = search.round();
        if search.gap() <= TOLERANCE || search.drop_beaten() {
            return Ok(search.found(true));
        }
        let has_ended = rise < LEAST_RISE;
        if has_ended || 2 * search.n_options() <= n_tried {
            n_tried = search.n_options();
            let most = if has_ended { limits.max_evaluations } else { SMALL };
            if search.eliminate(most) {
                return Ok(search.found(true));
            }
        }
        if has_ended {
            break;
        }
    }
    match search.best.1.is_finite() {
        true => Ok(search.found(false)),
        false => Err(Infeasible { least_memory: f64::INFINITY, proved: false }),
    }
}

/// The search under way.
struct Search<'r> {
    reduced: &'r Reduced,
    limits: &'r Limits,
    moves: Moves<'r>,
    dual: Dual<'r>,
    /// The cheapest choice seen, and its cost.
    best: (Vec<u32>, f64),
    bound: f64,
    evaluations: u64,
}

impl<'r> Search<'r> {
    fn new(reduced: &'r Reduced, limits: &'r Limits) -> Self {
        let moves = Moves::new(reduced);
        let dual = Dual::new(reduced, moves.most());
        let best = (Vec::new(), f64::INFINITY);
        Self { reduced, limits, moves, dual, best, bound: f64::NEG_INFINITY, evaluations: 0 }
    }

    fn n_options(&self) -> usize {
        self.dual.kept.iter().map(Vec::len).sum()
    }

    fn gap(&self) -> f64 {
        relative_gap(self.best.1, self.bound)
    }

    /// Passes messages and looks at the choice they suggest; returns by how much the bound rose, relatively.
    fn round(&mut self) -> f64 {
        let before = self.bound;
        (0..PASSES).for_each(|_| self.bound = self.bound.max(self.dual.pass()));
        let mut option = self.dual.decode();
        self.consider(&option);
        self.evaluations += self.moves.descend(f64::INFINITY, &mut option);
        self.consider(&option);
        (self.bound - before) / self.bound.abs().max(f64::MIN_POSITIVE)
    }

    fn consider(&mut self, option: &[u32]) {
        let cost = self.reduced.total(option);
        if cost < self.best.1 {
            self.best = (option.to_vec(), cost);
        }
    }

    /// Drops every option that only choices no better than the best seen take; says whether these are all.
    fn drop_beaten(&mut self) -> bool {
        if self.best.1 == f64::INFINITY {
            return false;
        }
        let beyond = self.best.1 - TOLERANCE * self.best.1.abs();
        let excess = self.dual.excess();
        let stays = |excess: &Vec<f64>| {
            (0..).zip(excess).filter(|(_, excess)| self.bound + **excess < beyond).map(|(at, _)| at).collect()
        };
        let keep: Vec<Vec<u32>> = excess.iter().map(stays).collect();
        if keep.iter().any(Vec::is_empty) {
            self.bound = beyond;
            return true;
        }
        if keep.iter().map(Vec::len).sum::<usize>() < self.n_options() {
            self.dual.restrict(&keep);
        }
        false
    }

    /// Eliminates what is left, if that takes no more than `most` evaluations; says whether it did.
    fn eliminate(&mut self, most: u64) -> bool {
        let mut rest = self.reduced.problem();
        for (node, kept) in rest.nodes.iter_mut().zip(&self.dual.kept) {
            let mut cost = vec![f64::INFINITY; node.cost.len()];
            kept.iter().for_each(|&option| cost[option as usize] = node.cost[option as usize]);
            node.cost = cost;
        }
        let Ok(rest) = reduce(&rest) else { return false };
        let limits = Limits { max_evaluations: most, ..self.limits.clone() };
        let Some(plan) = Plan::new(&rest, &limits) else { return false };
        if let Ok(found) = eliminate_all(&rest, &plan) {
            self.evaluations += found.evaluations;
            self.consider(&rest.expand(&found.option));
        }
        self.bound = self.best.1;
        true
    }

    fn found(self, exact: bool) -> Found {
        let bound = if exact { self.best.1 } else { self.bound.min(self.best.1) };
        let evaluations = self.evaluations + self.dual.evaluations;
        Found { option: self.best.0, bound, exact, evaluations }
    }
}
