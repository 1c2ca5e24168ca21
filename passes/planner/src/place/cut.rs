//! The cut of a chain into pipeline stages on as many devices each: a problem for the chain core.

mod even;
mod holding;
pub mod mixed;
mod order;
mod table;

use super::recompute::rematerialize::Asked;
use phzc_cost::Schedule;
use phzc_solver::chain::{Effort, Solver, search};
use std::ops::Range;
use table::StageTable;

/// What the cut decides over: a chain of layers, in forward order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Per layer: forward and backward seconds of one microbatch.
    pub secs: Vec<f64>,
    /// Per layer: the forward part of them.
    pub forward_secs: Vec<f64>,
    /// Per layer: the part of backward that no other layer waits for.
    pub weight_secs: Vec<f64>,
    /// The schedule that the cut is for.
    pub schedule: Schedule,
    /// Per layer: seconds of the update, once per step.
    pub update_secs: Vec<f64>,
    /// Per layer: bytes that stay for the whole step (weights, optimizer state).
    pub fixed_bytes: Vec<f64>,
    /// Per layer: bytes that each microbatch in flight adds.
    pub flight_bytes: Vec<f64>,
    /// Per layer: bytes that each microbatch adds whose gradients of weights are put off; none if empty.
    pub late_bytes: Vec<f64>,
    /// Per layer: those of gradients among them.
    pub gradient_bytes: Vec<f64>,
    /// Per boundary `i` (before layer `i`): seconds to send one microbatch's values on, both ways.
    pub send_secs: Vec<f64>,
    /// The same within a node.
    pub near_secs: Vec<f64>,
    /// Devices of all stages, and of a node.
    pub devices: [usize; 2],
    /// Per layer: its kind; layers of one kind are equal, and so is what crosses the boundaries before them.
    pub kind: Vec<usize>,
    /// Layers that compute things again together, in order, and of which kind they are.
    pub runs: Vec<(Range<usize>, usize)>,
    /// What runs of layers can compute again, in the order of seconds per byte that is saved.
    pub levels: Vec<Level>,
    /// Whether all of that is computed again, be there memory enough or not.
    pub is_all_again: bool,
    /// Which levels there are.
    pub asked: Asked,
}

/// One more thing that the backward part of a run of layers can compute again, after those of its kind that
/// come before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The kind of the runs that have it.
    pub kind: usize,
    /// Seconds of one microbatch.
    pub secs: f64,
    /// Bytes that each microbatch in flight need not save.
    pub bytes: f64,
    /// Bytes that are there while the backward part of one run is under way, with all that such a run
    /// computes again by then.
    pub again_bytes: f64,
}

/// A way to cut the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// First layer of each stage.
    pub starts: Vec<usize>,
    /// Seconds of a step. By 1F1B: every stage once, the slowest for each further microbatch; by other
    /// schedules see `order::step_secs`.
    pub step_secs: f64,
    /// Bytes of the device that needs most.
    pub memory_bytes: f64,
    /// Per layer: how many of its run's levels it computes again, of those that were asked for.
    pub again: Vec<usize>,
    /// Which levels.
    pub asked: Asked,
    /// Whether the memory limit has a say in it.
    pub is_limited: bool,
}

impl Cut {
    /// Whether a layer computes something again.
    pub fn is_again(&self) -> bool {
        self.again.iter().any(|&again| again > 0)
    }
}

