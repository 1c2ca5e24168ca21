//! Memory of the fullest device: state, activations in flight, what comes and goes, and what an allocator
//! holds beside these.

use super::job::{Job, Recompute, Sharding};
use super::layer::{Operator, layer, saved_bytes};
use super::step::{device_params, layer_params, n_owners, stage_params};
use crate::gemm::dtype_bytes;
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
    /// What a caching allocator has reserved beside all that: blocks that were used at another moment, of
    /// sizes that nothing at the peak has, and flat copies for collectives. Programs of a static plan do not
    /// have it.
    pub cached_bytes: f64,
}

impl Memory {
    /// All tensors at the peak.
    pub fn sum_bytes(&self) -> f64 {
        self.state_bytes + self.activation_bytes + self.transient_bytes
    }

    /// What a caching allocator has taken from the device: PyTorch's `reserved_bytes.all.peak`.
    pub fn reserved_bytes(&self) -> f64 {
        self.sum_bytes() + self.cached_bytes
    }
}

/// Memory of the stage that needs most.
pub(super) fn peak(job: &Job) -> Memory {
    let stages = (0..job.layout.stages).map(|stage| of_stage(job, stage));
    stages.max_by(|a, b| a.reserved_bytes().total_cmp(&b.reserved_bytes())).unwrap_or_default()
}

/// Parts of a stage whose activations are not offloaded: the one that is computed, one on its way out, one on
/// its way back.
const HERE: f64 = 3.0;

fn of_stage(job: &Job, stage: usize) -> Memory {
    let operators = layer(job);
    let n_stages = job.layout.stages;
    let pipeline = Pipeline {
        forward_secs: vec![1.0; job.n_parts()],
        n_microbatches: job.layout.n_microbatches,
        ..Pipeline::default()
    };
    let n_held = pipeline.interleaved_in_flight(stage, n_stages) as f64;
    let n_here = n_held.min(HERE);
    let has_head = stage + 1 == n_stages;
    Memory {
        state_bytes: state_bytes(job, stage),
        activation_bytes: (n_here + (1.0 - job.layout.offloaded) * (n_held - n_here))
            * stage_bytes(job, &operators, stage)
            / job.layout.chunks as f64,
        transient_bytes: transient_bytes(job, &operators, has_head),
        cached_bytes: cached_bytes(job, &operators, stage),
    }
}

/// What the layers of a stage keep of one microbatch.
fn stage_bytes(job: &Job, operators: &[Operator], stage: usize) -> f64 {
    let [n_layers, n_dense] = job.kinds_of_stage(stage).map(|n| n as f64);
    let dense = job.dense();
    let dense_bytes = if n_dense > 0.0 { saved_bytes(&dense, &layer(&dense)) } else { 0.0 };
    n_layers * saved_bytes(job, operators) + n_dense * dense_bytes
}

fn state_bytes(job: &Job, stage: usize) -> f64 {
    let kinds = stage_params(job, stage).into_iter().zip(n_owners(job));
    let passing = 2.0 * 2.0 * layer_params(job).iter().sum::<f64>();
    let whole = job.layout.sharding == Sharding::Parameters && job.layout.stages == 1;
    kinds.map(|(params, n_owners)| held_bytes(job, params, n_owners)).sum::<f64>()
        + if whole { passing } else { 0.0 }
}

/// Bytes of the state of parameters that `n_owners` devices hold copies of. Sharded ones are whole two layers
/// at a time (`state_bytes`).
fn held_bytes(job: &Job, params: f64, n_owners: f64) -> f64 {
    let (stack, layout) = (&job.stack, &job.layout);
    match layout.sharding {
        Sharding::Nothing => params * (stack.weight_bytes + stack.optimizer_bytes),
        Sharding::Optimizer => params * (stack.weight_bytes + stack.optimizer_bytes / n_owners),
        Sharding::Gradients => params * (2.0 + (stack.gradient_bytes + stack.optimizer_bytes) / n_owners),
        // Master copies, gradients and moments are shared out. Two layers at a time are whole; in a pipeline
        // all are, and their gradients too, until the last microbatch.
        Sharding::Parameters => {
            let whole = if layout.stages > 1 { params * (2.0 + stack.gradient_bytes) } else { 0.0 };
            params * (4.0 + stack.optimizer_bytes) / n_owners + whole
        }
    }
}

