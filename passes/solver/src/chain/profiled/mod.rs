//! The chain problem of measured operators, under Aceso's cost of time and memory.
//!
//! A stage's devices are split into tensor- and data-parallel ones, alike for all its operators (`uniform`)
//! or for each its own way (`mixed`, which pays for what changes between them); which operators are
//! recomputed is chosen by time per byte saved.

mod algos;
mod caps;
mod completion;
#[cfg(test)]
mod effort_tests;
mod exact;
mod fill;
mod interleave;
mod layers;
pub mod mixed;
#[cfg(test)]
mod own_tests;
mod patterns;
mod range_max;
mod space;
mod sweep;
#[cfg(test)]
mod tests;
mod uniform;

pub use space::{Degrees, Found, Limits, Space};

use super::memo::Memo;
use super::{Best, Effort, Part, ROUNDING, Side, Solver, Span, Stages, Stop, Twin, Within, ranked};
use caps::Cap;
use layers::{Layers, ends_cheaper};
use mixed::Mixed;
use patterns::{Candidate, Use};
use phzc_cost::aceso::{Machine, PipelinePlan, PlanSchedule, StageChoice, Step};
use phzc_cost::profile::OpProfile;
use rayon::prelude::*;
use std::cell::LazyCell;
use std::ops::{Deref, RangeInclusive};
use uniform::{Uniform, undominated};

/// The fastest plan that fits, `None` where none was found.
pub fn best(machine: &Machine, space: &Space) -> Option<Found> {
    let limits = Limits { n_best: 1, ..space.limits.clone() };
    top(machine, &Space { limits, ..space.clone() }).into_iter().next()
}

/// The fastest plans of unlike microbatch, schedule, number of stages or devices, the best first.
pub fn top(machine: &Machine, space: &Space) -> Vec<Found> {
    let n_best = space.limits.n_best.max(1);
    let shared = shared(machine, space);
    let found = ranked_plans(&problems(&shared, space), space, n_best);
    if machine.own.is_none() {
        return found;
    }
    let ideal_ms = shared.iter().map(Shared::ideal_ms).fold(f64::INFINITY, f64::min);
    let seed = interleave::seed(machine, space, &found);
    let mut found = interleave::by_price(machine, space, found, seed, ideal_ms);
    found.truncate(n_best);
    found
}

/// How many plans more are priced, with regrouping, where stages differ in their devices.
const MORE_TO_PRICE: usize = 3;

fn shared<'a>(machine: &'a Machine, space: &Space) -> Vec<Shared<'a>> {
    let kinds: Vec<(u32, bool)> = match machine.own.as_ref().is_some_and(|own| !own.tied.is_empty()) {
        true => space.microbatches.iter().flat_map(|&size| [(size, false), (size, true)]).collect(),
        false => space.microbatches.iter().map(|&size| (size, true)).collect(),
    };
    let shared: Vec<Shared> =
        kinds.par_iter().map(|&(size, is_pipeline)| Shared::new(machine, space, size, is_pipeline)).collect();
    shared.into_iter().filter(|shared| !shared.groups.is_empty()).collect()
}

