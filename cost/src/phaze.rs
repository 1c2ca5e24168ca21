//! Phaze's placement cost: what a pipeline stage of a chain of layers takes and holds, and what a step of a
//! plan takes.
//!
//! Source: Phaze (Wang et al., ICML 2024), its device placement, described in `reference/phaze.md`, section
//! 5. Figures are rounded in the order in which Phaze adds them, so that plans that tie there tie here.
//! docs/phaze-plan.md has the formulas at one glance.

pub mod read;
#[cfg(test)]
mod tests;

use std::ops::Range;

/// A placement problem: one chain of layers at one or more tensor-parallel widths, and the devices to place
/// it on.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// What a device holds.
    pub memory_bytes: f64,
    /// Devices, of which some may stay idle.
    pub n_devices: usize,
    /// Of every link.
    pub bytes_per_sec: f64,
    /// Microbatches of a step, over all pipelines.
    pub n_microbatches: usize,
    /// Whether stages keep only their inputs, and run forward again before they run backward.
    pub recompute: bool,
    /// Copies of the parameters that a device holds: weights, gradients and what the optimiser needs.
    pub parameter_copies: Copies,
    /// The chain at each width; widths rise, layers are the same ones in the same order.
    pub chains: Vec<Chain>,
    /// The plan to compare with.
    pub expert: Option<Expert>,
}

/// Copies of the parameters by the optimiser, beside the weights themselves and their gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub enum Copies {
    /// None.
    #[serde(rename = "SGD")]
    Sgd,
    /// One.
    Adam,
}

/// The layers as they are at one tensor-parallel width.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Devices of a stage that has a tensor-parallel layer.
    pub width: usize,
    /// In the order in which they run.
    pub layers: Vec<Layer>,
    /// Per layer: where its inputs come from; its predecessor is among them.
    pub inputs: Vec<Vec<Edge>>,
    /// Per layer: where its results go.
    pub outputs: Vec<Vec<Edge>>,
}

/// One layer, for one microbatch on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// As the input names it.
    pub id: i64,
    /// Weights.
    pub parameter_bytes: f64,
    /// All activations, also those within the layer.
    pub activation_bytes: f64,
    /// Forward pass.
    pub forward_secs: f64,
    /// Backward pass.
    pub backward_secs: f64,
    /// The optimizer, once a step; Phaze has none.
    pub update_secs: f64,
    /// Whether it is one slice of `width`.
    pub is_tensor_parallel: bool,
}

/// The other end of an edge and what goes over it per microbatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Position of the other layer in the chain.
    pub layer: usize,
    /// Bytes, the same ones forward and backward.
    pub bytes: f64,
}

/// A plan by rule of thumb: layers in equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expert {
    /// Stages, some of which may be empty.
    pub n_stages: usize,
    /// Tensor-parallel width of all stages.
    pub width: usize,
    /// Pipelines.
    pub data_parallel: usize,
    /// Layers that are shared out; the others go to the last stage.
    pub n_layers: usize,
}

/// What a stage takes and holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageCost {
    /// 1, or the width.
    pub n_devices: usize,
    /// Forward and backward of one microbatch, transfers into it included.
    pub plain_secs: f64,
    /// The same with a second forward pass before the backward one.
    pub recompute_secs: f64,
    /// Forward and backward without any transfer: what no stage of these layers is faster than.
    pub compute_secs: f64,
    /// Weights.
    pub parameter_bytes: f64,
    /// The optimizer, once a step.
    pub update_secs: f64,
    /// The most stages, counted from this one to the last, with which it fits in memory.
    pub max_stages: usize,
}

/// Where the layers go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its place among [`Instance::chains`].
    pub chain: usize,
    /// Pipelines.
    pub data_parallel: usize,
    /// The stages in order.
    pub stages: Vec<PlanStage>,
}

/// One stage of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStage {
    /// Positions in the chain.
    pub layers: Range<usize>,
    /// Its devices in each pipeline.
    pub n_devices: usize,
}

impl StageCost {
    /// Seconds per microbatch of the stage that is `from_end`-th from the end; the last one (1) never
    /// recomputes.
    pub fn secs(&self, recompute: bool, from_end: usize) -> f64 {
        if recompute && from_end > 1 { self.recompute_secs } else { self.plain_secs }
    }
}

impl Instance {
    /// What a stage of these layers takes and holds.
    ///
    /// `plain = F + B`; `recompute = F + R`. F starts when what comes from earlier stages is there, B when
    /// what comes from later ones is; R starts with a forward pass whose inputs are at hand, during which
    /// what comes from later stages arrives.
    pub fn stage(&self, chain: &Chain, layers: Range<usize>) -> StageCost {
        let own = &chain.layers[layers.clone()];
        let sum = |of: fn(&Layer) -> f64| own.iter().fold(0.0, |sum, layer| sum + of(layer));
        let (forward, parameter_bytes) =
            (sum(|layer| layer.forward_secs), sum(|layer| layer.parameter_bytes));
        let backward = own.iter().rev().fold(0.0, |sum, layer| sum + layer.backward_secs);
        let waited_forward = self.forward_secs(chain, &layers);
        let recompute_secs = match self.recompute {
            true => waited_forward + self.backward_secs(chain, &layers, forward),
            false => f64::INFINITY,
        };
        let is_wide = own.iter().any(|layer| layer.is_tensor_parallel);
        let activation_bytes = sum(|layer| layer.activation_bytes);
        StageCost {
            n_devices: if is_wide { chain.width } else { 1 },
            plain_secs: waited_forward + self.backward_secs(chain, &layers, 0.0),
            recompute_secs,
            compute_secs: forward + backward,
            parameter_bytes,
            update_secs: sum(|layer| layer.update_secs),
            max_stages: self.max_stages(chain, &layers, parameter_bytes, activation_bytes),
        }
    }

