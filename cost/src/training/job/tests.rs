//! Parameters, devices, positions and layers of a run.

use super::*;
use crate::toy::job;

#[test]
fn a_layer_has_projections_two_products_and_two_norms() {
    let mut model = job().model;
    let attention = 8.0 * 3.0 * (4.0 + 2.0 + 2.0 + 4.0);
    assert_eq!(model.layer_params(), attention + 2.0 * 160.0 + 2.0 * 8.0);
    assert_eq!(model.params(), 3.0 * 624.0 + 2.0 * 224.0);
    model.is_gated = true;
    assert_eq!(model.expert_params(), 0.0);
    model.experts = 6.0;
    assert_eq!(model.expert_params(), 3.0 * 160.0);
    // A router of 6 rows beside.
    assert_eq!(model.layer_params(), attention + 6.0 * 480.0 + 48.0 + 16.0);
    // The decoder's has attention to the encoder and a norm of its own beside.
    model.decoder_seq = 4.0;
    assert_eq!(model.layer_params(), 2.0 * (attention + 2880.0 + 64.0) + attention + 8.0);
}

#[test]
fn first_layers_may_be_dense_and_experts_have_a_width_of_their_own() {
    let mut model = job().model;
    let dense = model.layer_params();
    (model.experts, model.expert_ffn, model.shared_ffn, model.dense_layers) = (6.0, 10.0, 5.0, 1);
    let layer = dense - 320.0 + 6.0 * 160.0 + 80.0 + 48.0;
    assert_eq!(model.params(), dense + 2.0 * layer + 2.0 * 224.0);
    let layout = Layout { stages: 3, ..job().layout };
    assert_eq!(Job { model, layout, ..job() }.kinds_of_parts(), [[0, 1], [1, 0], [1, 0]]);
}

#[test]
fn latent_attention_has_narrow_projections() {
    let latent = Latent { query_rank: 5.0, kv_rank: 4.0, rotated: 2.0, value_dim: 4.0 };
    let params = |latent| Model { head_dim: 6.0, latent: Some(latent), ..job().model }.layer_params();
    let others = 320.0 + 16.0;
    // Queries 8 -> 5 -> 24, keys and values 8 -> 4 (and 2 rotated) -> 16 + 16, result 16 -> 8.
    assert_eq!(params(latent) - others, 5.0 * 32.0 + 8.0 * 6.0 + 4.0 * 32.0 + 16.0 * 8.0);
    let direct = Latent { query_rank: 0.0, ..latent };
    assert_eq!(params(direct) - others, 8.0 * 24.0 + 8.0 * 6.0 + 4.0 * 32.0 + 16.0 * 8.0);
}

#[test]
fn only_adapters_learn_where_there_are_any() {
    assert!(!job().model.is_frozen());
    assert!(Model { adapter_rank: 1.0, ..job().model }.is_frozen());
}

#[test]
fn gpt_has_heads_of_their_own_keys_and_four_times_the_width_inside() {
    let model = Model::gpt(2, 12.0, 3.0, 6.0, 28.0);
    assert_eq!([model.ffn, model.kv_heads, model.head_dim], [48.0, 3.0, 4.0]);
    assert!(model.is_causal && model.has_dropout && !model.is_gated);
}

#[test]
fn a_run_has_the_product_of_its_degrees_of_devices() {
    let layout = Layout {
        tensor: 2,
        context: 3,
        stages: 5,
        data: 7,
        micro_batch: 11,
        n_microbatches: 13,
        ..job().layout
    };
    assert_eq!(layout.n_devices(), 210);
    assert_eq!(layout.n_sequences(), 7 * 11 * 13);
    assert_eq!(layout.on_one_device(), Layout { micro_batch: 11, ..Layout::single() });
}

#[test]
fn context_parallel_devices_share_positions_and_tensor_parallel_ones_those_outside_products() {
    let layout = Layout { context: 3, tensor: 2, ..job().layout };
    let mut job = Job { layout, ..job() };
    assert_eq!([job.tokens(), job.outer_tokens()], [10.0, 10.0]);
    job.layout.has_sequence = true;
    assert_eq!([job.tokens(), job.outer_tokens()], [10.0, 5.0]);
}

#[test]
fn stages_have_the_layers_that_are_stated_if_these_are_all() {
    let parts = |stage_layers: &[usize], chunks| {
        let layout = Layout { stages: 2, chunks, stage_layers: stage_layers.to_vec(), ..job().layout };
        Job { layout, ..job() }.layers_of_parts()
    };
    assert_eq!(parts(&[1, 2], 1), [1, 2]);
    assert_eq!(parts(&[1, 1], 1), [2, 1]);
    assert_eq!(parts(&[3], 1), [2, 1]);
    assert_eq!(parts(&[], 3), [0, 1, 1, 1, 0, 0]);
}
