//! The prices of operators, and the terms that a step's time is reported in.

use super::job::{Job, Recompute};
use super::layer::{Group, Operator, Work};
use crate::gemm::{UNALIGNED, UNALIGNED_HEAD, dtype_bytes};
use crate::{AxisGroup, Cluster, Collective, Gemm, Role};

/// Seconds of one step by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Matrix products.
    pub product_secs: f64,
    /// Fused attention.
    pub attention_secs: f64,
    /// Memory traffic of all other kernels.
    pub stream_secs: f64,
    /// Collectives of tensor, context and expert parallelism that nothing hides.
    pub layer_collective_secs: f64,
    /// Collectives of data parallelism that nothing hides.
    pub data_secs: f64,
    /// Waiting for other stages, sends.
    pub pipeline_secs: f64,
    /// The optimizer.
    pub update_secs: f64,
    /// Waiting for the host to issue operators.
    pub host_secs: f64,
}

impl Terms {
    /// Names and seconds, in the order of the fields.
    pub fn named(&self) -> [(&'static str, f64); 8] {
        [
            ("products", self.product_secs),
            ("attention", self.attention_secs),
            ("memory traffic", self.stream_secs),
            ("layer collectives", self.layer_collective_secs),
            ("data collectives", self.data_secs),
            ("pipeline", self.pipeline_secs),
            ("update", self.update_secs),
            ("host", self.host_secs),
        ]
    }

    /// The sum of all.
    pub fn sum_secs(&self) -> f64 {
        self.named().iter().map(|(_, secs)| secs).sum()
    }

    /// A part of the way from these terms to others.
    pub(super) fn between(&self, other: &Terms, part: f64) -> Terms {
        let mut made = Terms::default();
        made.add(self, 1.0 - part);
        made.add(other, part);
        made
    }

    /// These terms `times` over, added.
    pub(super) fn add(&mut self, other: &Terms, times: f64) {
        self.product_secs += times * other.product_secs;
        self.attention_secs += times * other.attention_secs;
        self.stream_secs += times * other.stream_secs;
        self.layer_collective_secs += times * other.layer_collective_secs;
        self.data_secs += times * other.data_secs;
        self.pipeline_secs += times * other.pipeline_secs;
        self.update_secs += times * other.update_secs;
        self.host_secs += times * other.host_secs;
    }
}

/// Prices of one job's operators on one cluster.
pub(super) struct Pricer<'a> {
    pub job: &'a Job,
    pub cluster: &'a Cluster,
}

