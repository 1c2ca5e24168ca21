//! Closer bounds where bounds are loose: the stages of the plans that a node's bound rests on are solved, one
//! plan after the other.
//!
//! ```text
//! caps from low to high: the least sum of bounds below high, and its stages, the slowest of which takes m
//!     from m to high    no plan beats (rounds m + sum): these stages are solved, then it is looked at again
//!     from low to m     the sum is no less: looked at when nothing else is lower
//! ```

use super::search::Search;
use super::{ROUNDING, Side, Solver, Span, Stages};
use indexmap::IndexMap;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use std::sync::Mutex;

/// How hard each stage was solved so far.
pub(super) type Asked = Mutex<IndexMap<Span, usize, FxBuildHasher>>;

/// How hard a stage can be solved.
const EFFORTS: usize = 2;
/// Slowest stages this close, relatively, are told apart no more.
const NEAR: f64 = 2e-4;
/// Bounds of stages this close to what was found, relatively, are as good as it.
const EXACT: f64 = 5e-4;
/// Where there is no plan yet, caps up to so many times the least one are looked at.
const RANGE: f64 = 1.2;

/// Caps of the slowest stage between which a node's best plan may lie.
#[derive(Clone, Debug)]
pub(super) struct Part {
    caps: [f64; 2],
    /// No plan in it costs less.
    bound: f64,
    /// No sum is less.
    sum_ms: f64,
    /// The stages with the least sum, if they were looked for.
    spans: Option<Vec<Span>>,
}

/// The parts of a node whose slowest stage takes `low` or more, and by their bounds could take `high`.
pub(super) fn parts<S: Stages>(
    solver: &Solver<S>,
    n_stages: usize,
    [low, high]: [f64; 2],
    goal: f64,
) -> Vec<Part> {
    let most = if goal.is_finite() { solver.cap_of(n_stages, goal) } else { high * RANGE };
    vec![Part { caps: [low, most.max(high)], bound: solver.bound(n_stages, low), sum_ms: 0.0, spans: None }]
}

/// The least bound of some parts.
pub(super) fn bound(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.bound).fold(f64::INFINITY, f64::min)
}

impl<S: Stages> Search<'_, '_, S> {
    /// Looks at the part of a node with the least bound.
    pub(super) fn refine(&mut self, problem: usize, n_stages: usize, parts: &mut Vec<Part>) {
        let least = (0..parts.len()).min_by(|&a, &b| parts[a].bound.total_cmp(&parts[b].bound));
        let Some(part) = least.map(|at| parts.swap_remove(at)) else { return };
        let (solver, goal) = (&self.solvers[problem], self.goal());
        let Some(spans) = part.spans else {
            let most = if goal.is_finite() { solver.cap_of(n_stages, goal) } else { f64::INFINITY };
            parts.extend(solver.divided(n_stages, &part, most, goal));
            // What was left out of them is no better than that.
            self.close(goal);
            return;
        };
        let cap = if goal.is_finite() { solver.cap_of(n_stages, goal) } else { part.caps[1] * RANGE };
        let is_solved = solver.solve_some(&spans, cap);
        let sum_ms: f64 = spans.iter().map(|&span| solver.ms(span, Side::Lower)).sum();
        // Stages that were solved for another part since may be slower than they were taken to be.
        let is_stale = sum_ms > part.sum_ms * ROUNDING;
        self.keep(problem, solver.cost(&spans, Side::Upper), spans);
        match is_solved && !is_stale {
            true => self.close(part.bound),
            false => parts.push(Part { spans: None, ..part }),
        }
    }
}

impl<S: Stages> Solver<'_, S> {
    /// A part by the slowest of the stages with the least sum: none where none is better than the goal.
    fn divided(&self, n_stages: usize, part: &Part, most: f64, goal: f64) -> Vec<Part> {
        let [low, high] = [part.caps[0], part.caps[1].min(most)];
        let reach = self.front_reach(n_stages, high);
        let most_ms = (goal - low * self.stages.rounds()) * ROUNDING;
        let least = self.least_sum_of(n_stages, high, Side::Lower, &reach, most_ms);
        let Some((sum_ms, spans)) = least else {
            return Vec::new();
        };
        let longest_ms = spans.iter().map(|&span| self.ms(span, Side::Lower)).fold(low, f64::max);
        let near = (longest_ms * (1.0 - NEAR)).max(low);
        let of = |low: f64, high: f64, spans: Option<Vec<Span>>| {
            let bound = (low * self.stages.rounds() + sum_ms).max(self.bound(n_stages, low)).max(part.bound);
            Part { caps: [low, high], bound, sum_ms: sum_ms.max(part.sum_ms), spans }
        };
        let slow = of(near, high, Some(spans));
        if near > low { vec![slow, of(low, near, None)] } else { vec![slow] }
    }

    /// Solves those of some stages that were solved least; whether there was none left.
    fn solve_some(&self, spans: &[Span], cap: f64) -> bool {
        let effort = |span: &Span| match super::memo::lock(&self.asked).get(&self.twin(span)) {
            Some(_) if self.is_exact(span) => EFFORTS,
            effort => effort.copied().unwrap_or(0),
        };
        let efforts: Vec<usize> = spans.iter().map(effort).collect();
        let least = efforts.iter().copied().min().unwrap_or(EFFORTS);
        if least == EFFORTS {
            return true;
        }
        let chosen: Vec<&Span> =
            spans.iter().zip(&efforts).filter(|it| *it.1 == least).map(|it| it.0).collect();
        let found: Vec<[f64; 2]> =
            chosen.par_iter().map(|span| self.stages.refined(&self.twin(span), cap, least)).collect();
        for (span, [lower_ms, upper_ms]) in chosen.into_iter().zip(found) {
            super::memo::lock(&self.asked).insert(self.twin(span), least + 1);
            self.raise(span, lower_ms, upper_ms);
        }
        false
    }

    fn twin(&self, span: &Span) -> Span {
        self.stages.twin(span.end).of(span)
    }

    fn is_exact(&self, span: &Span) -> bool {
        self.ms(*span, Side::Lower) >= self.ms(*span, Side::Upper) * (1.0 - EXACT)
    }

    fn raise(&self, span: &Span, lower_ms: f64, upper_ms: f64) {
        let (lower, upper) = (self.rows(span, Side::Lower), self.rows(span, Side::Upper));
        lower.set(span, lower_ms.max(self.in_rows(&lower, *span, Side::Lower)));
        upper.set(span, upper_ms.min(upper.known(span).unwrap_or(f64::INFINITY)));
    }
}
