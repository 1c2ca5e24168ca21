//! The best plans that differ in their problem, their number of stages or the devices of a stage.
//!
//! The best plan of all is found first. What is left of its problem is then taken apart: other numbers of
//! stages, and for each stage from the end the plans that agree with it behind that stage and give that stage
//! other devices (Lawler, "A procedure for computing the K best solutions", Management Science 1972). The
//! best of all parts is the next plan, so that its bound is one on every plan that is not yet in the list.

use super::{Best, Effort, Side, Solver, Span, Stages, Stop, Twin, search};
use std::ops::RangeInclusive;

/// A part of the plans of one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which problem.
    pub problem: usize,
    n_stages: RangeInclusive<usize>,
    /// Devices of the last stages, from the end.
    fixed: Vec<usize>,
    /// Devices that the stage before those does not have.
    without: Vec<usize>,
}

impl Part {
    /// All plans of a problem.
    pub fn whole(problem: usize) -> Part {
        Part { problem, n_stages: 1..=usize::MAX, fixed: Vec::new(), without: Vec::new() }
    }

    /// The parts of what is left without the plans that have as many stages with the same devices as these.
    fn others(&self, spans: &[Span]) -> Vec<Part> {
        let (n_stages, (least, most)) = (spans.len(), (*self.n_stages.start(), *self.n_stages.end()));
        let mut parts = Vec::new();
        for range in [least..=n_stages - 1, n_stages + 1..=most] {
            parts.extend((!range.is_empty()).then(|| Part { n_stages: range, ..self.clone() }));
        }
        let groups: Vec<usize> = spans.iter().rev().map(|span| span.n_devices).collect();
        for at in self.fixed.len()..n_stages {
            let kept = if at == self.fixed.len() { &self.without[..] } else { &[] };
            let without = kept.iter().copied().chain([groups[at]]).collect();
            let fixed = groups[..at].to_vec();
            parts.push(Part { problem: self.problem, n_stages: n_stages..=n_stages, fixed, without });
        }
        parts
    }

    /// Whether a stage of `n_devices` may have `n_after` devices behind it.
    fn allows(&self, n_devices: usize, n_after: usize) -> bool {
        let mut used = 0;
        for &group in &self.fixed {
            if n_after <= used {
                return n_after == used && n_devices == group;
            }
            used += group;
        }
        n_after > used || n_after == used && !self.without.contains(&n_devices)
    }
}

/// The stages of one part; what is asked of them is remembered for all parts.
pub struct Within<'a, S> {
    all: &'a Solver<'a, S>,
    part: &'a Part,
}

