//! Configurations whose figures are known in closed form.

use super::*;
use crate::toy::{self, assert_close};

fn gpt3() -> Model {
    Model::gpt(96, 12288.0, 96.0, 2048.0, 51200.0)
}

fn megatron(tensor: usize, stages: usize, chunks: usize, has_sequence: bool) -> Job {
    let layout = Layout { tensor, has_sequence, stages, chunks, n_microbatches: 64, ..Layout::single() };
    Job { model: gpt3(), layout, recompute: Recompute::Nothing, stack: Stack::plain("f16") }
}

#[test]
fn activations_of_a_layer_are_those_of_the_published_formula() {
    // Korthikanti et al. 2022, table 2: s b h (10 + 24/t + 5 a s / (h t)), with sequence parallelism all over
    // t.
    let sbh = 2048.0 * 12288.0;
    let scores = 5.0 * 96.0 * 2048.0 / 12288.0;
    for (has_sequence, formula) in [(false, 10.0 + (24.0 + scores) / 8.0), (true, (34.0 + scores) / 8.0)] {
        let job = megatron(8, 8, 1, has_sequence);
        let saved = layer::saved_bytes(&job, &layer::layer(&job));
        assert!((saved / (sbh * formula) - 1.0).abs() < 1e-9, "{saved} {}", sbh * formula);
    }
}

#[test]
fn the_first_stage_holds_one_microbatch_per_stage_and_more_when_interleaved() {
    let plain = megatron(8, 8, 1, true).predict(&Cluster::named("a100-8x8").unwrap()).memory;
    let interleaved = megatron(8, 8, 3, true).predict(&Cluster::named("a100-8x8").unwrap()).memory;
    let ratio = interleaved.activation_bytes / plain.activation_bytes;
    // 1 + (p - 1) / (p v), Korthikanti et al. 2022, section 4.2.
    assert!((ratio - (1.0 + 7.0 / 24.0)).abs() < 1e-9, "{ratio}");
}

#[test]
fn flops_are_six_per_parameter_and_token_plus_attention() {
    let job = megatron(8, 8, 1, true);
    let tokens = 64.0 * 2048.0;
    let (model, head) = (gpt3(), 12288.0 * 51200.0);
    let products = 6.0 * tokens * (96.0 * (model.layer_params() - 2.0 * 12288.0) + head);
    let scores = 12.0 * 96.0 * tokens * 2048.0 * 12288.0;
    assert!((job.model_flops() / (products + scores) - 1.0).abs() < 1e-9);
}

#[test]
fn no_step_is_shorter_than_its_operations_at_the_peak() {
    let cluster = Cluster::named("a100-8x8").unwrap();
    for (tensor, stages) in [(8, 8), (8, 1), (1, 8)] {
        let mut job = megatron(tensor, stages, 1, true);
        job.stack.fuses_attention = true;
        let peak = cluster.accelerator.peak_flops_per_sec.of("f16") * (tensor * stages) as f64;
        assert!(job.predict(&cluster).step_secs > job.model_flops() / peak, "{tensor} {stages}");
    }
}

#[test]
fn the_terms_add_up_to_the_step() {
    let prediction = megatron(8, 8, 3, true).predict(&Cluster::named("a100-8x8").unwrap());
    assert!((prediction.terms.sum_secs() / prediction.step_secs - 1.0).abs() < 1e-12);
}

#[test]
fn layers_that_do_not_divide_go_to_the_middle() {
    let mut job = megatron(8, 8, 8, true);
    job.model.layers = 126;
    let parts = job.layers_of_parts();
    assert_eq!((parts[0], parts[32], parts[63], parts.iter().sum::<usize>()), (1, 2, 1, 126));
}

#[test]
fn an_allocator_holds_a_layer_s_blocks_beside_those_of_the_head() {
    let job = Job { recompute: Recompute::Layers(1.0), ..megatron(8, 1, 1, true) };
    let memory = job.memory();
    let operators = layer::layer(&job);
    let kept = layer::saved_bytes(&job, &operators);
    let again: f64 = operators.iter().map(|operator| operator.saved_bytes).sum::<f64>() - kept;
    let head = 10.0 * 2048.0 * 51200.0 / 8.0;
    assert_eq!(memory.transient_bytes, again.max(head));
    // The smaller of both stays, with the layer's result and two copies of its scores.
    let (result, scores) = (2.0 * 2048.0 * 12288.0, 4.0 * 12.0 * 2048.0 * 2048.0);
    assert!((memory.cached_bytes / (again.min(head) + result + scores) - 1.0).abs() < 1e-9, "{memory:?}");
}

#[test]
fn selective_checkpoints_keep_every_other_product() {
    let mut job = megatron(1, 1, 1, false);
    job.stack.fuses_attention = true;
    job.model = Model { is_gated: true, kv_heads: 8.0, ..job.model };
    job.recompute = Recompute::Products;
    // Input, queries, attention's result and the last product have the width, values an eighth of 96 / 8
    // heads, the first product the inner one.
    let elements = 2048.0 * (4.0 * 12288.0 + 8.0 * 128.0 + 49152.0);
    let sums = 4.0 * 96.0 * 2048.0;
    assert_eq!(layer::saved_bytes(&job, &layer::layer(&job)), 2.0 * elements + sums);
}

