//! The cost model of Sailor's planner (Strati et al., SOSP 2025; its repository,
//! sailor_planner/cpp_src/planner_utils.cpp): measured layers, 1F1B in closed form, curves of links by
//! message size.
//!
//! With `c_i` the seconds of stage `i` for one microbatch on its slowest copy, `s_i` those of a message to
//! the next stage (zero behind the last), `B` microbatches per copy and `a_i` the sum of gradients, a step
//! takes `(B - 1) max_i (s_(i-1) + c_i + s_i) + sum c_i + 2 sum s_i + max a_i`; of one stage, `B c + a` and
//! the update. A device needs 24 bytes a parameter, the activations of as many microbatches as there are
//! stages from its own on, and 2 GB, 3 where tensor-parallel. Devices are not bound to nodes.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// Bytes of a number: 32 bits.
const BYTES: f64 = 4.0;
/// Bytes per parameter: weights, gradients, two moments, what is sent and what is copied.
const STATE_BYTES: f64 = 24.0;
/// Bytes that a process takes beside: alone, and with tensor-parallel others.
const PROCESS_BYTES: [f64; 2] = [2e9, 3e9];
/// Gradients are summed in buckets of so many bytes.
const BUCKET_BYTES: u64 = 500_000_000;

/// Rate of a link by the size of a message: `c0 + c1 x + c2 x^2` GB/s at `2^x` MB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// `c2`, `c1`, `c0`.
    pub coefficients: [f64; 3],
    /// Its peak, in bytes per second; only compared with other links'.
    pub peak_bytes_per_sec: f64,
}

impl Curve {
    /// Seconds of a message.
    pub fn secs(&self, bytes: f64) -> f64 {
        let [square, linear, constant] = self.coefficients;
        let power = (bytes / 1e6).log2();
        let rate = (square * power + linear) * power + constant;
        // Beyond what was measured a curve may fall below nothing: no message goes there.
        if rate > 0.0 { bytes / 1e9 / rate } else { f64::INFINITY }
    }
}

/// Measured layers of one device, with one microbatch and one degree of tensor parallelism.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTimes {
    /// Seconds of the first so many layers, forward and backward.
    pub prefix_secs: Vec<f64>,
    /// Seconds of the update of the layer that takes longest.
    pub update_secs: f64,
}

/// Sizes of a layer's shard, in numbers; activations are those of one sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerSize {
    /// Parameters.
    pub params: f64,
    /// Kept for the backward part.
    pub kept: f64,
    /// Handed on.
    pub handed_on: f64,
}

/// A kind of device.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// What a person calls it.
    pub device: String,
    /// Devices there are.
    pub count: usize,
    /// Bytes of one.
    pub memory_bytes: f64,
    /// Price of one.
    pub usd_per_hour: f64,
    /// By sequences of a microbatch and degree of tensor parallelism.
    pub times: BTreeMap<(usize, usize), LayerTimes>,
}

/// What is planned: a model, a batch, devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Sequences of a step.
    pub batch: usize,
    /// Kinds of devices.
    pub kinds: Vec<Kind>,
    /// By degree of tensor parallelism, each layer; degree 1 is there.
    pub sizes: BTreeMap<usize, Vec<LayerSize>>,
    /// By kind and degree of sender and receiver.
    pub links: BTreeMap<[usize; 4], Curve>,
}

/// Equal copies of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Their kind.
    pub kind: usize,
    /// Devices of a copy.
    pub tensor: usize,
    /// How many.
    pub copies: usize,
}

/// Consecutive layers and the copies of them, by kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Layers.
    pub n_layers: usize,
    /// Copies, kinds ascending; every stage has as many in all.
    pub parts: Vec<Part>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Sequences of a microbatch.
    pub micro_batch: usize,
    /// Stages in order.
    pub stages: Vec<Stage>,
}

/// What a plan takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Seconds of a step.
    pub step_secs: f64,
    /// Dollars of a step.
    pub usd: f64,
    /// Whether every device has the memory.
    pub fits: bool,
}

impl Request {
    /// Layers of the model.
    pub fn n_layers(&self) -> usize {
        self.sizes.get(&1).map_or(0, Vec::len)
    }

    /// Microbatches of a copy.
    pub fn n_microbatches(&self, micro_batch: usize, copies: usize) -> usize {
        self.batch.div_ceil(micro_batch * copies)
    }

    /// Seconds of the layers from `first` to before `end` for one microbatch; `None` where that was not
    /// measured.
    pub fn span_secs(
        &self,
        [kind, tensor]: [usize; 2],
        micro_batch: usize,
        [first, end]: [usize; 2],
    ) -> Option<f64> {
        let prefix = &self.kinds[kind].times.get(&(micro_batch, tensor))?.prefix_secs;
        Some(prefix.get(end)? - prefix.get(first)?)
    }

    /// Whether layers fit on a device as a stage behind which `n_behind` stages follow.
    pub fn fits(
        &self,
        [kind, tensor]: [usize; 2],
        micro_batch: usize,
        [first, end]: [usize; 2],
        n_behind: usize,
    ) -> bool {
        let Some(sizes) = self.sizes.get(&tensor) else { return false };
        let own = &sizes[first..end];
        let params: f64 = own.iter().map(|size| size.params).sum();
        let kept: f64 = own.iter().map(|size| size.kept).sum();
        let in_flight = BYTES * kept * micro_batch as f64 * (n_behind + 1) as f64;
        let process = PROCESS_BYTES[usize::from(tensor > 1)];
        STATE_BYTES * params + in_flight + process <= self.kinds[kind].memory_bytes
    }

