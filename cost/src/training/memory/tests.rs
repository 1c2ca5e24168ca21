//! Bytes of small runs, by hand: a layer of 624 parameters, embedding and head of 224 each.

use super::*;
use crate::toy::job;
use crate::training::{Layout, Stack};

fn two_stages() -> Job {
    let layout = Layout { stages: 2, n_microbatches: 7, ..job().layout };
    Job { layout, ..job() }
}

#[test]
fn state_is_shared_out_among_the_copies_step_by_step() {
    let state = |sharding, stages| {
        let layout = Layout { data: 2, context: 2, sharding, stages, ..job().layout };
        of_stage(&Job { layout, ..job() }, 0).state_bytes
    };
    let (whole, half) = (3.0 * 624.0 + 2.0 * 224.0, 2.0 * 624.0 + 224.0);
    assert_eq!(state(Sharding::Nothing, 1), whole * (6.0 + 12.0));
    assert_eq!(state(Sharding::Optimizer, 1), whole * (6.0 + 12.0 / 4.0));
    assert_eq!(state(Sharding::Gradients, 1), whole * (2.0 + 16.0 / 4.0));
    // Two layers of 2 bytes a parameter are whole at a time; in a pipeline all are, with their gradients.
    assert_eq!(state(Sharding::Parameters, 1), whole * 16.0 / 4.0 + 2.0 * 2.0 * 624.0);
    assert_eq!(state(Sharding::Parameters, 2), half * 16.0 / 4.0 + half * 6.0);
}

#[test]
fn tensor_parallel_devices_gather_their_share_of_a_layer() {
    let layout = Layout { tensor: 2, sharding: Sharding::Parameters, ..job().layout };
    let job = Job { layout, ..job() };
    assert_eq!(of_stage(&job, 0).state_bytes, 1160.0 * 16.0 + 2.0 * 2.0 * 312.0);
    // A layer as it was gathered and its gradients, twice the embedding and the head.
    assert_eq!(flat_bytes(&job, 0), 6.0 * 312.0 + 4.0 * 112.0);
}

#[test]
fn a_stage_keeps_its_layers_activations_once_per_microbatch_in_flight() {
    let kept = |job: &Job, stage| of_stage(job, stage).activation_bytes;
    let layer = saved_bytes(&job(), &layer(&job()));
    assert_eq!(kept(&job(), 0), 3.0 * layer);
    assert_eq!([0, 1].map(|stage| kept(&two_stages(), stage)), [2.0 * 2.0 * layer, layer]);
    // Two parts of a layer each; 2 (p - 1) + (v - 1) p + 1 of them.
    let layout = Layout { chunks: 2, n_microbatches: 8, ..two_stages().layout };
    assert_eq!(kept(&Job { layout, ..job() }, 0), 5.0 * layer);
}

#[test]
fn activations_that_are_offloaded_leave_three_parts_of_a_stage() {
    let layout = Layout { stages: 8, n_microbatches: 20, ..job().layout };
    let mut job = Job { layout, ..job() };
    job.model.layers = 8;
    let layer = saved_bytes(&job, &layer(&job));
    let kept = |job: &Job| of_stage(job, 0).activation_bytes;
    assert_eq!(kept(&job), 8.0 * layer);
    job.layout.offloaded = 0.5;
    assert_eq!(kept(&job), (3.0 + 0.5 * 5.0) * layer);
}

#[test]
fn the_state_of_experts_is_shared_by_the_copies_that_have_them() {
    let layout = Layout { data: 4, expert: 2, sharding: Sharding::Optimizer, ..job().layout };
    let mut job = Job { layout, ..job() };
    job.model.experts = 2.0;
    let [shared, experts] = stage_params(&job, 0);
    assert_eq!(of_stage(&job, 0).state_bytes, shared * (6.0 + 12.0 / 4.0) + experts * (6.0 + 12.0 / 2.0));
}

