//! Steps of small runs, from the prices of their layers and heads, which have tests of their own.

use super::*;
use crate::AxisGroup;
use crate::toy::{self, assert_close, job};
use crate::training::{Layout, Model, Stack};

fn with_layout(layout: Layout) -> Job {
    Job { layout: Layout { micro_batch: 5, n_microbatches: 7, ..layout }, ..job() }
}

fn single() -> Job {
    with_layout(Layout::single())
}

/// On four copies, one a device of a node.
fn copies(sharding: Sharding) -> Job {
    with_layout(Layout { data: 4, sharding, ..Layout::single() })
}

/// Seconds over the copies of a run that `copies` makes.
fn collective_secs(kind: Collective, bytes: f64) -> f64 {
    toy::cluster().collective_secs(kind, bytes, AxisGroup { size: 4, stride: 1 })
}

/// Forward and backward seconds of `n_layers` layers, and of the head where it is there.
fn part_secs(job: &Job, n_layers: f64, has_head: bool) -> [f64; 2] {
    let (layer, head) = (job.layer_secs(&toy::cluster()), job.head_secs(&toy::cluster()));
    [0, 1].map(|phase| n_layers * layer[phase] + if has_head { head[phase] } else { 0.0 })
}

fn terms(job: &Job) -> Terms {
    job.predict(&toy::cluster()).terms
}

#[test]
fn one_stage_runs_all_microbatches_and_updates_all_parameters() {
    let both: f64 = part_secs(&single(), 3.0, true).iter().sum();
    // 38 bytes for each of 2320 parameters, 4 bytes/s.
    let update_secs = 38.0 * 2320.0 / 4.0;
    assert_eq!(terms(&single()).update_secs, update_secs);
    assert_close(single().predict(&toy::cluster()).step_secs, 7.0 * both + update_secs);
    assert_eq!([terms(&single()).data_secs, terms(&single()).pipeline_secs], [0.0, 0.0]);
}

#[test]
fn the_optimizer_updates_what_each_copy_owns() {
    let secs = |job: &Job, stage| job.update_secs(&toy::cluster(), stage);
    let whole = 38.0 * 2320.0 / 4.0;
    assert_eq!([Sharding::Nothing, Sharding::Optimizer].map(|it| secs(&copies(it), 0)), [whole, whole / 4.0]);
    let context = with_layout(Layout { context: 2, sharding: Sharding::Optimizer, ..Layout::single() });
    assert_eq!(secs(&context, 0), whole / 2.0);
    let stages = with_layout(Layout { stages: 2, ..Layout::single() });
    assert_eq!([0, 1].map(|stage| secs(&stages, stage)), [38.0 * 1472.0 / 4.0, 38.0 * 848.0 / 4.0]);
    let mut frozen = single();
    frozen.model.adapter_rank = 2.0;
    assert_eq!(secs(&frozen, 0), 0.0);
}

#[test]
fn a_device_holds_its_share_of_layers_experts_and_ends() {
    let stages = with_layout(Layout { stages: 3, ..Layout::single() });
    assert_eq!([0, 1, 2].map(|stage| device_params(&stages, stage)), [848.0, 624.0, 848.0]);
    let parts = with_layout(Layout { stages: 2, chunks: 2, ..Layout::single() });
    // Layers of the parts 1, 1, 1, 0: the first stage has the first and the third.
    assert_eq!([0, 1].map(|stage| device_params(&parts, stage)), [1472.0, 848.0]);
    let mut experts = with_layout(Layout { expert: 3, tensor: 2, ..Layout::single() });
    experts.model.experts = 6.0;
    // A router of 6 rows in each layer.
    assert_eq!(stage_params(&experts, 0), [(3.0 * 352.0 + 448.0) / 2.0, 3.0 * 2.0 * 320.0 / 2.0]);
    assert_eq!(
        n_owners(&Job { layout: Layout { data: 6, ..experts.layout.clone() }, ..experts }),
        [6.0, 2.0]
    );
}

#[test]
fn state_may_be_shared_by_some_of_the_copies() {
    let mut job = copies(Sharding::Optimizer);
    job.layout.owners = 2;
    assert_eq!(n_owners(&job), [2.0, 2.0]);
    job.layout.owners = 8;
    assert_eq!(n_owners(&job), [4.0, 4.0]);
}

#[test]
fn the_host_is_waited_for_where_it_takes_longer_to_issue_operators_than_they_take() {
    let host_secs = |issue_secs| {
        let mut job = single();
        job.stack.issue_secs = issue_secs;
        terms(&job).host_secs
    };
    assert_eq!(host_secs(1e-3), 0.0);
    let (layer, head) = (single().layer_secs(&toy::cluster()), single().head_secs(&toy::cluster()));
    // 13 operators of a layer and 3 of the head, once forward and twice backward.
    let waited = |secs: [f64; 2], n: f64| (1e6 * n - secs[0]) + (2e6 * n - secs[1]);
    assert_close(host_secs(1e6), 7.0 * (3.0 * waited(layer, 13.0) + waited(head, 3.0)));
}

