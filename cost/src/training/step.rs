//! The time of one optimizer step: stages by the replay of their schedule, then data parallelism and the
//! update.

use super::MeasuredStages;
use super::job::{Job, Recompute, Sharding};
use super::layer::{Operator, head, layer};
use super::price::{Pricer, Terms};
use crate::gemm::dtype_bytes;
use crate::schedule::Pipeline;
use crate::{Cluster, Collective};

/// Bytes that the update moves per parameter: gradient, master copy and two moments read, three of them
/// written, weight written, gradient zeroed and read once more for its norm.
const UPDATE_BYTES: f64 = 4.0 + 12.0 + 12.0 + 2.0 + 4.0 + 4.0;

/// Forward and backward terms of one microbatch in one (virtual) stage.
type Part = [Terms; 2];

/// Seconds of one step, and the terms of the device that is busy longest.
pub(super) fn step(job: &Job, cluster: &Cluster) -> (f64, Terms) {
    let pricer = Pricer { job, cluster };
    let parts = parts(&pricer);
    let sends = vec![send_secs(&pricer); parts.len() - 1];
    let data_secs = exposed_data_secs(&pricer, &parts);
    whole(&pricer, &parts, sends, [data_secs, update_secs(&pricer, 0)])
}

/// The same from measured stages.
pub(super) fn step_of_measured(job: &Job, cluster: &Cluster, measured: &MeasuredStages) -> (f64, Terms) {
    let pricer = Pricer { job, cluster };
    let stages = &measured.stage_secs;
    let n_sends = stages.len().saturating_sub(1);
    let sends = measured.send_secs.clone().unwrap_or_else(|| vec![send_secs(&pricer); n_sends]);
    // A stage waits for what it sends on, and for what it sends back; at the ends, for what it receives. What
    // it waits for has arrived when it goes on.
    let is_waiting = !job.stack.overlaps_sends;
    let boundary = |index: usize| {
        let secs = sends.get(index.min(n_sends.saturating_sub(1))).copied().unwrap_or(0.0);
        if is_waiting { secs } else { 0.0 }
    };
    let phase = |product_secs, pipeline_secs| Terms { product_secs, pipeline_secs, ..Terms::default() };
    let parts = stages.iter().enumerate().map(|(index, stage)| {
        [phase(stage[0], boundary(index)), phase(stage[1], boundary(index.saturating_sub(1)))]
    });
    let parts: Vec<Part> = parts.collect();
    let data_secs = measured.sync_secs.unwrap_or_else(|| exposed_data_secs(&pricer, &parts));
    let update_secs = stages.iter().map(|stage| stage[2]).fold(0.0, f64::max);
    let delays = if is_waiting { vec![0.0; n_sends] } else { sends };
    whole(&pricer, &parts, delays, [data_secs, update_secs])
}

/// The pipeline, then what nothing hides of data parallelism, then the update.
fn whole(pricer: &Pricer, parts: &[Part], sends: Vec<f64>, [data, update]: [f64; 2]) -> (f64, Terms) {
    let (pipeline_secs, mut terms) = pipeline(pricer, parts, sends);
    let busy_secs = terms.sum_secs();
    terms.pipeline_secs += (pipeline_secs - busy_secs).max(0.0);
    terms.data_secs += data;
    terms.update_secs += update;
    (terms.sum_secs(), terms)
}

fn parts(pricer: &Pricer) -> Vec<Part> {
    let job = pricer.job;
    let one = layer_terms(pricer);
    let dense = if job.model.dense_layers > 0 { dense_terms(pricer) } else { one };
    let last = issued(pricer, &head(job), Recompute::Nothing);
    let n_parts = job.n_parts();
    let sent_secs = if job.stack.overlaps_sends { 0.0 } else { send_secs(pricer) };
    let part = |(index, [n_layers, n_dense]): (usize, [usize; 2])| {
        let mut both = [Terms::default(); 2];
        for (phase, terms) in both.iter_mut().enumerate() {
            terms.add(&one[phase], n_layers as f64);
            terms.add(&dense[phase], n_dense as f64);
            terms.pipeline_secs += sent_secs;
            let has_head = index + 1 == n_parts;
            terms.add(&last[phase], f64::from(u8::from(has_head)));
        }
        both
    };
    job.kinds_of_parts().into_iter().enumerate().map(part).collect()
}