    /// Seconds of the sum of a stage's gradients: all parameters of its layers in buckets, around a ring as
    /// fast as that of its slowest kind.
    pub fn summed_secs(&self, parts: &[Part], [first, end]: [usize; 2]) -> Option<f64> {
        let n_copies: usize = parts.iter().map(|part| part.copies).sum();
        if n_copies < 2 {
            return Some(0.0);
        }
        let rings = parts.iter().map(|part| {
            let [kind, tensor] = [part.kind, part.tensor];
            self.links.get(&[kind, tensor, kind, tensor])
        });
        let rings: Vec<&Curve> = rings.collect::<Option<_>>()?;
        let slowest =
            rings.into_iter().min_by(|a, b| a.peak_bytes_per_sec.total_cmp(&b.peak_bytes_per_sec))?;
        let params: f64 = self.sizes.get(&1)?[first..end].iter().map(|size| size.params).sum();
        let bytes = (BYTES * params) as u64;
        let bucket = |bytes: u64| {
            let share = (bytes as f64 / n_copies as f64).floor();
            if share > 0.0 { 2.0 * (n_copies as f64 - 1.0) * slowest.secs(share) } else { 0.0 }
        };
        Some((bytes / BUCKET_BYTES) as f64 * bucket(BUCKET_BYTES) + bucket(bytes % BUCKET_BYTES))
    }

    /// Seconds of a message from one stage to the next, whose last layer is before `end`: copies of the same
    /// number exchange it, the slowest pair counts.
    pub fn sent_secs(&self, from: &[Part], to: &[Part], micro_batch: usize, end: usize) -> Option<f64> {
        let bytes = BYTES * self.sizes.get(&1)?[end - 1].handed_on * micro_batch as f64;
        let pairs = pairs(from, to);
        let secs = pairs.iter().map(|[a, b]| {
            let link = self.links.get(&[a.kind, a.tensor, b.kind, b.tensor])?;
            Some(link.secs(bytes))
        });
        secs.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max))
    }

    /// What a plan takes; `None` where something that it has was not measured.
    pub fn cost(&self, plan: &Plan) -> Option<Cost> {
        let n_stages = plan.stages.len();
        let (mut first, mut fits) = (0, true);
        let (mut own, mut sent, mut summed) = (Vec::new(), Vec::new(), 0.0_f64);
        for (index, stage) in plan.stages.iter().enumerate() {
            let span = [first, first + stage.n_layers];
            first = span[1];
            let of = |part: &Part| self.span_secs([part.kind, part.tensor], plan.micro_batch, span);
            let secs = stage.parts.iter().map(of).collect::<Option<Vec<f64>>>()?;
            own.push(secs.into_iter().fold(0.0, f64::max));
            summed = summed.max(self.summed_secs(&stage.parts, span)?);
            if let Some(next) = plan.stages.get(index + 1) {
                sent.push(self.sent_secs(&stage.parts, &next.parts, plan.micro_batch, first)?);
            }
            let mut parts = stage.parts.iter().map(|part| [part.kind, part.tensor]);
            fits &= parts.all(|part| self.fits(part, plan.micro_batch, span, n_stages - 1 - index));
        }
        let copies = plan.stages.first()?.parts.iter().map(|part| part.copies).sum();
        let n_microbatches = self.n_microbatches(plan.micro_batch, copies);
        let update_secs = if n_stages == 1 { self.update_secs(plan)? } else { 0.0 };
        let step_secs = step_secs(&own, &sent, n_microbatches) + summed + update_secs;
        Some(Cost { step_secs, usd: step_secs * self.usd_per_sec(plan), fits })
    }

    /// Seconds of the update, of a plan of one stage.
    fn update_secs(&self, plan: &Plan) -> Option<f64> {
        let stage = plan.stages.first()?;
        let of = |part: &Part| {
            let times = self.kinds[part.kind].times.get(&(plan.micro_batch, part.tensor))?;
            Some(stage.n_layers as f64 * times.update_secs)
        };
        let all = stage.parts.iter().map(of).collect::<Option<Vec<f64>>>()?;
        Some(all.into_iter().fold(0.0, f64::max))
    }

    /// Dollars of a plan's devices per second.
    pub fn usd_per_sec(&self, plan: &Plan) -> f64 {
        let parts = plan.stages.iter().flat_map(|stage| &stage.parts);
        let per_hour = |part: &Part| (part.copies * part.tensor) as f64 * self.kinds[part.kind].usd_per_hour;
        parts.map(per_hour).sum::<f64>() / 3600.0
    }
}

/// Seconds of all microbatches through stages with their own seconds and those of the sends between.
pub fn step_secs(own: &[f64], sent: &[f64], n_microbatches: usize) -> f64 {
    let longest = own.iter().enumerate().map(|(stage, secs)| {
        let before = stage.checked_sub(1).map_or(0.0, |before| sent[before]);
        before + secs + sent.get(stage).copied().unwrap_or(0.0)
    });
    let longest = longest.fold(0.0, f64::max);
    (n_microbatches as f64 - 1.0) * longest + own.iter().sum::<f64>() + 2.0 * sent.iter().sum::<f64>()
}

/// The pairs of kinds of copies with the same number, each once.
fn pairs(from: &[Part], to: &[Part]) -> Vec<[Part; 2]> {
    let (mut pairs, mut place) = (Vec::new(), [0, 0]);
    let mut left = [from, to].map(|parts| parts.first().map_or(0, |part| part.copies));
    while let (Some(a), Some(b)) = (from.get(place[0]), to.get(place[1])) {
        pairs.push([*a, *b]);
        let n = left[0].min(left[1]);
        for (side, parts) in [from, to].into_iter().enumerate() {
            left[side] -= n;
            if left[side] == 0 {
                place[side] += 1;
                left[side] = parts.get(place[side]).map_or(0, |part| part.copies);
            }
        }
    }
    pairs
}
