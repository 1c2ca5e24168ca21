//! Finds the best choice between two bounds: messages (`dual`) raise the lower one, choices that they suggest
//! lower the upper one, options beyond both are dropped, and what is left over is eliminated.

use super::descend::Moves;
use super::dual::Dual;
use super::eliminate::{Found, eliminate_all};
use super::plan::Plan;
use super::reduce::{Reduced, reduce};
use super::{Infeasible, Limits, TOLERANCE, relative_gap};

/// Message passes between two looks at the choice that they suggest.
const PASSES: usize = 8;
/// How often `polish` starts again with a better choice.
const MAX_POLISHES: usize = 6;
/// Table entries that an elimination may evaluate at any time; it then is about as fast as a round of
/// messages.
pub(super) const SMALL: u64 = 1 << 24;

/// The cheapest choice among the options of `reduced`, which is too large to be eliminated as it is.
pub(super) fn minimise(reduced: &Reduced, limits: &Limits) -> Result<Found, Infeasible> {
    let dual = Dual::new(reduced, Moves::new(reduced).most());
    minimise_from(reduced, dual, limits)
}

/// The same from messages that are known.
pub(super) fn minimise_from<'r>(
    reduced: &'r Reduced,
    dual: Dual<'r>,
    limits: &Limits,
) -> Result<Found, Infeasible> {
    let mut search = Search::new(reduced, dual, limits);
    let mut n_tried = search.n_options();
    for _ in 0..limits.max_rounds {
        let rise = search.round();
        if search.gap() <= TOLERANCE || search.drop_beaten() {
            return search.finish(true);
        }
        if search.is_enough() {
            return search.finish(false);
        }
        let has_ended = rise < limits.least_rise;
        if has_ended || 2 * search.n_options() <= n_tried {
            n_tried = search.n_options();
            if search.eliminate_all(SMALL) {
                return search.finish(true);
            }
        }
        if has_ended {
            break;
        }
    }
    let is_exact = search.polish();
    search.finish(is_exact)
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
    fn new(reduced: &'r Reduced, dual: Dual<'r>, limits: &'r Limits) -> Self {
        let moves = Moves::new(reduced);
        let best = (Vec::new(), f64::INFINITY);
        Self { reduced, limits, moves, dual, best, bound: f64::NEG_INFINITY, evaluations: 0 }
    }

    fn n_options(&self) -> usize {
        self.dual.kept.iter().map(Vec::len).sum()
    }

    fn gap(&self) -> f64 {
        relative_gap(self.best.1, self.bound)
    }

    /// Whether the limits ask for no more than is known.
    fn is_enough(&self) -> bool {
        self.best.1.is_finite() && (self.bound >= self.limits.enough || self.gap() <= self.limits.gap)
    }

    /// Passes messages and looks at the choice they suggest; returns by how much the bound rose, relatively.
    fn round(&mut self) -> f64 {
        let before = self.bound;
        (0..PASSES).for_each(|_| self.bound = self.bound.max(self.dual.pass()));
        let mut option = self.dual.decode();
        self.consider(&option);
        self.evaluations += self.moves.descend_a_little(&mut option);
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
    fn eliminate_all(&mut self, most: u64) -> bool {
        let kept = self.dual.kept.clone();
        let is_done = self.eliminate(&kept, most);
        self.bound = if is_done { self.best.1 } else { self.bound };
        is_done
    }

    /// Where the bound has come to its end: finds the best choice among the options nearest to it, as many as
    /// can be eliminated, and drops what that choice beats, until nothing changes; says whether the choice is
    /// proved best.
    fn polish(&mut self) -> bool {
        for _ in 0..MAX_POLISHES {
            let (before, excess) = (self.best.1, self.dual.excess());
            let near = |share: f64| {
                let most = share * (before - self.bound);
                let near = |(kept, excess): (&Vec<u32>, &Vec<f64>)| {
                    kept.iter()
                        .zip(excess)
                        .filter(|(_, excess)| **excess <= most)
                        .map(|(&option, _)| option)
                        .collect()
                };
                self.dual.kept.iter().zip(&excess).map(near).collect::<Vec<Vec<u32>>>()
            };
            let shares = (0..12).map(|halvings| 0.5f64.powi(halvings));
            let nearest: Vec<Vec<Vec<u32>>> = shares.map(near).collect();
            let tried = nearest.iter().position(|kept| self.eliminate(kept, self.limits.max_evaluations));
            if tried == Some(0) || self.drop_beaten() {
                self.bound = self.best.1;
                return true;
            }
            if self.best.1 >= before {
                break;
            }
            self.round();
        }
        self.gap() <= TOLERANCE
    }

    /// Finds the best choice among some options per node, if that takes no more than `most` evaluations; says
    /// whether it did.
    fn eliminate(&mut self, kept: &[Vec<u32>], most: u64) -> bool {
        let Ok(rest) = reduce(&self.reduced.on(kept)) else { return false };
        let limits = Limits { max_evaluations: most, ..self.limits.clone() };
        let Some(plan) = Plan::new(&rest, &limits) else { return false };
        if let Ok(found) = eliminate_all(&rest, &plan) {
            self.evaluations += found.evaluations;
            self.consider(&rest.expand(&found.option));
        }
        true
    }

    /// What was found; where every choice seen is forbidden, all are if that is exact.
    fn finish(self, exact: bool) -> Result<Found, Infeasible> {
        match self.best.1.is_finite() {
            true => Ok(self.found(exact)),
            false => Err(Infeasible { least_memory: f64::INFINITY, proved: exact }),
        }
    }

    fn found(self, exact: bool) -> Found {
        let bound = if exact { self.best.1 } else { self.bound.min(self.best.1) };
        let evaluations = self.evaluations + self.dual.evaluations;
        Found { option: self.best.0, bound, exact, evaluations }
    }
}