/// Forward and backward terms of operators, with the wait for the host where it takes longer to issue them.
/// It does not run ahead from one layer, or the head, to the next: the loss and what stages send each other
/// are waited for in each microbatch.
fn issued(pricer: &Pricer, operators: &[Operator], recompute: Recompute) -> Part {
    let mut both = pricer.terms(operators, recompute);
    for (terms, issue_secs) in both.iter_mut().zip(pricer.issue_secs(operators, recompute)) {
        terms.host_secs = (issue_secs - terms.sum_secs()).max(0.0);
    }
    both
}

/// Forward and backward terms of one layer.
fn layer_terms(pricer: &Pricer) -> Part {
    let mut one = issued(pricer, &layer(pricer.job), pricer.job.recompute);
    if is_gathered_each_time(pricer.job) {
        hide_shards(pricer, &mut one);
    }
    one
}

/// The same of a dense layer of a model with experts.
fn dense_terms(pricer: &Pricer) -> Part {
    layer_terms(&Pricer { job: &pricer.job.dense(), cluster: pricer.cluster })
}

/// Whether each microbatch gathers parameters; a pipeline keeps them whole for the step.
fn is_gathered_each_time(job: &Job) -> bool {
    job.layout.sharding >= Sharding::Gradients && job.layout.stages == 1
}

/// Sharded parameters are gathered beside the layer before, gradients scattered beside the layer after: the
/// longer counts.
fn hide_shards(pricer: &Pricer, layer: &mut Part) {
    let job = pricer.job;
    let both = layer_params(job);
    let params: f64 = both.iter().sum();
    let secs = |kind, bytes| pricer.data_secs(kind, both.map(|n| bytes * n));
    let is_whole = job.layout.sharding == Sharding::Gradients;
    let gather_secs = secs(Collective::AllGather, 2.0);
    let scatter_secs = secs(Collective::ReduceScatter, job.stack.gradient_bytes);
    let regather_secs = if is_whole { 0.0 } else { gather_secs };
    let moved = [(gather_secs, 2.0 * params), (regather_secs + scatter_secs, 4.0 * params)];
    for (terms, (moved_secs, bytes)) in layer.iter_mut().zip(moved) {
        terms.data_secs += pricer.cluster.beside_secs(terms.sum_secs(), moved_secs, bytes) - terms.sum_secs();
    }
}

/// Seconds of all microbatches through all stages, and the terms of the busiest device.
fn pipeline(pricer: &Pricer, parts: &[Part], send_secs: Vec<f64>) -> (f64, Terms) {
    let layout = &pricer.job.layout;
    let pipeline = Pipeline {
        forward_secs: parts.iter().map(|part| part[0].sum_secs()).collect(),
        backward_secs: parts.iter().map(|part| part[1].sum_secs()).collect(),
        send_secs,
        n_microbatches: layout.n_microbatches,
        ..Pipeline::default()
    };
    let of_device = |device: usize| {
        let mut terms = Terms::default();
        for part in parts.iter().skip(device).step_by(layout.stages) {
            part.iter().for_each(|phase| terms.add(phase, layout.n_microbatches as f64));
        }
        terms
    };
    let devices = (0..layout.stages).map(of_device);
    let busiest = devices.max_by(|a, b| a.sum_secs().total_cmp(&b.sum_secs())).unwrap_or_default();
    let secs = if layout.stages == 1 {
        busiest.sum_secs()
    } else {
        pipeline.simulate_interleaved(layout.stages).step_secs()
    };
    (secs, busiest)
}

/// Activations of one microbatch to the next stage; tensor-parallel ranks send a share each.
pub(super) fn send_secs(pricer: &Pricer) -> f64 {
    let job = pricer.job;
    if job.layout.stages == 1 {
        return 0.0;
    }
    let bytes = dtype_bytes(job.stack.dtype) * job.tokens() * job.model.hidden / job.layout.tensor as f64;
    let distance = job.layout.tensor * job.layout.context * job.layout.data;
    pricer.cluster.send_secs(bytes, distance >= pricer.cluster.per_node())
}

