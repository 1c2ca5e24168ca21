//! Stages whose operators are split each its own way.
//!
//! A bound comes from `boxes.rs`. A way that fits is made in the boxes with the least bounds, between two neighbouring prices of
//! which one fits and one does not: the stages are spliced, and what is left of the memory is given to some operators in a row.

use super::super::memo::lock;
use super::super::{Best, Effort, Side, Span, Stages};
use super::boxes::{Bounded, Boxes, Price};
use super::trace::{Code, in_box};
use super::{Degrees, FAR_AFTER, FAR_BEFORE, Problem};
use indexmap::IndexMap;
use phzc_cost::aceso::{Machine, OpChoice, PipelinePlan, StageChoice, StageCost};
use phzc_cost::profile::OpProfile;
use rustc_hash::FxBuildHasher;
use std::sync::{Arc, Mutex};

/// How hard to look among mixed stages: their bounds are loose where a recomputed run holds much.
pub const EFFORT: Effort = Effort { max_plans: 16, tolerance: 3e-3 };
/// How hard to look among uniform ones before: what is found is only to be beaten.
pub const UNIFORM_EFFORT: Effort = Effort { max_plans: 4, tolerance: 1e-2 };
/// Prices of memory that are tried for every stage.
const N_PRICES: usize = 12;
/// How often the interval between two prices is halved for a stage that is part of a plan.
const N_HALVINGS: usize = 6;
/// How many operators in a row are given memory at once, and how often all are looked at.
const MAX_GIVEN: usize = 7;
const MAX_ROUNDS: usize = 4;
/// How often, and how far, a price is raised until a stage fits.
const MAX_RAISED: usize = 6;
const RAISE: f64 = 1.6;
/// Bounds above this part of what was found are not looked into.
const CLOSE: f64 = 0.998;

/// One split of all operators.
pub struct Way {
    /// The choice, nothing recomputed.
    pub choice: OpChoice,
    /// Per operator: what it takes.
    pub profiles: Vec<OpProfile>,
    /// Per operator: MiB that it keeps.
    pub kept_mib: Vec<f64>,
    /// Per operator: milliseconds of its transfers from the stage before and to the one after, near and far.
    pub sends_ms: Vec<[[f64; 2]; 2]>,
    /// Per way of the operator before: milliseconds of bringing an operator's input from there.
    pub moves_ms: Vec<Vec<f64>>,
}

/// One microbatch size.
pub struct Mixed<'a> {
    base: &'a Problem<'a>,
    /// Per group.
    ways: Vec<Vec<Way>>,
    /// Milliseconds per MiB of recomputing single operators: where choices change.
    prices: Vec<f64>,
    boxes: Mutex<IndexMap<Span, Arc<Mutex<Boxes>>, FxBuildHasher>>,
}

