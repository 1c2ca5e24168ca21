//! The cut of a chain into pipeline stages with different numbers of devices, of one kind or of several: the
//! chain core chooses start, end and size of each.

mod fill;

use super::even::MAX_FILLED;
use super::table::StageTable;
use super::{Chain, Cut, MS, TOLERANCE};
use phzc_cost::{Cluster, Schedule};
use phzc_solver::chain::{Effort, Solver, Span, Stages, search};
use std::ops::RangeInclusive;

/// Where bubbles are filled a cut may take less than the sum that it is searched by says, by so much.
const FILL: f64 = 1.1;

/// The devices of a stage: so many of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The place of their kind in the cluster.
    pub kind: usize,
    /// How many there are.
    pub n_devices: usize,
}

/// The devices of one kind, all of which stages take one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The place of their kind in the cluster.
    pub kind: usize,
    /// How many there are.
    pub n_devices: usize,
    /// Devices that are joined more closely than others, from the inside out: stages lie in one such group or
    /// have whole ones.
    pub domains: Vec<usize>,
    /// The memory of one, over that of the cluster's first kind.
    pub memory_share: f64,
}

impl Pool {
    /// The devices of a kind, which has its place in a cluster.
    pub fn of(nodes: &Cluster, kind: usize, cluster: &Cluster) -> Pool {
        let usable = |nodes: &Cluster| nodes.accelerator.usable_bytes();
        Pool {
            kind,
            n_devices: nodes.n_devices(),
            domains: nodes.levels().iter().map(|level| level.devices).collect(),
            memory_share: usable(nodes) / usable(cluster),
        }
    }
}

/// What a cut with different sizes decides over.
pub struct Mix<'a> {
    /// Devices that a stage may have, and the chain of the layers' figures on them; layers are the same in
    /// all.
    pub chains: &'a [(Group, Chain)],
    /// The kinds of devices in the order of the stages that have them.
    pub pools: &'a [Pool],
    /// How many stages there may be.
    pub n_stages: RangeInclusive<usize>,
    /// Microbatches of a step.
    pub n_microbatches: usize,
    /// What a device of the cluster's first kind has for a stage.
    pub limit_bytes: f64,
}

/// A cut with the sizes of its stages.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedCut {
    /// Where the chain is cut.
    pub cut: Cut,
    /// Per stage: its place among the chains.
    pub chain_of: Vec<usize>,
}

impl MixedCut {
    fn is_unequal(&self) -> bool {
        self.chain_of.iter().any(|chain| *chain != self.chain_of[0])
    }
}