/// Parameters that one device of a stage holds.
pub(super) fn device_params(job: &Job, stage: usize) -> f64 {
    stage_params(job, stage).iter().sum()
}

/// The same in two: those that all copies of the model hold, and experts, which are spread over some of the
/// copies.
pub(super) fn stage_params(job: &Job, stage: usize) -> [f64; 2] {
    let [n_layers, n_dense] = job.kinds_of_stage(stage).map(|n| n as f64);
    let [shared, experts] = layer_params(job);
    let ends = f64::from(u8::from(stage == 0)) + f64::from(u8::from(stage + 1 == job.layout.stages));
    let others = n_dense * job.model.dense().layer_params() + ends * job.model.embedding_params();
    [n_layers * shared + others / job.layout.tensor as f64, n_layers * experts]
}

/// Parameters of one layer that one device holds, in the same two.
pub(super) fn layer_params(job: &Job) -> [f64; 2] {
    let (model, tensor) = (&job.model, job.layout.tensor as f64);
    let experts = model.expert_params() * model.experts;
    [(model.layer_params() - experts) / tensor, experts / (job.layout.expert as f64 * tensor)]
}

/// Devices that share the optimizer's state of the same two.
pub(super) fn n_owners(job: &Job) -> [f64; 2] {
    let copies = (job.layout.data * job.layout.context) as f64;
    let sharing = if job.layout.owners > 0 { copies.min(job.layout.owners as f64) } else { copies };
    [sharing, (sharing / job.layout.expert as f64).max(1.0)]
}

/// Summing gradients over the copies of the model, and handing parameters out again where they are shared.
fn exposed_data_secs(pricer: &Pricer, parts: &[Part]) -> f64 {
    let job = pricer.job;
    if pricer.data_groups()[0].size == 1 || is_gathered_each_time(job) {
        return 0.0;
    }
    let params = stage_params(job, 0);
    let secs = |kind, bytes| pricer.data_secs(kind, params.map(|n| bytes * n)) / pricer.data_efficiency();
    let (summed_secs, gathered_secs) = match job.layout.sharding {
        Sharding::Nothing => (secs(Collective::AllReduce, job.stack.gradient_bytes), 0.0),
        _ => (secs(Collective::ReduceScatter, job.stack.gradient_bytes), secs(Collective::AllGather, 2.0)),
    };
    if !job.stack.overlaps_data {
        return summed_secs + gathered_secs;
    }
    // The last microbatch's backward part hides the sums, the first one's forward part the parameters.
    let exposed = |secs: f64, phase: usize| {
        let own = parts.iter().step_by(job.layout.stages);
        secs_after_overlap(secs, own.map(|part| part[phase].sum_secs()).sum())
    };
    exposed(summed_secs, 1) + exposed(gathered_secs, 0)
}

/// What so many seconds of computation do not hide of collectives that begin piece by piece.
pub(super) fn secs_after_overlap(collective_secs: f64, overlapping_secs: f64) -> f64 {
    (collective_secs - overlapping_secs).max(collective_secs / N_BUCKETS)
}

/// Into how many pieces gradients are cut so that sums begin early; the last piece is never hidden.
const N_BUCKETS: f64 = 16.0;

/// Seconds of the optimizer on one device of a stage.
pub(super) fn update_secs(pricer: &Pricer, stage: usize) -> f64 {
    let job = pricer.job;
    // Adapters are too small to tell.
    if job.model.is_frozen() {
        return 0.0;
    }
    let n_owners = if job.layout.sharding == Sharding::Nothing { [1.0; 2] } else { n_owners(job) };
    let [shared, experts] = stage_params(job, stage);
    let params = shared / n_owners[0] + experts / n_owners[1];
    pricer.cluster.accelerator.memory_secs(UPDATE_BYTES * params)
}

#[cfg(test)]
mod tests;