fn problems<'a>(shared: &'a [Shared<'a>], space: &Space) -> Vec<Problem<'a>> {
    let mut problems: Vec<Problem> = Vec::new();
    for shared in shared {
        let step = &shared.setting.step;
        let is_alone = !step.is_pipeline;
        // Where one stage is a matter of its own, others have two at least.
        let has_other = shared.setting.machine.own.as_ref().is_some_and(|own| !own.tied.is_empty());
        for (schedule, stages) in space.schedules() {
            let least = if has_other && !is_alone { 2.max(*stages.start()) } else { *stages.start() };
            let most = if is_alone { 1.min(*stages.end()) } else { *stages.end() };
            let machine = shared.setting.machine;
            let fill = if machine.own.is_some() { machine.fill(schedule) } else { 1.0 };
            problems.extend((least <= most).then_some(Problem {
                shared,
                schedule,
                stages: least..=most,
                fill,
            }));
        }
    }
    problems
}

fn ranked_plans(problems: &[Problem], space: &Space, n_best: usize) -> Vec<Found> {
    let solvers: Vec<Solver<Problem>> = problems.iter().map(Solver::new).collect();
    let mixed: LazyCell<Vec<Mixed>, _> =
        LazyCell::new(|| problems.iter().map(|problem| Mixed::new(problem, !space.is_mixed)).collect());
    let mixed_solvers: LazyCell<Vec<Solver<Mixed>>, _> =
        LazyCell::new(|| mixed.iter().map(Solver::new).collect());
    let is_own = problems.first().is_some_and(|problem| problem.setting.machine.own.is_some());
    let are_enough = |found: &[(Best, PipelinePlan)]| {
        let stages = found.iter().map(|(_, plan)| &plan.stages);
        let is_priced_anew =
            is_own && stages.flat_map(|it| it.windows(2)).any(|pair| pair[0].n_devices != pair[1].n_devices);
        found.len() >= n_best + if is_priced_anew { MORE_TO_PRICE } else { 0 }
    };
    let found = ranked(problems.len(), are_enough, |parts: &[Part]| {
        // 1F1B first: what it takes closes most of the others at once.
        let is_first = |part: &Part| problems[part.problem].schedule == PlanSchedule::OneFOneB;
        let effort = space.limits.effort(Effort::default());
        let uniform = Within::best_in_turn(&solvers, parts, is_first, None, effort);
        let plan = uniform.problem.map(|at| problems[parts[at].problem].plan(&uniform));
        if mixed::is_needless(space, problems, &uniform) {
            return Some((uniform, plan?));
        }
        let effort = space.limits.effort(mixed::EFFORT);
        let mut found = Within::best_in_turn(&mixed_solvers, parts, is_first, Some(uniform.cost), effort);
        found.bound = found.bound.max(if space.is_mixed { 0.0 } else { uniform.bound });
        match found.problem {
            Some(at) => {
                let plan = mixed[parts[at].problem].plan(&found);
                Some((found, plan))
            }
            None => Some((Best { bound: found.bound, stop: found.stop, ..uniform }, plan?)),
        }
    });
    let found = found.into_iter().map(|(best, plan)| Found {
        plan,
        bound_ms: best.bound,
        is_limited: best.stop == Stop::Limit,
        is_alike: !space.is_mixed,
    });
    found.collect()
}

/// What all stages of one microbatch size share.
pub struct Setting<'a> {
    machine: &'a Machine,
    layers: Layers,
    microbatch: u32,
    step: Step,
    keeps_all: bool,
}

impl Setting<'_> {
    /// What recomputing an operator costs and brings.
    fn candidate(&self, op: usize, profile: &OpProfile) -> Candidate {
        let chain = &self.machine.chain;
        Candidate {
            ms: profile.forward_ms,
            mib: profile.activation_mib * chain.kept[op],
            is_free: self.is_free_to_recompute(op),
        }
    }

    /// Whether an operator may be recomputed; the first and the last one of the chain are not.
    fn is_free_to_recompute(&self, op: usize) -> bool {
        !self.keeps_all && op > 0 && op + 1 < self.machine.chain.len()
    }

    /// Milliseconds of a stage's transfers from the one before and to the one after.
    fn sends_ms(&self, span: &Span, first: &OpProfile, last: &OpProfile) -> f64 {
        let machine = self.machine;
        machine.send_before_ms(span.start, first.input_mib, span.links & FAR_BEFORE > 0)
            + machine.send_after_ms(span.end - 1, last.output_mib, span.links & FAR_AFTER > 0)
    }
}

/// Bits of [`Span::links`]: the stage before, or the one after, is on another node.
const FAR_BEFORE: u8 = 1;
const FAR_AFTER: u8 = 2;

