//! The cut of a chain into pipeline stages with different numbers of devices, of one kind or of several: the
//! chain core chooses start, end and size of each.

use super::order::{Times, step_secs};
use super::table::StageTable;
use super::{Chain, Cut, MS, TOLERANCE};
use phzc_solver::chain::{Effort, Solver, Span, Stages, search};
use std::ops::RangeInclusive;

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
        let longest = busy(self.chains, 0.0).last().copied().unwrap_or(0.0) / self.n_devices() as f64;
        let all: Vec<Vec<f64>> = self.chains.iter().map(|(_, chain)| chain.least_secs()).collect();
        let least = |layer: usize| all.iter().map(|secs| secs[layer]).fold(f64::INFINITY, f64::min);
        let (first, sum) = (&self.chains[0].1, (0..all[0].len()).map(least).sum::<f64>());
        let waits = if first.schedule.defers_weight_gradients() { longest } else { sum.max(longest) };
        waits + (self.n_microbatches as f64 - 1.0) * longest
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

    /// The numbers of stages: one that equal sizes have is alone, and the largest that is searched with others
    /// has twice as many: bounds of them all are of that one.
    fn ranges(&self) -> Vec<RangeInclusive<usize>> {
        let is_alone = |size: usize, n: usize| self.pools.len() == 1 && size * n == self.n_devices();
        let is_equal = |n: usize| self.chains.iter().any(|(group, _)| is_alone(group.n_devices, n));
        let is_far = |range: &RangeInclusive<usize>, n: usize| self.pools.len() > 1 && n > 2 * range.start();
        let mut found: Vec<RangeInclusive<usize>> = Vec::new();
        for n in self.n_stages.clone() {
            match found.last_mut() {
                Some(last) if !is_equal(n) && !is_equal(*last.end()) && !is_far(last, n) => {
                    *last = *last.start()..=n
                }
                _ => found.push(n..=n),
            }
        }
        found
    }

    /// The best cut into some number of stages, of equal sizes or not.
    fn cut_into(&self, n_stages: RangeInclusive<usize>, to_beat_secs: f64) -> Option<MixedCut> {
        let most = *n_stages.end();
        let update_weight = 1.0 / (self.n_microbatches + most - 1) as f64;
        let mut groups: Vec<usize> = self.chains.iter().map(|(group, _)| group.n_devices).collect();
        groups.sort_unstable();
        groups.dedup();
        let (tables, busy) = (self.tables(most), busy(self.chains, update_weight));
        let mixed = Mixed { mix: self, n_stages, tables, groups, busy };
        let known = to_beat_secs.is_finite().then_some(to_beat_secs * MS);
        let best =
            search(&[Solver::new(&mixed)], known, Effort { tolerance: TOLERANCE, ..Effort::default() });
        best.problem.map(|_| self.found(&best.spans))
    }

    fn tables(&self, n_stages: usize) -> Vec<StageTable<'_>> {
        let mut tables = Vec::new();
        for (group, chain) in self.chains {
            let limit_bytes = self.limit_bytes * self.memory_share(*group);
            tables.push(StageTable::new(chain, n_stages, self.n_microbatches, limit_bytes).far());
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
        let times: Vec<Times> = stages().map(|(at, table, it)| table.times(at, it.start, it.end)).collect();
        let share = |span: &Span| self.pools[usize::from(span.links)].memory_share;
        let bytes = stages().map(|(at, table, it)| table.eased_bytes(at, it.start, it.end) / share(it));
        let mut again = vec![0; self.chains[0].1.secs.len()];
        stages().for_each(|(at, table, it)| table.add_again(at, it.start, it.end, &mut again));
        let cut = Cut {
            starts: spans.iter().map(|span| span.start).collect(),
            step_secs: step_secs(&times, self.n_microbatches, self.chains[0].1.schedule),
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
fn busy(chains: &[(Group, Chain)], update_weight: f64) -> Vec<f64> {
    let n_layers = chains[0].1.secs.len();
    let secs = |(group, chain): &(Group, Chain)| -> Vec<f64> {
        let all = chain.least_secs().into_iter().zip(&chain.update_secs);
        all.map(|(secs, update)| group.n_devices as f64 * (secs + update_weight * update)).collect()
    };
    let all: Vec<Vec<f64>> = chains.iter().map(secs).collect();
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
        self.mix.n_microbatches as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use phzc_cost::Schedule;

    const SIZES: [usize; 3] = [1, 2, 4];
    const N_MICROBATCHES: usize = 4;

    fn group(kind: usize, n_devices: usize) -> Group {
        Group { kind, n_devices }
    }

    fn pool(kind: usize, n_devices: usize, domains: &[usize]) -> Pool {
        Pool { kind, n_devices, domains: domains.to_vec(), memory_share: 1.0 }
    }

    fn part(random: &mut Random) -> f64 {
        random.below(1 << 20) as f64 / f64::from(1 << 20)
    }

    fn chain(n_layers: usize, size: usize, random: &mut Random) -> Chain {
        let mut all = |most: f64| -> Vec<f64> { (0..n_layers).map(|_| most * part(random)).collect() };
        let share = 1.0 / (size as f64).sqrt();
        let (secs, send_secs) = (all(share), all(0.2 * share));
        let (fixed_bytes, flight_bytes) = (all(share), all(share));
        Chain {
            forward_secs: secs.iter().map(|secs| secs / 3.0).collect(),
            weight_secs: secs.iter().map(|secs| secs / 3.0).collect(),
            secs,
            schedule: Schedule::default(),
            update_secs: vec![0.0; n_layers],
            fixed_bytes,
            flight_bytes,
            send_secs,
            kind: (0..n_layers).collect(),
            ..Chain::default()
        }
    }

    /// The least seconds, by brute force, of ways that begin with these stages, all of one size or not.
    fn brute(mix: &Mix, from: usize, is_equal: bool, spans: &mut Vec<(usize, usize, usize)>) -> f64 {
        let used = spans.iter().map(|span| span.2).sum::<usize>();
        if from == mix.chains[0].1.secs.len() {
            let is_whole = used == mix.n_devices() && mix.n_stages.contains(&spans.len());
            let is_wanted = spans.iter().all(|span| span.2 == spans[0].2) == is_equal;
            return if is_whole && is_wanted { secs(mix, spans) } else { f64::INFINITY };
        }
        let mut best = f64::INFINITY;
        for to in from + 1..=mix.chains[0].1.secs.len() {
            for size in SIZES.into_iter().filter(|size| used + size <= mix.n_devices()) {
                let is_inside = |domain: &usize| {
                    used / domain == (used + size - 1) / domain || used % domain == 0 && size % domain == 0
                };
                if mix.pools[0].domains.iter().all(is_inside) {
                    spans.push((from, to, size));
                    best = best.min(brute(mix, to, is_equal, spans));
                    spans.pop();
                }
            }
        }
        best
    }

    fn secs(mix: &Mix, spans: &[(usize, usize, usize)]) -> f64 {
        let stage = |(at, &(from, to, size)): (usize, &(usize, usize, usize))| {
            let chain = &mix.chains[mix.place(0, size).expect("a size")].1;
            let in_flight = (spans.len() - at).min(mix.n_microbatches) as f64;
            let bytes = |layer: usize| chain.fixed_bytes[layer] + in_flight * chain.flight_bytes[layer];
            let is_small = (from..to).map(bytes).sum::<f64>() <= mix.limit_bytes;
            let secs = (from..to).map(|layer| chain.secs[layer]).sum::<f64>();
            if is_small { secs + chain.send_secs.get(to).copied().unwrap_or(0.0) } else { f64::INFINITY }
        };
        let all: Vec<f64> = spans.iter().enumerate().map(stage).collect();
        all.iter().sum::<f64>() + (mix.n_microbatches as f64 - 1.0) * all.iter().copied().fold(0.0, f64::max)
    }

    #[test]
    fn equals_brute_force_over_all_cuts_and_sizes() {
        let (mut n_found, mut n_alike) = (0, 0);
        for seed in 0..150 {
            let mut random = Random(seed);
            let n_layers = 3 + random.below(4);
            let chains = SIZES.map(|size| (group(0, size), chain(n_layers, size, &mut random)));
            let domains = [[2, 8], [4, 8], [8, 8]][random.below(3)];
            let n_stages = [2..=6, 3..=3, 2..=2][random.below(3)].clone();
            let limit_bytes = 1.0 + 8.0 * part(&mut random);
            let mix = Mix {
                chains: &chains,
                pools: &[pool(0, 8, &domains)],
                n_stages,
                n_microbatches: N_MICROBATCHES,
                limit_bytes,
            };
            let [equal, wanted] = [true, false].map(|is_equal| brute(&mix, 0, is_equal, &mut Vec::new()));
            let found = mix.cut(f64::INFINITY);
            let secs = found.as_ref().map_or(f64::INFINITY, |found| found.cut.step_secs);
            // Where equal sizes are best for their number of stages, no others with as many are looked for.
            let is_like = secs == wanted || (secs - wanted).abs() < 1e-9;
            assert!(
                is_like || wanted > equal && secs >= wanted,
                "seed {seed}: {secs} {wanted}, equal {equal}"
            );
            n_alike += usize::from(is_like);
            assert!(mix.floor_secs() <= wanted, "seed {seed}");
            n_found += usize::from(found.is_some());
        }
        assert!(n_found > 75 && n_alike > 100, "{n_found} found, {n_alike} of 150 as by brute force");
    }

    /// Two layers whose figures are whole: devices busy with the first for 4 s, or 3 s on two at once.
    fn two_sizes(schedule: Schedule) -> [(Group, Chain); 2] {
        let of = |secs: [f64; 2]| Chain {
            secs: secs.to_vec(),
            update_secs: vec![1.0; 2],
            forward_secs: vec![0.0; 2],
            weight_secs: vec![0.0; 2],
            fixed_bytes: vec![0.0; 2],
            flight_bytes: vec![0.0; 2],
            send_secs: vec![0.0; 2],
            kind: vec![0, 1],
            schedule,
            ..Chain::default()
        };
        [(group(0, 1), of([4.0, 6.0])), (group(0, 2), of([1.5, 5.0]))]
    }

    fn mix<'a>(chains: &'a [(Group, Chain)], pools: &'a [Pool]) -> Mix<'a> {
        Mix { chains, pools, n_stages: 2..=6, n_microbatches: 3, limit_bytes: f64::INFINITY }
    }

    #[test]
    fn no_cut_takes_less_than_equally_busy_devices() {
        // Three and six seconds of one device are 2.25 s of four, a microbatch alone 1.5 s and 5 s.
        let floor = |schedule| mix(&two_sizes(schedule), &[pool(0, 4, &[2, 4])]).floor_secs();
        assert_eq!(floor(Schedule::OneFOneB), 6.5 + 2.0 * 2.25);
        assert_eq!(floor(Schedule::ZeroBubble), 3.0 * 2.25);
        // With half of the update: five seconds, for one on two devices has two such halves, and 6.5 s.
        assert_eq!(busy(&two_sizes(Schedule::OneFOneB), 0.5), [0.0, 4.0, 4.0 + 6.5]);
    }

    #[test]
    fn numbers_of_stages_that_equal_sizes_have_are_searched_alone() {
        assert_eq!(
            mix(&two_sizes(Schedule::OneFOneB), &[pool(0, 4, &[2, 4])]).ranges(),
            [2..=2, 3..=3, 4..=4, 5..=6]
        );
    }

    #[test]
    fn stages_lie_in_one_node_or_have_whole_ones() {
        let chains = [1, 2, 3, 4].map(|size| (group(0, size), Chain::default()));
        let pools = [pool(0, 4, &[2, 4])];
        let mixed = Mixed {
            mix: &mix(&chains, &pools),
            n_stages: 2..=6,
            tables: Vec::new(),
            groups: vec![1, 2],
            busy: vec![0.0, 2.0],
        };
        let allowed = [(0, 1), (1, 1), (0, 2), (2, 2), (0, 4)].map(|(first, n)| mixed.is_allowed(first, n));
        let refused = [(1, 2), (0, 3), (1, 3)].map(|(first, n)| mixed.is_allowed(first, n));
        assert_eq!((allowed, refused), ([true; 5], [false; 3]));
        assert_eq!((mixed.min_stages(), mixed.max_stages(), mixed.rounds()), (2, 6, 2.0));
        assert_eq!(mixed.busy_before(1), 2.0 * MS);
    }

    #[test]
    fn stages_take_the_kinds_one_after_the_other_each_within_its_memory() {
        let alike = |secs: f64| Chain {
            secs: vec![secs; 6],
            forward_secs: vec![secs / 3.0; 6],
            weight_secs: vec![secs / 3.0; 6],
            update_secs: vec![0.0; 6],
            fixed_bytes: vec![1.0; 6],
            flight_bytes: vec![0.0; 6],
            send_secs: vec![0.0; 6],
            kind: vec![0; 6],
            ..Chain::default()
        };
        // Two devices of kind 1 are half as fast as one of kind 0.
        let chains = [(group(0, 1), alike(1.0)), (group(1, 2), alike(2.0))];
        let cut = |limit_bytes: f64, memory_share: f64| {
            let slow = Pool { memory_share, ..pool(1, 2, &[2]) };
            let pools = [slow, pool(0, 1, &[1])];
            let mix = Mix { limit_bytes, n_stages: 2..=2, n_microbatches: 64, ..mix(&chains, &pools) };
            mix.cut(f64::INFINITY).map(|found| (found.cut.starts, found.chain_of))
        };
        assert_eq!(cut(f64::INFINITY, 1.0), Some((vec![0, 2], vec![1, 0])));
        // A fourth of the memory of kind 0 holds one layer.
        assert_eq!(cut(5.0, 0.25), Some((vec![0, 1], vec![1, 0])));
        assert_eq!(cut(4.0, 0.25), None);
    }
}