    fn forward_secs(&self, chain: &Chain, layers: &Range<usize>) -> f64 {
        layers.clone().fold(0.0, |done: f64, at| {
            let outside = chain.inputs[at].iter().filter(|edge| edge.layer < layers.start);
            let ready = outside.fold(0.0, |ready: f64, edge| ready.max(edge.bytes / self.bytes_per_sec));
            done.max(ready) + chain.layers[at].forward_secs
        })
    }

    fn backward_secs(&self, chain: &Chain, layers: &Range<usize>, from_secs: f64) -> f64 {
        layers.clone().rev().fold(from_secs, |done: f64, at| {
            let outside = chain.outputs[at].iter().filter(|edge| edge.layer >= layers.end);
            let ready = outside.fold(0.0, |ready: f64, edge| ready.max(edge.bytes / self.bytes_per_sec));
            done.max(ready) + chain.layers[at].backward_secs
        })
    }

    /// The largest `s` with `copies * P + A + (s - 1) * stash` within memory: in 1F1B, `s` microbatches are
    /// in flight.
    fn max_stages(
        &self,
        chain: &Chain,
        layers: &Range<usize>,
        parameter_bytes: f64,
        activation_bytes: f64,
    ) -> usize {
        let optimizer_bytes = if self.parameter_copies == Copies::Adam { parameter_bytes } else { 0.0 };
        let fixed_bytes = 2.0 * parameter_bytes + optimizer_bytes + activation_bytes;
        let edges = layers.clone().flat_map(|at| &chain.inputs[at]);
        let outside = edges.filter(|edge| edge.layer < layers.start);
        let stash_bytes = match self.recompute {
            true => outside.fold(0.0, |sum, edge| sum + edge.bytes),
            false => activation_bytes,
        };
        if fixed_bytes + (self.n_devices - 1) as f64 * stash_bytes <= self.memory_bytes {
            return self.n_devices;
        }
        if fixed_bytes > self.memory_bytes {
            return 0;
        }
        1 + ((self.memory_bytes - fixed_bytes) / stash_bytes).floor() as usize
    }

    /// Seconds of a step: the slowest stage for each microbatch and each stage to fill, then the first
    /// stage's gradients, all-reduced.
    ///
    /// `max t * (ceil(m / d) + S - 1) + 4 (d - 1) / d * P_first / bandwidth`: twice a ring all-reduce, as
    /// Phaze has it.
    pub fn step_secs(
        &self,
        slowest_secs: f64,
        n_stages: usize,
        data_parallel: usize,
        first_parameter_bytes: f64,
    ) -> f64 {
        let n_rounds = self.n_microbatches.div_ceil(data_parallel) + n_stages - 1;
        let (d, others) = (data_parallel as f64, (data_parallel - 1) as f64);
        slowest_secs * n_rounds as f64 + 4.0 * others * first_parameter_bytes / self.bytes_per_sec / d
    }

    /// Seconds of a step of a plan; `None` where it needs more memory or more devices than there are.
    pub fn price(&self, plan: &Plan) -> Option<f64> {
        let chain = &self.chains[plan.chain];
        let used: usize = plan.stages.iter().map(|stage| stage.n_devices).sum();
        let n_devices = used.checked_mul(plan.data_parallel)?;
        if n_devices > self.n_devices || !(1..=self.n_microbatches).contains(&plan.data_parallel) {
            return None;
        }
        let n_stages = plan.stages.len();
        let mut slowest_secs: f64 = 0.0;
        for (at, stage) in plan.stages.iter().enumerate() {
            let (cost, from_end) = (self.stage(chain, stage.layers.clone()), n_stages - at);
            if cost.n_devices > stage.n_devices || cost.max_stages < from_end {
                return None;
            }
            slowest_secs = slowest_secs.max(cost.secs(self.recompute, from_end));
        }
        let first = self.stage(chain, plan.stages.first()?.layers.clone());
        let secs = self.step_secs(slowest_secs, n_stages, plan.data_parallel, first.parameter_bytes);
        Some(secs + first.update_secs)
    }

    /// The expert's plan, if there is one that covers the chain on the devices that there are.
    ///
    /// Phaze shares out positions of the chain, not ids: with an embedding in front, the last stage has the
    /// last layer beside its share.
    pub fn expert_plan(&self) -> Option<Plan> {
        let expert = self.expert?;
        let chain = self.chains.iter().position(|chain| chain.width == expert.width)?;
        let n_layers = self.chains[chain].layers.len();
        let used = expert.n_stages.checked_mul(expert.width)?.checked_mul(expert.data_parallel)?;
        if expert.n_stages == 0 || used > self.n_devices || expert.n_layers > n_layers {
            return None;
        }
        let share = expert.n_layers.div_ceil(expert.n_stages);
        let cut = |stage: usize| match stage == expert.n_stages {
            true => n_layers,
            false => (stage * share).min(expert.n_layers),
        };
        let stage = |at: usize| PlanStage { layers: cut(at)..cut(at + 1), n_devices: expert.width };
        let stages = (0..expert.n_stages).map(stage).collect();
        Some(Plan { chain, data_parallel: expert.data_parallel, stages })
    }

    /// Seconds of a step of the expert's plan; `None` where it does not fit.
    pub fn expert_secs(&self) -> Option<f64> {
        self.price(&self.expert_plan()?)
    }
}
