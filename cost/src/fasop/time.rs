//! What a stage takes, what it hands on, and the sums after the last microbatch.

use super::{Placement, Role, Variant};

/// Forward and backward are three times the forward time.
const PASSES: f64 = 3.0;
/// Bits of an activation, a gradient, a parameter.
const BITS: f64 = 16.0;
/// How much rates suffer: between nodes and inside one.
const BETWEEN_LOSS: f64 = 1.05;
const INSIDE_LOSS: f64 = 3.5;
/// Parameters of a layer beside its products: `12 h^2` and so many.
const LAYER_REST: f64 = 20_800.0;

/// Times of one placement, whatever its cut.
#[derive(Clone, Debug)]
pub struct Times {
    /// The kind of node whose times each stage has.
    pub kinds: Vec<usize>,
    /// Per kind of node: seconds of the first so many entries for one microbatch, forward and backward.
    prefix_secs: Vec<Vec<f64>>,
    /// Seconds of one microbatch over each boundary.
    pub boundary_secs: Vec<f64>,
    /// Seconds of the sum of the shared embedding's gradient.
    pub embedding_secs: f64,
}

impl Times {
    /// The times of a placement.
    pub fn of(placement: &Placement) -> Times {
        let degrees = placement.degrees;
        let power = degrees.tensor.trailing_zeros() as usize;
        let prefix = |times: &super::LayerTimes| {
            let mut sum = 0.0;
            let secs = times.forward_secs.iter().zip(&times.growth);
            let ends = secs.map(|(secs, growth)| {
                sum += PASSES * secs * growth.factor(degrees.micro_batch);
                sum
            });
            std::iter::once(0.0).chain(ends).collect()
        };
        let of_kind = |kind: &Vec<super::LayerTimes>| kind.get(power).map(prefix).unwrap_or_default();
        Times {
            kinds: (0..degrees.stages).map(|stage| placement.stage_kind(stage)).collect(),
            prefix_secs: placement.model.times.iter().map(of_kind).collect(),
            boundary_secs: (1..degrees.stages).map(|stage| placement.boundary_secs(stage - 1)).collect(),
            embedding_secs: placement.embedding_secs(),
        }
    }

    /// Seconds of one microbatch in each stage, forward and backward.
    pub fn stage_secs(&self, cut: &[usize]) -> Vec<f64> {
        let mut from = 0;
        let stages = cut.iter().zip(&self.kinds).map(|(n, kind)| {
            let (first, end) = (from, from + n);
            from = end;
            self.span_secs(*kind, first, end)
        });
        stages.collect()
    }

    /// Seconds of the entries from `first` to before `end` on a kind of node.
    pub fn span_secs(&self, kind: usize, first: usize, end: usize) -> f64 {
        self.prefix_secs[kind][end] - self.prefix_secs[kind][first]
    }
}

