//! The price of each kind of operator on a device of small whole numbers.
//!
//! Products take a fourth of their operations and 2 s, memory a fourth of its bytes; a kernel 1 s more, a
//! collective 10 s.

use super::*;
use crate::toy::{self, assert_close, job};
use crate::training::{Layout, Stack};

fn operator(work: Work, is_core: bool) -> Operator {
    Operator { work, saved_bytes: 0.0, is_core }
}

/// Forward and backward terms of one operator.
fn price(job: &Job, work: Work) -> [Terms; 2] {
    Pricer { job, cluster: &toy::cluster() }.terms(&[operator(work, false)], job.recompute)
}

fn products(secs: f64) -> Terms {
    Terms { product_secs: secs, ..Terms::default() }
}

/// 48 operations: 1 + max(14, (2 x 20 + 2 x 6) / 4) s, and the same for the gradient of its input.
const GEMM: Gemm = Gemm { batch: 1.0, m: 2.0, n: 3.0, k: 4.0 };
/// The gradient of its weight adds 4 x 3 results in 32 bits: 1 + (2 x 7 x 2 + 8 x 12) / 4 s.
const WEIGHT_SECS: f64 = 32.0;

#[test]
fn a_product_with_a_weight_has_two_products_backward() {
    assert_eq!(price(&job(), Work::Linear(GEMM)), [products(15.0), products(15.0 + WEIGHT_SECS)]);
    assert_eq!(price(&job(), Work::Adapter(GEMM)), [products(15.0), products(15.0 + WEIGHT_SECS)]);
}

#[test]
fn software_that_does_not_fuse_sums_adds_gradients_in_a_kernel_of_its_own() {
    let mut job = job();
    job.stack.fuses_accumulation = false;
    // 12 gradients: 2 bytes read, 4 read and 4 written.
    let backward = Terms { product_secs: 30.0, stream_secs: 1.0 + 120.0 / 4.0, ..Terms::default() };
    assert_eq!(price(&job, Work::Linear(GEMM)), [products(15.0), backward]);
}

#[test]
fn frozen_weights_have_one_product_backward_and_adapters_two() {
    let mut job = job();
    job.model.adapter_rank = 2.0;
    assert_eq!(price(&job, Work::Linear(GEMM)), [products(15.0), products(15.0)]);
    assert_eq!(price(&job, Work::WideLinear(GEMM)), [products(15.0), products(15.0)]);
    assert_eq!(price(&job, Work::Adapter(GEMM)), [products(15.0), products(15.0 + WEIGHT_SECS)]);
}

#[test]
fn operands_of_narrow_products_are_converted_first() {
    let mut job = job();
    job.stack.product_dtype = "f8e4m3fn";
    let streams = |job: &Job, work| price(job, work).map(|terms| terms.stream_secs);
    // Written as they are and transposed: 4 bytes for each of 8 inputs, and of 6 gradients.
    assert_eq!(streams(&job, Work::Linear(GEMM)), [1.0 + 32.0 / 4.0, 1.0 + 24.0 / 4.0]);
    assert_eq!(streams(&job, Work::WideLinear(GEMM)), [0.0, 0.0]);
    job.model.adapter_rank = 2.0;
    assert_eq!(streams(&job, Work::Linear(GEMM)), [1.0 + 24.0 / 4.0, 1.0 + 18.0 / 4.0]);
    assert_eq!(streams(&job, Work::Linear(Gemm { batch: 2.0, ..GEMM }))[0], 1.0 + 48.0 / 4.0);
}

#[test]
fn a_product_of_activations_adds_to_nothing() {
    assert_eq!(price(&job(), Work::Product(GEMM)), [products(15.0), products(30.0)]);
}

#[test]
fn products_of_32_bits_run_as_tf32() {
    let mut job = job();
    (job.stack.dtype, job.stack.product_dtype) = ("f32", "f32");
    let forward = |work| price(&job, work)[0].product_secs;
    // A sum of 100 terms for each of 4 results: 2 or 1 flop/s in tiles, 2 on the vector units.
    let long = Gemm::new(2.0, 2.0, 100.0);
    assert_eq!(forward(Work::Product(long)), 1.0 + 1600.0 / 4.0 + 16.0 / 4.0);
    let large = Gemm::new(40.0, 40.0, 10.0);
    assert_eq!(forward(Work::WideLinear(large)), 1.0 + 32000.0 / 2.0);
    assert_eq!([matrix_dtype("f32"), matrix_dtype("bf16")], ["tf32", "bf16"]);
}

#[test]
fn other_kernels_pass_through_memory_as_often_as_the_software_lets_them() {
    let mut job = job();
    job.stack.n_passes = 3.0;
    let streams = price(&job, Work::Stream(8.0, 20.0)).map(|terms| terms.stream_secs);
    assert_eq!(streams, [3.0 * (1.0 + 2.0), 3.0 * (1.0 + 5.0)]);
}

