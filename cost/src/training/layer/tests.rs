//! The operators of small layers, shape by shape and byte by byte.

use super::*;
use crate::toy::job;
use crate::training::{Latent, Stack};
use Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};

fn fused() -> Job {
    Job { stack: Stack { fuses_attention: true, ..job().stack }, ..job() }
}

/// The work of an operator and the bytes that it keeps.
type Row = (Work, f64);

fn rows(operators: impl IntoIterator<Item = Operator>) -> Vec<Row> {
    operators.into_iter().map(|operator| (operator.work, operator.saved_bytes)).collect()
}

fn linear(m: f64, n: f64, k: f64, saved_bytes: f64) -> Row {
    (Work::Linear(Gemm::new(m, n, k)), saved_bytes)
}

fn stream(forward: f64, backward: f64, saved_bytes: f64) -> Row {
    (Work::Stream(forward, backward), saved_bytes)
}

fn collect(group: Group, forward: Option<(Collective, f64)>, backward: Option<(Collective, f64)>) -> Row {
    (Work::Collect(group, [forward, backward]), 0.0)
}

#[test]
fn a_dense_layer_is_attention_with_scores_in_memory_and_two_products() {
    let norm = stream(960.0, 1920.0, 480.0);
    let residual = stream(1440.0, 1440.0, 0.0);
    let product = |m, n, k, saved| (Work::Product(Gemm { batch: 20.0, m, n, k }), saved);
    let expected = [
        norm,
        // Queries of 12, keys and values of 6 each.
        linear(30.0, 24.0, 8.0, 480.0),
        product(6.0, 6.0, 3.0, 2.0 * 30.0 * 24.0),
        stream(2.0 * 1440.0, 3.0 * 1440.0, 1440.0),
        product(6.0, 3.0, 6.0, 0.0),
        stream(2.0 * 720.0, 2.0 * (720.0 + 1440.0), 0.0),
        linear(30.0, 8.0, 12.0, 720.0),
        residual,
        norm,
        linear(30.0, 20.0, 8.0, 480.0),
        stream(2.0 * 1200.0, 3.0 * 1200.0, 1200.0),
        linear(30.0, 8.0, 20.0, 1200.0),
        residual,
    ];
    assert_eq!(rows(layer(&job())), expected);
}

#[test]
fn dropout_reads_and_writes_its_masks_and_keeps_them() {
    let mut job = job();
    job.model.has_dropout = true;
    // A mask of one byte beside the values of two.
    assert_eq!(rows([residual(&job)]), [stream(1440.0 + 240.0, 1440.0 + 240.0, 240.0)]);
    assert_eq!(rows(scores(&job, 6.0, 0.0))[2], stream(5.0 * 720.0, 5.0 * 720.0, 3.0 * 720.0));
}

#[test]
fn a_gate_doubles_the_first_product_and_rotates_queries_and_keys() {
    let mut job = fused();
    job.model.is_gated = true;
    assert_eq!(rows(core(&job, 12.0, 6.0))[0], stream(2.0 * 30.0 * 2.0 * 18.0, 2.0 * 30.0 * 2.0 * 18.0, 0.0));
    let expected = [
        linear(30.0, 40.0, 8.0, 480.0),
        stream(3.0 * 1200.0, 5.0 * 1200.0, 2.0 * 1200.0),
        linear(30.0, 8.0, 20.0, 1200.0),
    ];
    assert_eq!(rows(feed_forward(&job, Gemm::new(30.0, 0.0, 0.0), 20.0, 30.0)), expected);
}

#[test]
fn fused_attention_keeps_queries_keys_values_and_four_bytes_a_query_and_head() {
    let mut job = fused();
    job.stack.has_portable_attention = true;
    let attention = Attention {
        batch: 5.0,
        heads: 4.0,
        kv_heads: 2.0,
        q_len: 6.0,
        kv_len: 6.0,
        head_dim: 3.0,
        is_causal: true,
        is_portable: true,
    };
    let kept = 2.0 * 30.0 * 24.0 + 4.0 * 120.0;
    assert_eq!(rows(core(&job, 12.0, 6.0)), [(Work::Attention(attention), kept)]);
}