#[test]
fn dense_layers_before_those_with_experts_have_a_price_of_their_own() {
    let mut job = single();
    (job.model.experts, job.model.top_k) = (2.0, 2.0);
    let all = terms(&job).product_secs;
    job.model.dense_layers = 1;
    let dense = single().layer_secs(&toy::cluster()).iter().sum::<f64>();
    let saved = job.layer_secs(&toy::cluster()).iter().sum::<f64>() - dense;
    let streams = |job: &Job| terms(job).stream_secs;
    let whole = Job { model: Model { dense_layers: 0, ..job.model.clone() }, ..job.clone() };
    assert_close(all + streams(&whole) - terms(&job).product_secs - streams(&job), 7.0 * saved);
}

#[test]
fn copies_sum_their_gradients_at_the_software_s_rate() {
    let mut job = copies(Sharding::Nothing);
    let summed_secs = collective_secs(Collective::AllReduce, 4.0 * 2320.0);
    assert_close(terms(&job).data_secs, summed_secs);
    job.stack.data_efficiency = 0.25;
    // Inside a node they reach the network's.
    assert_close(terms(&job).data_secs, summed_secs);
    job.layout.data = 8;
    let rack = AxisGroup { size: 8, stride: 1 };
    let far_secs = toy::cluster().collective_secs(Collective::AllReduce, 4.0 * 2320.0, rack);
    assert_close(terms(&job).data_secs, 4.0 * far_secs);
    job.layout.data = 4;
    job.layout.sharding = Sharding::Optimizer;
    let gathered_secs = collective_secs(Collective::AllGather, 2.0 * 2320.0);
    assert_close(
        terms(&job).data_secs,
        collective_secs(Collective::ReduceScatter, 4.0 * 2320.0) + gathered_secs,
    );
}

#[test]
fn sums_beside_the_last_backward_part_show_their_last_bucket_or_what_is_longer() {
    let mut job = copies(Sharding::Optimizer);
    job.stack.overlaps_data = true;
    let [summed_secs, gathered_secs] = [(Collective::ReduceScatter, 4.0), (Collective::AllGather, 2.0)]
        .map(|(kind, bytes)| collective_secs(kind, bytes * 2320.0));
    assert_close(terms(&job).data_secs, (summed_secs + gathered_secs) / 16.0);
    (job.stack.data_efficiency, job.layout.data) = (1e-3, 8);
    let rack = AxisGroup { size: 8, stride: 1 };
    let [summed_secs, gathered_secs] = [(Collective::ReduceScatter, 4.0), (Collective::AllGather, 2.0)]
        .map(|(kind, bytes)| toy::cluster().collective_secs(kind, bytes * 2320.0, rack));
    let [forward_secs, backward_secs] = part_secs(&job, 3.0, true);
    let expected = 1e3 * (summed_secs + gathered_secs) - backward_secs - forward_secs;
    assert_close(terms(&job).data_secs, expected);
}

#[test]
fn shares_of_parameters_and_gradients_move_beside_the_layers() {
    let gather_secs = collective_secs(Collective::AllGather, 2.0 * 624.0);
    let scatter_secs = collective_secs(Collective::ReduceScatter, 4.0 * 624.0);
    let slowed = |job: &Job, phase: usize, moved_secs: f64, bytes: f64| {
        let secs = job.layer_secs(&toy::cluster())[phase];
        toy::cluster().beside_secs(secs, moved_secs, bytes) - secs
    };
    let check = |sharding, again_secs: f64| {
        let job = copies(sharding);
        let expected =
            slowed(&job, 0, gather_secs, 1248.0) + slowed(&job, 1, again_secs + scatter_secs, 2496.0);
        assert_close(terms(&job).data_secs, 7.0 * 3.0 * expected);
    };
    check(Sharding::Gradients, 0.0);
    check(Sharding::Parameters, gather_secs);
    // A tensor-parallel device moves its half; stages keep parameters whole, and sum their gradients after
    // the step.
    let layout = Layout { tensor: 2, data: 2, sharding: Sharding::Gradients, ..Layout::single() };
    let job = with_layout(layout);
    let moved = |kind, bytes| toy::cluster().collective_secs(kind, bytes, AxisGroup { size: 2, stride: 2 });
    let gather_secs = moved(Collective::AllGather, 624.0);
    let scatter_secs = moved(Collective::ReduceScatter, 1248.0);
    let expected = slowed(&job, 0, gather_secs, 624.0) + slowed(&job, 1, scatter_secs, 1248.0);
    assert_close(terms(&job).data_secs, 7.0 * 3.0 * expected);
}

#[test]
fn stages_of_sharded_parameters_sum_gradients_once_a_step() {
    let layout = Layout { stages: 2, data: 2, sharding: Sharding::Parameters, ..Layout::single() };
    let group = AxisGroup { size: 2, stride: 1 };
    let secs = |kind, bytes| toy::cluster().collective_secs(kind, bytes, group);
    let expected = secs(Collective::ReduceScatter, 4.0 * 1472.0) + secs(Collective::AllGather, 2.0 * 1472.0);
    assert_close(terms(&with_layout(layout)).data_secs, expected);
}

