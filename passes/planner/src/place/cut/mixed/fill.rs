//! Boundaries between unlike stages, moved as far as the replay finds that faster.
//!
//! Sums over stages, which cuts go by, do not tell how gradients of weights fill bubbles.

use super::super::even::climbed;
use super::super::order::{Times, replayed_secs, step_secs, update_secs};
use super::super::table::StageTable;
use super::Mix;
use phzc_cost::Schedule;
use phzc_solver::chain::Span;

/// By how many layers boundaries are moved at once at most.
const REACH: usize = 2;

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

    /// The same stages with other boundaries, as long as that makes a step shorter.
    pub(super) fn climbed(&self, spans: &[Span]) -> Vec<Span> {
        let (tables, n_layers) = (self.tables(spans.len()), self.chains[0].1.secs.len());
        let moved = |starts: &[usize]| with_starts(spans, starts, n_layers);
        let secs = |starts: &[usize]| self.step_secs(&self.times(&tables, &moved(starts)));
        let starts = spans.iter().map(|span| span.start).collect();
        moved(&climbed(starts, (REACH, n_layers), secs))
    }

    /// What each stage takes.
    pub(super) fn times(&self, tables: &[StageTable], spans: &[Span]) -> Vec<Times> {
        let times = |(at, span): (usize, &Span)| tables[self.place_of(span)].times(at, span.start, span.end);
        spans.iter().enumerate().map(times).collect()
    }
}

/// The same stages with other first layers.
fn with_starts(spans: &[Span], starts: &[usize], n_layers: usize) -> Vec<Span> {
    let ends = starts.iter().skip(1).copied().chain([n_layers]);
    let moved = |((span, &start), end): ((&Span, &usize), usize)| Span { start, end, ..*span };
    spans.iter().zip(starts).zip(ends).map(moved).collect()
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
    fn boundaries_are_moved_until_few_cuts_are_faster_as_replayed_and_none_by_much() {
        let (mut n_best, mut n_moved, n_all) = (0, 0, 40);
        for seed in 0..n_all {
            let chains = chains(&mut Random(seed));
            let pool = |kind, n_devices| Pool { kind, n_devices, domains: Vec::new(), memory_share: 1.0 };
            let pools = [pool(0, 2), pool(1, 1)];
            let (n_stages, n_microbatches) = (3..=3, 2 + (seed % 5) as usize);
            let limit_bytes = f64::INFINITY;
            let mix = Mix { chains: &chains, pools: &pools, n_stages, n_microbatches, limit_bytes };
            let span = |links: u8, start, end, in_flight| Span { start, end, n_devices: 1, links, in_flight };
            let spans = |a, b| [span(0, 0, a, 3), span(0, a, b, 2), span(1, b, 12, 1)];
            let secs = |spans: &[Span]| mix.step_secs(&mix.times(&mix.tables(3), spans));
            let all = (1..11).flat_map(|a| (a + 1..12).map(move |b| (a, b)));
            let least = all.map(|(a, b)| secs(&spans(a, b))).fold(f64::INFINITY, f64::min);
            n_moved += i32::from(secs(&mix.climbed(&spans(4, 8))) < secs(&spans(4, 8)));
            let found = mix.cut(f64::INFINITY).expect("three stages").cut.step_secs;
            assert!(found <= 1.05 * least, "{seed}: {found} s, {least} s at best");
            n_best += usize::from(found <= least * (1.0 + 1e-9));
        }
        assert!(2 * n_best > n_all as usize, "{n_best} of {n_all} are the best");
        assert!(n_moved > 30, "{n_moved} equal cuts of {n_all} are moved");
    }
}
