//! The formulas of a stage and a step, by hand.

use super::{Chain, Copies, Edge, Expert, Instance, Layer, Plan, PlanStage};

/// Three layers of 1, 2, 4 s forward and twice that backward; 3 s and 6 s between them.
fn chain() -> Chain {
    let layer = |at: usize| Layer {
        id: at as i64,
        parameter_bytes: [10.0, 20.0, 30.0][at],
        activation_bytes: [5.0, 6.0, 7.0][at],
        forward_secs: [1.0, 2.0, 4.0][at],
        backward_secs: [2.0, 4.0, 8.0][at],
        update_secs: 0.0,
        is_tensor_parallel: at == 2,
    };
    let edge = |layer: usize, bytes: f64| Edge { layer, bytes };
    Chain {
        width: 2,
        layers: (0..3).map(layer).collect(),
        inputs: vec![vec![], vec![edge(0, 30.0)], vec![edge(1, 60.0)]],
        outputs: vec![vec![edge(1, 30.0)], vec![edge(2, 60.0)], vec![]],
    }
}

fn instance(recompute: bool) -> Instance {
    Instance {
        memory_bytes: 200.0,
        n_devices: 8,
        bytes_per_sec: 10.0,
        n_microbatches: 10,
        recompute,
        parameter_copies: Copies::Sgd,
        chains: vec![chain()],
        expert: Some(Expert { n_stages: 2, width: 2, data_parallel: 2, n_layers: 2 }),
    }
}

fn plan(cuts: &[usize], data_parallel: usize) -> Plan {
    let stage =
        |pair: &[usize]| PlanStage { layers: pair[0]..pair[1], n_devices: if pair[1] == 3 { 2 } else { 1 } };
    Plan { chain: 0, data_parallel, stages: cuts.windows(2).map(stage).collect() }
}

#[test]
fn a_stage_waits_for_its_inputs_forward_and_for_its_gradients_backward() {
    let instance = instance(true);
    let secs = |layers| instance.stage(&chain(), layers).plain_secs;
    // 3 + 2 forward, 6 + 4 backward.
    assert_eq!(secs(1..2), 15.0);
    // Nothing to wait for forward: 1 + 2; 6 + 4 + 2 backward.
    assert_eq!(secs(0..2), 15.0);
    assert_eq!(secs(0..3), 21.0);
}

#[test]
fn recomputing_hides_the_gradients_transfer_behind_the_second_forward_pass() {
    let instance = instance(true);
    let secs = |layers| instance.stage(&chain(), layers).recompute_secs;
    // 3 + 2, then max(2, 6) + 4.
    assert_eq!(secs(1..2), 15.0);
    // 3 + 2 + 4, then 2 + 4 + 8 + 4.
    assert_eq!(secs(1..3), 27.0);
}

#[test]
fn the_last_stage_never_recomputes() {
    let cost = instance(true).stage(&chain(), 1..3);
    assert_eq!([cost.secs(true, 1), cost.secs(true, 2), cost.secs(false, 2)], [21.0, 27.0, 21.0]);
}

#[test]
fn an_edge_that_skips_a_layer_delays_the_layer_that_it_ends_at() {
    let mut chain = chain();
    chain.inputs[2].push(Edge { layer: 0, bytes: 100.0 });
    // 3 + 2, then max(5, 10) + 4; 8 + 4 backward.
    assert_eq!(instance(true).stage(&chain, 1..3).plain_secs, 26.0);
}

#[test]
fn memory_holds_weights_and_gradients_activations_and_what_is_in_flight() {
    // 2 * 50 + 13 = 113 of 200; 30 come in per microbatch.
    assert_eq!(instance(true).stage(&chain(), 1..3).max_stages, 3);
    // Without recomputation all 13 are kept.
    assert_eq!(instance(false).stage(&chain(), 1..3).max_stages, 7);
    let adam = Instance { parameter_copies: Copies::Adam, ..instance(true) };
    assert_eq!(adam.stage(&chain(), 1..3).max_stages, 2);
    let small = Instance { memory_bytes: 112.0, ..instance(true) };
    assert_eq!(small.stage(&chain(), 1..3).max_stages, 0);
    // Nothing comes into the first stage.
    assert_eq!(instance(true).stage(&chain(), 0..2).max_stages, 8);
}