#[test]
fn one_microbatch_goes_down_and_up_the_stages_and_both_ends_of_a_send_wait() {
    let layout = Layout { stages: 2, ..Layout::single() };
    let mut job = with_layout(layout);
    job.layout.n_microbatches = 1;
    let sent_secs = toy::cluster().send_secs(480.0, false);
    let compute_secs: f64 = part_secs(&job, 3.0, true).iter().sum();
    let step_secs = |job: &Job| {
        let prediction = job.predict(&toy::cluster());
        prediction.step_secs - prediction.terms.update_secs
    };
    assert_close(step_secs(&job), compute_secs + 4.0 * sent_secs + 2.0 * sent_secs);
    job.stack.overlaps_sends = true;
    assert_close(step_secs(&job), compute_secs + 2.0 * sent_secs);
    // The first stage has two layers of three, the second the head: what is not the busiest one's work is the
    // pipeline's.
    let [first, second] =
        [(2.0, false), (1.0, true)].map(|(n_layers, has_head)| part_secs(&job, n_layers, has_head));
    let busiest_secs = first.iter().sum::<f64>().max(second.iter().sum());
    assert_close(terms(&job).pipeline_secs, compute_secs + 2.0 * sent_secs - busiest_secs);
}

#[test]
fn neighbours_of_stages_are_as_far_as_all_devices_of_a_stage() {
    let secs = |tensor, context, data| {
        let job = with_layout(Layout { stages: 2, tensor, context, data, ..Layout::single() });
        send_secs(&Pricer { job: &job, cluster: &toy::cluster() })
    };
    let expected = |bytes, crosses| toy::cluster().send_secs(bytes, crosses);
    assert_eq!(secs(1, 1, 3), expected(480.0, false));
    assert_eq!(secs(1, 1, 4), expected(480.0, true));
    assert_eq!(secs(2, 1, 1), expected(240.0, false));
    assert_eq!(secs(2, 2, 1), expected(120.0, true));
    assert_eq!(send_secs(&Pricer { job: &single(), cluster: &toy::cluster() }), 0.0);
}

#[test]
fn two_parts_of_each_stage_fill_the_pipeline_in_half_the_time() {
    let stack = Stack { overlaps_sends: true, ..job().stack };
    let run = |chunks| {
        let layout = Layout { stages: 2, chunks, n_microbatches: 4, micro_batch: 5, ..Layout::single() };
        let mut job = Job { layout, stack: stack.clone(), ..job() };
        (job.model.layers, job.model.vocab) = (4, 0.0);
        job
    };
    let mut cluster = Cluster::named("a100-8").expect("a cluster");
    cluster.accelerator = crate::Accelerator { collective_launch_secs: 1e-9, ..toy::device() };
    let secs = |chunks| {
        let prediction = run(chunks).predict(&cluster);
        prediction.step_secs - prediction.terms.update_secs
    };
    let layer_secs: f64 = run(1).layer_secs(&cluster).iter().sum();
    // 4 + 1 slots of two layers; 8 + 1 slots of one.
    assert!((secs(1) / (10.0 * layer_secs) - 1.0).abs() < 1e-6);
    assert!((secs(2) / (9.0 * layer_secs) - 1.0).abs() < 1e-6);
}

#[test]
fn measured_stages_take_what_was_measured_and_the_network_s_sends_and_sums() {
    let job = with_layout(Layout { stages: 2, data: 2, ..Layout::single() });
    let stage_secs = vec![[100.0, 200.0, 7.0], [100.0, 200.0, 9.0]];
    let measured = MeasuredStages { stage_secs: stage_secs.clone(), ..MeasuredStages::default() };
    let terms = job.predict_measured(&toy::cluster(), &measured).terms;
    let group = AxisGroup { size: 2, stride: 1 };
    let sum_secs = toy::cluster().collective_secs(Collective::AllReduce, 4.0 * 1472.0, group);
    let sent_secs = toy::cluster().send_secs(480.0, false);
    assert_close(terms.data_secs, sum_secs);
    assert_eq!(terms.update_secs, 9.0);
    assert_close(terms.product_secs, 7.0 * 300.0);
    // One more slot, and two waits in each.
    assert_close(terms.pipeline_secs, 300.0 + 8.0 * 2.0 * sent_secs);
}

#[test]
fn measured_sends_beside_computation_only_delay() {
    let mut job = with_layout(Layout { stages: 3, ..Layout::single() });
    job.layout.n_microbatches = 1;
    let measured = MeasuredStages {
        stage_secs: vec![[1.0, 2.0, 0.0]; 3],
        send_secs: Some(vec![10.0, 100.0]),
        sync_secs: Some(0.0),
    };
    let secs = |job: &Job| job.predict_measured(&toy::cluster(), &measured).step_secs;
    // Forward: what is sent on, last what was received; backward: what is sent back, first what was received.
    assert_eq!(secs(&job), 9.0 + (10.0 + 100.0 + 100.0) + (100.0 + 10.0 + 10.0));
    job.stack.overlaps_sends = true;
    assert_eq!(secs(&job), 9.0 + 2.0 * 110.0);
}
