//! Memory of the fullest device: state, activations in flight, and what comes and goes.

use super::job::{Job, Recompute, Sharding};
use super::layer::{Operator, layer, saved_bytes};
use super::step::device_params;
use crate::schedule::Pipeline;

/// Bytes on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Weights, gradients, the optimizer's state.
    pub state_bytes: f64,
    /// What microbatches in flight keep for their backward parts.
    pub activation_bytes: f64,
    /// The largest of what comes and goes: a layer that is computed again, logits, gathered parameters.
    pub transient_bytes: f64,
}

impl Memory {
    /// All of it.
    pub fn sum_bytes(&self) -> f64 {
        self.state_bytes + self.activation_bytes + self.transient_bytes
    }
}

/// Memory of the stage that needs most.
pub(super) fn peak(job: &Job) -> Memory {
    let stages = (0..job.layout.stages).map(|stage| of_stage(job, stage));
    stages.max_by(|a, b| a.sum_bytes().total_cmp(&b.sum_bytes())).unwrap_or_default()
}

fn of_stage(job: &Job, stage: usize) -> Memory {
    let operators = layer(job);
    let n_stages = job.layout.stages;
    let per_layer = saved_bytes(job, &operators);
    let layers = job.layers_of_parts();
    let pipeline = Pipeline {
        forward_secs: vec![1.0; job.n_parts()],
        n_microbatches: job.layout.n_microbatches,
        ..Pipeline::default()
    };
    let n_held = pipeline.interleaved_in_flight(stage, n_stages) as f64;
    let n_layers: usize = layers.iter().skip(stage).step_by(n_stages).sum();
    let has_head = stage + 1 == n_stages;
    Memory {
        state_bytes: state_bytes(job, stage),
        activation_bytes: n_held * per_layer * n_layers as f64 / job.layout.chunks as f64,
        transient_bytes: transient_bytes(job, &operators, has_head),
    }
}

fn state_bytes(job: &Job, stage: usize) -> f64 {
    let (stack, layout) = (&job.stack, &job.layout);
    let n_owners = (layout.data * layout.context) as f64;
    let params = device_params(job, stage);
    match layout.sharding {
        Sharding::Nothing => params * (stack.weight_bytes + stack.optimizer_bytes),
        Sharding::Optimizer => params * (stack.weight_bytes + stack.optimizer_bytes / n_owners),
        Sharding::Gradients => params * (2.0 + (stack.gradient_bytes + stack.optimizer_bytes) / n_owners),
        // Master copies, gradients and moments are shared out. Two layers at a time are whole; in a pipeline all are, and
        // their gradients too, until the last microbatch.
        Sharding::Parameters => {
            let passing = 2.0 * 2.0 * job.model.layer_params() / layout.tensor as f64;
            let whole = if layout.stages > 1 { params * (2.0 + stack.gradient_bytes) } else { passing };
            params * (4.0 + stack.optimizer_bytes) / n_owners + whole
        }
    }
}

/// One layer that is computed again holds all that it would keep; the head holds logits and their gradients.
fn transient_bytes(job: &Job, operators: &[Operator], has_head: bool) -> f64 {
    let whole: f64 = operators.iter().map(|operator| operator.saved_bytes).sum();
    let again = match job.recompute {
        Recompute::Nothing => 0.0,
        _ => whole - saved_bytes(job, operators).min(whole),
    };
    again.max(if has_head { job.stack.logit_bytes * logits(job) } else { 0.0 })
}

fn logits(job: &Job) -> f64 {
    job.tokens() * job.model.vocab / job.layout.tensor as f64
}