#[test]
fn attention_is_priced_as_its_kernels_are() {
    let attention = crate::Attention {
        batch: 1.0,
        heads: 2.0,
        kv_heads: 2.0,
        q_len: 6.0,
        kv_len: 6.0,
        head_dim: 4.0,
        is_causal: false,
        is_portable: false,
    };
    let device = toy::device();
    let expected = [device.attention_secs(&attention), device.attention_backward_secs(&attention)];
    assert_eq!(price(&job(), Work::Attention(attention)).map(|terms| terms.attention_secs), expected);
}

/// Bytes whose gather over two devices of a node takes 10 + 1 + 1 + 2 s, over four 10 + 3 + 12 + 2 x 6 s.
const PAIR_BYTES: f64 = 16.0;
const NODE_BYTES: f64 = 128.0;

#[test]
fn collectives_run_over_their_own_groups_each_way() {
    let mut job = job();
    (job.layout.tensor, job.layout.context, job.layout.expert, job.layout.data) = (2, 2, 4, 3);
    let cluster = toy::cluster();
    let pricer = Pricer { job: &job, cluster: &cluster };
    let of = |group| (pricer.group(group).size, pricer.group(group).stride);
    assert_eq!([Group::Tensor, Group::Context, Group::Expert].map(of), [(2, 1), (2, 2), (4, 4)]);
    let of = |group: AxisGroup| (group.size, group.stride);
    // Fewer copies than experts are shared by: each has them for itself.
    assert_eq!(pricer.data_groups().map(of), [(6, 2), (1, 8)]);
    let work = Work::Collect(Group::Tensor, [Some((Collective::AllGather, PAIR_BYTES)), None]);
    assert_eq!(price(&job, work).map(|terms| terms.layer_collective_secs), [14.0, 0.0]);
    let work = Work::Collect(Group::Tensor, [None, Some((Collective::ReduceScatter, PAIR_BYTES))]);
    assert_eq!(price(&job, work).map(|terms| terms.layer_collective_secs), [0.0, 14.0]);
}

#[test]
fn collectives_in_pieces_show_their_first_piece_and_what_they_slow_down() {
    let mut job = job();
    job.layout.tensor = 4;
    let cluster = toy::cluster();
    let secs = |job: &Job, group| {
        Pricer { job, cluster: &cluster }.exposed_secs(group, Collective::AllGather, NODE_BYTES)
    };
    assert_eq!(secs(&job, Group::Tensor), 37.0);
    job.stack.overlaps_tensor = true;
    // A fourth; three times the share of 128 bytes in 37 s of the 8 bytes/s of memory is more than all of it.
    assert_eq!(secs(&job, Group::Tensor), 37.0 / 4.0 + 37.0);
    let small =
        Pricer { job: &job, cluster: &cluster }.exposed_secs(Group::Tensor, Collective::AllGather, 8.0);
    let whole = cluster.collective_secs(Collective::AllGather, 8.0, AxisGroup { size: 4, stride: 1 });
    assert_close(small, whole / 4.0 + 3.0 * 8.0 / 8.0);
    job.layout = Layout { context: 2, ..Layout::single() };
    let pair = cluster.collective_secs(Collective::AllGather, NODE_BYTES, AxisGroup { size: 2, stride: 1 });
    job.stack.overlaps_tensor = false;
    assert_close(secs(&job, Group::Context), pair / 2.0 + pair);
    // Tokens wait for their experts.
    job.layout = Layout { expert: 4, ..Layout::single() };
    job.stack.overlaps_tensor = true;
    assert_eq!(secs(&job, Group::Expert), 37.0);
}

#[test]
fn a_collective_beside_the_gradient_of_a_weight_costs_what_it_slows_that_down() {
    let mut job = job();
    (job.layout.tensor, job.stack.overlaps_gradients) = (2, true);
    let secs = |job: &Job, kind, bytes, between: Option<Work>| {
        let moved = Work::Collect(Group::Tensor, [None, Some((kind, bytes))]);
        let works = [moved].into_iter().chain(between).chain([Work::Linear(GEMM)]);
        let operators: Vec<Operator> = works.map(|work| operator(work, false)).collect();
        Pricer { job, cluster: &toy::cluster() }.terms(&operators, Recompute::Nothing)[1]
            .layer_collective_secs
    };
    // A gather of 14 s beside the gradient's 32 s slows it by 14 s times three times 16 bytes in 14 s of 8
    // bytes/s.
    assert_close(secs(&job, Collective::AllGather, PAIR_BYTES, None), 3.0 * 16.0 / 8.0);
    // What was scattered had been gathered once more, beside the gradient of the input.
    assert_close(secs(&job, Collective::ReduceScatter, PAIR_BYTES, None), 2.0 * 3.0 * 16.0 / 8.0);
    // A long one shows beyond the gradient; with what it slows it is no longer than both in turn.
    let long_secs =
        toy::cluster().collective_secs(Collective::AllGather, 1e4, AxisGroup { size: 2, stride: 1 });
    assert_close(secs(&job, Collective::AllGather, 1e4, None), long_secs);
    let apart = Some(Work::Stream(0.0, 0.0));
    assert_eq!(secs(&job, Collective::AllGather, PAIR_BYTES, apart), 14.0);
    let pieces = Stack { overlaps_tensor: true, ..job.stack.clone() };
    let [plain, pieces] = [Stack::plain("bf16"), pieces].map(|stack| Job { stack, ..job.clone() });
    assert_eq!(secs(&plain, Collective::AllGather, PAIR_BYTES, None), 14.0);
    assert_eq!(secs(&pieces, Collective::AllGather, PAIR_BYTES, None), 14.0 / 2.0 + 3.0 * 16.0 / 8.0);
    job.model.adapter_rank = 2.0;
    assert_eq!(secs(&job, Collective::AllGather, PAIR_BYTES, None), 14.0);
}

