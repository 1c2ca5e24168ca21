//! Stages whose operators are split each its own way; or all alike, but looked at more closely than in
//! `uniform.rs`.
//!
//! A bound comes from `sweep.rs`, a stage on which much rests is solved (`exact.rs`).

use super::super::memo::lock;
use super::super::{Best, Effort, ROUNDING, Side, Span, Stages, Stop, Twin};
use super::exact::{Solved, solve};
use super::layers::ends_cheaper;
use super::sweep::{N_PRICES, Sweep};
use super::{Degrees, FAR_AFTER, FAR_BEFORE, Problem, Setting, Space};
use indexmap::IndexMap;
use phzc_cost::aceso::{Machine, OpChoice, PipelinePlan, StageChoice};
use phzc_cost::profile::OpProfile;
use rustc_hash::FxBuildHasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// How hard to look among mixed stages: their bounds are loose where a recomputed run holds much.
pub const EFFORT: Effort = Effort { max_plans: usize::MAX, tolerance: 2.5e-3, patience: 4_000_000 };
/// Plans of stages whose operators are split alike are looked for more closely where their bound is further
/// below, relatively.
const NEAR: f64 = 1e-2;
/// So many operators at most, unless a gap is asked for: more can take minutes.
const MAX_UNITS: usize = 2000;
/// The same under the own cost, which has more schedules and numbers of stages to look at.
const MAX_OWN_UNITS: usize = 64;
/// Ways of a stage's first operators that are looked at, at first and where that is too few.
const MAX_LABELS: [usize; 2] = [400, 1500];
/// What an operator of a bound takes, in ways of operators.
const SWEEP_WORK: u64 = 20;
/// By how much a price is above all others at which nothing is bought.
const PROHIBITIVE: f64 = 1e6;
/// Stages are not looked at that take so many times their bound.
const MAX_RISE: f64 = 8.0;
/// Ways this close to the best one with operators split alike are no better.
const CLOSE: f64 = 1e-9;

/// How an operator runs: twice its way, plus one where it is recomputed.
pub type Code = usize;

/// Degrees and, if operators are laid out by it, the dimension that is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    degrees: Degrees,
    algo: Option<u32>,
}

impl Class {
    /// The class of a choice; ZeRO is told apart where all operators have to be alike.
    fn of(machine: &Machine, choice: &OpChoice, is_alike: bool) -> Class {
        let usual = OpChoice { algo: 0, ..*choice };
        let is_usual = (0..machine.chain.len()).all(|op| machine.is_laid_out_alike(op, &usual, choice));
        let zero = if is_alike { choice.zero } else { 0 };
        let degrees = Degrees { tensor: choice.tensor, data: choice.data, zero };
        Class { degrees, algo: (!is_usual).then_some(choice.algo) }
    }
}

/// One split of all operators.
pub struct Way {
    /// The choice, nothing recomputed.
    pub choice: OpChoice,
    /// What it has in common with the ways from which it is not told apart.
    pub class: Class,
    /// Per operator: what it takes.
    pub profiles: Vec<OpProfile>,
    /// Per operator: MiB that it keeps.
    pub kept_mib: Vec<f64>,
    /// Per operator: milliseconds of its transfers from the stage before and to the one after, near and far.
    pub sends_ms: Vec<[[f64; 2]; 2]>,
    /// Per way of the operator before: milliseconds of bringing an operator's input from there.
    pub moves_ms: Vec<Vec<f64>>,
}

impl Way {
    fn new(of: &Setting, choice: OpChoice, rows: &[OpProfile], is_alike: bool) -> Way {
        let machine = of.machine;
        let adjusted = |(op, &row): (usize, &usize)| machine.adjusted(op, &rows[row], &choice, &of.step);
        let profiles: Vec<OpProfile> = machine.chain.rows.iter().enumerate().map(adjusted).collect();
        let kept_mib = profiles.iter().enumerate().map(|(op, it)| of.candidate(op, it).mib).collect();
        let sends = |(op, it): (usize, &OpProfile)| {
            let before = [false, true].map(|is_far| machine.send_before_ms(op, it.input_mib, is_far));
            [before, [false, true].map(|is_far| machine.send_after_ms(op, it.output_mib, is_far))]
        };
        let sends_ms = profiles.iter().enumerate().map(sends).collect();
        let class = Class::of(machine, &choice, is_alike);
        Way { choice, class, profiles, kept_mib, sends_ms, moves_ms: Vec::new() }
    }
}

