//! The plan with the least sum of stage times among those with no stage over a cap.

use super::reach::Reach;
use super::{ROUNDING, Side, Solver, Span, Stages};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// How some stages at the chain's end came about.
#[derive(Clone, Copy)]
struct Label {
    sum_ms: f64,
    /// Where the first of them ends.
    end: usize,
    /// Devices of the others.
    used_after: usize,
}

/// Per number of devices used and first unit.
type Labels = BTreeMap<usize, BTreeMap<usize, Label>>;

/// After so many starts at which a stage does not fit, no plan is looked for further left; what is proved
/// looks at all.
const MAX_MISSES: usize = 32;

impl<S: Stages> Solver<'_, S> {
    /// The least sum with its stages, the chain's order; `None` where no plan stays below the cap.
    pub(super) fn least_sum(
        &self,
        n_stages: usize,
        cap: f64,
        side: Side,
        reach: &Reach,
    ) -> Option<(f64, Vec<Span>)> {
        self.least_sum_of(n_stages, cap, side, reach, f64::INFINITY)
    }

    /// The same; `None` too where no sum is up to `most_ms`.
    pub(super) fn least_sum_of(
        &self,
        n_stages: usize,
        cap: f64,
        side: Side,
        reach: &Reach,
        most_ms: f64,
    ) -> Option<(f64, Vec<Span>)> {
        let start = Label { sum_ms: 0.0, end: self.stages.n_units(), used_after: 0 };
        let mut steps: Vec<Labels> = vec![BTreeMap::from([(0, BTreeMap::from([(start.end, start)]))])];
        for in_flight in 1..=n_stages {
            let left = n_stages - in_flight;
            let before = &steps[in_flight - 1];
            let starts = |(total, steps): (usize, Vec<(usize, usize)>)| {
                let mut found = BTreeMap::new();
                let rest = self.stages.n_devices() - total;
                let last = *reach.get(&(left, rest))?;
                for (used, n_devices) in steps {
                    for (&end, label) in &before[&used] {
                        let stage = self.span(left, end, used, n_devices, in_flight);
                        let after = Label { end, used_after: used, ..*label };
                        if label.sum_ms + self.least_ms_before(end, in_flight..=n_stages, used, cap) > most_ms
                        {
                            continue;
                        }
                        self.extend(stage, last, cap, side, after, &mut found);
                    }
                }
                Some((total, found))
            };
            let next =
                self.steps(before.keys(), &(left..=left), |_, rest| rest).into_par_iter().filter_map(starts);
            let next: Labels = next.collect();
            steps.push(next);
        }
        let total = self.stages.n_devices();
        let sum_ms = steps[n_stages].get(&total)?.get(&0)?.sum_ms;
        Some((sum_ms, self.spans(&steps, total)))
    }

    /// No stages before a unit, as many as are still to come on the devices that are left, take a lesser sum:
    /// what devices cannot be idle bounds it, as in [`Solver::bound`].
    fn least_ms_before(&self, unit: usize, stages: RangeInclusive<usize>, used: usize, cap: f64) -> f64 {
        let (busy, groups) = (self.stages.busy_before(unit), self.stages.groups());
        let [least, most] =
            [groups.iter().min(), groups.iter().max()].map(|size| size.copied().unwrap_or(1) as f64);
        let n_left = stages.count() as f64;
        let idle = (cap * (self.stages.n_devices() - used) as f64 - busy).max(0.0) / least;
        (busy / most).max(cap * n_left - idle) / ROUNDING
    }

    /// All starts of a stage from its least, `stage.start`, to `last`.
    fn extend(
        &self,
        stage: Span,
        last: usize,
        cap: f64,
        side: Side,
        after: Label,
        found: &mut BTreeMap<usize, Label>,
    ) {
        let least_busy = self.stages.busy_before(stage.end) - cap * stage.n_devices as f64 * ROUNDING;
        let mut n_misses = 0;
        let rows = self.rows(&stage, Side::Lower);
        for start in (stage.start..=last.min(stage.end - 1)).rev() {
            if self.stages.busy_before(start) < least_busy || side == Side::Upper && n_misses > MAX_MISSES {
                break;
            }
            if !self.is_cut[start] {
                continue;
            }
            let span = Span { start, ..stage };
            // Bounds are not asked for where the sum is no less whatever they are.
            let known_ms = found.get(&start).map_or(f64::INFINITY, |known| known.sum_ms);
            if side == Side::Lower && after.sum_ms + self.stages.quick_ms(&span) >= known_ms {
                continue;
            }
            let lower_ms = self.within(&rows, span, Side::Lower, cap);
            n_misses += usize::from(lower_ms > cap);
            if lower_ms > cap || after.sum_ms + lower_ms >= known_ms {
                continue;
            }
            let ms = match side {
                Side::Lower => lower_ms,
                Side::Upper => self.within(&self.rows(&span, side), span, side, cap),
            };
            if ms <= cap && after.sum_ms + ms < known_ms {
                found.insert(start, Label { sum_ms: after.sum_ms + ms, ..after });
            }
        }
    }

    fn spans(&self, steps: &[Labels], total: usize) -> Vec<Span> {
        let (mut start, mut used) = (0, total);
        let mut spans = Vec::new();
        for in_flight in (1..steps.len()).rev() {
            let label = steps[in_flight][&used][&start];
            spans.push(self.span(start, label.end, label.used_after, used - label.used_after, in_flight));
            (start, used) = (label.end, label.used_after);
        }
        spans
    }
}