impl Placement<'_> {
    /// The kind of node whose times a stage has: the slowest, that is the last, of its nodes.
    fn stage_kind(&self, stage: usize) -> usize {
        let (n_nodes, stages) = (self.order.len() as f64, self.degrees.stages as f64);
        let at = |stage: usize| (n_nodes / stages * stage as f64).floor() as usize;
        if self.degrees.stages >= self.order.len() {
            let node = (stage as f64 / (stages / n_nodes)).floor() as usize;
            return self.order[node.min(self.order.len() - 1)];
        }
        let nodes = &self.order[at(stage)..at(stage + 1).max(at(stage) + 1)];
        nodes.iter().copied().max().unwrap_or(0)
    }

    /// The node of a rank: tensor ranks next to each other, then copies, then stages.
    pub(super) fn node(&self, tensor: usize, data: usize, stage: usize) -> usize {
        let degrees = self.degrees;
        let rank = tensor + degrees.tensor * (data + degrees.data * stage);
        rank / self.fleet.per_node
    }

    /// The rate between two nodes for a message of so many bytes, in bits per second; `None` inside one.
    fn between(&self, a: usize, b: usize, bytes: f64) -> Option<f64> {
        let kinds = [a, b].map(|node| &self.fleet.kinds[self.order[node]]);
        let [from, to] = kinds.map(|kind| kind.between_bits_per_sec.at(bytes));
        let link = self.fleet.zones.rate(kinds[0].zone, kinds[1].zone);
        (a != b).then(|| from.min(to).min(link.map_or(f64::INFINITY, |rate| rate.at(bytes))))
    }

    fn inside(&self, node: usize, bytes: f64) -> f64 {
        self.fleet.kinds[self.order[node]].inside_bits_per_sec.at(bytes)
    }

    /// Seconds of one microbatch from a stage to the next: over copies the slowest.
    fn boundary_secs(&self, stage: usize) -> f64 {
        let degrees = self.degrees;
        let bits = degrees.micro_batch as f64 * self.model.seq * self.model.hidden * BITS;
        let share = (degrees.data * degrees.tensor) as f64 * BETWEEN_LOSS;
        let pair = |data: usize, tensor: usize| {
            let (a, b) = (self.node(tensor, data, stage), self.node(tensor, data, stage + 1));
            let inside = || self.inside(a, bits / 8.0) / INSIDE_LOSS;
            self.between(a, b, bits / 8.0).map_or_else(inside, |rate| rate / share)
        };
        let rates = (0..degrees.data).flat_map(|data| (0..degrees.tensor).map(move |tensor| (data, tensor)));
        bits / rates.map(|(data, tensor)| pair(data, tensor)).fold(f64::INFINITY, f64::min)
    }

    /// The slowest rate along a ring of copies, which hand on so many bytes at a time.
    fn ring(&self, tensor: usize, stage: usize, bytes: f64) -> f64 {
        let n = self.degrees.data;
        let pair = |data: usize| {
            let (a, b) = (self.node(tensor, data, stage), self.node(tensor, (data + 1) % n, stage));
            self.between(a, b, bytes).unwrap_or_else(|| self.inside(a, bytes))
        };
        (0..n).map(pair).fold(f64::INFINITY, f64::min)
    }

    /// Parameters of a stage on one device, as the sum of gradients counts them.
    pub(super) fn sum_params(&self, cut: &[usize], stage: usize) -> f64 {
        let first: usize = cut[..stage].iter().sum();
        let own = &self.model.roles[first..first + cut[stage]];
        let (model, tensor) = (self.model, self.degrees.tensor as f64);
        let n_layers = own.iter().filter(|role| **role == Role::Layer).count() as f64;
        let has_table = own.iter().any(|role| *role != Role::Layer);
        let table = if has_table { model.hidden * model.vocab } else { 0.0 };
        let table = if self.variant == Variant::Strict { table / tensor } else { table };
        table + n_layers * (12.0 * model.hidden * model.hidden + LAYER_REST) / tensor
    }

    /// Whose parameters the sum of a stage's gradients counts: FASOP takes the first stage's for all.
    pub fn summed_stage(&self, stage: usize) -> usize {
        if self.variant == Variant::Strict { stage } else { 0 }
    }

    /// Seconds of the sum of a stage's gradients over the copies.
    pub fn sum_secs(&self, cut: &[usize], stage: usize) -> f64 {
        let degrees = self.degrees;
        let (n, tensor) = (degrees.data as f64, degrees.tensor);
        if degrees.data == 1 {
            return 0.0;
        }
        let params = self.sum_params(cut, self.summed_stage(stage));
        let bytes = params * BITS / 8.0 / n;
        let rate = match self.variant {
            Variant::Faithful => self.ring(tensor - 1, 0, bytes),
            Variant::Strict => {
                (0..tensor).map(|it| self.ring(it, stage, bytes)).fold(f64::INFINITY, f64::min)
            }
        };
        let kinds = &self.fleet.kinds;
        let is_slowest = kinds.last().is_some_and(|last| kinds[self.stage_kind(stage)].device == last.device);
        let shared = match () {
            () if tensor * degrees.data >= self.fleet.per_node => tensor as f64,
            () if tensor > 1 && is_slowest => self.fleet.per_node as f64 / n,
            () => 1.0,
        };
        2.0 * (n - 1.0) / n * params * BITS / (rate / shared)
    }

    /// Seconds of the sum of the shared embedding's gradient between the last copy's first and last stage.
    fn embedding_secs(&self) -> f64 {
        let degrees = self.degrees;
        if degrees.stages == 1 || !self.model.shares_embedding {
            return 0.0;
        }
        let bytes = self.model.hidden * self.model.vocab * BITS / 8.0 / degrees.tensor as f64;
        let pair = |tensor: usize| {
            let last = degrees.data - 1;
            let (a, b) = (self.node(tensor, last, 0), self.node(tensor, last, degrees.stages - 1));
            self.between(a, b, bytes).unwrap_or_else(|| self.inside(a, bytes))
        };
        let rate = (0..degrees.tensor).map(pair).fold(f64::INFINITY, f64::min);
        let shared = degrees.data.min(self.fleet.per_node) as f64;
        self.model.hidden * self.model.vocab * BITS / (rate / shared) / degrees.tensor as f64
    }
}