/// One microbatch size.
pub struct Mixed<'a> {
    base: &'a Problem<'a>,
    /// Whether all operators of a stage have the same degrees.
    is_alike: bool,
    /// Per group.
    ways: Vec<Vec<Way>>,
    /// Per group, and per operator before: the sum of what each takes at least, nothing recomputed.
    least_ms: Vec<Vec<f64>>,
    /// Milliseconds per MiB of recomputing single operators: where choices change.
    prices: [f64; N_PRICES],
    sweeps: Mutex<IndexMap<Span, Arc<Mutex<Sweep>>, FxBuildHasher>>,
    /// The fastest ways of stages that were solved.
    ways_of: Mutex<IndexMap<Span, (f64, Vec<Code>), FxBuildHasher>>,
    /// Ways of some operators, and operators of bounds, that were made.
    work: AtomicU64,
}

/// Whether no mixed stages are looked for: they cannot be much faster, or it would take too long.
pub fn is_needless(space: &Space, problems: &[Problem], uniform: &Best) -> bool {
    let gap = space.limits.gap;
    let is_near = uniform.cost * (1.0 - gap.unwrap_or(NEAR)) <= uniform.bound;
    let is_own = problems.iter().any(|it| it.setting.machine.own.is_some());
    let most = if is_own { MAX_OWN_UNITS } else { MAX_UNITS };
    let is_long = gap.is_none() && problems.iter().any(|it| it.n_units() > most);
    !space.is_mixed && (is_near || is_long || uniform.stop == Stop::Limit)
}

