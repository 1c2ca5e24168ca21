//! The cut of a chain into pipeline stages on as many devices each: a problem for the chain core.

use crate::chain::{Effort, Solver, Span, Stages, search};

/// What the cut decides over: a chain of layers, in forward order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Per layer: forward and backward seconds of one microbatch.
    pub secs: Vec<f64>,
    /// Per layer: seconds of the update, once per step.
    pub update_secs: Vec<f64>,
    /// Per layer: bytes that stay for the whole step (weights, optimizer state).
    pub fixed_bytes: Vec<f64>,
    /// Per layer: bytes that each microbatch in flight adds.
    pub flight_bytes: Vec<f64>,
    /// Per boundary `i` (before layer `i`): seconds to send one microbatch's values on, both ways.
    pub send_secs: Vec<f64>,
    /// Per layer: its kind; layers of one kind are equal, and so is what crosses the boundaries before them.
    pub kind: Vec<usize>,
}

/// A way to cut the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// First layer of each stage.
    pub starts: Vec<usize>,
    /// Seconds of a step (1F1B): every stage once, the slowest for each further microbatch.
    pub step_secs: f64,
    /// Bytes of the stage that needs most.
    pub memory_bytes: f64,
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

    /// The best cut into `n_stages` stages for `n_microbatches`; `None` when memory forbids all.
    ///
    /// `T = sum_i t_i + (B-1) max_j t_j + max_j u_j` (Alpa section 5.2, with the update). Stage `i` of `S` holds
    /// `min(B, S-i)` microbatches.
    pub fn cut(&self, n_stages: usize, n_microbatches: usize, limit_bytes: f64) -> Option<Cut> {
        let table = StageTable::new(self, n_stages, n_microbatches, limit_bytes);
        let effort = Effort { tolerance: TOLERANCE, ..Effort::default() };
        let best = search(&[Solver::new(&table)], None, effort);
        best.problem?;
        let starts: Vec<usize> = best.spans.iter().map(|span| span.start).collect();
        let sum: f64 = table.stages(&starts).map(|(from, to)| table.secs(from, to)).sum();
        let waits = (n_microbatches as f64 - 1.0) * table.slowest(&starts);
        let step_secs = sum + waits + table.update_secs(&starts);
        let memory_bytes = table.memory_bytes(&starts);
        Some(Cut { starts, step_secs, memory_bytes })
    }

    /// The best among the cuts whose largest stage needs least memory.
    pub fn leanest(&self, n_stages: usize, n_microbatches: usize) -> Option<Cut> {
        let mut table = StageTable::new(self, n_stages, n_microbatches, f64::INFINITY);
        let (mut low, mut high) = (0.0, table.bytes(0, 0, self.secs.len()));
        for _ in 0..HALVINGS {
            table.limit_bytes = 0.5 * (low + high);
            *(if table.is_possible() { &mut high } else { &mut low }) = table.limit_bytes;
        }
        self.cut(n_stages, n_microbatches, high)
    }
}

/// Cuts this close are equally good.
const TOLERANCE: f64 = 1e-9;
/// How often the interval around the least memory is halved: it is then as narrow as rounding.
const HALVINGS: usize = 52;
/// The chain core counts in milliseconds.
const MS: f64 = 1e3;

/// Prefix sums, so that a stage's figures are differences.
struct StageTable<'a> {
    chain: &'a Chain,
    n_stages: usize,
    n_microbatches: usize,
    limit_bytes: f64,
    secs: Vec<f64>,
    update: Vec<f64>,
    fixed: Vec<f64>,
    flight: Vec<f64>,
}

