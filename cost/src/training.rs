//! Training runs by their configuration: a transformer, its parallel layout, a cluster; step time and memory
//! come out.
//!
//! A layer is a list of operators with their local shapes (`layer.rs`); every operator is priced by the
//! functions that price planned programs (`price.rs`: products, attention, memory traffic, collectives),
//! stages by the replay of their schedule (`step.rs`), memory by what each operator keeps for its backward
//! part (`memory.rs`). Nothing here is a time of its own.

mod job;
mod layer;
mod memory;
mod model;
mod overlap;
mod price;
mod step;
#[cfg(test)]
mod tests;

pub use job::{Job, Latent, Layout, Model, Recompute, Sharding, Stack};
pub use memory::Memory;
pub use overlap::LayerCollectives;
pub use price::Terms;

use crate::{Cluster, SoftwareFactors};

/// What a run is predicted to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds of one optimizer step.
    pub step_secs: f64,
    /// Where they go on the stage that is busy longest.
    pub terms: Terms,
    /// Bytes on the fullest device.
    pub memory: Memory,
}

/// Stages that were measured, and the links between them where these were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredStages {
    /// Forward, backward and update of each stage for one microbatch, in seconds.
    pub stage_secs: Vec<[f64; 3]>,
    /// Seconds of one microbatch over each boundary; by the cluster's network where absent.
    pub send_secs: Option<Vec<f64>>,
    /// Seconds of the sums of gradients after the last backward part; by the cluster's network where absent.
    pub sync_secs: Option<f64>,
}

/// Half width of the 80 % interval, as a factor. `phzc calibrate` prints it: each of the files of
/// data/published that are marked fit left out in turn and predicted with clocks fitted to the others, 1.175.
const INTERVAL: f64 = 1.175;
/// The same on a device that no training run was fitted to, whose clock is one more like those that were
/// fitted: 1.237.
const UNFITTED_INTERVAL: f64 = 1.237;

impl Prediction {
    /// Between which seconds eight of ten steps lie.
    pub fn interval_secs(&self, cluster: &Cluster) -> [f64; 2] {
        let factor = if cluster.accelerator.is_fitted() { INTERVAL } else { UNFITTED_INTERVAL };
        [self.step_secs / factor, self.step_secs * factor]
    }
}

impl Job {
    /// The prediction on a cluster that has as many devices as the layout, or more.
    pub fn predict(&self, cluster: &Cluster) -> Prediction {
        let terms = self.terms(cluster);
        Prediction { step_secs: terms.sum_secs(), terms, memory: self.memory() }
    }

    /// Seconds of one step by what they are spent on: what was measured of the software on the cluster comes
    /// on top of what is known of it.
    pub fn terms(&self, cluster: &Cluster) -> Terms {
        let (hidden, exposed) = (self.measured_on(cluster), cluster.software.exposed);
        let terms = step::step(&hidden, cluster).1;
        if exposed == 0.0 {
            return terms;
        }
        let open = Job { stack: hidden.stack.clone().without_overlap(), ..hidden };
        terms.between(&step::step(&open, cluster).1, exposed)
    }

    /// The same job with software that passes memory and issues kernels as measured on the cluster.
    fn measured_on(&self, cluster: &Cluster) -> Job {
        let SoftwareFactors { memory_passes, issue, portable_attention, .. } = cluster.software;
        let stack = &self.stack;
        let scaled = Stack {
            n_passes: stack.n_passes * memory_passes,
            issue_secs: stack.issue_secs * issue,
            has_portable_attention: stack.has_portable_attention || portable_attention,
            ..stack.clone()
        };
        Job { stack: scaled, ..self.clone() }
    }

    /// The same with measured stages over the analytic ones.
    ///
    /// There is one part per stage, whatever the layout says of parts.
    pub fn predict_measured(&self, cluster: &Cluster, stages: &MeasuredStages) -> Prediction {
        let (step_secs, terms) = step::step_of_measured(self, cluster, stages);
        Prediction { step_secs, terms, memory: self.memory() }
    }

    /// Bytes of the gradients of one stage, those of all devices that share one copy of it.
    pub fn stage_gradient_bytes(&self, stage: usize) -> f64 {
        self.stack.gradient_bytes * step::device_params(self, stage) * self.layout.tensor as f64
    }

    /// Bytes of the activations of one microbatch between two stages, of all devices that share a copy.
    pub fn message_bytes(&self) -> f64 {
        crate::gemm::dtype_bytes(self.stack.dtype) * self.tokens() * self.model.hidden
    }

    /// Seconds in which a stage hands one microbatch to the next; none where there is one stage.
    pub fn send_secs(&self, cluster: &Cluster) -> f64 {
        step::send_secs(&price::Pricer { job: self, cluster })
    }

    /// Forward and backward seconds of one layer for one microbatch on one device, recomputation in the
    /// backward one.
    pub fn layer_secs(&self, cluster: &Cluster) -> [f64; 2] {
        price::Pricer { job: self, cluster }
            .terms(&layer::layer(self), self.recompute)
            .map(|terms| terms.sum_secs())
    }

    /// The same of the head: logits and loss.
    pub fn head_secs(&self, cluster: &Cluster) -> [f64; 2] {
        price::Pricer { job: self, cluster }
            .terms(&layer::head(self), Recompute::Nothing)
            .map(|terms| terms.sum_secs())
    }

    /// Seconds of the optimizer on one device of a stage.
    pub fn update_secs(&self, cluster: &Cluster, stage: usize) -> f64 {
        step::update_secs(&price::Pricer { job: self, cluster }, stage)
    }

    /// The memory of the fullest device.
    pub fn memory(&self) -> Memory {
        memory::peak(self)
    }

    /// Operations of the model in one step, recomputation not counted: forward once, backward twice (once if
    /// weights are frozen).
    pub fn model_flops(&self) -> f64 {
        let whole = Job { layout: self.layout.on_one_device(), ..self.clone() };
        let tokens = self.layout.n_sequences() as f64 * self.model.seq;
        let flops = |job: &Job| -> f64 { layer::layer(job).iter().map(layer::Operator::flops).sum() };
        let n_dense = self.model.dense_layers.min(self.model.layers);
        let layers =
            flops(&whole) * (self.model.layers - n_dense) as f64 + flops(&whole.dense()) * n_dense as f64;
        let head = layer::head(&whole).iter().map(layer::Operator::flops).sum::<f64>();
        let passes = if self.model.is_frozen() { 2.0 } else { 3.0 };
        passes * (layers + head) * tokens / (self.model.seq * self.layout.micro_batch as f64)
    }
}
