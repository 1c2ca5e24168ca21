//! Boundaries between unlike stages, moved as far as the replay finds that faster.
//!
//! Sums over stages, which cuts go by, do not tell how gradients of weights fill bubbles.

use super::super::even::shifted;
use super::super::order::{Times, replayed_secs, step_secs, update_secs};
use super::super::table::StageTable;
use super::Mix;
use phzc_cost::Schedule;
use phzc_solver::chain::Span;

/// By how many layers boundaries are moved at once.
const STEPS: [isize; 4] = [-1, 1, -2, 2];
/// How often all boundaries are tried.
const MAX_SWEEPS: usize = 4;
/// A move must be faster by this share: rounding is no reason.
const FASTER: f64 = 1e-6;

impl Mix<'_> {
    /// Seconds of a step: where bubbles are filled by the replay, for stages are unlike.
    pub(super) fn step_secs(&self, times: &[Times]) -> f64 {
        let schedule = self.schedule();
        match schedule {
            Schedule::ZeroBubble => {
                replayed_secs(times, self.n_microbatches, schedule) + update_secs(times, schedule)
            }
            _ => step_secs(times, self.n_microbatches, schedule),
        }
    }

    /// The same stages with other boundaries, one moved or with all later ones, as long as that makes a step
    /// shorter.
    pub(super) fn climbed(&self, mut spans: Vec<Span>) -> Vec<Span> {
        let (tables, n_layers) = (self.tables(spans.len()), self.chains[0].1.secs.len());
        let secs = |spans: &[Span]| self.step_secs(&self.times(&tables, spans));
        let (n_stages, mut best) = (spans.len(), secs(&spans));
        for _ in 0..MAX_SWEEPS {
            let before = best;
            for boundary in 1..n_stages {
                for (by, last) in STEPS.into_iter().flat_map(|by| [(by, boundary + 1), (by, n_stages)]) {
                    let starts: Vec<usize> = spans.iter().map(|span| span.start).collect();
                    let Some(starts) = shifted(&starts, boundary..last, by) else { continue };
                    let Some(moved) = with_starts(&spans, &starts, n_layers) else { continue };
                    let moved_secs = secs(&moved);
                    if moved_secs < best * (1.0 - FASTER) {
                        (best, spans) = (moved_secs, moved);
                    }
                }
            }
            if best == before {
                break;
            }
        }
        spans
    }

    /// What each stage takes.
    pub(super) fn times(&self, tables: &[StageTable], spans: &[Span]) -> Vec<Times> {
        let times = |(at, span): (usize, &Span)| tables[self.place_of(span)].times(at, span.start, span.end);
        spans.iter().enumerate().map(times).collect()
    }
}

/// The same stages with other first layers, if each has one.
fn with_starts(spans: &[Span], starts: &[usize], n_layers: usize) -> Option<Vec<Span>> {
    let ends = starts.iter().skip(1).copied().chain([n_layers]);
    let moved = spans.iter().zip(starts).zip(ends).map(|((span, &start), end)| Span { start, end, ..*span });
    let moved: Vec<Span> = moved.collect();
    moved.iter().all(|span| span.start < span.end).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::super::{Chain, Group, Pool};
    use super::*;
    use crate::testing::Random;

    /// Layers of random lengths on two devices of one kind, which are faster than that of another one.
    fn chains(random: &mut Random) -> [(Group, Chain); 2] {
        let lengths: Vec<f64> = (0..12).map(|_| 1.0 + random.below(3) as f64).collect();
        let of = |share: f64| {
            let part = |of_three: f64| lengths.iter().map(|length| of_three * share * length).collect();
            let none = || vec![0.0; 12];
            Chain {
                secs: part(3.0),
                forward_secs: part(1.0),
                weight_secs: part(1.0),
                schedule: Schedule::ZeroBubble,
                update_secs: none(),
                fixed_bytes: none(),
                flight_bytes: none(),
                send_secs: none(),
                kind: (0..12).collect(),
                ..Chain::default()
            }
        };
        let group = |kind| Group { kind, n_devices: 1 };
        [(group(0), of(1.0)), (group(1), of(2.5))]
    }

    #[test]
    fn few_cuts_of_the_same_stages_are_faster_as_replayed_and_none_by_much() {
        let (mut n_best, n_all) = (0, 40);
        for seed in 0..n_all {
            let chains = chains(&mut Random(seed));
            let pool = |kind, n_devices| Pool { kind, n_devices, domains: Vec::new(), memory_share: 1.0 };
            let pools = [pool(0, 2), pool(1, 1)];
            let (n_stages, n_microbatches) = (3..=3, 2 + (seed % 5) as usize);
            let limit_bytes = f64::INFINITY;
            let mix = Mix { chains: &chains, pools: &pools, n_stages, n_microbatches, limit_bytes };
            let found = mix.cut(f64::INFINITY).expect("three stages").cut;
            let span = |links: u8, start, end, in_flight| Span { start, end, n_devices: 1, links, in_flight };
            let secs = |a: usize, b: usize| {
                let spans = [span(0, 0, a, 3), span(0, a, b, 2), span(1, b, 12, 1)];
                mix.step_secs(&mix.times(&mix.tables(3), &spans))
            };
            let all = (1..11).flat_map(|a| (a + 1..12).map(move |b| (a, b)));
            let least = all.map(|(a, b)| secs(a, b)).fold(f64::INFINITY, f64::min);
            assert!(found.step_secs <= 1.05 * least, "{seed}: {} s, {least} s at best", found.step_secs);
            n_best += usize::from(found.step_secs <= least * (1.0 + 1e-9));
        }
        assert!(2 * n_best > n_all as usize, "{n_best} of {n_all} are the best");
    }
}
