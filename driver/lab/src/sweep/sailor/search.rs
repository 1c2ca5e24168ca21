//! The fastest plan of a request: for every microbatch and number of copies, stages from the last one on.
//!
//! Stages have any number of layers, each its own degree of tensor parallelism and kind of device; one of
//! them may have copies on two kinds, so that what is left of both is used. Of numbers of copies that give
//! as many microbatches, the smallest is enough. What none of them beats is known at a glance
//! (`glance_secs`); the ends of a plan are labels (`labels.rs`), at first a few per cell for a plan to
//! compare with.

use super::file::MAX_KINDS;
use super::labels::{Held, Label, Labels};
use super::sized::{Shape, Sized};
use phzc_cost::sailor::{Cost, Part, Plan, Request, Stage};
use rayon::prelude::*;

/// Labels that are kept per cell: at first, and to prove it.
const NARROW: usize = 16;
const WIDE: usize = 100;
/// So many numbers of copies are searched side by side.
const CHUNK: usize = 8;

/// The best plan, and what none beats.
pub(super) struct Found {
    pub plan: Option<(Plan, Cost)>,
    pub bound_secs: f64,
}

/// Copies of a pipeline.
pub(super) struct Case<'a> {
    pub sized: &'a Sized<'a>,
    pub copies: usize,
    pub n_microbatches: usize,
}

