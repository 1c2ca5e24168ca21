//! How far stages reach, none of them slower than a cap: from the chain's end, and from its front.
//!
//! For each number of stages and of devices only the furthest cut of each kind matters, and of the kinds only
//! those that are not worse ends than another one that reaches further.

use super::memo::Rows;
use super::{ROUNDING, Side, Solver, Span, Stages};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Per kind the furthest unit.
type Furthest = Vec<Option<usize>>;
/// Per number of devices behind them, where stages can end.
type Ends = BTreeMap<usize, Vec<usize>>;
/// Per number of stages and devices from the front the last unit.
pub(super) type Reach = BTreeMap<(usize, usize), usize>;

impl<S: Stages> Solver<'_, S> {
    /// Whether the chain can be cut into `n_stages` stages, none of them slower than `cap`.
    pub(super) fn is_feasible(&self, n_stages: usize, cap: f64, side: Side) -> bool {
        self.feasible(n_stages..=n_stages, cap, side).contains(&n_stages)
    }

    /// The numbers of stages among some into which the chain can be cut, none of them slower than `cap`: what
    /// a stage takes depends on how many lie behind it, so that all of them share the stages at the chain's
    /// end.
    pub(super) fn feasible(&self, n_stages: RangeInclusive<usize>, cap: f64, side: Side) -> Vec<usize> {
        let mut ends: Ends = BTreeMap::from([(0, vec![self.stages.n_units()])]);
        let mut found = Vec::new();
        for in_flight in 1..=*n_stages.end() {
            let left = n_stages.start().saturating_sub(in_flight)..=n_stages.end() - in_flight;
            ends = self.one_more_stage(&ends, left, in_flight, cap, side);
            let is_whole = ends.get(&self.stages.n_devices()).is_some_and(|starts| starts.contains(&0));
            found.extend(is_whole.then_some(in_flight));
        }
        found
    }

    /// Per number of devices used: the starts of one more stage before those that start at `ends`.
    fn one_more_stage(
        &self,
        ends: &Ends,
        left: RangeInclusive<usize>,
        in_flight: usize,
        cap: f64,
        side: Side,
    ) -> Ends {
        let starts = |(total, steps): (usize, Vec<(usize, usize)>)| {
            let mut furthest: Furthest = vec![None; self.kinds.len()];
            let rest = self.stages.n_devices() - total;
            let least = (*left.start()).max(rest.min(1));
            for (used, n_devices) in steps {
                for &end in &ends[&used] {
                    let stage = self.span(least, end, used, n_devices, in_flight);
                    self.extend_left(stage, rest, cap, side, &mut furthest);
                }
            }
            (total, self.undominated(&furthest))
        };
        self.steps(ends.keys(), &left, |_, rest| rest).into_par_iter().map(starts).collect()
    }

    /// Per number of devices once one more stage is there, `left` others still to come: those of the stages
    /// so far, and its own. Its first device is told by the devices so far and those that are left.
    pub(super) fn steps<'u>(
        &self,
        used: impl Iterator<Item = &'u usize>,
        left: &RangeInclusive<usize>,
        first: impl Fn(usize, usize) -> usize,
    ) -> Vec<(usize, Vec<(usize, usize)>)> {
        let mut steps: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for &used in used {
            for &n_devices in self.stages.groups() {
                let rest = self.leaves(used, n_devices, left);
                if rest.is_some_and(|rest| self.stages.is_allowed(first(used, rest), n_devices)) {
                    steps.entry(used + n_devices).or_default().push((used, n_devices));
                }
            }
        }
        steps.into_iter().collect()
    }

    /// The furthest start of each kind that a stage can have, `stage.start` being the least.
    fn extend_left(&self, stage: Span, rest: usize, cap: f64, side: Side, furthest: &mut Furthest) {
        // What lies before must fit on the other devices, and the stage itself on its own.
        let most_busy = cap * rest as f64 * ROUNDING;
        let least_busy = self.stages.busy_before(stage.end) - cap * stage.n_devices as f64 * ROUNDING;
        let rows = self.rows(&stage, Side::Lower);
        for &kind in &self.order {
            if rest == 0 && kind != self.stages.kind(0) {
                continue;
            }
            let units = &self.kinds[kind];
            let busy = |unit: usize| self.stages.busy_before(unit);
            let from = units.partition_point(|&unit| unit < stage.start || busy(unit) < least_busy);
            let is_possible = |unit: usize| unit < stage.end && (rest == 0 || busy(unit) <= most_busy);
            if !units.get(from).is_some_and(|&unit| is_possible(unit)) {
                continue;
            }
            let known =
                self.better[kind].iter().filter_map(|&other| furthest[other]).min().unwrap_or(usize::MAX);
            let to = units.partition_point(|&unit| unit < known && is_possible(unit));
            if from < to
                && let Some(start) = self.first_that_fits(&units[from..to], stage, &rows, cap, side)
            {
                furthest[kind] = Some(start);
            }
        }
    }

    /// The first of some units of one kind at which the stage can start; a later start is never slower.
    fn first_that_fits(
        &self,
        units: &[usize],
        stage: Span,
        rows: &Rows,
        cap: f64,
        side: Side,
    ) -> Option<usize> {
        let at = |start: usize| Span { start, ..stage };
        let is_slower = |start: usize| self.within(rows, at(start), Side::Lower, cap) > cap;
        if is_slower(*units.last()?) {
            return None;
        }
        let first = units.partition_point(|&start| is_slower(start));
        units[first..].iter().copied().find(|&start| self.fits(rows, at(start), cap, side))
    }

    fn undominated(&self, furthest: &Furthest) -> Vec<usize> {
        let is_needed = |kind: usize, unit: usize| {
            let others = self.better[kind].iter().filter(|&&other| other != kind);
            others.filter_map(|&other| furthest[other]).all(|other| other > unit)
        };
        let kinds = furthest.iter().enumerate();
        kinds.filter_map(|(kind, unit)| unit.filter(|&unit| is_needed(kind, unit))).collect()
    }

    /// Per number of stages and devices from the front: the last unit at which they can end, by their bounds.
    ///
    /// A stage that begins later at a cut of the same kind is no slower: of each kind the last one that the
    /// stages before can reach is looked at.
    pub(super) fn front_reach(&self, n_stages: usize, cap: f64) -> Reach {
        let mut reach: Reach = BTreeMap::from([((0, 0), 0)]);
        for done in 0..n_stages.saturating_sub(1) {
            let left = n_stages - 1 - done;
            let lasts: BTreeMap<usize, usize> =
                reach.range((done, 0)..(done + 1, 0)).map(|(&(_, used), &last)| (used, last)).collect();
            let end = |(total, steps): (usize, Vec<(usize, usize)>)| {
                let mut furthest = 0;
                for (used, n_devices) in steps {
                    let links = self.stages.links(used, n_devices);
                    if self.stages.is_swept() {
                        let start = lasts[&used];
                        let stage = Span { start, end: start, n_devices, links, in_flight: left + 1 };
                        furthest = furthest.max(self.quick_end(stage, left, cap));
                        continue;
                    }
                    for start in self.last_starts(lasts[&used]) {
                        let stage = Span { start, end: start, n_devices, links, in_flight: left + 1 };
                        furthest = furthest.max(self.extend_right(stage, left, cap, furthest));
                    }
                }
                (furthest > 0).then_some(((done + 1, total), furthest))
            };
            let steps = self.steps(lasts.keys(), &(left..=left), |used, _| used);
            reach.extend(steps.into_par_iter().filter_map(end).collect::<Vec<_>>());
        }
        reach
    }

    /// Of each kind the last unit up to one.
    fn last_starts(&self, last: usize) -> impl Iterator<Item = usize> {
        let last_of = move |&kind: &usize| {
            let units = &self.kinds[kind];
            let n_before = units.partition_point(|&unit| unit <= last);
            n_before.checked_sub(1).map(|at| units[at]).filter(|&unit| unit > 0 || last == 0)
        };
        self.order.iter().filter_map(last_of)
    }

    /// The furthest end of a stage by the bound that takes no time, where others are dear: that bound rises
    /// with the end, and falls with the start.
    fn quick_end(&self, stage: Span, left: usize, cap: f64) -> usize {
        let (mut low, mut high) = (stage.start, self.stages.n_units() - left);
        while low < high {
            let end = (low + high).div_ceil(2);
            match self.stages.quick_ms(&Span { end, ..stage }) <= cap {
                true => low = end,
                false => high = end - 1,
            }
        }
        low
    }

    /// The furthest end that a stage can have, if that is beyond `furthest`.
    fn extend_right(&self, stage: Span, left: usize, cap: f64, mut furthest: usize) -> usize {
        let most_busy = self.stages.busy_before(stage.start) + cap * stage.n_devices as f64 * ROUNDING;
        let last = self.stages.n_units() - left;
        for &kind in &self.order {
            let units = &self.kinds[kind];
            let from = units.partition_point(|&unit| unit <= stage.start.max(furthest));
            let to =
                units.partition_point(|&unit| unit <= last && self.stages.busy_before(unit) <= most_busy);
            let fits = |end: usize| {
                let span = Span { end, ..stage };
                self.fits(&self.rows(&span, Side::Lower), span, cap, Side::Lower)
            };
            if from < to && fits(units[from]) {
                let n_fit = units[from..to].partition_point(|&end| fits(end));
                furthest = units[from + n_fit - 1];
            }
        }
        furthest
    }
}
