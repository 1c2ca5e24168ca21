//! What the stages of a chain take, within a memory limit, by what they compute again.

use super::holding::{Holding, OfOne};
use super::order::{Times, of_groups, step_secs};
use super::{Chain, MS};
use phzc_cost::Schedule;
use phzc_solver::chain::{Span, Stages};
use std::ops::Range;

/// Prefix sums, so that a stage's figures are differences.
///
/// Where device groups hold several stages each, every stage is given an equal share of the group's memory,
/// and of what the group holds of microbatches.
pub struct StageTable<'a> {
    chain: &'a Chain,
    n_stages: usize,
    n_microbatches: usize,
    /// The share of a stage's seconds that each other one waits for once, as far as sums go by it.
    waited_share: f64,
    /// Bytes that a stage may need.
    pub limit_bytes: f64,
    /// Per stage: the microbatches that it holds.
    holding: Vec<Holding>,
    /// Per stage: whether its send onwards leaves a node.
    is_far: Vec<bool>,
    secs: Vec<f64>,
    /// The same of the least that layers take.
    least: Vec<f64>,
    forward: Vec<f64>,
    weight: Vec<f64>,
    update: Vec<f64>,
    fixed: Vec<f64>,
    flight: Vec<f64>,
    late: Vec<f64>,
    gradients: Vec<f64>,
    /// Per kind that computes something again: its runs of layers.
    of_kind: Vec<Vec<Range<usize>>>,
}

/// A stage that computes something again.
#[derive(Default)]
struct Eased {
    bytes: f64,
    secs: f64,
    /// Which levels, of how many runs.
    levels: Vec<(usize, usize)>,
}

impl<'a> StageTable<'a> {
    /// The table of a chain.
    pub fn new(chain: &'a Chain, n_stages: usize, n_microbatches: usize, limit_bytes: f64) -> StageTable<'a> {
        let share = 1.0 / chain.schedule.n_chunks() as f64;
        StageTable {
            chain,
            n_stages,
            n_microbatches,
            waited_share: 1.0,
            limit_bytes: share * limit_bytes,
            holding: Holding::of_stages(chain.schedule, n_stages, n_microbatches),
            is_far: is_far(chain, n_stages),
            secs: Chain::sums(&chain.secs),
            least: Chain::sums(&chain.least_secs()),
            forward: Chain::sums(&chain.forward_secs),
            weight: Chain::sums(&chain.weight_secs),
            update: Chain::sums(&chain.update_secs),
            fixed: Chain::sums(&chain.fixed_bytes),
            flight: Chain::sums(&chain.flight_bytes),
            late: Chain::sums(&chain.late_bytes),
            gradients: Chain::sums(&chain.gradient_bytes),
            of_kind: chain.runs_of_kinds(),
        }
    }

    /// The same where any stage's send may leave a node.
    pub fn far(self) -> StageTable<'a> {
        StageTable { is_far: vec![true; self.n_stages], ..self }
    }