impl Pricer<'_> {
    /// Forward and backward terms of a list of operators, recomputation in the backward ones.
    pub fn terms(&self, operators: &[Operator], recompute: Recompute) -> [Terms; 2] {
        let mut both = [Terms::default(); 2];
        for operator in operators {
            let [forward, backward] = self.operator_terms(operator);
            both[0].add(&forward, 1.0);
            both[1].add(&backward, 1.0);
            both[1].add(&forward, self.repeats(operator, recompute));
        }
        both[1].layer_collective_secs -= self.beside_gradients_secs(operators);
        both
    }

    /// Seconds of backward collectives that the gradient of the weight behind them hides. Where the sequence
    /// is shared, the input of that gradient is gathered once more, beside the gradient of the input: it was
    /// kept in shares.
    pub(super) fn beside_gradients_secs(&self, operators: &[Operator]) -> f64 {
        let stack = &self.job.stack;
        if !stack.overlaps_gradients || stack.overlaps_tensor || self.job.model.is_frozen() {
            return 0.0;
        }
        let pairs = operators.windows(2).filter_map(|pair| match (pair[0].work, pair[1].work) {
            (Work::Collect(Group::Tensor, [_, Some((kind, bytes))]), Work::Linear(gemm)) => {
                Some((kind, bytes, gemm))
            }
            _ => None,
        });
        let hidden = pairs.map(|(kind, bytes, gemm)| {
            let device = &self.cluster.accelerator;
            let moved_secs = self.exposed_secs(Group::Tensor, kind, bytes);
            let input_secs = device.gemm_secs(&input_gradient(&gemm), stack.product_dtype, Role::Write);
            let weight_secs =
                device.gemm_secs(&weight_gradient(&gemm), stack.product_dtype, Role::Accumulate);
            let beside =
                |secs: f64| self.cluster.beside_secs(secs, moved_secs, bytes).min(secs + moved_secs) - secs;
            let again_secs = if kind == Collective::ReduceScatter { beside(input_secs) } else { 0.0 };
            moved_secs - beside(weight_secs) - again_secs
        });
        hidden.sum()
    }

    /// How often the backward part runs an operator's forward part again.
    pub(super) fn repeats(&self, operator: &Operator, recompute: Recompute) -> f64 {
        match recompute {
            Recompute::Nothing => 0.0,
            Recompute::Attention => f64::from(u8::from(operator.is_core && !self.job.stack.fuses_attention)),
            // The products that are not kept, every other one, and most of what lies between.
            Recompute::Products => 0.5,
            Recompute::Light { .. } => 0.0,
            Recompute::Layers(part) => part,
        }
    }

    fn operator_terms(&self, operator: &Operator) -> [Terms; 2] {
        let device = &self.cluster.accelerator;
        let none = Terms::default();
        let stack = &self.job.stack;
        match operator.work {
            Work::Linear(gemm) => self.linear_terms(&gemm, stack.product_dtype, self.job.model.is_frozen()),
            Work::Converted(gemm) => {
                let terms = self.linear_terms(&gemm, stack.product_dtype, self.job.model.is_frozen());
                terms.map(|terms| Terms { stream_secs: 0.0, ..terms })
            }
            Work::WideLinear(gemm) => {
                self.linear_terms(&gemm, matrix_dtype(stack.dtype), self.job.model.is_frozen())
            }
            Work::Adapter(gemm) => self.linear_terms(&gemm, matrix_dtype(stack.dtype), false),
            Work::Product(gemm) => {
                let is_slow = !device.is_aligned(gemm.k) || !device.is_aligned(gemm.n);
                let slowed = if is_slow { UNALIGNED_HEAD } else { 1.0 };
                let [forward, left, right] = [gemm, input_gradient(&gemm), weight_gradient(&gemm)]
                    .map(|one| slowed * device.gemm_secs(&one, matrix_dtype(stack.dtype), Role::Write));
                [Terms { product_secs: forward, ..none }, Terms { product_secs: left + right, ..none }]
            }
            Work::Attention(attention) => [
                Terms { attention_secs: device.attention_secs(&attention), ..none },
                Terms { attention_secs: device.attention_backward_secs(&attention), ..none },
            ],
            Work::Stream(forward, backward) => [forward, backward].map(|bytes| Terms {
                stream_secs: stack.n_passes * (device.launch_secs + device.memory_secs(bytes)),
                ..none
            }),
            Work::Collect(group, works) => works.map(|work| {
                let secs = work.map_or(0.0, |(kind, bytes)| self.exposed_secs(group, kind, bytes));
                Terms { layer_collective_secs: secs, ..none }
            }),
        }
    }

    /// A product with a weight, and its two gradients (one if it is frozen); narrower operands are converted
    /// first.
    fn linear_terms(&self, gemm: &Gemm, dtype: &str, is_frozen: bool) -> [Terms; 2] {
        let device = &self.cluster.accelerator;
        let is_narrow = dtype_bytes(dtype) < dtype_bytes(self.job.stack.dtype);
        // Read wide, written narrow: as it is, and transposed for the gradient of the weight.
        let bytes = if is_frozen { 3.0 } else { 4.0 };
        let converted = |elements: f64| {
            if is_narrow { device.launch_secs + device.memory_secs(bytes * elements) } else { 0.0 }
        };
        let forward = Terms {
            product_secs: self.product_secs(gemm, dtype, Role::Write),
            stream_secs: converted(gemm.batch * gemm.m * gemm.k),
            ..Terms::default()
        };
        let stack = &self.job.stack;
        let role = if stack.fuses_accumulation { Role::Accumulate } else { Role::Write };
        let slowed = if device.is_aligned(gemm.n) { 1.0 } else { UNALIGNED };
        let input_secs = slowed * self.product_secs(&input_gradient(gemm), dtype, Role::Write);
        let stream_secs = converted(gemm.batch * gemm.m * gemm.n);
        if is_frozen {
            return [forward, Terms { product_secs: input_secs, stream_secs, ..Terms::default() }];
        }
        let product_secs = input_secs + slowed * self.product_secs(&weight_gradient(gemm), dtype, role);
        // Read, added to what is there, written.
        let summed = (2.0 + 2.0 * stack.gradient_bytes) * gemm.batch * gemm.n * gemm.k;
        let sum_secs =
            if stack.fuses_accumulation { 0.0 } else { device.launch_secs + device.memory_secs(summed) };
        [forward, Terms { product_secs, stream_secs: stream_secs + sum_secs, ..Terms::default() }]
    }

    /// Seconds of a product with a weight; of experts one after the other, each with waves of its own, unless
    /// one kernel has them all. (op_efficiency_simumax.csv, 108 grouped products on B200: 2 % too short in
    /// the mean, and 30 % if all shared their waves.)
    fn product_secs(&self, gemm: &Gemm, dtype: &str, role: Role) -> f64 {
        let device = &self.cluster.accelerator;
        if self.job.stack.fuses_experts {
            return device.gemm_secs(gemm, dtype, role);
        }
        gemm.batch * device.gemm_secs(&Gemm { batch: 1.0, ..*gemm }, dtype, role)
    }

    /// What of a collective inside a layer nothing hides.
    pub(super) fn exposed_secs(&self, group: Group, kind: Collective, bytes: f64) -> f64 {
        let secs = match group {
            Group::Expert if self.job.stack.sends_once => self.sent_once_secs(bytes),
            _ => self.cluster.collective_over_secs(kind, bytes, &[self.group(group)]),
        };
        let size = self.group(group).size as f64;
        // In pieces, one per device: all but one run beside a product or an attention on another piece, and
        // slow it.
        let is_hidden = group == Group::Context || group == Group::Tensor && self.job.stack.overlaps_tensor;
        if is_hidden { secs / size + self.cluster.beside_secs(secs, secs, bytes) - secs } else { secs }
    }

    /// Seconds of an exchange of all copies of the tokens, where a token goes once to each node that has
    /// experts for it and from there to the devices (DeepEP, HybridEP): both at once, the longer counts.
    fn sent_once_secs(&self, bytes: f64) -> f64 {
        let AxisGroup { size, stride } = self.group(Group::Expert);
        let inside = (self.cluster.per_node() / stride).clamp(1, size);
        let n_nodes = size.div_ceil(inside);
        let exchange_secs = |n_visited: usize, group: AxisGroup| {
            let part = visited(n_visited, self.job.model.top_k) / self.job.model.top_k;
            self.cluster.collective_over_secs(Collective::AllToAll, part * bytes, &[group])
        };
        let across_secs = exchange_secs(n_nodes, AxisGroup { size: n_nodes, stride: stride * inside });
        across_secs.max(exchange_secs(size, AxisGroup { size: inside, stride }))
    }

    pub(super) fn group(&self, group: Group) -> AxisGroup {
        let layout = &self.job.layout;
        match group {
            Group::Tensor => AxisGroup { size: layout.tensor, stride: 1 },
            Group::Context => AxisGroup { size: layout.context, stride: layout.tensor },
            Group::Expert => AxisGroup { size: layout.expert, stride: layout.tensor * layout.context },
        }
    }

    /// The groups that hold copies of the same parameters, of those that all copies of the model hold and of
    /// experts: data and context ranks, after the tensor ranks and, for experts, those that share them.
    pub fn data_groups(&self) -> [AxisGroup; 2] {
        let layout = &self.job.layout;
        let copies = layout.data * layout.context;
        [
            AxisGroup { size: copies, stride: layout.tensor },
            AxisGroup { size: (copies / layout.expert).max(1), stride: layout.tensor * layout.expert },
        ]
    }

    /// Seconds of a collective over each of these groups, one after the other, with the bytes of each.
    pub fn data_secs(&self, kind: Collective, bytes: [f64; 2]) -> f64 {
        let secs = self.data_groups().into_iter().zip(bytes);
        secs.map(|(group, bytes)| self.cluster.collective_over_secs(kind, bytes, &[group])).sum()
    }

    /// Fraction of the network's rate that sums of gradients reach: the software's between nodes, all of it
    /// inside one.
    pub fn data_efficiency(&self) -> f64 {
        let group = self.data_groups()[0];
        let is_inside = group.size * group.stride <= self.cluster.per_node();
        if is_inside { 1.0 } else { self.job.stack.data_efficiency }
    }

    /// Seconds that the host takes to issue the forward and backward part of a list of operators,
    /// recomputation in the backward one: each one kernel forward and two backward, a collective one each
    /// way, experts one by one.
    pub fn issue_secs(&self, operators: &[Operator], recompute: Recompute) -> [f64; 2] {
        let mut both = [0.0; 2];
        for operator in operators {
            let [forward, backward] = issued(operator);
            both[0] += forward;
            both[1] += backward + self.repeats(operator, recompute) * forward;
        }
        both.map(|count| count * self.job.stack.issue_secs)
    }
}

/// How many of `n` places a token visits when its `top_k` experts are spread evenly over them: all less those
/// that none of them is in.
fn visited(n: usize, top_k: f64) -> f64 {
    let n = n as f64;
    n * (1.0 - (1.0 - 1.0 / n).powf(top_k))
}

/// How many kernels the forward and the backward part of an operator are issued as.
fn issued(operator: &Operator) -> [f64; 2] {
    match operator.work {
        Work::Linear(gemm) | Work::Converted(gemm) => [gemm.batch, 2.0 * gemm.batch],
        Work::Collect(_, works) => works.map(|work| f64::from(u8::from(work.is_some()))),
        _ => [1.0, 2.0],
    }
}

/// Libraries run products of `f32` as `tf32` where the device has it.
fn matrix_dtype(dtype: &str) -> &str {
    if dtype == "f32" { "tf32" } else { dtype }
}

fn input_gradient(gemm: &Gemm) -> Gemm {
    Gemm { n: gemm.k, k: gemm.n, ..*gemm }
}

fn weight_gradient(gemm: &Gemm) -> Gemm {
    Gemm { m: gemm.k, n: gemm.n, k: gemm.m, ..*gemm }
}

#[cfg(test)]
mod tests;