#[test]
fn the_backward_part_repeats_what_is_not_kept() {
    let mut job = job();
    let secs = |job: &Job, recompute, is_core| {
        let list = [operator(Work::Stream(12.0, 0.0), is_core)];
        Pricer { job, cluster: &toy::cluster() }.terms(&list, recompute)[1].stream_secs - 1.0
    };
    assert_eq!(secs(&job, Recompute::Nothing, true), 0.0);
    assert_eq!([true, false].map(|is_core| secs(&job, Recompute::Attention, is_core)), [4.0, 0.0]);
    assert_eq!(secs(&job, Recompute::Products, false), 2.0);
    assert_eq!(secs(&job, Recompute::Layers(0.75), false), 3.0);
    job.stack.fuses_attention = true;
    assert_eq!(secs(&job, Recompute::Attention, true), 0.0);
}

#[test]
fn rows_that_are_not_aligned_slow_the_products_that_read_them_on_devices_with_cores() {
    let mut cluster = toy::cluster();
    cluster.accelerator.n_cores = Some(1);
    let secs = |n: f64| {
        let list = [operator(Work::Linear(Gemm::new(8.0, n, 8.0)), false)];
        Pricer { job: &job(), cluster: &cluster }.terms(&list, Recompute::Nothing).map(|it| it.product_secs)
    };
    let [forward, backward] = secs(15.0);
    assert!(forward <= secs(16.0)[0] && backward > 3.0 * secs(16.0)[1], "{forward} {backward}");
}

#[test]
fn experts_multiply_one_after_the_other_unless_one_kernel_has_them_all() {
    let work = Work::Linear(Gemm { batch: 3.0, ..GEMM });
    assert_eq!(price(&job(), work)[0], products(3.0 * 15.0));
    let mut job = job();
    job.stack.fuses_experts = true;
    // 36 s of operations and 2 s of one wave are less than the traffic of three.
    assert_eq!(price(&job, work)[0], products(1.0 + 3.0 * 52.0 / 4.0));
}

#[test]
fn a_token_goes_once_to_each_node_and_device_that_it_visits() {
    let mut job = job();
    (job.model.experts, job.model.top_k, job.layout.expert) = (8.0, 2.0, 8);
    job.stack.sends_once = true;
    let cluster = toy::cluster();
    let secs = |bytes, size, stride| {
        cluster.collective_secs(Collective::AllToAll, bytes, AxisGroup { size, stride })
    };
    let exposed = |job: &Job| {
        Pricer { job, cluster: &cluster }.exposed_secs(Group::Expert, Collective::AllToAll, 640.0)
    };
    // Two experts are in 1.5 of 2 nodes, and on 1.875 of 8 devices; links between nodes are the slower ones.
    assert_eq!(exposed(&job), secs(0.75 * 640.0, 2, 4));
    // On 1.75 of 4 devices of one node.
    job.layout.expert = 4;
    assert_eq!(exposed(&job), secs(0.875 * 640.0, 4, 1));
}

#[test]
fn the_host_issues_experts_one_by_one_and_collectives_once() {
    let mut job = job();
    job.stack.issue_secs = 2.0;
    let cluster = toy::cluster();
    let pricer = Pricer { job: &job, cluster: &cluster };
    let secs = |work| pricer.issue_secs(&[operator(work, false)], Recompute::Layers(1.0));
    assert_eq!(secs(Work::Stream(1.0, 1.0)), [2.0, 6.0]);
    assert_eq!(secs(Work::Linear(Gemm { batch: 3.0, ..GEMM })), [6.0, 18.0]);
    let gathered = Some((Collective::AllGather, 8.0));
    assert_eq!(secs(Work::Collect(Group::Tensor, [gathered, None])), [2.0, 2.0]);
}

#[test]
fn terms_are_summed_and_scaled_one_by_one() {
    let terms = Terms {
        product_secs: 1.0,
        attention_secs: 2.0,
        stream_secs: 4.0,
        layer_collective_secs: 8.0,
        data_secs: 16.0,
        pipeline_secs: 32.0,
        update_secs: 64.0,
        host_secs: 128.0,
    };
    assert_eq!(terms.sum_secs(), 255.0);
    let mut sum = terms;
    sum.add(&terms, 2.0);
    assert_eq!(sum.named().map(|(_, secs)| secs), terms.named().map(|(_, secs)| 3.0 * secs));
}