#[test]
fn tensor_parallel_devices_share_heads_and_inner_width_and_add_up_the_results() {
    let mut job = fused();
    job.layout.tensor = 4;
    let list = rows(layer(&job));
    let [before, after] = [
        collect(Group::Tensor, None, Some((AllReduce, 480.0))),
        collect(Group::Tensor, Some((AllReduce, 480.0)), None),
    ];
    // One query head each, and a copy of one of the two key and value heads.
    assert_eq!(list[1..3], [before, linear(30.0, 3.0 + 2.0 * 3.0, 8.0, 480.0)]);
    assert_eq!(list[4..6], [linear(30.0, 8.0, 3.0, 180.0), after]);
    assert_eq!(list[8..10], [before, linear(30.0, 5.0, 8.0, 480.0)]);
    assert_eq!(list[11..13], [linear(30.0, 8.0, 5.0, 300.0), after]);
    let Work::Attention(attention) = list[3].0 else { panic!("{:?}", list[3]) };
    assert_eq!((attention.heads, attention.kv_heads), (1.0, 1.0));
    assert_eq!(list[3].1, 2.0 * 30.0 * 9.0 + 4.0 * 5.0 * 6.0);
}

#[test]
fn sequence_parallel_devices_gather_before_products_and_scatter_behind_them() {
    let mut job = fused();
    (job.layout.tensor, job.layout.has_sequence) = (2, true);
    let list = rows(layer(&job));
    let [gathered, scattered] = [Some((AllGather, 480.0)), Some((ReduceScatter, 480.0))];
    // Norms, residuals and what products keep of the norms have half the positions.
    let kept = |row: Row| row.1;
    assert_eq!(list[0], stream(480.0, 960.0, 240.0));
    assert_eq!(list[1], collect(Group::Tensor, gathered, scattered));
    assert_eq!(kept(list[2]), 240.0);
    assert_eq!(list[5], collect(Group::Tensor, scattered, gathered));
    assert_eq!(list[6], stream(720.0, 720.0, 0.0));
    assert_eq!([9, 11].map(|at| kept(list[at])), [240.0, 600.0]);
}

#[test]
fn context_parallel_devices_gather_keys_and_values() {
    let mut job = fused();
    job.layout.context = 2;
    let list = rows(core(&job, 12.0, 6.0));
    // Keys and values of both devices, of 15 positions each; gradients in twice the bytes.
    let exchange = collect(Group::Context, Some((AllGather, 720.0)), Some((ReduceScatter, 2.0 * 720.0)));
    assert_eq!(list[0], exchange);
    let Work::Attention(attention) = list[1].0 else { panic!("{:?}", list[1]) };
    assert_eq!((attention.q_len, attention.kv_len), (3.0, 6.0));
    let Work::Product(gemm) = scores(&job, 6.0, 0.0)[0].work else { panic!("no product") };
    assert_eq!(gemm, Gemm { batch: 20.0, m: 3.0, n: 6.0, k: 3.0 });
}

#[test]
fn tokens_go_to_their_experts_and_back() {
    let mut job = fused();
    (job.model.experts, job.model.top_k, job.layout.expert, job.layout.tensor) = (6.0, 2.0, 3, 2);
    let list = rows(experts::experts(&job));
    let exchanged = Some((AllToAll, 960.0));
    let rows = |n, k| Work::Linear(Gemm { batch: 2.0, m: 30.0, n, k });
    let expected = [
        (Work::WideLinear(Gemm::new(30.0, 6.0, 8.0)), 0.0),
        stream(1920.0, 1920.0, 0.0),
        collect(Group::Expert, exchanged, exchanged),
        stream(1920.0, 1920.0, 0.0),
        collect(Group::Tensor, None, Some((AllReduce, 480.0))),
        (rows(10.0, 8.0), 960.0),
        stream(2.0 * 1200.0, 3.0 * 1200.0, 1200.0),
        (rows(8.0, 10.0), 1200.0),
        collect(Group::Tensor, Some((AllReduce, 480.0)), None),
        stream(1920.0, 1920.0, 0.0),
        collect(Group::Expert, exchanged, exchanged),
        stream(1920.0, 1920.0, 960.0),
    ];
    assert_eq!(list, expected);
    assert_eq!(layer(&job).len(), 21);
}