impl Mix<'_> {
    /// No cut takes fewer seconds: devices are equally busy at best, each layer on as many as use the least
    /// time of all; by schedules that wait, a microbatch passes all layers once, each on as many as take the
    /// fewest seconds.
    pub fn floor_secs(&self) -> f64 {
        let longest = busy(self.chains, &vec![0.0; self.chains.len()]).last().copied().unwrap_or(0.0)
            / self.n_devices() as f64;
        let all: Vec<Vec<f64>> = self.chains.iter().map(|(_, chain)| chain.least_secs()).collect();
        let least = |layer: usize| all.iter().map(|secs| secs[layer]).fold(f64::INFINITY, f64::min);
        let sum = (0..all[0].len()).map(least).sum::<f64>();
        let waits = if self.is_filled() { longest } else { sum.max(longest) };
        waits + (self.n_microbatches as f64 - 1.0) * longest
    }

    /// The share of a stage's seconds that others wait for once, on average.
    fn waited_share(&self) -> f64 {
        self.chains.iter().map(|(_, chain)| chain.waited_share()).sum::<f64>() / self.chains.len() as f64
    }

    fn schedule(&self) -> Schedule {
        self.chains[0].1.schedule
    }

    fn is_filled(&self) -> bool {
        self.schedule().defers_weight_gradients()
    }

    fn n_devices(&self) -> usize {
        self.pools.iter().map(|pool| pool.n_devices).sum()
    }

    /// The pool of a device, and its place in it.
    fn pool_of(&self, device: usize) -> (usize, usize) {
        let mut first = 0;
        for (at, pool) in self.pools.iter().enumerate() {
            if device < first + pool.n_devices {
                return (at, device - first);
            }
            first += pool.n_devices;
        }
        panic!("device {device} of {first}")
    }

    /// The best cut that takes less than `to_beat_secs`, in which not all stages have as many devices.
    ///
    /// With as many stages as would have equal sizes, those may be best: then no others of that number are
    /// looked for.
    pub fn cut(&self, to_beat_secs: f64) -> Option<MixedCut> {
        let mut best: Option<MixedCut> = None;
        for n_stages in self.ranges() {
            let to_beat = best.as_ref().map_or(to_beat_secs, |best| best.cut.step_secs);
            let found = self.cut_into(n_stages, to_beat);
            let is_better = |found: &MixedCut| found.is_unequal() && found.cut.step_secs < to_beat;
            best = found.filter(is_better).or(best);
        }
        best
    }

    /// The numbers of stages: one that equal sizes have is alone. Of unlike devices the most that are
    /// searched at once are twice the fewest: bounds of them all are of the most. Where bubbles are filled
    /// each number is searched alone, for only the replay tells which is best.
    fn ranges(&self) -> Vec<RangeInclusive<usize>> {
        let is_alone = |n: usize| match self.pools.len() {
            1 => self.chains.iter().any(|(group, _)| group.n_devices * n == self.n_devices()),
            _ => false,
        };
        let mut found: Vec<RangeInclusive<usize>> = Vec::new();
        for n in self.n_stages.clone() {
            match found.last_mut() {
                Some(last) if self.is_filled() || self.pools.len() > 1 && n > 2 * last.start() => {
                    found.push(n..=n);
                }
                Some(last) if !is_alone(n) && !is_alone(*last.end()) => *last = *last.start()..=n,
                _ => found.push(n..=n),
            }
        }
        found
    }

    /// The best cut into some number of stages, of equal sizes or not.
    fn cut_into(&self, n_stages: RangeInclusive<usize>, to_beat_secs: f64) -> Option<MixedCut> {
        let most = *n_stages.end();
        let mut groups: Vec<usize> = self.chains.iter().map(|(group, _)| group.n_devices).collect();
        groups.sort_unstable();
        groups.dedup();
        let tables = self.tables(most);
        let weights: Vec<f64> = tables.iter().map(StageTable::update_weight).collect();
        let busy = busy(self.chains, &weights);
        let waited_share = self.waited_share();
        let rounds = self.n_microbatches as f64 / waited_share - 1.0;
        let mixed = Mixed { mix: self, n_stages, tables, groups, busy, rounds };
        let slack = if self.is_filled() { FILL } else { 1.0 };
        let known = to_beat_secs.is_finite().then_some(slack * to_beat_secs / waited_share * MS);
        let best =
            search(&[Solver::new(&mixed)], known, Effort { tolerance: TOLERANCE, ..Effort::default() });
        best.problem?;
        let is_short = best.spans.len() <= MAX_FILLED;
        let spans = if self.is_filled() && is_short { self.climbed(&best.spans) } else { best.spans };
        Some(self.found(&spans))
    }

    fn tables(&self, n_stages: usize) -> Vec<StageTable<'_>> {
        let mut tables = Vec::new();
        for (group, chain) in self.chains {
            let limit_bytes = self.limit_bytes * self.memory_share(*group);
            tables.push(StageTable::new(chain, n_stages, self.n_microbatches, limit_bytes).far().waiting());
        }
        tables
    }

    fn memory_share(&self, group: Group) -> f64 {
        self.pools.iter().find(|pool| pool.kind == group.kind).map_or(1.0, |pool| pool.memory_share)
    }

    /// The place of the chain on so many devices of a pool, if there is one.
    fn place(&self, pool: usize, n_devices: usize) -> Option<usize> {
        let group = Group { kind: self.pools[pool].kind, n_devices };
        self.chains.iter().position(|(known, _)| *known == group)
    }

    fn place_of(&self, span: &Span) -> usize {
        self.place(usize::from(span.links), span.n_devices).expect("a size that was given")
    }

    fn found(&self, spans: &[Span]) -> MixedCut {
        let tables = self.tables(spans.len());
        let chain_of: Vec<usize> = spans.iter().map(|span| self.place_of(span)).collect();
        let stages = || spans.iter().enumerate().map(|(stage, span)| (stage, &tables[chain_of[stage]], span));
        let times = self.times(&tables, spans);
        let share = |span: &Span| self.pools[usize::from(span.links)].memory_share;
        let bytes = stages().map(|(at, table, it)| table.eased_bytes(at, it.start, it.end) / share(it));
        let mut again = vec![0; self.chains[0].1.secs.len()];
        stages().for_each(|(at, table, it)| table.add_again(at, it.start, it.end, &mut again));
        let cut = Cut {
            starts: spans.iter().map(|span| span.start).collect(),
            step_secs: self.step_secs(&times),
            memory_bytes: bytes.fold(0.0, f64::max),
            again,
            asked: self.chains[0].1.asked,
            is_limited: self.limit_bytes.is_finite(),
        };
        MixedCut { cut, chain_of }
    }
}