impl<'a, S: Stages> Within<'a, S> {
    /// The part of the problem that `all` solves.
    pub fn new(all: &'a Solver<'a, S>, part: &'a Part) -> Within<'a, S> {
        Within { all, part }
    }

    /// The best plan of some parts, [`Best::problem`] being the part's position; `known` is the cost of a
    /// plan that is there already.
    pub fn best(solvers: &[Solver<S>], parts: &[Part], known: Option<f64>, effort: Effort) -> Best {
        let within: Vec<Within<S>> =
            parts.iter().map(|part| Within { all: &solvers[part.problem], part }).collect();
        let solvers: Vec<Solver<Within<S>>> = within.iter().map(|own| own.all.like(own)).collect();
        search(&solvers, known, effort)
    }

    /// The same, some parts before the others.
    pub fn best_in_turn(
        solvers: &[Solver<S>],
        parts: &[Part],
        is_first: impl Fn(&Part) -> bool,
        known: Option<f64>,
        effort: Effort,
    ) -> Best {
        let (first, rest): (Vec<usize>, Vec<usize>) = (0..parts.len()).partition(|&at| is_first(&parts[at]));
        let best_of = |chosen: &[usize], known: Option<f64>| {
            let some: Vec<Part> = chosen.iter().map(|&at| parts[at].clone()).collect();
            let best = Within::best(solvers, &some, known, effort);
            Best { problem: best.problem.map(|at| chosen[at]), ..best }
        };
        let first = best_of(&first, known);
        if rest.is_empty() {
            return first;
        }
        let rest = best_of(&rest, Some(first.cost));
        let bound = first.bound.min(rest.bound);
        let stop = if first.stop == Stop::Limit { Stop::Limit } else { rest.stop };
        let best = if rest.problem.is_some() { rest } else { first };
        Best { bound, stop, ..best }
    }
}

impl<S: Stages> Stages for Within<'_, S> {
    fn n_units(&self) -> usize {
        self.all.stages.n_units()
    }
    fn n_devices(&self) -> usize {
        self.all.stages.n_devices()
    }
    fn groups(&self) -> &[usize] {
        self.all.stages.groups()
    }
    fn max_stages(&self) -> usize {
        self.all.stages.max_stages().min(*self.part.n_stages.end())
    }
    fn min_stages(&self) -> usize {
        self.all.stages.min_stages().max(*self.part.n_stages.start())
    }
    fn is_allowed(&self, first_device: usize, n_devices: usize) -> bool {
        let n_after = self.n_devices() - first_device - n_devices;
        self.part.allows(n_devices, n_after) && self.all.stages.is_allowed(first_device, n_devices)
    }
    fn links(&self, first_device: usize, n_devices: usize) -> u8 {
        self.all.stages.links(first_device, n_devices)
    }
    fn busy_before(&self, unit: usize) -> f64 {
        self.all.stages.busy_before(unit)
    }
    fn kind(&self, unit: usize) -> usize {
        self.all.stages.kind(unit)
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        self.all.stages.is_better_end(a, b)
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        self.all.stages.lower_ms(span)
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.all.stages.upper_ms(span)
    }
    fn quick_ms(&self, span: &Span) -> f64 {
        self.all.stages.quick_ms(span)
    }
    fn ms_within(&self, span: &Span, side: Side, cap: f64) -> f64 {
        self.all.stages.ms_within(span, side, cap)
    }
    fn is_coarse(&self, unit: usize) -> bool {
        self.all.stages.is_coarse(unit)
    }
    fn twin(&self, end: usize) -> Twin {
        self.all.stages.twin(end)
    }
    fn is_swept(&self) -> bool {
        self.all.stages.is_swept()
    }
    fn refined(&self, span: &Span, cap: f64, effort: usize) -> [f64; 2] {
        self.all.stages.refined(span, cap, effort)
    }
    fn work(&self) -> u64 {
        self.all.stages.work()
    }
    fn rounds(&self) -> f64 {
        self.all.stages.rounds()
    }
}

/// The best plans, until there are enough, by a search of parts, which says of the best one in which part it
/// lies; what it found goes with it.
pub fn ranked<T>(
    n_problems: usize,
    are_enough: impl Fn(&[(Best, T)]) -> bool,
    mut best_of: impl FnMut(&[Part]) -> Option<(Best, T)>,
) -> Vec<(Best, T)> {
    let mut parts: Vec<Part> = (0..n_problems).map(Part::whole).collect();
    let mut found: Vec<(Best, T)> = Vec::new();
    while !are_enough(&found)
        && let Some((best, what)) = best_of(&parts)
        && let Some(at) = best.problem
    {
        let part = parts.remove(at);
        parts.extend(part.others(&best.spans));
        found.push((Best { problem: Some(part.problem), ..best }, what));
    }
    found
}

/// The `k` best plans of some problems, the best first.
pub fn top<S: Stages>(solvers: &[Solver<S>], k: usize, effort: Effort) -> Vec<Best> {
    let best_of = |parts: &[Part]| Some((Within::best(solvers, parts, None, effort), ()));
    ranked(solvers.len(), |found| found.len() >= k, best_of).into_iter().map(|found| found.0).collect()
}