/// The fastest plan within so many dollars a step.
pub(super) fn best(request: &Request, max_usd: Option<f64>) -> Found {
    let mut sizes: Vec<usize> =
        request.kinds.iter().flat_map(|kind| kind.times.keys().map(|(size, _)| *size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sized: Vec<Sized> = sizes.iter().filter_map(|size| Sized::of(request, *size)).collect();
    let mut cases: Vec<Case> = sized.iter().flat_map(cases).collect();
    cases.sort_by(|a, b| a.glance_secs().total_cmp(&b.glance_secs()));
    let mut found = Found { plan: None, bound_secs: f64::INFINITY };
    for width in [NARROW, WIDE] {
        let mut open_secs = f64::INFINITY;
        for some in cases.chunks(CHUNK) {
            let known = secs_of(&found.plan);
            let wanted = some.par_iter().filter(|case| case.glance_secs() < known);
            let plans: Vec<_> = wanted.map(|case| case.best(known, width, max_usd)).collect();
            for (plan, open) in plans {
                if plan.as_ref().is_some_and(|(_, cost)| cost.step_secs < secs_of(&found.plan)) {
                    found.plan = plan;
                }
                open_secs = open_secs.min(open);
            }
        }
        found.bound_secs = open_secs.min(secs_of(&found.plan));
    }
    found
}

fn secs_of(plan: &Option<(Plan, Cost)>) -> f64 {
    plan.as_ref().map_or(f64::INFINITY, |(_, cost)| cost.step_secs)
}

/// The smallest numbers of copies that give each number of microbatches.
fn cases<'a>(sized: &'a Sized<'a>) -> Vec<Case<'a>> {
    let request = sized.request;
    let n_devices: usize = request.kinds.iter().map(|kind| kind.count).sum();
    let case = |copies| {
        let n_microbatches = request.n_microbatches(sized.micro_batch, copies);
        Case { sized, copies, n_microbatches }
    };
    let mut cases: Vec<Case> = (1..=n_devices).map(case).collect();
    cases.dedup_by_key(|case| case.n_microbatches);
    cases
}

impl Case<'_> {
    /// Seconds that no plan with these copies and microbatches beats.
    pub(super) fn glance_secs(&self) -> f64 {
        self.rest_secs([0; MAX_KINDS], self.sized.request.n_layers(), 0.0)
    }

    /// The same of the first so many layers, where a copy has used so many devices of each kind and some
    /// stage takes so many seconds already.
    ///
    /// With `u_k` the seconds for which a device of kind `k` is busy with the largest layer, a stage of `S`
    /// seconds on `t` of them does `S t / u_k` such layers at the most, and each layer is at least the least
    /// part of it that any kind takes. So all parts together are at most `S` times what is left of each
    /// kind, over its `u_k`.
    pub(super) fn rest_secs(&self, used: [usize; MAX_KINDS], n_layers: usize, longest: f64) -> f64 {
        let kinds = self.sized.request.kinds.iter().zip(used).zip(&self.sized.device_secs);
        let left = kinds.map(|((kind, used), secs)| {
            (kind.count as f64 / self.copies as f64 - used as f64).max(0.0) / secs
        });
        let rate = left.sum::<f64>();
        let whole = self.sized.least_secs[n_layers];
        let least = match n_layers {
            0 => 0.0,
            _ => (self.sized.parts[n_layers] / rate).max(whole / n_layers as f64),
        };
        (self.n_microbatches as f64 - 1.0) * longest.max(least) + whole
    }

    /// The best plan that is faster than the known one and within the dollars, and what none beats whose
    /// labels were not kept.
    fn best(&self, known: f64, width: usize, max_usd: Option<f64>) -> (Option<(Plan, Cost)>, f64) {
        let mut best = None;
        let mut limit = known;
        let mut see = |label: &Label, stages: &[Held]| {
            let Some(plan) = self.plan(label, stages) else { return limit };
            let Some(cost) = self.sized.request.cost(&plan) else { return limit };
            let is_paid = max_usd.is_none_or(|most| cost.usd <= most);
            if cost.fits && is_paid && cost.step_secs < limit {
                limit = cost.step_secs;
                best = Some((plan, cost));
            }
            limit
        };
        let open_secs = Labels::new(self, width).run(known, &mut see);
        (best, open_secs)
    }

    /// The plan with stages of so many layers and these shapes; the mixed one has as many copies as can be on
    /// the kind that is cheaper per copy.
    fn plan(&self, label: &Label, stages: &[Held]) -> Option<Plan> {
        let stage = |(n_layers, shape): &Held| {
            let parts = match &self.sized.shapes[*shape][..] {
                [[kind, tensor]] => vec![Part { kind: *kind, tensor: *tensor, copies: self.copies }],
                pair => self.parts([pair[0], pair[1]], label)?.to_vec(),
            };
            Some(Stage { n_layers: *n_layers, parts })
        };
        let stages = stages.iter().map(stage).collect::<Option<_>>()?;
        Some(Plan { micro_batch: self.sized.micro_batch, stages })
    }

    fn parts(&self, pair: [[usize; 2]; 2], label: &Label) -> Option<[Part; 2]> {
        let request = self.sized.request;
        let most = pair.map(|[kind, tensor]| self.left(label, kind) / tensor);
        let usd = pair.map(|[kind, tensor]| tensor as f64 * request.kinds[kind].usd_per_hour);
        let first = if usd[0] <= usd[1] {
            most[0].min(self.copies - 1)
        } else {
            self.copies.saturating_sub(most[1]).max(1)
        };
        let copies = [first, self.copies.checked_sub(first)?];
        let is_there = (0..2).all(|side| (1..=most[side]).contains(&copies[side]));
        let part = |side: usize| {
            let [kind, tensor] = pair[side];
            Part { kind, tensor, copies: copies[side] }
        };
        is_there.then(|| [part(0), part(1)])
    }

    /// Devices of a kind that a label's stages on one kind leave.
    fn left(&self, label: &Label, kind: usize) -> usize {
        self.sized.request.kinds[kind].count.saturating_sub(label.used[kind] * self.copies)
    }

    /// Whether there are as many devices as a label uses.
    pub(super) fn is_there(&self, label: &Label) -> bool {
        let kinds = self.sized.request.kinds.iter().zip(label.used);
        let is_within = kinds.into_iter().all(|(kind, used)| used * self.copies <= kind.count);
        let pair = label.mixed.map(|shape| &self.sized.shapes[shape]);
        let is_mixed = |pair: &Shape| self.copies > 1 && self.parts([pair[0], pair[1]], label).is_some();
        is_within && pair.is_none_or(is_mixed)
    }
}