#[test]
fn measured_stages_wait_for_their_sends() {
    let job = megatron(8, 2, 1, true);
    let cluster = Cluster::named("a100-8x2").unwrap();
    let measured = |send_secs: f64| MeasuredStages {
        stage_secs: vec![[1.0, 2.0, 0.5]; 2],
        send_secs: Some(vec![send_secs]),
        sync_secs: Some(4.0),
    };
    let secs = |send_secs: f64| job.predict_measured(&cluster, &measured(send_secs)).step_secs;
    // 64 microbatches and one more slot, each with two waits; then the sum and the update.
    assert!((secs(0.0) - (65.0 * 3.0 + 4.5)).abs() < 1e-9, "{}", secs(0.0));
    assert!((secs(0.25) - (65.0 * 3.5 + 4.5)).abs() < 1e-9, "{}", secs(0.25));
}

#[test]
fn frozen_weights_have_no_gradients_and_adapters_cost_little() {
    let cluster = Cluster::named("a100-8x8").unwrap();
    let whole = megatron(8, 8, 1, true);
    let mut frozen = whole.clone();
    frozen.model.adapter_rank = 32.0;
    let ratio = frozen.predict(&cluster).terms.product_secs / whole.predict(&cluster).terms.product_secs;
    // Two products of three, and what products of activations take.
    assert!((0.66..0.76).contains(&ratio), "{ratio}");
}

#[test]
fn a_decoder_adds_a_layer_with_two_attentions_on_its_own_positions() {
    let mut job = megatron(1, 1, 1, false);
    let alone = layer::layer(&job).iter().map(layer::Operator::flops).sum::<f64>();
    let params = job.model.layer_params();
    job.model.decoder_seq = job.model.seq;
    let both = layer::layer(&job).iter().map(layer::Operator::flops).sum::<f64>();
    // 24 + 4 more parts of hidden squared, and one more attention of three.
    let (products, scores) = (2.0 * 2048.0 * 12288f64.powi(2), 4.0 * 2048.0 * 2048.0 * 12288.0);
    assert!((alone / (12.0 * products + scores) - 1.0).abs() < 1e-9);
    assert!((both / (28.0 * products + 3.0 * scores) - 1.0).abs() < 1e-9);
    assert_eq!(job.model.layer_params(), 2.0 * params + 4.0 * 12288f64.powi(2) + 12288.0);
}

#[test]
fn the_interval_is_wider_on_a_device_that_no_run_was_fitted_to() {
    let mut cluster = toy::cluster();
    let interval = |cluster: &Cluster| {
        let prediction = Prediction { step_secs: 2.0, ..toy::job().predict(cluster) };
        prediction.interval_secs(cluster)
    };
    assert_eq!(interval(&cluster), [2.0 / 1.237, 2.0 * 1.237]);
    cluster.accelerator.sources.insert("sustained".to_owned(), "fitted".to_owned());
    assert_eq!(interval(&cluster), [2.0 / 1.175, 2.0 * 1.175]);
}

#[test]
fn gradients_and_messages_are_those_of_all_devices_that_share_a_copy() {
    let layout = Layout { tensor: 2, stages: 2, context: 3, ..toy::job().layout };
    let job = Job { layout, ..toy::job() };
    assert_eq!([0, 1].map(|stage| job.stage_gradient_bytes(stage)), [4.0 * 1472.0, 4.0 * 848.0]);
    // 10 positions of width 8 in 16 bits.
    assert_eq!(job.message_bytes(), 2.0 * 10.0 * 8.0);
}

#[test]
fn operations_of_a_step_are_those_of_all_its_sequences_and_of_frozen_weights_fewer() {
    let layout = Layout { tensor: 2, context: 2, data: 2, n_microbatches: 7, ..toy::job().layout };
    let mut job = Job { layout, ..toy::job() };
    // Two products of activations of 20 heads, and what 30 positions do with projections and inner width.
    let (scores, products, head) = (2.0 * 20.0 * 2.0 * 108.0, 60.0 * (192.0 + 96.0 + 320.0), 60.0 * 224.0);
    assert_close(job.model_flops(), 14.0 * 3.0 * (3.0 * (scores + products) + head));
    job.model.adapter_rank = 2.0;
    let adapters = 60.0 * (2.0 * 8.0 + 24.0 * 2.0);
    assert_close(job.model_flops(), 14.0 * 2.0 * (3.0 * (scores + products + adapters) + head));
}

#[test]
fn a_layer_that_is_computed_again_takes_its_forward_part_once_more_and_the_head_does_not() {
    let job = Job { recompute: Recompute::Layers(1.0), ..toy::job() };
    let [plain, again] =
        [toy::job(), job].map(|job| (job.layer_secs(&toy::cluster()), job.head_secs(&toy::cluster())));
    assert_close(again.0[1], plain.0[1] + plain.0[0]);
    assert_eq!(again.1, plain.1);
    // Logits: 13440 operations at 4 flop/s and a wave of 2 s; 16 and 10 bytes for each of 840; norms of 240
    // elements.
    let forward = (1.0 + 13440.0 / 4.0 + 2.0) + (1.0 + 13440.0 / 4.0) + (1.0 + 960.0 / 4.0);
    assert_close(plain.1[0], forward);
}