impl<'a> Mixed<'a> {
    /// All ways that were measured; `is_alike`: all operators of a stage have the same degrees.
    pub fn new(base: &'a Problem<'a>, is_alike: bool) -> Mixed<'a> {
        let of = &base.setting;
        let ways_of = |degrees: &Vec<Degrees>| {
            let splits = degrees.iter().filter(|it| of.microbatch.is_multiple_of(it.data)).flat_map(|it| {
                let rows = of.machine.tables.splits(of.microbatch / it.data, it.tensor);
                rows.map(|(algo, rows)| (it.choice(algo), rows))
            });
            let ways = splits.map(|(choice, rows)| Way::new(of, choice, rows, is_alike));
            with_moves(of.machine, ways.collect(), is_alike)
        };
        let ways: Vec<Vec<Way>> = base.degrees.iter().map(ways_of).collect();
        let prices = prices(&ways);
        let least_ms = ways.iter().map(|ways| least_before(ways, base.n_units())).collect();
        let (sweeps, ways_of, work) = Default::default();
        Mixed { base, is_alike, ways, least_ms, prices, sweeps, ways_of, work }
    }

    pub(super) fn ways(&self, n_devices: usize) -> &[Way] {
        let at = self.base.groups.iter().position(|&group| group == n_devices);
        at.map_or(&[], |at| &self.ways[at])
    }

    /// Whether all ways of some devices have the same degrees.
    fn is_single(&self, n_devices: usize) -> bool {
        self.ways(n_devices).windows(2).all(|pair| pair[0].class.degrees == pair[1].class.degrees)
    }

    pub(super) fn is_free(&self, op: usize) -> bool {
        self.base.setting.is_free_to_recompute(op)
    }

    pub(super) fn ends_run(&self, op: usize) -> bool {
        self.base.setting.machine.chain.ends_runs[op]
    }

    pub(super) fn limit_mib(&self) -> f64 {
        self.base.setting.machine.limit_mib
    }

    /// The prices for a stage: with many microbatches in flight a byte counts more often.
    pub(super) fn prices(&self, span: &Span) -> [f64; N_PRICES] {
        self.prices.map(|price| price / span.in_flight as f64)
    }

    /// No way of a placed stage takes fewer milliseconds.
    fn bound_ms(&self, span: &Span) -> f64 {
        if self.is_alike || self.is_single(span.n_devices) {
            return self.base.shared.ms(*span, Side::Lower, f64::INFINITY);
        }
        let key = Span { start: 0, ..*span };
        let make =
            || Arc::new(Mutex::new(Sweep::new(span.end, self.prices(span), self.ways(span.n_devices))));
        let sweep = lock(&self.sweeps).entry(key).or_insert_with(make).clone();
        let (ms, n_made) = lock(&sweep).lower_ms(self, span);
        self.work.fetch_add(n_made * SWEEP_WORK, Relaxed);
        ms
    }

    /// What is known of a stage that is asked to take no more than some milliseconds.
    fn solved(&self, placed: &Span, cap_ms: f64, effort: usize) -> Solved {
        let lower_ms = self.bound_ms(placed);
        let alike_ms = self.base.shared.ms(*placed, Side::Upper, f64::INFINITY);
        let most_ms = cap_ms.min(alike_ms * (1.0 + CLOSE)).min(lower_ms * MAX_RISE);
        let solved = solve(self, placed, [lower_ms, most_ms], MAX_LABELS[effort.min(1)], effort > 0);
        self.work.fetch_add(solved.n_made, Relaxed);
        if let Some(way) = &solved.way {
            let mut ways_of = lock(&self.ways_of);
            if ways_of.get(placed).is_none_or(|known| way.0 < known.0) {
                ways_of.insert(*placed, way.clone());
            }
        }
        solved
    }

    /// A stage's way that is faster than all with its operators split alike, if one was found.
    fn faster(&self, span: &Span) -> Option<(f64, Vec<Code>)> {
        let placed = self.base.placed(&self.twin(span.end).of(span));
        let way = lock(&self.ways_of).get(&placed).cloned()?;
        (way.0 < self.base.shared.ms(placed, Side::Upper, f64::INFINITY)).then_some(way)
    }

    /// The plan of some spans.
    pub fn plan(&self, best: &Best) -> PipelinePlan {
        let stages = best.spans.iter().map(|span| match self.faster(span) {
            Some((_, codes)) => self.stage(span, &codes),
            None => self.base.stage(span),
        });
        self.base.plan_of(stages.collect())
    }

    fn stage(&self, span: &Span, codes: &[Code]) -> StageChoice {
        let ways = self.ways(span.n_devices);
        let ops = codes.iter().map(|code| OpChoice { recompute: code % 2 == 1, ..ways[code / 2].choice });
        StageChoice { start: span.start, n_devices: span.n_devices, ops: ops.collect() }
    }
}

impl Way {
    /// Milliseconds of the transfer from the stage before that operator.
    pub fn send_before_ms(&self, op: usize, span: &Span) -> f64 {
        self.sends_ms[op][0][usize::from(span.links & FAR_BEFORE > 0)]
    }

    /// Milliseconds of the transfer to the stage after it.
    pub fn send_after_ms(&self, op: usize, span: &Span) -> f64 {
        self.sends_ms[op][1][usize::from(span.links & FAR_AFTER > 0)]
    }
}

/// What the changes from each way to each other one take; where all are alike, none is made.
fn with_moves(machine: &Machine, mut ways: Vec<Way>, is_alike: bool) -> Vec<Way> {
    let others: Vec<_> = ways.iter().map(|way| (way.choice, way.class)).collect();
    for way in &mut ways {
        let from = |(choice, class): &(OpChoice, Class)| {
            let is_made = !is_alike || class.degrees == way.class.degrees;
            let ms = |(op, it): (usize, &OpProfile)| match is_made {
                true => machine.reshard_ms(op, choice, &way.choice, it.input_mib),
                false => f64::INFINITY,
            };
            way.profiles.iter().enumerate().map(ms).collect()
        };
        way.moves_ms = others.iter().map(from).collect();
    }
    ways
}

