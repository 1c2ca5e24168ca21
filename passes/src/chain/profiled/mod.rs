//! The chain problem of measured operators, under Aceso's cost of time and memory.
//!
//! A stage's devices are split into tensor- and data-parallel ones, alike for all its operators (`uniform`) or for each its own
//! way (`mixed`, which pays for what changes between them); which operators are recomputed is chosen by time per byte saved.

mod boxes;
mod fill;
mod layers;
pub mod mixed;
mod patterns;
mod range_max;
#[cfg(test)]
mod tests;
mod trace;
mod uniform;

use super::{Best, Effort, Solver, Span, Stages, search};
use layers::Layers;
use mixed::Mixed;
use patterns::{Candidate, Patterns, Use, patterns};
use phzc_cost::aceso::{Machine, PipelinePlan, StageChoice};
use phzc_cost::profile::OpProfile;
use rayon::prelude::*;
use std::sync::Arc;
use uniform::Uniform;

/// What plans to look among.
#[derive(Clone, Debug)]
pub struct Space {
    /// Devices in all.
    pub n_devices: usize,
    /// The most stages.
    pub max_stages: usize,
    /// The most devices of a stage.
    pub max_group: usize,
    /// The most devices that share a sample.
    pub max_tensor: u32,
    /// Samples of a microbatch that are tried.
    pub microbatches: Vec<u32>,
    /// Whether an operator may be split along another than its usual dimension; unless splits are mixed, along the fastest.
    pub is_free: bool,
    /// Whether operators of one stage may be split in different ways.
    pub is_mixed: bool,
}

/// The best plan of a space.
#[derive(Clone, Debug)]
pub struct Found {
    /// The plan; its cost is that of [`Machine::price`].
    pub plan: PipelinePlan,
    /// No plan of the space takes fewer milliseconds.
    pub bound_ms: f64,
    /// Whether the search was ended before all was looked at that the bound leaves open.
    pub is_cut_off: bool,
    /// Whether the plans were those that split each operator along its fastest dimension only.
    pub is_along_fastest: bool,
}

/// The fastest plan that fits, `None` where none was found.
pub fn best(machine: &Machine, space: &Space) -> Option<Found> {
    let problems: Vec<Problem> =
        space.microbatches.par_iter().map(|&microbatch| Problem::new(machine, space, microbatch)).collect();
    let problems: Vec<Problem> = problems.into_iter().filter(|problem| !problem.groups.is_empty()).collect();
    let solvers: Vec<Solver<Problem>> = problems.iter().map(Solver::new).collect();
    let effort = if space.is_mixed { mixed::UNIFORM_EFFORT } else { Effort::default() };
    let uniform = search(&solvers, None, effort);
    let plan = uniform.problem.map(|at| problems[at].plan(&uniform));
    if !space.is_mixed {
        return Some(Found {
            plan: plan?,
            bound_ms: uniform.bound,
            is_cut_off: uniform.is_cut_off,
            is_along_fastest: space.is_free,
        });
    }
    let mixed: Vec<Mixed> = problems.iter().map(Mixed::new).collect();
    let solvers: Vec<Solver<Mixed>> = mixed.iter().map(Solver::new).collect();
    let found = search(&solvers, Some(uniform.cost), mixed::EFFORT);
    let plan = found.problem.map(|at| mixed[at].plan(&found)).or(plan)?;
    Some(Found { plan, bound_ms: found.bound, is_cut_off: found.is_cut_off, is_along_fastest: false })
}

/// What all stages of one microbatch size share.
pub struct Setting<'a> {
    machine: &'a Machine,
    layers: Layers,
    microbatch: u32,
    is_free: bool,
}

impl Setting<'_> {
    /// What recomputing an operator costs and brings; the first and the last operator of the chain are not recomputed.
    fn candidate(&self, op: usize, profile: &OpProfile) -> Candidate {
        let chain = &self.machine.chain;
        Candidate {
            ms: profile.forward_ms,
            mib: profile.activation_mib * chain.kept[op],
            is_free: op > 0 && op + 1 < chain.len(),
        }
    }

    /// Milliseconds of a stage's transfers from the one before and to the one after.
    fn sends_ms(&self, span: &Span, input_mib: f64, output_mib: f64) -> f64 {
        let tables = &self.machine.tables;
        tables.send_ms(input_mib, span.links & FAR_BEFORE > 0)
            + tables.send_ms(output_mib, span.links & FAR_AFTER > 0)
    }
}