#[test]
fn experts_on_one_device_exchange_nothing() {
    let mut job = fused();
    (job.model.experts, job.model.top_k) = (2.0, 2.0);
    assert!(!experts::experts(&job).iter().any(|operator| matches!(operator.work, Work::Collect(..))));
}

#[test]
fn experts_that_every_token_visits_are_a_dense_part_beside_the_others() {
    let mut job = fused();
    (job.model.experts, job.model.shared_ffn) = (2.0, 7.0);
    let list = rows(experts::experts(&job));
    let expected = [
        linear(30.0, 7.0, 8.0, 480.0),
        stream(2.0 * 420.0, 3.0 * 420.0, 420.0),
        linear(30.0, 8.0, 7.0, 420.0),
    ];
    assert_eq!(list[list.len() - 3..], expected);
}

#[test]
fn latent_attention_projects_twice_and_attends_with_values_of_their_own_width() {
    let mut job = fused();
    job.model.head_dim = 6.0;
    job.model.latent = Some(Latent { query_rank: 5.0, kv_rank: 4.0, rotated: 2.0, value_dim: 4.0 });
    let list = rows(attention(&job));
    let norm = |width: f64| stream(4.0 * 30.0 * width, 8.0 * 30.0 * width, 2.0 * 30.0 * width);
    let expected = [
        linear(30.0, 5.0, 8.0, 480.0),
        norm(5.0),
        linear(30.0, 24.0, 5.0, 300.0),
        linear(30.0, 6.0, 8.0, 0.0),
        norm(4.0),
        // Four heads: 4 elements of a key that are not rotated, 4 of a value.
        linear(30.0, 32.0, 4.0, 240.0),
        stream(8.0 * 720.0, 8.0 * 720.0, 0.0),
    ];
    assert_eq!(list[..7], expected);
    let Work::Attention(seen) = list[7].0 else { panic!("{:?}", list[7]) };
    assert_eq!((seen.head_dim, seen.kv_heads), (5.0, 4.0));
    assert_eq!(list[7].1, 2.0 * 30.0 * (24.0 + 24.0 + 16.0) + 4.0 * 5.0 * 4.0 * 6.0);
    assert_eq!(list[8], linear(30.0, 8.0, 16.0, 2.0 * 30.0 * 16.0));
    job.model.latent = Some(Latent { query_rank: 0.0, kv_rank: 4.0, rotated: 2.0, value_dim: 4.0 });
    assert_eq!(rows(attention(&job))[0], linear(30.0, 24.0, 8.0, 480.0));
}

#[test]
fn adapters_add_two_products_of_low_rank_and_frozen_weights_keep_nothing() {
    let mut job = fused();
    job.model.adapter_rank = 2.0;
    let list = rows(attention(&job));
    assert_eq!(list[0], linear(30.0, 24.0, 8.0, 0.0));
    let adapter = |n, k, saved| (Work::Adapter(Gemm::new(30.0, n, k)), saved);
    // The result of the frozen product and that of the adapter are read, their sum written.
    let expected = [adapter(2.0, 8.0, 480.0), adapter(24.0, 2.0, 120.0), stream(4320.0, 0.0, 0.0)];
    assert_eq!(list[1..4], expected);
}

#[test]
fn narrow_products_keep_narrow_operands_where_the_software_does() {
    let mut job = job();
    job.stack.product_dtype = "f8e4m3fn";
    assert_eq!(kept(&job), 2.0);
    job.stack.keeps_narrow = true;
    assert_eq!(kept(&job), 1.0);
}