impl Chain {
    fn sums(values: &[f64]) -> Vec<f64> {
        std::iter::once(0.0)
            .chain(values.iter().scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            }))
            .collect()
    }

    /// Per kind that computes something again: its runs.
    fn runs_of_kinds(&self) -> Vec<Vec<Range<usize>>> {
        let n_kinds = self.levels.iter().map(|level| level.kind + 1).max().unwrap_or(0);
        let mut found = vec![Vec::new(); n_kinds];
        for (run, kind) in self.runs.iter().filter(|(_, kind)| *kind < n_kinds) {
            found[*kind].push(run.clone());
        }
        found
    }

    /// Per layer: the least seconds of one microbatch, as if its whole run were in its stage: what is faster
    /// made again than read is made again. Each layer has its share of what that saves.
    fn least_secs(&self) -> Vec<f64> {
        let saved = |kind: usize| -> f64 {
            let own = self.levels.iter().filter(|level| level.kind == kind && level.secs < 0.0);
            own.map(|level| level.secs).sum()
        };
        let mut least = self.secs.clone();
        for (run, kind) in &self.runs {
            let (saved, all) = (saved(*kind), self.secs[run.clone()].iter().sum::<f64>());
            if saved < 0.0 && all > 0.0 {
                least[run.clone()].iter_mut().for_each(|secs| *secs *= (1.0 + saved / all).max(0.0));
            }
        }
        least
    }

    /// The share of a stage's seconds that each other one waits for once, of `q` a step takes `q sum t +
    /// (B - q) max t`: all of them by 1F1B; zero-bubble puts gradients of weights off (`order::step_secs`).
    pub fn waited_share(&self) -> f64 {
        let sum = |of: &[f64]| of.iter().sum::<f64>();
        let all = sum(&self.secs);
        if self.schedule != Schedule::ZeroBubble || all <= 0.0 {
            return 1.0;
        }
        let put_off = sum(&self.weight_secs).min(sum(&self.forward_secs));
        (1.0 - 2.0 * put_off / all).clamp(LEAST_WAITED, 1.0)
    }

    /// No cut takes fewer seconds: stages are equally slow at best, sends free, and bubbles where they may be
    /// filled; of interleaved pipelines what equal stages take.
    pub fn floor_secs(&self, n_stages: usize, n_microbatches: usize) -> f64 {
        let n_groups = self.schedule.n_groups(n_stages);
        let mean = self.least_secs().iter().sum::<f64>() / n_groups as f64;
        let update = self.update_secs.iter().sum::<f64>() / n_groups as f64;
        mean * (self.schedule.bubble(n_stages) + n_microbatches as f64) + update
    }

    /// The best cut into `n_stages` stages for `n_microbatches`; `None` when memory forbids all.
    ///
    /// `T = sum_i t_i + (B-1) max_j t_j + max_j u_j` (Alpa section 5.2, with the update). Stage `i` of `S`
    /// holds `min(B, S-i)` microbatches, by other schedules more; where that is too much it computes again
    /// what saves most bytes per second. For interleaved pipelines see `StageTable::even_starts`.
    pub fn cut(&self, n_stages: usize, n_microbatches: usize, limit_bytes: f64) -> Option<Cut> {
        let table = StageTable::new(self, n_stages, n_microbatches, limit_bytes);
        let starts = match self.schedule {
            Schedule::Interleaved(_) => table.even_starts()?,
            _ => {
                let effort = Effort { tolerance: TOLERANCE, ..Effort::default() };
                let best = search(&[Solver::new(&table)], None, effort);
                best.problem?;
                let starts = best.spans.iter().map(|span| span.start).collect();
                if self.schedule == Schedule::ZeroBubble { table.filled_starts(starts) } else { starts }
            }
        };
        let memory_bytes = table.memory_bytes(&starts);
        let again = table.again(&starts);
        let step_secs = table.step_secs(&starts);
        let (asked, is_limited) = (self.asked, limit_bytes.is_finite());
        Some(Cut { starts, step_secs, memory_bytes, again, asked, is_limited })
    }

    /// The best among the cuts whose largest stage needs least memory.
    pub fn leanest(&self, n_stages: usize, n_microbatches: usize) -> Option<Cut> {
        let mut table = StageTable::new(self, n_stages, n_microbatches, f64::INFINITY);
        let (mut low, mut high) = (0.0, table.bytes(0, 0, self.secs.len()));
        for _ in 0..HALVINGS {
            table.limit_bytes = 0.5 * (low + high);
            *(if table.is_possible() { &mut high } else { &mut low }) = table.limit_bytes;
        }
        self.cut(n_stages, n_microbatches, high * self.schedule.n_chunks() as f64)
    }
}

