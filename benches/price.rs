//! How long it takes to price one operator, one collective, and one training run.

use criterion::{Criterion, criterion_group, criterion_main};
use phzc_cost::training::{Job, Layout, Model, Recompute, Stack};
use phzc_cost::{Attention, AxisGroup, Cluster, Collective, Gemm, Role};
use std::hint::black_box;

fn job() -> Job {
    let model = Model::gpt(96, 12288.0, 96.0, 2048.0, 51200.0);
    let layout = Layout {
        tensor: 8,
        has_sequence: true,
        stages: 8,
        chunks: 3,
        n_microbatches: 64,
        ..Layout::single()
    };
    let stack = Stack { fuses_attention: true, overlaps_gradients: true, ..Stack::plain("bf16") };
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