/// Before each layer, and at the end: devices times seconds of one microbatch that the layers so far keep
/// busy at least.
fn busy(chains: &[(Group, Chain)], update_weights: &[f64]) -> Vec<f64> {
    let n_layers = chains[0].1.secs.len();
    let secs = |((group, chain), weight): (&(Group, Chain), &f64)| -> Vec<f64> {
        let all = chain.least_secs().into_iter().zip(&chain.update_secs);
        all.map(|(secs, update)| group.n_devices as f64 * (secs + weight * update)).collect()
    };
    let all: Vec<Vec<f64>> = chains.iter().zip(update_weights).map(secs).collect();
    let each = |layer: usize| all.iter().map(|secs| secs[layer]).fold(f64::INFINITY, f64::min);
    Chain::sums(&(0..n_layers).map(each).collect::<Vec<_>>())
}

/// The stages of all sizes, for the chain core.
struct Mixed<'a> {
    mix: &'a Mix<'a>,
    n_stages: RangeInclusive<usize>,
    /// One per size.
    tables: Vec<StageTable<'a>>,
    groups: Vec<usize>,
    busy: Vec<f64>,
    rounds: f64,
}

impl Mixed<'_> {
    fn table(&self, span: &Span) -> &StageTable<'_> {
        &self.tables[self.mix.place_of(span)]
    }
}

impl Stages for Mixed<'_> {
    fn n_units(&self) -> usize {
        self.tables[0].n_units()
    }
    fn n_devices(&self) -> usize {
        self.mix.n_devices()
    }
    fn groups(&self) -> &[usize] {
        &self.groups
    }
    fn max_stages(&self) -> usize {
        *self.n_stages.end()
    }
    fn min_stages(&self) -> usize {
        *self.n_stages.start()
    }
    fn is_allowed(&self, first_device: usize, n_devices: usize) -> bool {
        let (pool, first) = self.mix.pool_of(first_device);
        let (last, of) = (first + n_devices - 1, &self.mix.pools[pool]);
        let is_inside = last < of.n_devices && self.mix.place(pool, n_devices).is_some();
        is_inside
            && of.domains.iter().all(|&domain| {
                first / domain == last / domain
                    || first.is_multiple_of(domain) && n_devices.is_multiple_of(domain)
            })
    }
    /// Times depend on the pool.
    fn links(&self, first_device: usize, _: usize) -> u8 {
        self.mix.pool_of(first_device).0 as u8
    }
    fn busy_before(&self, unit: usize) -> f64 {
        MS * self.busy[unit]
    }
    fn kind(&self, unit: usize) -> usize {
        self.tables[0].kind(unit)
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        self.tables.iter().all(|table| table.is_better_end(a, b))
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        self.table(span).lower_ms(span)
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.lower_ms(span)
    }
    fn rounds(&self) -> f64 {
        self.rounds
    }
}

#[cfg(test)]
mod tests;
