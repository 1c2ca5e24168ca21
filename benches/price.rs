//! How long it takes to price one operator, one collective, and one training run.

use criterion::{Criterion, criterion_group, criterion_main};
use phzc_cost::training::{Job, Layout, Model, Recompute, Sharding, Stack};
use phzc_cost::{Attention, AxisGroup, Cluster, Collective, Gemm, Role};
use std::hint::black_box;

fn job() -> Job {
    let model = Model {
        layers: 96,
        hidden: 12288.0,
        ffn: 49152.0,
        heads: 96.0,
        kv_heads: 96.0,
        head_dim: 128.0,
        seq: 2048.0,
        vocab: 51200.0,
        experts: 1.0,
        top_k: 1.0,
        is_gated: false,
        is_causal: true,
        has_dropout: true,
        decoder_seq: 0.0,
        adapter_rank: 0.0,
    };
    let layout = Layout {
        tensor: 8,
        has_sequence: true,
        stages: 8,
        chunks: 3,
        stage_layers: Vec::new(),
        context: 1,
        expert: 1,
        data: 1,
        sharding: Sharding::Nothing,
        micro_batch: 1,
        n_microbatches: 64,
    };
    let stack = Stack {
        fuses_attention: true,
        has_portable_attention: false,
        overlaps_gradients: true,
        overlaps_tensor: false,
        overlaps_sends: false,
        overlaps_data: false,
        data_efficiency: 1.0,
        fuses_accumulation: true,
        logit_bytes: 10.0,
        keeps_narrow: false,
        n_passes: 1.0,
        product_dtype: "bf16",
        dtype: "bf16",
        gradient_bytes: 4.0,
        weight_bytes: 6.0,
        optimizer_bytes: 12.0,
        keeps_gathered: false,
        receives_ahead: false,
        bucket_params: 0.0,
    };
    Job { model, layout, recompute: Recompute::Nothing, stack }
}

fn price(criterion: &mut Criterion) {
    let cluster = Cluster::named("a100-8x8").expect("a known cluster");
    let device = &cluster.accelerator;
    let gemm = Gemm::new(2048.0, 6144.0, 12288.0);
    let attention = Attention {
        batch: 1.0,
        heads: 12.0,
        kv_heads: 12.0,
        q_len: 2048.0,
        kv_len: 2048.0,
        head_dim: 128.0,
        is_causal: true,
        is_portable: false,
    };
    let group = [AxisGroup { size: 8, stride: 1 }];
    let mut bench = criterion.benchmark_group("price");
    bench.bench_function("product", |b| b.iter(|| device.gemm_secs(black_box(&gemm), "bf16", Role::Write)));
    bench.bench_function("attention", |b| b.iter(|| device.attention_secs(black_box(&attention))));
    bench.bench_function("collective", |b| {
        b.iter(|| cluster.collective_over_secs(Collective::AllReduce, black_box(1e8), &group))
    });
    let job = job();
    bench.bench_function("run", |b| b.iter(|| black_box(&job).predict(&cluster)));
    bench.finish();
}

criterion_group!(benches, price);
criterion_main!(benches);
