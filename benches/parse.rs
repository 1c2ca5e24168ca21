//! How fast programs are read: parse and verify in bytes of HLO text per second, on the corpus' largest and
//! the examples.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{corpus, examples, program};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phzc_ir::{parse, print, verify};
use std::path::Path;
use std::time::Duration;

/// Programs of the corpus that are measured one by one.
const LARGE: &[&str] =
    &["llama_7b_gqa", "gpt_1p3b", "bert_large", "moe_gshard", "resnet50", "llama_tiny.cpu_opt"];

fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    file.trim_end_matches(".gz").trim_end_matches(".hlo").trim_end_matches(".ir").to_owned()
}

fn programs() -> Vec<(String, String)> {
    let wanted = |path: &&std::path::PathBuf| {
        LARGE.contains(&name(path).as_str()) || path.starts_with(common::root().join("examples"))
    };
    corpus().iter().chain(&examples()).filter(wanted).map(|path| (name(path), program(path))).collect()
}

fn reading(criterion: &mut Criterion) {
    let programs = programs();
    for (what, run) in [
        ("parse", (|text| drop(parse(text))) as fn(&str)),
        ("parse+verify", |text| drop(parse(text).map(|module| verify(&module)))),
        ("parse+print", |text| drop(parse(text).map(|module| print(&module)))),
    ] {
        let mut group = criterion.benchmark_group(what);
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        for (name, text) in &programs {
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_with_input(BenchmarkId::from_parameter(name), text, |bench, text| {
                bench.iter(|| run(text))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, reading);
criterion_main!(benches);
