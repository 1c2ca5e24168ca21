//! How long the main job takes, from file to `-o` on the default cluster, and how it grows with the number of
//! layers.

#[path = "../tests/common/mod.rs"]
mod common;
mod model;

use common::{corpus, phzc, scratch};
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs of the corpus with a time that they must not exceed, in seconds.
const LIMITS: &[(&str, f64)] = &[("llama_7b_gqa.hlo.gz", 5.0), ("gpt_1p3b.hlo.gz", 1.0)];

fn plan(model: &Path) {
    let outcome = phzc(&[&*model.to_string_lossy(), "--passes", "fuse,shard,place", "--quiet"], b"");
    assert_eq!(outcome.code, 0, "{}: {}", model.display(), outcome.stderr);
}

fn measure(criterion: &mut Criterion, group: &str, models: &[(String, PathBuf)]) {
    let mut group = criterion.benchmark_group(group);
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for (name, path) in models {
        group.bench_with_input(BenchmarkId::from_parameter(name), path, |bench, path| {
            bench.iter(|| plan(path))
        });
    }
    group.finish();
}

fn real(criterion: &mut Criterion) {
    let found = corpus();
    let named = |(name, limit): &(&str, f64)| {
        let path = found.iter().find(|path| path.ends_with(name))?;
        Some((format!("{name} (wanted: {limit} s)"), path.clone()))
    };
    let models: Vec<(String, PathBuf)> = LIMITS.iter().filter_map(named).collect();
    measure(criterion, "plan", &models);
}

fn depth(criterion: &mut Criterion) {
    let dir = scratch("bench_plan");
    let written = |n_layers: usize| {
        let path = dir.join(format!("gpt_{n_layers}.ir"));
        std::fs::write(&path, model::gpt(n_layers)).expect("the target directory is writable");
        (format!("{n_layers} layers"), path)
    };
    measure(criterion, "plan gpt", &[12, 24, 48, 96].map(written));
}

criterion_group!(benches, real, depth);
criterion_main!(benches);
