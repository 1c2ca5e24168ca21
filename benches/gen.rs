//! How long `phzc gen` takes to write whole training steps, forward, backward and AdamW.

#[path = "../tests/common/mod.rs"]
mod common;

use common::phzc;
use criterion::{Criterion, criterion_group, criterion_main};

const STEPS: &[(&str, &[&str])] = &[
    ("gpt_175b", &["gpt", "--size", "175b"]),
    ("gpt_175b_scan", &["gpt", "--size", "175b", "--scan"]),
    ("gpt_1024_layers", &["gpt", "--size", "175b", "--layers", "1024"]),
    ("llama_3_405b", &["llama", "--size", "3-405b"]),
    ("resnet_50", &["resnet", "--size", "50"]),
];

fn generate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gen");
    group.sample_size(10);
    for (name, args) in STEPS {
        let args = [&["gen"], *args].concat();
        group.bench_function(*name, |bench| {
            bench.iter(|| {
                let outcome = phzc(&args, b"");
                assert_eq!(outcome.code, 0, "{}", outcome.stderr);
                outcome.stdout.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, generate);
criterion_main!(benches);
