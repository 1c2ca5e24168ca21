//! The fastest plan of a request: for every microbatch and number of copies, stages from the last one on.
//!
//! Stages have any number of layers, each its own degree of tensor parallelism and kind of device; one of
//! them may have copies on two kinds, so that what is left of both is used. Of numbers of copies that give
//! as many microbatches, the smallest is enough. What none of them beats is known at a glance
//! (`glance_secs`); the ends of a plan are labels (`labels.rs`), at first a few per cell for a plan to compare
//! with.

use super::file::MAX_KINDS;
use super::labels::{Label, Labels};
use phzc_cost::sailor::{Cost, Curve, Part, Plan, Request, Stage};
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

/// Kinds and degrees of a stage's copies: one, or two of unlike kinds.
pub(super) type Shape = Vec<[usize; 2]>;

/// What all plans with one size of microbatch have in common.
pub(super) struct Sized<'a> {
    pub request: &'a Request,
    pub micro_batch: usize,
    /// Those of one kind first.
    pub shapes: Vec<Shape>,
    /// Per layer: the least seconds of any shape, summed up from the first on.
    pub least_secs: Vec<f64>,
    /// Per kind: seconds for which one device is busy with the largest layer, at the best degree.
    device_secs: Vec<f64>,
    /// Per layer: the least part of that which any kind takes for it, summed up from the first on.
    parts: Vec<f64>,
    /// Per shape: the slowest ring.
    pub rings: Vec<Curve>,
    /// Parameters of the first so many layers, whole.
    pub params: Vec<f64>,
    /// By shape, first layer and end: seconds, and how many stages may follow at the most.
    spans: Vec<(f64, Option<usize>)>,
    /// By shapes and end: seconds of a message.
    sent: Vec<f64>,
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