#[test]
fn the_head_is_a_product_in_the_general_type_and_a_loss_in_32_bits() {
    let mut job = job();
    (job.layout.tensor, job.stack.product_dtype) = (2, "f8e4m3fn");
    let logits = 30.0 * 14.0;
    let expected = [
        stream(960.0, 1920.0, 480.0),
        collect(Group::Tensor, None, Some((AllReduce, 480.0))),
        (Work::WideLinear(Gemm::new(30.0, 14.0, 8.0)), 480.0),
        stream(16.0 * logits, 10.0 * logits, 4.0 * logits),
    ];
    assert_eq!(rows(head(&job)), expected);
    job.model.vocab = 0.0;
    assert_eq!(head(&job), []);
}

#[test]
fn a_decoder_attends_to_itself_and_to_the_encoder() {
    let mut job = fused();
    (job.model.decoder_seq, job.model.is_causal) = (4.0, false);
    let list = layer(&job);
    let seen = list.iter().filter_map(|operator| match operator.work {
        Work::Attention(it) => Some((it.q_len, it.kv_len, it.is_causal, operator.is_core)),
        _ => None,
    });
    let expected = [(6.0, 6.0, false, true), (4.0, 4.0, true, true), (4.0, 6.0, false, true)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    // Queries from 20 positions, keys and values from 30.
    let cross = [
        stream(640.0, 1280.0, 320.0),
        linear(20.0, 12.0, 8.0, 320.0),
        linear(30.0, 12.0, 8.0, 480.0),
        (list[list.len() - 3].work, 2.0 * (20.0 * 12.0 + 2.0 * 30.0 * 6.0) + 4.0 * 5.0 * 4.0 * 4.0),
        linear(20.0, 8.0, 12.0, 480.0),
        stream(960.0, 960.0, 0.0),
    ];
    assert_eq!(rows(list[list.len() - 6..].iter().copied()), cross);
    let Work::WideLinear(product) = head(&job)[1].work else { panic!("no product") };
    assert_eq!(product, Gemm::new(20.0, 28.0, 8.0));
}

#[test]
fn operations_are_those_of_products_and_attention() {
    let flops = |work| Operator::new(work, 0.0).flops();
    let gemm = Gemm { batch: 2.0, m: 3.0, n: 5.0, k: 7.0 };
    for work in [Work::Linear(gemm), Work::Adapter(gemm), Work::WideLinear(gemm), Work::Product(gemm)] {
        assert_eq!(flops(work), 420.0);
    }
    assert_eq!(flops(Work::Stream(3.0, 4.0)), 0.0);
    assert_eq!(flops(Work::Collect(Group::Tensor, [Some((AllReduce, 8.0)), None])), 0.0);
}

/// What is kept of the dense layer, and of its attention with scores, by what is computed again.
#[test]
fn what_is_computed_again_is_not_kept() {
    let saved = |job: &Job, recompute| {
        let job = Job { recompute, ..job.clone() };
        saved_bytes(&job, &layer(&job))
    };
    // Norms, the inputs of four products, scores, the inner width's values.
    let outside = 2.0 * 480.0 + 480.0 + 720.0 + 480.0 + 1200.0 + 1200.0;
    assert_eq!(saved(&job(), Recompute::Nothing), outside + 1440.0 + 1440.0);
    // The scores are made again from queries, keys and values.
    assert_eq!(saved(&job(), Recompute::Attention), outside + 1440.0);
    assert_eq!(saved(&fused(), Recompute::Attention), outside + 1440.0 + 480.0);
    assert_eq!(saved(&job(), Recompute::Layers(1.0)), 480.0);
    assert_eq!(saved(&job(), Recompute::Layers(0.25)), 0.75 * (outside + 2880.0) + 0.25 * 480.0);
    // The input; queries and the result of 12, values of 6, 4 bytes per head; the first product of the
    // feed-forward part.
    let selected = 480.0 + 30.0 * (2.0 * (24.0 + 6.0) + 16.0) + 2.0 * 30.0 * 20.0;
    assert_eq!(saved(&job(), Recompute::Products), selected);
}

#[test]
fn selective_checkpoints_keep_what_every_visited_expert_makes() {
    let mut job = fused();
    job.recompute = Recompute::Products;
    (job.model.experts, job.model.top_k, job.model.is_gated) = (6.0, 2.0, true);
    (job.layout.tensor, job.layout.has_sequence) = (4, true);
    // A quarter of the positions outside products; one query head and a copy of a value head; both experts'
    // inner width and result.
    let expected = 120.0 + 30.0 * (2.0 * (6.0 + 3.0) + 4.0) + 2.0 * 2.0 * (30.0 * 5.0 + 7.5 * 8.0);
    assert_eq!(saved_bytes(&job, &layer(&job)), expected);
}

#[test]
fn scores_that_are_no_multiple_of_four_matrices_pass_through_memory_five_times() {
    let streams = |micro_batch| {
        let mut job = job();
        (job.model.heads, job.layout.micro_batch) = (2.0, micro_batch);
        let list = rows(scores(&job, 6.0, 0.0));
        list.iter().filter(|row| matches!(row.0, Work::Stream(..))).count()
    };
    // The heads of the result are put side by side in one more.
    assert_eq!([streams(2), streams(3)], [2, 6]);
}

#[test]
fn a_gate_that_is_not_fused_keeps_its_result() {
    let mut job = job();
    (job.model.is_gated, job.stack.fuses_gate) = (true, false);
    let list = rows(feed_forward(&job, Gemm::new(30.0, 0.0, 0.0), 20.0, 30.0));
    assert_eq!(list[1], stream(3.0 * 1200.0, 5.0 * 1200.0, 3.0 * 1200.0));
}

#[test]
fn norms_and_the_function_inside_are_computed_again_where_the_software_says_so() {
    let saved = |norms, activation, is_gated| {
        let mut job = job();
        (job.model.is_gated, job.stack.fuses_gate) = (is_gated, false);
        job.recompute = Recompute::Light { norms, activation };
        saved_bytes(&job, &layer(&job))
    };
    let whole = saved(false, false, false);
    assert_eq!(whole - saved(true, false, false), 2.0 * 480.0);
    assert_eq!(whole - saved(false, true, false), 1200.0);
    assert_eq!(saved(false, false, true) - saved(true, true, true), 2.0 * 480.0 + 2.0 * 1200.0);
}

#[test]
fn products_of_experts_that_are_fused_move_nothing_else() {
    let mut job = fused();
    (job.model.experts, job.model.top_k, job.stack.fuses_experts) = (2.0, 2.0, true);
    let list = rows(experts::experts(&job));
    let Work::Converted(gemm) = list[2].0 else { panic!("{:?}", list[2]) };
    assert_eq!((gemm.batch, gemm.m), (2.0, 30.0));
    assert_eq!(list[3], stream(0.0, 0.0, 2400.0));
}

#[test]
fn elements_of_32_bits_take_twice_the_bytes_of_16() {
    let mut job = fused();
    (job.stack.dtype, job.model.is_gated) = ("f32", true);
    assert_eq!(rows([norm(&job)]), [stream(1920.0, 3840.0, 960.0)]);
    assert_eq!(rows(core(&job, 12.0, 6.0))[0], stream(4320.0, 4320.0, 0.0));
    job.layout.context = 2;
    let exchange = collect(Group::Context, Some((AllGather, 1440.0)), Some((ReduceScatter, 2880.0)));
    assert_eq!(rows(core(&job, 12.0, 6.0))[1], exchange);
    (job.layout.context, job.layout.tensor, job.model.has_dropout) = (1, 2, true);
    let list = rows(scores(&job, 6.0, 0.0));
    // Ten matrices: four passes more over the scores.
    assert_eq!(list[6], stream(9.0 * 360.0, 9.0 * 360.0, 5.0 * 360.0));
    assert_eq!(list[8], stream(2.0 * 720.0, 2.0 * 720.0, 0.0));
}