#[test]
fn the_head_s_logits_are_on_the_last_stage() {
    let logits = 10.0 * 30.0 * 28.0;
    let transient = |job: &Job, stage| of_stage(job, stage).transient_bytes;
    assert_eq!(transient(&job(), 0), logits);
    assert_eq!([0, 1].map(|stage| transient(&two_stages(), stage)), [0.0, logits]);
    let layout = Layout { tensor: 2, ..job().layout };
    assert_eq!(transient(&Job { layout, ..job() }, 0), logits / 2.0);
}

#[test]
fn a_layer_that_is_computed_again_holds_what_it_would_keep() {
    let job = Job { recompute: Recompute::Layers(1.0), ..two_stages() };
    // 7920 bytes of a layer less the 480 of its input.
    assert_eq!(of_stage(&job, 0).transient_bytes, 7440.0);
    // On the last stage these blocks stay beside the logits'.
    let passing = 480.0 + 2.0 * 2.0 * 720.0;
    assert_eq!([0, 1].map(|stage| of_stage(&job, stage).cached_bytes), [passing, passing + 7440.0]);
}

#[test]
fn a_layer_makes_its_result_and_scores_and_keeps_neither() {
    let mut job = job();
    assert_eq!(passing_bytes(&job), 480.0 + 2.0 * 2.0 * 720.0);
    job.stack.dtype = "f32";
    assert_eq!(passing_bytes(&job), 960.0 + 2.0 * 4.0 * 720.0);
    job.stack.dtype = "bf16";
    job.stack.fuses_attention = true;
    assert_eq!(passing_bytes(&job), 480.0);
    job.layout.tensor = 4;
    job.stack.keeps_gathered = true;
    assert_eq!(passing_bytes(&job), 480.0);
    job.layout.has_sequence = true;
    assert_eq!(passing_bytes(&job), 480.0 + 2.0 * 0.75 * 480.0);
    (job.stack.keeps_gathered, job.stack.fuses_attention) = (false, false);
    assert_eq!(passing_bytes(&job), 480.0 + 2.0 * 2.0 * 180.0);
}

#[test]
fn gradients_are_copied_into_buckets_and_parameters_layer_by_layer() {
    let flat = |job: &Job, bucket_params| {
        let stack = Stack { bucket_params, ..job.stack.clone() };
        flat_bytes(&Job { stack, ..job.clone() }, 0)
    };
    assert_eq!([100.0, 1e9].map(|params| flat(&job(), params)), [400.0, 4.0 * 2320.0]);
    let shared = |job: Job| Job { layout: Layout { sharding: Sharding::Parameters, ..job.layout }, ..job };
    assert_eq!(flat(&shared(job()), 100.0), 6.0 * 624.0 + 4.0 * 224.0);
    assert_eq!(flat(&shared(two_stages()), 100.0), 6.0 * 624.0);
    let stack = Stack { bucket_params: 100.0, ..job().stack };
    let alone = of_stage(&job(), 0).cached_bytes;
    assert_eq!(of_stage(&Job { stack, ..job() }, 0).cached_bytes, alone + 400.0);
}

#[test]
fn a_pipeline_that_receives_ahead_has_a_buffer_per_microbatch_and_direction() {
    let stack = Stack { receives_ahead: true, ..job().stack };
    let ahead = |job: Job| Job { stack: stack.clone(), ..job };
    assert_eq!(received_bytes(&two_stages()), 0.0);
    assert_eq!(received_bytes(&ahead(job())), 0.0);
    assert_eq!(received_bytes(&ahead(two_stages())), 2.0 * 7.0 * 480.0);
    let [alone, with] = [two_stages(), ahead(two_stages())].map(|job| of_stage(&job, 0).cached_bytes);
    assert_eq!(with - alone, 2.0 * 7.0 * 480.0);
}

#[test]
fn the_fullest_stage_counts_with_all_that_is_reserved() {
    let memory = two_stages().memory();
    assert_eq!(memory, of_stage(&two_stages(), 0));
    let sum = memory.state_bytes + memory.activation_bytes + memory.transient_bytes;
    assert_eq!([memory.sum_bytes(), memory.reserved_bytes()], [sum, sum + memory.cached_bytes]);
    // Many words: the last one's logits.
    let mut job = two_stages();
    job.model.vocab = 1e6;
    assert_eq!(job.memory(), of_stage(&job, 1));
}