impl<'a> Mixed<'a> {
    /// All ways that were measured.
    pub fn new(base: &'a Problem<'a>) -> Mixed<'a> {
        let of = &base.setting;
        let (machine, microbatch) = (of.machine, of.microbatch);
        let way = |choice: OpChoice, rows: &[OpProfile]| {
            let adjusted = |(op, &row): (usize, &usize)| machine.adjusted(op, &rows[row], &choice, &of.step);
            let profiles: Vec<OpProfile> = machine.chain.rows.iter().enumerate().map(adjusted).collect();
            let kept_mib = profiles.iter().enumerate().map(|(op, it)| of.candidate(op, it).mib).collect();
            let sends = |(op, it): (usize, &OpProfile)| {
                let before = |is_far: bool| machine.send_before_ms(op, it.input_mib, is_far);
                let after = |is_far: bool| machine.send_after_ms(op, it.output_mib, is_far);
                [[before(false), before(true)], [after(false), after(true)]]
            };
            let sends_ms = profiles.iter().enumerate().map(sends).collect();
            Way { choice, profiles, kept_mib, sends_ms, moves_ms: Vec::new() }
        };
        let ways_of = |degrees: &Vec<Degrees>| {
            let splits = degrees.iter().filter(|it| microbatch % it.data == 0).flat_map(|it| {
                let rows = machine.tables.splits(microbatch / it.data, it.tensor);
                rows.filter(|(algo, _)| of.is_free || *algo == 0).map(|(algo, rows)| (it.choice(algo), rows))
            });
            with_moves(of.machine, splits.map(|(choice, rows)| way(choice, rows)).collect())
        };
        let ways: Vec<Vec<Way>> = base.degrees.iter().map(ways_of).collect();
        let prices = prices(&ways);
        Mixed { base, ways, prices, boxes: Mutex::default() }
    }

    pub(super) fn ways(&self, n_devices: usize) -> &[Way] {
        let at = self.base.groups.iter().position(|&group| group == n_devices);
        at.map_or(&[], |at| &self.ways[at])
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
    fn prices(&self, span: &Span) -> Vec<Price> {
        let price = |at: usize, is_by_weight: bool| {
            let ms_per_mib = at.checked_sub(1).map_or(0.0, |at| self.prices[at] / span.in_flight as f64);
            Price { ms_per_mib, is_by_weight }
        };
        let all = (0..=self.prices.len()).map(|at| price(at, false));
        all.chain((1..=self.prices.len()).step_by(4).map(|at| price(at, true))).collect()
    }

    /// The best boxes of a stage.
    fn boxed(&self, span: &Span) -> Vec<Bounded> {
        let key = Span { start: 0, ..*span };
        let make =
            || Arc::new(Mutex::new(Boxes::new(span.end, self.prices(span), self.ways(span.n_devices))));
        let boxes = lock(&self.boxes).entry(key).or_insert_with(make).clone();
        let mut boxes = lock(&boxes);
        boxes.reach(self, span);
        boxes.best[span.end - 1 - span.start].clone()
    }

    /// A stage's way that is faster than all with its operators split alike.
    fn faster(&self, span: &Span) -> Option<(f64, Vec<Code>)> {
        let placed = self.base.placed(span);
        self.fitted(&placed, self.base.shared.ms(placed, Side::Upper))
    }

    /// The best way that fits of those that the boxes lead to, if it is faster than `most_ms`.
    fn fitted(&self, span: &Span, most_ms: f64) -> Option<(f64, Vec<Code>)> {
        let boxes = self.boxed(span);
        let least = boxes.first()?;
        let mut pool: Vec<Vec<Code>> = Vec::new();
        let mut best = (most_ms, Vec::new());
        for bounded in &boxes {
            if bounded.lower_ms >= best.0 * CLOSE {
                break;
            }
            let Some((fast, slow)) = self.around(span, bounded) else { continue };
            let found = self.between(span, &fast, slow.clone());
            self.keep(span, found.1, &mut best);
            pool.push(slow);
        }
        pool.dedup();
        for other in &pool {
            if least.lower_ms < best.0 * CLOSE && !best.1.is_empty() && *other != best.1 {
                best = self.between(span, other, best.1);
            }
        }
        (!best.1.is_empty()).then_some(best)
    }

    /// Two ways of a box at neighbouring prices of which the second one fits; the first one may do so too.
    fn around(
        &self,
        span: &Span,
        &Bounded { row, ms_per_mib, .. }: &Bounded,
    ) -> Option<(Vec<Code>, Vec<Code>)> {
        let fits = |codes: &Vec<Code>| self.cost(span, codes).mib <= self.limit_mib();
        let at = |price: f64| in_box(self, span, row, price);
        let (mut low, mut fast) = (0.0, at(0.0)?);
        if fits(&fast) {
            return Some((fast.clone(), fast));
        }
        let mut high = if ms_per_mib > 0.0 { ms_per_mib } else { *self.prices.first()? };
        let mut slow = at(high)?;
        for _ in 0..MAX_RAISED {
            if fits(&slow) {
                break;
            }
            (low, high, fast) = (high, high * RAISE, slow);
            slow = at(high)?;
        }
        for _ in 0..if fits(&slow) { N_HALVINGS } else { 0 } {
            let middle = 0.5 * (low + high);
            let codes = at(middle)?;
            match fits(&codes) {
                true => (high, slow) = (middle, codes),
                false => (low, fast) = (middle, codes),
            }
        }
        fits(&slow).then_some((fast, slow))
    }

    /// Keeps a way that fits if it is the fastest.
    fn keep(&self, span: &Span, codes: Vec<Code>, best: &mut (f64, Vec<Code>)) {
        let cost = self.cost(span, &codes);
        if cost.mib <= self.limit_mib() && cost.ms < best.0 {
            *best = (cost.ms, codes);
        }
    }

    /// What a stage takes; [`phzc_cost::aceso::Machine::price`] says the same of a plan.
    fn cost(&self, span: &Span, codes: &[Code]) -> StageCost {
        let ways = self.ways(span.n_devices);
        let (mut ms, mut weight_mib, mut state_mib, mut kept_mib) = (0.0, 0.0, 0.0, 0.0);
        let (mut run_mib, mut peak_mib, mut reserved) = (0.0f64, 0.0f64, [0.0f64; 2]);
        for (at, &code) in codes.iter().enumerate() {
            let (op, way, is_recomputed) = (span.start + at, &ways[code / 2], code % 2 == 1);
            let profile = &way.profiles[op];
            ms += profile.both_ms() + if is_recomputed { profile.forward_ms } else { 0.0 };
            if at == 0 {
                ms += way.send_before_ms(op, span);
                kept_mib += profile.input_mib;
            } else {
                ms += way.moves_ms[codes[at - 1] / 2][op];
            }
            if at + 1 == codes.len() {
                ms += way.send_after_ms(op, span);
            } else {
                reserved[0] = reserved[0].max(profile.forward_reserved_mib);
                reserved[1] = reserved[1].max(profile.backward_reserved_mib);
            }
            (weight_mib, state_mib) = (weight_mib + profile.weight_mib, state_mib + profile.state_mib);
            let runs_on = is_recomputed && codes.get(at + 1).is_some_and(|next| next % 2 == 1);
            run_mib = if runs_on { run_mib + way.kept_mib[op] } else { 0.0 };
            peak_mib = peak_mib.max(run_mib);
            if !runs_on || self.ends_run(op + 1) {
                (kept_mib, run_mib) = (kept_mib + way.kept_mib[op], 0.0);
            }
        }
        let reserve_mib = (reserved[0] + reserved[1]).max(weight_mib);
        let mib = state_mib + kept_mib * span.in_flight as f64 + peak_mib + reserve_mib;
        StageCost { ms, mib }
    }

    /// The best of what lies between a stage that is too large and one that fits.
    fn between(&self, span: &Span, fast: &[Code], slow: Vec<Code>) -> (f64, Vec<Code>) {
        let mut best = (self.cost(span, &slow).ms, slow.clone());
        for at in 1..slow.len() {
            self.keep(span, [&fast[..at], &slow[at..]].concat(), &mut best);
            self.keep(span, [&slow[..at], &fast[at..]].concat(), &mut best);
        }
        for _ in 0..MAX_ROUNDS {
            let before = best.0;
            for first in 0..slow.len() {
                for end in first + 1..=(first + MAX_GIVEN).min(slow.len()) {
                    if best.1[first..end] != fast[first..end] {
                        let codes = [&best.1[..first], &fast[first..end], &best.1[end..]].concat();
                        self.keep(span, codes, &mut best);
                    }
                }
            }
            if best.0 == before {
                break;
            }
        }
        best
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

/// What the changes from each way to each other one take.
fn with_moves(machine: &Machine, mut ways: Vec<Way>) -> Vec<Way> {
    let choices: Vec<OpChoice> = ways.iter().map(|way| way.choice).collect();
    for way in &mut ways {
        let from = |from: &OpChoice| {
            let ms = |it: &OpProfile| machine.reshard_ms(from, &way.choice, it.input_mib);
            way.profiles.iter().map(ms).collect()
        };
        way.moves_ms = choices.iter().map(from).collect();
    }
    ways
}

/// Prices at which operators begin to be recomputed: of all ways and operators, every so many-th.
fn prices(ways: &[Vec<Way>]) -> Vec<f64> {
    let mut all: Vec<f64> = Vec::new();
    for way in ways.iter().flatten() {
        let pairs = way.profiles.windows(2).zip(&way.kept_mib);
        let priced = pairs.filter(|(_, kept_mib)| **kept_mib > 0.0);
        all.extend(priced.map(|(pair, kept_mib)| (pair[0].forward_ms + pair[1].forward_ms) / kept_mib));
    }
    all.sort_by(f64::total_cmp);
    let at = |index: usize| all.get(index * all.len().saturating_sub(1) / N_PRICES).copied();
    (0..N_PRICES).filter_map(at).collect()
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
        self.ways.iter().flatten().all(|way| super::ends_cheaper(machine, &way.profiles, at(a), at(b)))
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        let boxes = self.boxed(&self.base.placed(span));
        boxes.first().map_or(f64::INFINITY, |bounded| self.base.scaled(bounded.lower_ms))
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.faster(span).map_or_else(|| self.base.upper_ms(span), |found| self.base.scaled(found.0))
    }
    fn is_swept(&self) -> bool {
        true
    }
    fn rounds(&self) -> f64 {
        self.base.rounds()
    }
}