/// Per operator, and at the end: the sum of the least milliseconds of those before it.
fn least_before(ways: &[Way], n_ops: usize) -> Vec<f64> {
    let mut sum_ms = 0.0;
    let least = |op: usize| ways.iter().map(|way| way.profiles[op].both_ms()).fold(f64::INFINITY, f64::min);
    let after = |op: usize| {
        sum_ms += least(op);
        sum_ms
    };
    std::iter::once(0.0).chain((0..n_ops).map(after)).collect()
}

/// Nothing; prices at which operators begin to be recomputed: of all ways and operators, every so many-th;
/// and one at which a stage that cannot fit takes for ever.
fn prices(ways: &[Vec<Way>]) -> [f64; N_PRICES] {
    let mut all: Vec<f64> = Vec::new();
    for way in ways.iter().flatten() {
        let pairs = way.profiles.windows(2).zip(&way.kept_mib);
        let priced = pairs.filter(|(_, kept_mib)| **kept_mib > 0.0);
        all.extend(priced.map(|(pair, kept_mib)| (pair[0].forward_ms + pair[1].forward_ms) / kept_mib));
    }
    all.sort_by(f64::total_cmp);
    let at = |index: usize| all.get(index * all.len().saturating_sub(1) / (N_PRICES - 1)).copied();
    let mut prices = std::array::from_fn(|price| price.checked_sub(1).and_then(at).unwrap_or(0.0));
    prices[N_PRICES - 1] = PROHIBITIVE * all.last().copied().unwrap_or(1.0);
    prices
}

impl Stages for Mixed<'_> {
    fn n_units(&self) -> usize {
        self.base.n_units()
    }
    fn n_devices(&self) -> usize {
        self.base.n_devices()
    }
    fn groups(&self) -> &[usize] {
        self.base.groups()
    }
    fn max_stages(&self) -> usize {
        self.base.max_stages()
    }
    fn min_stages(&self) -> usize {
        self.base.min_stages()
    }
    fn is_allowed(&self, first_device: usize, n_devices: usize) -> bool {
        self.base.is_allowed(first_device, n_devices)
    }
    fn links(&self, first_device: usize, n_devices: usize) -> u8 {
        self.base.links(first_device, n_devices)
    }
    fn busy_before(&self, unit: usize) -> f64 {
        self.base.busy_before(unit)
    }
    fn kind(&self, unit: usize) -> usize {
        self.base.kind(unit)
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        let at = |kind: usize| self.base.setting.layers.example[kind];
        let machine = self.base.setting.machine;
        self.ways.iter().flatten().all(|way| ends_cheaper(machine, &way.profiles, at(a), at(b)))
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        self.base.scaled(self.bound_ms(&self.base.placed(span)))
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.refined(span, f64::INFINITY, 0)[1]
    }
    fn quick_ms(&self, span: &Span) -> f64 {
        let group = self.base.groups.iter().position(|&group| group == span.n_devices);
        let least = group.map(|at| self.least_ms[at][span.end] - self.least_ms[at][span.start]);
        self.base.scaled(least.unwrap_or(f64::INFINITY)) / ROUNDING
    }
    fn twin(&self, end: usize) -> Twin {
        self.base.twin(end)
    }
    fn is_coarse(&self, unit: usize) -> bool {
        self.base.is_coarse(unit)
    }
    fn is_swept(&self) -> bool {
        true
    }
    fn refined(&self, span: &Span, cap: f64, effort: usize) -> [f64; 2] {
        let (placed, scale) = (self.base.placed(span), self.base.scaled(1.0));
        let solved = self.solved(&placed, cap / scale, effort);
        let alike_ms = self.base.shared.ms(placed, Side::Upper, f64::INFINITY);
        let upper_ms = solved.way.map_or(alike_ms, |way| way.0.min(alike_ms));
        [solved.lower_ms * scale, upper_ms * scale]
    }
    fn work(&self) -> u64 {
        self.work.load(Relaxed)
    }
    fn rounds(&self) -> f64 {
        self.base.rounds()
    }
}