impl<'a> StageTable<'a> {
    fn new(chain: &'a Chain, n_stages: usize, n_microbatches: usize, limit_bytes: f64) -> StageTable<'a> {
        StageTable {
            chain,
            n_stages,
            n_microbatches,
            limit_bytes,
            secs: Chain::sums(&chain.secs),
            update: Chain::sums(&chain.update_secs),
            fixed: Chain::sums(&chain.fixed_bytes),
            flight: Chain::sums(&chain.flight_bytes),
        }
    }

    fn n_layers(&self) -> usize {
        self.chain.secs.len()
    }

    /// Seconds of one microbatch in the stage `from..to`, its send onwards included.
    fn secs(&self, from: usize, to: usize) -> f64 {
        let send = if to < self.n_layers() { self.chain.send_secs[to] } else { 0.0 };
        self.secs[to] - self.secs[from] + send
    }

    /// Bytes that a stage needs; it holds as many microbatches as there are stages from it on.
    fn bytes(&self, stage: usize, from: usize, to: usize) -> f64 {
        let in_flight = self.n_microbatches.min(self.n_stages - stage) as f64;
        self.fixed[to] - self.fixed[from] + in_flight * (self.flight[to] - self.flight[from])
    }

    fn fits(&self, stage: usize, from: usize, to: usize) -> bool {
        self.bytes(stage, from, to) <= self.limit_bytes
    }

    /// Whether some cut fits: the last stage takes as many layers as it can hold, so does each before it.
    fn is_possible(&self) -> bool {
        let mut end = self.n_layers();
        for stage in (0..self.n_stages).rev() {
            let Some(from) = (stage..end).find(|&from| self.fits(stage, from, end)) else { return false };
            end = from;
        }
        end == 0
    }

    /// How much of a second of the update counts for each microbatch: no more than it adds to the step, as much where stages
    /// are equal.
    fn update_weight(&self) -> f64 {
        1.0 / (self.n_microbatches + self.n_stages - 1) as f64
    }

    fn stages<'s>(&'s self, starts: &'s [usize]) -> impl Iterator<Item = (usize, usize)> + 's {
        starts
            .iter()
            .enumerate()
            .map(|(index, &from)| (from, starts.get(index + 1).copied().unwrap_or(self.n_layers())))
    }

    fn slowest(&self, starts: &[usize]) -> f64 {
        self.stages(starts).map(|(from, to)| self.secs(from, to)).fold(0.0, f64::max)
    }

    fn memory_bytes(&self, starts: &[usize]) -> f64 {
        let bytes = |(stage, (from, to))| self.bytes(stage, from, to);
        self.stages(starts).enumerate().map(bytes).fold(0.0, f64::max)
    }

    fn update_secs(&self, starts: &[usize]) -> f64 {
        self.stages(starts).map(|(from, to)| self.update[to] - self.update[from]).fold(0.0, f64::max)
    }
}

impl Stages for StageTable<'_> {
    fn n_units(&self) -> usize {
        self.n_layers()
    }
    fn n_devices(&self) -> usize {
        self.n_stages
    }
    fn groups(&self) -> &[usize] {
        &[1]
    }
    fn max_stages(&self) -> usize {
        self.n_stages
    }
    fn min_stages(&self) -> usize {
        self.n_stages
    }
    fn is_allowed(&self, _: usize, _: usize) -> bool {
        true
    }
    fn links(&self, _: usize, _: usize) -> u8 {
        0
    }
    fn busy_before(&self, unit: usize) -> f64 {
        MS * (self.secs[unit] + self.update_weight() * self.update[unit])
    }
    fn kind(&self, unit: usize) -> usize {
        self.chain.kind[unit]
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        let send = |kind: usize| {
            let at = self.chain.kind.iter().position(|&other| other == kind);
            at.map_or(0.0, |at| self.chain.send_secs[at])
        };
        send(a) <= send(b)
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        let (from, to) = (span.start, span.end);
        match self.fits(self.n_stages - span.in_flight, from, to) {
            true => MS * (self.secs(from, to) + self.update_weight() * (self.update[to] - self.update[from])),
            false => f64::INFINITY,
        }
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.lower_ms(span)
    }
    fn rounds(&self) -> f64 {
        self.n_microbatches as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(secs: &[f64]) -> Chain {
        let zeros = vec![0.0; secs.len()];
        Chain {
            secs: secs.to_vec(),
            update_secs: zeros.clone(),
            fixed_bytes: vec![1.0; secs.len()],
            flight_bytes: zeros.clone(),
            send_secs: zeros,
            kind: (0..secs.len()).collect(),
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
    fn refuses_what_does_not_fit() {
        assert_eq!(chain(&[1.0; 4]).cut(2, 1, 1.5), None);
    }
}