/// However much is put off, where a chain is cut for zero-bubble no less than this share is waited for.
const LEAST_WAITED: f64 = 0.05;
/// Cuts this close are equally good.
const TOLERANCE: f64 = 1e-9;
/// How often the interval around the least memory is halved: it is then as narrow as rounding.
const HALVINGS: usize = 52;
/// The chain core counts in milliseconds.
const MS: f64 = 1e3;

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn chain(secs: &[f64]) -> Chain {
        let zeros = vec![0.0; secs.len()];
        Chain {
            secs: secs.to_vec(),
            forward_secs: secs.iter().map(|secs| secs / 3.0).collect(),
            weight_secs: secs.iter().map(|secs| secs / 3.0).collect(),
            schedule: Schedule::default(),
            update_secs: zeros.clone(),
            fixed_bytes: vec![1.0; secs.len()],
            flight_bytes: zeros.clone(),
            late_bytes: zeros.clone(),
            gradient_bytes: zeros.clone(),
            send_secs: zeros,
            near_secs: Vec::new(),
            devices: [0; 2],
            kind: (0..secs.len()).collect(),
            levels: Vec::new(),
            runs: Vec::new(),
            is_all_again: false,
            asked: Asked::default(),
        }
    }

    /// Every cut, by brute force.
    fn brute(chain: &Chain, n_stages: usize, n_microbatches: usize, limit: f64) -> f64 {
        let n = chain.secs.len();
        let mut best = f64::INFINITY;
        for mask in 0u32..1 << (n - 1) {
            if mask.count_ones() as usize + 1 != n_stages {
                continue;
            }
            let mut bounds = vec![0];
            bounds.extend((1..n).filter(|layer| mask >> (layer - 1) & 1 == 1));
            bounds.push(n);
            let stage = |range: &[usize]| {
                (range[0]..range[1]).map(|layer| chain.secs[layer]).sum::<f64>()
                    + if range[1] < n { chain.send_secs[range[1]] } else { 0.0 }
            };
            let bytes = |(index, range): (usize, &[usize])| {
                let in_flight = n_microbatches.min(n_stages - index) as f64;
                (range[0]..range[1])
                    .map(|layer| chain.fixed_bytes[layer] + in_flight * chain.flight_bytes[layer])
                    .sum::<f64>()
            };
            if bounds.windows(2).enumerate().any(|pair| bytes(pair) > limit) {
                continue;
            }
            let secs: Vec<f64> = bounds.windows(2).map(stage).collect();
            let slowest = secs.iter().copied().fold(0.0, f64::max);
            best = best.min(secs.iter().sum::<f64>() + (n_microbatches as f64 - 1.0) * slowest);
        }
        best
    }

    #[test]
    fn balances_equal_layers() {
        assert_eq!(chain(&[1.0; 8]).cut(4, 8, 1e9).map(|cut| cut.starts), Some(vec![0, 2, 4, 6]));
    }

    #[test]
    fn equals_brute_force_on_random_chains() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1u64 << 24) as f64
        };
        for round in 0..200 {
            let n = 3 + round % 6;
            let mut it = chain(&(0..n).map(|_| 0.1 + random()).collect::<Vec<_>>());
            it.send_secs = (0..n).map(|_| 0.2 * random()).collect();
            it.flight_bytes = (0..n).map(|_| random()).collect();
            let limit = 2.0 + 6.0 * random();
            let found = it.cut(3, 4, limit).map_or(f64::INFINITY, |cut| cut.step_secs);
            let wanted = brute(&it, 3, 4, limit);
            assert!(found == wanted || (found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
    }

    #[test]
    fn the_leanest_cut_needs_least() {
        let it = Chain { flight_bytes: vec![4.0, 1.0, 1.0, 1.0], ..chain(&[1.0; 4]) };
        assert_eq!(it.leanest(2, 2).map(|cut| cut.starts), Some(vec![0, 1]));
        assert_eq!(it.cut(2, 2, 9.0).map(|cut| cut.starts), Some(vec![0, 1]));
        assert_eq!(it.cut(2, 2, 8.9), None);
    }

    #[test]
    fn what_saves_most_per_second_is_computed_again_and_no_more_than_needed() {
        let level = |kind, secs, bytes| Level { kind, secs, bytes, again_bytes: 0.0 };
        let mut it = Chain { flight_bytes: vec![3.0; 4], ..chain(&[1.0; 4]) };
        it.kind = vec![0, 1, 0, 1];
        it.runs = (0..4).map(|layer| (layer..layer + 1, layer % 2)).collect();
        it.levels = vec![level(0, 0.1, 1.0), level(1, 0.3, 2.0), level(0, 0.5, 2.0)];
        // 16 bytes are needed: of 14 two layers compute one level again, of 12 another one too.
        for (limit, again, secs) in [
            (16.0, [0, 0, 0, 0], 4.0),
            (15.0, [1, 0, 0, 0], 4.1),
            (14.0, [1, 0, 1, 0], 4.2),
            (12.0, [1, 1, 1, 0], 4.5),
            (6.0, [2, 1, 2, 1], 5.8),
        ] {
            let cut = it.cut(1, 1, limit).expect("it fits");
            assert_eq!(cut.again, again, "{limit}");
            assert!((cut.step_secs - secs).abs() < 1e-9 && cut.memory_bytes <= limit, "{cut:?}");
        }
        assert_eq!(it.cut(1, 1, 5.9), None);
    }

    #[test]
    fn others_wait_for_what_zero_bubble_does_not_put_off() {
        let by = |schedule, share: f64| {
            let weight_secs = vec![share; 4];
            Chain { schedule, weight_secs, ..chain(&[3.0; 4]) }.waited_share()
        };
        assert_eq!(by(Schedule::OneFOneB, 1.0), 1.0);
        // No longer than a forward, a third of the stage: 1 - 2 w / t.
        assert!((by(Schedule::ZeroBubble, 0.6) - 0.6).abs() < 1e-12);
        assert!((by(Schedule::ZeroBubble, 2.0) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(Chain { schedule: Schedule::ZeroBubble, ..Chain::default() }.waited_share(), 1.0);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(chain(&[1.0; 4]).cut(2, 1, 1.5), None);
    }
}