/// One layer that is computed again holds all that it would keep; the head holds logits and their gradients.
fn transient_bytes(job: &Job, operators: &[Operator], has_head: bool) -> f64 {
    again_bytes(job, operators).max(head_bytes(job, has_head))
}

fn again_bytes(job: &Job, operators: &[Operator]) -> f64 {
    let whole: f64 = operators.iter().map(|operator| operator.saved_bytes).sum();
    match job.recompute {
        Recompute::Nothing => 0.0,
        _ => whole - saved_bytes(job, operators).min(whole),
    }
}

fn head_bytes(job: &Job, has_head: bool) -> f64 {
    if has_head { job.stack.logit_bytes * logits(job) } else { 0.0 }
}

/// What is reserved beyond the tensors of the peak. Large blocks are never joined or handed back (PyTorch's
/// caching allocator), so a layer's blocks stay while the head needs larger ones; copies for collectives have
/// blocks of their own.
fn cached_bytes(job: &Job, operators: &[Operator], stage: usize) -> f64 {
    let has_head = stage + 1 == job.layout.stages;
    let layer = again_bytes(job, operators) + passing_bytes(job);
    let both = layer + head_bytes(job, has_head) - transient_bytes(job, operators, has_head);
    both + flat_bytes(job, stage) + received_bytes(job)
}

/// What a layer makes and does not keep: its result, inputs that were gathered, scores before the softmax and
/// their gradients.
fn passing_bytes(job: &Job) -> f64 {
    let (model, stack) = (&job.model, &job.stack);
    let element = dtype_bytes(stack.dtype);
    let result = element * job.tokens() * model.hidden;
    let is_gathered = stack.keeps_gathered && job.layout.has_sequence;
    let gathered = if is_gathered { 2.0 * (1.0 - 1.0 / job.layout.tensor as f64) * result } else { 0.0 };
    let scores = job.tokens() * model.seq * model.heads / job.layout.tensor as f64;
    result + gathered + if stack.fuses_attention { 0.0 } else { 2.0 * element * scores }
}

/// Copies for collectives: of sharded parameters one layer as it was gathered and one layer's gradients, with
/// the parts that no layer has (FSDP2, `_fsdp_collectives.py`); else of gradients, one bucket (DeepSpeed,
/// `flatten_dense_tensors`).
fn flat_bytes(job: &Job, stage: usize) -> f64 {
    let stack = &job.stack;
    if job.layout.sharding != Sharding::Parameters {
        return stack.gradient_bytes * device_params(job, stage).min(stack.bucket_params);
    }
    let layer: f64 = layer_params(job).iter().sum();
    // In a pipeline these are whole all the time, with the rest of the stage.
    let is_whole = job.layout.stages > 1;
    let ends = if is_whole { 0.0 } else { 2.0 * job.model.embedding_params() / job.layout.tensor as f64 };
    (2.0 + stack.gradient_bytes) * layer + 2.0 * ends
}

/// Activations and gradients that a stage receives, one buffer per microbatch and direction.
fn received_bytes(job: &Job) -> f64 {
    if job.layout.stages == 1 || !job.stack.receives_ahead {
        return 0.0;
    }
    let message = dtype_bytes(job.stack.dtype) * job.outer_tokens() * job.model.hidden;
    2.0 * job.layout.n_microbatches as f64 * message
}

fn logits(job: &Job) -> f64 {
    job.tokens() * job.model.vocab / job.layout.tensor as f64
}

#[cfg(test)]
mod tests;