/// One microbatch size.
pub struct Shared<'a> {
    setting: Setting<'a>,
    n_devices: usize,
    groups: Vec<usize>,
    /// Per group: how its devices can be used.
    degrees: Vec<Vec<Degrees>>,
    /// Per group: its splits, of plans.
    splits: Vec<Vec<Uniform>>,
    /// Per group: what no split of a plan is below.
    bounds: Vec<Vec<Uniform>>,
    busy: Vec<f64>,
    /// Per side: what stages take, whatever the schedule that has so many microbatches in flight there.
    memo: [Memo; 2],
}

impl<'a> Shared<'a> {
    fn new(machine: &'a Machine, space: &Space, microbatch: u32, is_pipeline: bool) -> Shared<'a> {
        let layers = Layers::of(machine);
        let step = Step { microbatch, n_devices: space.n_devices, is_pipeline };
        let setting = Setting { machine, layers, microbatch, step, keeps_all: space.limits.keeps_all };
        let (mut groups, mut degrees, mut splits, mut bounds) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for size in space.group_sizes() {
            let own = space.degrees(size);
            let measured = |purpose: Use| {
                let all = own.iter().filter_map(|&it| Uniform::new(&setting, it, purpose));
                undominated(all.collect())
            };
            let [plans, least] = [Use::Plan, Use::Bound].map(measured);
            if !plans.is_empty() {
                groups.push(size);
                degrees.push(own);
                splits.push(plans);
                bounds.push(least);
            }
        }
        let mut shared = Shared {
            n_devices: space.n_devices,
            groups,
            degrees,
            splits,
            bounds,
            busy: vec![0.0],
            setting,
            memo: Default::default(),
        };
        for op in 0..machine.chain.len() {
            let each = shared.bounds.iter().flatten().map(|split| split.busy(op));
            let least = each.fold(f64::INFINITY, f64::min);
            shared.busy.push(shared.busy[op] + least);
        }
        shared
    }

    /// Milliseconds of a step in which every device is always busy and nothing is recomputed.
    fn ideal_ms(&self) -> f64 {
        let busy = self.busy.last().copied().unwrap_or(0.0);
        busy * self.setting.machine.n_microbatches(self.setting.microbatch) / self.n_devices as f64
    }

    /// Milliseconds of a placed stage; infinite or as many where more than `cap_ms`.
    fn ms(&self, placed: Span, side: Side, cap_ms: f64) -> f64 {
        if self.setting.machine.own.is_none() {
            return self.made_ms(&placed, side, cap_ms);
        }
        let rows = self.memo[side as usize].rows(&placed, self.setting.layers.twin(placed.end));
        // Other schedules compare with other caps.
        rows.get_or(&placed, |twin| self.made_ms(twin, side, f64::INFINITY))
    }

    fn made_ms(&self, placed: &Span, side: Side, cap_ms: f64) -> f64 {
        let (splits, most_ms) = (self.splits(placed.n_devices, side).iter(), cap_ms.next_up());
        let ms = splits.fold(most_ms, |least, split| match side {
            Side::Lower => split.lower_ms(&self.setting, placed, least),
            // Recomputation only adds to it.
            Side::Upper if split.plain_ms(&self.setting, placed) >= least => least,
            Side::Upper => split.upper_ms(&self.setting, placed, least).0,
        });
        if ms < most_ms { ms } else { f64::INFINITY }
    }

    /// Milliseconds of a stage's operators alone, nothing recomputed, as if it fitted.
    fn operators_ms(&self, span: &Span) -> f64 {
        let splits = self.splits(span.n_devices, Side::Lower).iter();
        splits.map(|split| split.operators_ms(span)).fold(f64::INFINITY, f64::min)
    }

    fn splits(&self, n_devices: usize, side: Side) -> &[Uniform] {
        let at = self.groups.iter().position(|&group| group == n_devices);
        let splits = if side == Side::Lower { &self.bounds } else { &self.splits };
        at.map_or(&[], |at| &splits[at])
    }
}

/// One microbatch size under one schedule.
pub struct Problem<'a> {
    shared: &'a Shared<'a>,
    schedule: PlanSchedule,
    stages: RangeInclusive<usize>,
    /// The share of a stage's time that fills the pipeline; never nothing.
    fill: f64,
}