/// Bits of [`Span::links`]: the stage before, or the one after, is on another node.
const FAR_BEFORE: u8 = 1;
const FAR_AFTER: u8 = 2;

/// One microbatch size.
pub struct Problem<'a> {
    setting: Setting<'a>,
    n_devices: usize,
    max_stages: usize,
    max_tensor: u32,
    groups: Vec<usize>,
    /// Per group: its splits.
    splits: Vec<Vec<Uniform>>,
    busy: Vec<f64>,
}

impl<'a> Problem<'a> {
    fn new(machine: &'a Machine, space: &Space, microbatch: u32) -> Problem<'a> {
        let layers = Layers::new(&machine.chain);
        let setting = Setting { machine, layers, microbatch, is_free: space.is_free };
        let most = space.n_devices.min(space.max_group);
        let sizes = std::iter::successors(Some(1), |size| Some(size * 2)).take_while(|&size| size <= most);
        let split = |size: usize| {
            degrees(size, space.max_tensor).filter_map(|(t, d)| Uniform::new(&setting, t, d)).collect()
        };
        let all = sizes
            .map(|size| (size, split(size)))
            .filter(|(_, splits): &(usize, Vec<Uniform>)| !splits.is_empty());
        let (groups, splits): (Vec<usize>, Vec<Vec<Uniform>>) = all.unzip();
        let least =
            |op: usize| splits.iter().flatten().map(|split| split.busy(op)).fold(f64::INFINITY, f64::min);
        let mut busy = vec![0.0];
        (0..machine.chain.len()).for_each(|op| busy.push(busy[op] + least(op)));
        let (n_devices, max_stages, max_tensor) = (space.n_devices, space.max_stages, space.max_tensor);
        Problem { n_devices, max_stages, max_tensor, groups, splits, busy, setting }
    }

    fn splits(&self, n_devices: usize) -> &[Uniform] {
        let at = self.groups.iter().position(|&group| group == n_devices);
        at.map_or(&[], |at| &self.splits[at])
    }

    fn plan(&self, best: &Best) -> PipelinePlan {
        let stages = best.spans.iter().map(|span| self.stage(span)).collect();
        PipelinePlan { microbatch: self.setting.microbatch, stages }
    }

    /// A stage of a span that fits.
    fn stage(&self, span: &Span) -> StageChoice {
        let ms = |split: &&Uniform| split.upper_ms(&self.setting, span).0;
        let best = self.splits(span.n_devices).iter().min_by(|a, b| ms(a).total_cmp(&ms(b)));
        best.expect("a stage has a measured split").stage(&self.setting, span)
    }
}

/// Tensor- and data-parallel degrees that make up a number of devices, a power of two.
fn degrees(n_devices: usize, max_tensor: u32) -> impl Iterator<Item = (u32, u32)> {
    let n_devices = n_devices as u32;
    let tensor = std::iter::successors(Some(1), |tensor| Some(tensor * 2));
    tensor
        .take_while(move |&tensor| tensor <= n_devices.min(max_tensor))
        .map(move |tensor| (tensor, n_devices / tensor))
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
        self.max_stages
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
        self.busy[unit]
    }
    fn kind(&self, unit: usize) -> usize {
        self.setting.layers.kind[unit]
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        let at = |kind: usize| self.setting.layers.example[kind];
        self.splits
            .iter()
            .flatten()
            .all(|split| ends_cheaper(self.setting.machine, &split.profiles, at(a), at(b)))
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        let splits = self.splits(span.n_devices).iter();
        splits.fold(f64::INFINITY, |least, split| split.lower_ms(&self.setting, span, least))
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        let each = self.splits(span.n_devices).iter().map(|split| split.upper_ms(&self.setting, span).0);
        each.fold(f64::INFINITY, f64::min)
    }
    fn rounds(&self) -> f64 {
        self.setting.machine.n_microbatches(self.setting.microbatch) - 1.0
    }
}