impl<'a> Sized<'a> {
    /// `None` where nothing was measured with it.
    fn of(request: &'a Request, micro_batch: usize) -> Option<Sized<'a>> {
        let n_layers = request.n_layers();
        let is_known = |[kind, tensor]: &[usize; 2]| {
            request.sizes.contains_key(tensor)
                && request.links.contains_key(&[*kind, *tensor, *kind, *tensor])
        };
        let of_kind = |kind: usize| {
            let sizes = request.kinds[kind].times.keys().filter(|(size, _)| *size == micro_batch);
            sizes.map(move |(_, tensor)| [kind, *tensor]).filter(is_known).collect::<Vec<_>>()
        };
        let pure: Vec<[usize; 2]> = (0..request.kinds.len()).flat_map(of_kind).collect();
        let pairs = pure.iter().flat_map(|a| pure.iter().map(move |b| vec![*a, *b]));
        let mixed = pairs.filter(|pair| pair[0][0] < pair[1][0]);
        let shapes: Vec<Shape> = pure.iter().map(|one| vec![*one]).chain(mixed).collect();
        let secs = |of: [usize; 2], layer: usize| {
            request.span_secs(of, micro_batch, [layer, layer + 1]).unwrap_or(f64::INFINITY)
        };
        let least = |layer: usize| pure.iter().map(|of| secs(*of, layer)).fold(f64::INFINITY, f64::min);
        let busy = |kind: usize, layer: usize| {
            let own = pure.iter().filter(|of| of[0] == kind);
            own.map(|of| secs(*of, layer) * of[1] as f64).fold(f64::INFINITY, f64::min)
        };
        let largest = (0..n_layers).max_by(|a, b| least(*a).total_cmp(&least(*b)))?;
        let device_secs: Vec<f64> = (0..request.kinds.len()).map(|kind| busy(kind, largest)).collect();
        let part = |layer: usize| {
            let kinds = device_secs.iter().enumerate().filter(|(_, secs)| secs.is_finite());
            kinds.map(|(kind, secs)| busy(kind, layer) / secs).fold(f64::INFINITY, f64::min)
        };
        let (least_secs, parts) = (summed((0..n_layers).map(least)), summed((0..n_layers).map(part)));
        let rings = shapes.iter().map(|shape| ring(request, shape)).collect::<Option<_>>()?;
        let params = summed(request.sizes[&1].iter().map(|size| size.params));
        let (spans, sent) = (Vec::new(), Vec::new());
        let mut sized = Sized {
            request,
            micro_batch,
            shapes,
            least_secs,
            device_secs,
            parts,
            rings,
            params,
            spans,
            sent,
        };
        sized.tabulate();
        (!pure.is_empty()).then_some(sized)
    }

    /// Fills the tables.
    fn tabulate(&mut self) {
        let (n_layers, n_shapes) = (self.request.n_layers(), self.shapes.len());
        for shape in 0..n_shapes {
            for first in 0..n_layers {
                let own = |end| (self.span_secs(shape, [first, end]), self.most_behind(shape, [first, end]));
                let row: Vec<(f64, Option<usize>)> =
                    (0..=n_layers).map(|end| if end > first { own(end) } else { (0.0, None) }).collect();
                self.spans.extend(row);
            }
        }
        let pairs = (0..n_shapes).flat_map(|from| (0..n_shapes).map(move |to| (from, to)));
        let each = pairs.flat_map(|(from, to)| (0..=n_layers).map(move |end| (from, to, end)));
        let secs = each.map(|(from, to, end)| if end > 0 { self.message_secs(from, to, end) } else { 0.0 });
        self.sent = secs.collect();
    }

    /// The most stages that may follow one that has layers on a shape; `None` where it does not fit at all.
    fn most_behind(&self, shape: usize, span: [usize; 2]) -> Option<usize> {
        let fits = |n_behind: usize| {
            let mut own = self.shapes[shape].iter();
            own.all(|one| self.request.fits(*one, self.micro_batch, span, n_behind))
        };
        (0..self.request.n_layers()).take_while(|n_behind| fits(*n_behind)).last()
    }

    fn span(&self, shape: usize, [first, end]: [usize; 2]) -> (f64, Option<usize>) {
        let n_layers = self.request.n_layers();
        self.spans[(shape * n_layers + first) * (n_layers + 1) + end]
    }

    /// Seconds of layers on a shape for one microbatch: its slowest copy counts.
    pub(super) fn secs(&self, shape: usize, span: [usize; 2]) -> f64 {
        self.span(shape, span).0
    }

    /// Whether layers fit on all of a shape's copies.
    pub(super) fn fits(&self, shape: usize, span: [usize; 2], n_behind: usize) -> bool {
        self.span(shape, span).1.is_some_and(|most| n_behind <= most)
    }

    /// Seconds of a message between stages of two shapes, whichever copies exchange it.
    pub(super) fn sent_secs(&self, from: usize, to: usize, end: usize) -> f64 {
        self.sent[(from * self.shapes.len() + to) * (self.request.n_layers() + 1) + end]
    }

    fn span_secs(&self, shape: usize, span: [usize; 2]) -> f64 {
        let of = |one: &[usize; 2]| self.request.span_secs(*one, self.micro_batch, span);
        self.shapes[shape].iter().map(|one| of(one).unwrap_or(f64::INFINITY)).fold(0.0, f64::max)
    }

    fn message_secs(&self, from: usize, to: usize, end: usize) -> f64 {
        let bytes = 4.0 * self.request.sizes[&1][end - 1].handed_on * self.micro_batch as f64;
        let pairs = self.shapes[from].iter().flat_map(|a| self.shapes[to].iter().map(move |b| [*a, *b]));
        let secs = pairs.map(|[a, b]| {
            let link = self.request.links.get(&[a[0], a[1], b[0], b[1]]);
            link.map_or(f64::INFINITY, |link| link.secs(bytes))
        });
        secs.fold(0.0, f64::max)
    }
}

/// Sums of the first so many, none at first.
fn summed(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sums = vec![0.0];
    values.for_each(|value| sums.push(sums[sums.len() - 1] + value));
    sums
}

fn ring(request: &Request, shape: &Shape) -> Option<Curve> {
    let rings =
        shape.iter().map(|[kind, tensor]| request.links.get(&[*kind, *tensor, *kind, *tensor]).copied());
    let rings: Vec<Curve> = rings.collect::<Option<_>>()?;
    rings.into_iter().min_by(|a, b| a.peak_bytes_per_sec.total_cmp(&b.peak_bytes_per_sec))
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
        let mut see = |label: &Label, stages: Vec<(usize, usize)>| {
            let Some(plan) = self.plan(label, &stages) else { return limit };
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
    fn plan(&self, label: &Label, stages: &[(usize, usize)]) -> Option<Plan> {
        let stage = |(n_layers, shape): &(usize, usize)| {
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