#[test]
fn a_stage_has_the_width_where_one_of_its_layers_is_split() {
    let devices = |layers| instance(true).stage(&chain(), layers).n_devices;
    assert_eq!((devices(0..2), devices(1..3)), (1, 2));
}

#[test]
fn a_step_fills_the_pipeline_and_reduces_the_first_stage() {
    // 2 * (ceil(10 / 4) + 3 - 1), then 4 * 3 / 4 * 20 / 10.
    assert_eq!(instance(true).step_secs(2.0, 3, 4, 20.0), 16.0);
}

#[test]
fn a_plan_is_priced_by_its_slowest_stage() {
    // max(1 + 6 + 2 after a second 1, 21) * (5 + 2 - 1) + 4 / 2 * 10 / 10.
    assert_eq!(instance(true).price(&plan(&[0, 1, 3], 2)), Some(128.0));
}

#[test]
fn a_plan_on_too_many_devices_or_without_enough_memory_has_no_price() {
    assert_eq!(instance(true).price(&plan(&[0, 1, 3], 3)), None);
    let small = Instance { memory_bytes: 112.0, ..instance(true) };
    assert_eq!(small.price(&plan(&[0, 1, 3], 2)), None);
}

#[test]
fn the_expert_shares_out_positions_and_gives_the_rest_to_the_last_stage() {
    let plan = instance(true).expert_plan().expect("8 devices");
    let cuts: Vec<_> = plan.stages.iter().map(|stage| stage.layers.clone()).collect();
    assert_eq!(cuts, [0..1, 1..3]);
    assert_eq!(instance(true).expert_secs(), Some(128.0));
}

#[test]
fn a_stage_is_no_faster_than_its_layers() {
    assert_eq!(instance(true).stage(&chain(), 1..3).compute_secs, (2.0 + 4.0) + (4.0 + 8.0));
}

#[test]
fn a_stage_fits_as_often_as_its_memory_holds_to_the_byte() {
    // 113 bytes of the stage and 30 for each further microbatch.
    let most = |memory_bytes| Instance { memory_bytes, ..instance(true) }.stage(&chain(), 1..3).max_stages;
    assert_eq!([112.0, 113.0, 142.0, 143.0].map(most), [0, 1, 1, 2]);
    assert_eq!([7.0, 8.0].map(|further| most(113.0 + further * 30.0)), [8, 8]);
    // The first of two stages has to fit twice: 25 bytes, and nothing comes in; the second once.
    let priced =
        |memory_bytes| Instance { memory_bytes, ..instance(true) }.price(&plan(&[0, 1, 3], 2)).is_some();
    assert_eq!([112.0, 113.0].map(priced), [false, true]);
    let twice = Instance { memory_bytes: 65.0, recompute: false, ..instance(true) };
    // 40 + 6 bytes, and 6 more.
    assert_eq!(twice.stage(&chain(), 1..2).max_stages, 4);
}

#[test]
fn an_expert_may_share_out_all_layers() {
    let expert = Expert { n_layers: 3, ..instance(true).expert.expect("given") };
    let plan = Instance { expert: Some(expert), ..instance(true) }.expert_plan().expect("8 devices");
    let cuts: Vec<_> = plan.stages.iter().map(|stage| stage.layers.clone()).collect();
    assert_eq!(cuts, [0..2, 2..3]);
}

#[test]
fn an_expert_of_another_width_or_with_too_many_devices_or_layers_has_no_plan() {
    let expert = instance(true).expert.expect("given");
    let of = |expert| Instance { expert: Some(expert), ..instance(true) }.expert_plan();
    assert_eq!(of(Expert { width: 4, ..expert }), None);
    assert_eq!(of(Expert { data_parallel: 3, ..expert }), None);
    assert_eq!(of(Expert { n_layers: 4, ..expert }), None);
    assert_eq!(of(Expert { n_stages: 0, ..expert }), None);
}