    /// The same where sums go by what stages wait for one another.
    pub fn waiting(self) -> StageTable<'a> {
        StageTable { waited_share: self.chain.waited_share(), ..self }
    }

    pub(super) fn n_layers(&self) -> usize {
        self.chain.secs.len()
    }

    pub(super) fn n_stages(&self) -> usize {
        self.n_stages
    }

    pub(super) fn n_microbatches(&self) -> usize {
        self.n_microbatches
    }

    pub(super) fn schedule(&self) -> Schedule {
        self.chain.schedule
    }

    /// Seconds of one microbatch in a stage, with its share of the update; infinite if it cannot keep within
    /// memory.
    pub(super) fn step_share_secs(&self, stage: usize, from: usize, to: usize) -> f64 {
        self.full_secs(stage, from, to) + self.update_weight() * (self.update[to] - self.update[from])
    }

    /// Seconds of one microbatch in the stage `from..to`, its send onwards included.
    fn secs(&self, stage: usize, from: usize, to: usize) -> f64 {
        self.secs[to] - self.secs[from] + self.send_secs(stage, to)
    }

    /// Seconds of a stage's send onwards, both ways; the last one's ends where the chain does.
    fn send_secs(&self, stage: usize, to: usize) -> f64 {
        let secs = if self.is_far[stage] { &self.chain.send_secs } else { &self.chain.near_secs };
        secs.get(to).copied().unwrap_or(0.0)
    }

    /// Bytes that a stage needs; it holds as many microbatches as its schedule lets it.
    pub fn bytes(&self, stage: usize, from: usize, to: usize) -> f64 {
        self.fixed[to] - self.fixed[from] + self.holding[stage].bytes(self.of_one(from, to))
    }

    fn of_one(&self, from: usize, to: usize) -> OfOne {
        let at = |sums: &[f64], layer: usize| sums.get(layer).copied().unwrap_or(0.0);
        let of = |sums: &[f64]| at(sums, to) - at(sums, from);
        OfOne { saved: of(&self.flight), late: of(&self.late), gradients: of(&self.gradients) }
    }

    /// What one stage takes.
    pub(super) fn times(&self, stage: usize, from: usize, to: usize) -> Times {
        let of = |sums: &[f64]| sums[to] - sums[from];
        Times {
            secs: self.full_secs(stage, from, to),
            forward_secs: of(&self.forward),
            weight_secs: of(&self.weight),
            send_secs: self.send_secs(stage, to),
            update_secs: of(&self.update),
        }
    }

    fn fits(&self, stage: usize, from: usize, to: usize) -> bool {
        self.eased(stage, from, to).is_some()
    }

    /// Whether some cut fits: the last stage takes as many layers as it can hold, so does each before it.
    pub fn is_possible(&self) -> bool {
        let mut end = self.n_layers();
        for stage in (0..self.n_stages).rev() {
            let Some(from) = (stage..end).find(|&from| self.fits(stage, from, end)) else { return false };
            end = from;
        }
        end == 0
    }

    /// How much of a second of the update counts for each microbatch: no more than it adds to the step, as
    /// much where stages are equal.
    pub(super) fn update_weight(&self) -> f64 {
        let n_chunks = self.chain.schedule.n_chunks();
        let n_waited = self.waited_share * (self.chain.schedule.n_groups(self.n_stages) - 1) as f64;
        n_chunks as f64 / ((self.n_microbatches * n_chunks) as f64 + n_waited)
    }

    fn stages<'s>(&'s self, starts: &'s [usize]) -> impl Iterator<Item = (usize, usize)> + 's {
        starts
            .iter()
            .enumerate()
            .map(|(index, &from)| (from, starts.get(index + 1).copied().unwrap_or(self.n_layers())))
    }

    /// Seconds of a step, the update included.
    pub fn step_secs(&self, starts: &[usize]) -> f64 {
        step_secs(&self.all_times(starts), self.n_microbatches, self.chain.schedule)
    }

    /// What each stage takes.
    pub(super) fn all_times(&self, starts: &[usize]) -> Vec<Times> {
        let times = |(stage, (from, to))| self.times(stage, from, to);
        self.stages(starts).enumerate().map(times).collect()
    }

    /// Bytes of the device that needs most.
    pub fn memory_bytes(&self, starts: &[usize]) -> f64 {
        let bytes = |(stage, (from, to))| self.eased_bytes(stage, from, to);
        let all = self.stages(starts).enumerate().map(bytes);
        of_groups(all, starts.len(), self.chain.schedule)
    }

    /// Bytes of one stage that keeps within memory; infinite if it cannot.
    pub(super) fn eased_bytes(&self, stage: usize, from: usize, to: usize) -> f64 {
        self.eased(stage, from, to).map_or(f64::INFINITY, |eased| eased.bytes)
    }

    /// Per layer: how many levels it computes again.
    pub fn again(&self, starts: &[usize]) -> Vec<usize> {
        let mut again = vec![0; self.n_layers()];
        for (stage, (from, to)) in self.stages(starts).enumerate() {
            self.add_again(stage, from, to, &mut again);
        }
        again
    }

    /// Adds, per layer of one stage, how many levels it computes again.
    pub(super) fn add_again(&self, stage: usize, from: usize, to: usize, again: &mut [usize]) {
        for (level, n) in self.eased(stage, from, to).map(|eased| eased.levels).unwrap_or_default() {
            let own = self.of_kind[self.chain.levels[level].kind].iter();
            let own = own.filter(|run| run.start >= from && run.end <= to);
            own.take(n).cloned().flatten().for_each(|layer| again[layer] += 1);
        }
    }

    /// Seconds of one microbatch in a stage that keeps within memory; infinite if it cannot.
    fn full_secs(&self, stage: usize, from: usize, to: usize) -> f64 {
        self.eased(stage, from, to).map_or(f64::INFINITY, |eased| self.secs(stage, from, to) + eased.secs)
    }

    /// What a stage computes again to keep within memory: the levels that save most bytes per second, of the
    /// last only as many runs as it takes. `None` where all are not enough.
    fn eased(&self, stage: usize, from: usize, to: usize) -> Option<Eased> {
        let mut eased = Eased { bytes: self.bytes(stage, from, to), ..Eased::default() };
        let (mut one, mut again_bytes) = (self.of_one(from, to), 0.0f64);
        let (holding, fixed_bytes) = (&self.holding[stage], self.fixed[to] - self.fixed[from]);
        for (index, level) in self.chain.levels.iter().enumerate() {
            // What is faster again than read is in any case.
            let is_gain = level.secs < 0.0;
            if eased.bytes <= self.limit_bytes && !self.chain.is_all_again && !is_gain {
                break;
            }
            let n_own = self.n_of_kind(level.kind, from, to);
            if n_own == 0 {
                continue;
            }
            // Of the stages of a group one at a time has its backward part under way.
            again_bytes = again_bytes.max(level.again_bytes / self.chain.schedule.n_chunks() as f64);
            let too_much = holding.too_much(one, self.limit_bytes - fixed_bytes - again_bytes);
            let wanted = (too_much / level.bytes).ceil().max(1.0);
            let n = if self.chain.is_all_again || is_gain { n_own } else { (wanted as usize).min(n_own) };
            one.saved -= n as f64 * level.bytes;
            eased.bytes = fixed_bytes + holding.bytes(one) + again_bytes;
            if n < n_own {
                // So many are enough, but for rounding.
                eased.bytes = eased.bytes.min(self.limit_bytes);
            }
            eased.secs += n as f64 * level.secs;
            eased.levels.push((index, n));
        }
        (eased.bytes <= self.limit_bytes).then_some(eased)
    }

    fn n_of_kind(&self, kind: usize, from: usize, to: usize) -> usize {
        let runs = &self.of_kind[kind];
        let n_before = runs.partition_point(|run| run.start < from);
        runs.partition_point(|run| run.end <= to).saturating_sub(n_before)
    }
}

/// The most layers times stages for which sends within a node are told from others.
const MAX_PLACED: usize = 2048;

/// Per stage: whether its device group and that of the next one are not in one node.
fn is_far(chain: &Chain, n_stages: usize) -> Vec<bool> {
    let (n_groups, [n_devices, per_node]) = (chain.schedule.n_groups(n_stages), chain.devices);
    let size = n_devices / n_groups;
    // Stages that differ by where they are make the search of a long chain last.
    let is_long = chain.secs.len() * n_stages > MAX_PLACED;
    let node = |device: usize| device / per_node.max(1);
    let of = |stage: usize| {
        let (own, next) = (stage % n_groups, (stage + 1) % n_groups);
        is_long || size == 0 || node(own.min(next) * size) != node((own.max(next) + 1) * size - 1)
    };
    (0..n_stages).map(of).collect()
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
        MS * (self.least[unit] + self.update_weight() * self.update[unit])
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
        MS * self.step_share_secs(self.n_stages - span.in_flight, span.start, span.end)
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.lower_ms(span)
    }
    fn rounds(&self) -> f64 {
        self.n_microbatches as f64 / self.waited_share - 1.0
    }
}

#[cfg(test)]
mod tests;