impl<'a> Deref for Problem<'a> {
    type Target = Shared<'a>;
    fn deref(&self) -> &Shared<'a> {
        self.shared
    }
}

impl Problem<'_> {
    fn plan(&self, best: &Best) -> PipelinePlan {
        self.plan_of(best.spans.iter().map(|span| self.stage(span)).collect())
    }

    fn plan_of(&self, stages: Vec<StageChoice>) -> PipelinePlan {
        PipelinePlan { microbatch: self.setting.microbatch, schedule: self.schedule, stages }
    }

    /// A stage of a span that fits.
    fn stage(&self, span: &Span) -> StageChoice {
        let placed = self.placed(span);
        let ms = |split: &&Uniform| split.upper_ms(&self.setting, &placed, f64::INFINITY).0;
        let best = self.splits(span.n_devices, Side::Upper).iter().min_by(|a, b| ms(a).total_cmp(&ms(b)));
        best.expect("a stage has a measured split").stage(&self.setting, &placed)
    }

    /// The span with the microbatches that the schedule has in flight there.
    fn placed(&self, span: &Span) -> Span {
        if self.setting.machine.own.is_none() {
            return *span;
        }
        let n_microbatches = self.setting.machine.n_microbatches(self.setting.microbatch) as usize;
        let in_flight = self.schedule.in_flight(span.in_flight, *self.stages.end(), n_microbatches);
        Span { in_flight, ..*span }
    }

    /// `(N - x) max t + x sum t`, what fills the pipeline, is the cost of `x t` with `(N - x) / x` rounds.
    fn scaled(&self, ms: f64) -> f64 {
        ms * self.fill
    }
}

impl Stages for Problem<'_> {
    fn n_units(&self) -> usize {
        self.setting.machine.chain.len()
    }
    fn n_devices(&self) -> usize {
        self.n_devices
    }
    fn groups(&self) -> &[usize] {
        &self.groups
    }
    fn max_stages(&self) -> usize {
        *self.stages.end()
    }
    fn min_stages(&self) -> usize {
        *self.stages.start()
    }
    fn is_allowed(&self, first_device: usize, n_devices: usize) -> bool {
        let per_node = self.setting.machine.devices_per_node;
        let last = first_device + n_devices - 1;
        let is_whole = first_device.is_multiple_of(per_node) && n_devices.is_multiple_of(per_node);
        is_whole || first_device / per_node == last / per_node
    }
    fn links(&self, first_device: usize, n_devices: usize) -> u8 {
        let is_far =
            |device: usize| device > 0 && device.is_multiple_of(self.setting.machine.devices_per_node);
        FAR_BEFORE * u8::from(is_far(first_device)) + FAR_AFTER * u8::from(is_far(first_device + n_devices))
    }
    fn busy_before(&self, unit: usize) -> f64 {
        self.scaled(self.busy[unit])
    }
    fn kind(&self, unit: usize) -> usize {
        self.setting.layers.kind[unit]
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        let at = |kind: usize| self.setting.layers.example[kind];
        let mut splits = self.splits.iter().chain(&self.bounds).flatten();
        splits.all(|split| ends_cheaper(self.setting.machine, &split.profiles, at(a), at(b)))
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        self.ms_within(span, Side::Lower, f64::INFINITY)
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.ms_within(span, Side::Upper, f64::INFINITY)
    }
    fn quick_ms(&self, span: &Span) -> f64 {
        self.scaled(self.shared.operators_ms(span)) / ROUNDING
    }
    fn ms_within(&self, span: &Span, side: Side, cap: f64) -> f64 {
        self.scaled(self.shared.ms(self.placed(span), side, cap / self.fill * ROUNDING))
    }
    fn is_coarse(&self, unit: usize) -> bool {
        let layers = &self.setting.layers;
        layers.starts[layers.layer_of[unit]] == unit
    }
    fn twin(&self, end: usize) -> Twin {
        self.setting.layers.twin(end)
    }
    fn rounds(&self) -> f64 {
        self.setting.machine.n_microbatches(self.setting.microbatch) / self.fill - 1.0
    }
}