/// Whether what crosses the cut before `a` is sent no slower than what crosses that before `b`, on any link, and no more is kept there.
fn ends_cheaper(machine: &Machine, profiles: &[OpProfile], a: usize, b: usize) -> bool {
    let mib = |op: usize| op.checked_sub(1).map_or(0.0, |last| profiles[last].output_mib);
    let ms = |op: usize, is_far: bool| machine.tables.send_ms(mib(op), is_far);
    // The last operator of a stage keeps its result whatever is recomputed.
    let kept = |op: usize| {
        op.checked_sub(1).map_or(0.0, |last| profiles[last].activation_mib * machine.chain.kept[last])
    };
    [false, true].iter().all(|&is_far| ms(a, is_far) <= ms(b, is_far)) && kept(a) <= kept(b)
}

/// How much a recomputed run may hold, and the patterns that this allows; the first is nothing.
struct Cap {
    mib: f64,
    /// Per class: the patterns of a plan under this cap; none under the first.
    full: Vec<Arc<Patterns>>,
    /// Per class: all that some run below the next cap allows.
    loose: Vec<Arc<Patterns>>,
}

/// The most caps that are told apart.
const MAX_CAPS: usize = 16;
/// Sums of runs that are looked at for them.
const MAX_SUMS: usize = 120;

impl Cap {
    /// The caps at which the hull of some class changes; of many, some.
    fn all(layers: &Layers, candidates: &[Candidate]) -> Vec<Cap> {
        let ops = |class: usize| {
            let layer = layers.first_of[class];
            &candidates[layers.starts[layer]..layers.starts[layer + 1]]
        };
        let under = |mib: f64, purpose: Use| -> Vec<Arc<Patterns>> {
            let of = |class: usize| Arc::new(patterns(ops(class), mib, layers.edges[class], purpose));
            (0..layers.n_classes()).map(of).collect()
        };
        let sums = run_sums((0..layers.n_classes()).map(ops));
        let mut raw: Vec<(f64, Vec<Arc<Patterns>>)> = Vec::new();
        for mib in spread(&sums, MAX_SUMS).into_iter().map(|at| sums[at]) {
            let full = under(mib, Use::Plan);
            if raw.last().is_none_or(|last| !have_equal_hulls(&last.1, &full)) {
                raw.push((mib, full));
            }
        }
        let all: Vec<f64> = raw.iter().map(|cap| cap.0).collect();
        let kept = spread(&all, MAX_CAPS);
        // What a run holds below a cap is at most the next smaller sum.
        let below = |mib: f64| sums[..sums.partition_point(|&sum| sum < mib)].last().copied().unwrap_or(0.0);
        let limit = |at: usize| kept.get(at).map_or(f64::INFINITY, |&raw| below(all[raw]));
        let mut caps = vec![Cap { mib: 0.0, full: Vec::new(), loose: under(limit(0), Use::Bound) }];
        caps.extend(kept.iter().enumerate().map(|(at, &own)| Cap {
            mib: all[own],
            full: raw[own].1.clone(),
            loose: under(limit(at + 1), Use::Bound),
        }));
        caps
    }
}

fn have_equal_hulls(a: &[Arc<Patterns>], b: &[Arc<Patterns>]) -> bool {
    let hull = |of: &Patterns| {
        of.hull.iter().map(|&at| (of.points[at].saved_mib, of.points[at].ms)).collect::<Vec<_>>()
    };
    a.iter().zip(b).all(|(a, b)| hull(a) == hull(b))
}

/// What the runs of some layers may hold, ascending.
fn run_sums<'c>(layers: impl Iterator<Item = &'c [Candidate]>) -> Vec<f64> {
    let mut sums = Vec::new();
    for ops in layers {
        for first in 0..ops.len() {
            let mut sum = 0.0;
            sums.extend(ops[first..].iter().map(|op| {
                sum += op.mib;
                sum
            }));
        }
    }
    sums.retain(|&mib| mib > 0.0);
    sums.sort_by(f64::total_cmp);
    sums.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
    sums
}

/// Positions of no more than `most` of some ascending numbers, evenly by value, the last one among them.
fn spread(numbers: &[f64], most: usize) -> Vec<usize> {
    let last = numbers.last().copied().unwrap_or(0.0);
    let below = |at: usize| numbers.partition_point(|&number| number <= last * at as f64 / most as f64);
    let mut kept: Vec<usize> = match numbers.len() <= most {
        true => (0..numbers.len()).collect(),
        false => (1..=most).filter_map(|at| below(at).checked_sub(1)).collect(),
    };
    kept.dedup();
    kept
}
