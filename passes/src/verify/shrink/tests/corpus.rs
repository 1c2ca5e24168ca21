//! `shrink` on plans of the corpus, where it is there: small enough to run.

use super::*;
use flate2::read::GzDecoder;
use phzc_cost::DEFAULT_CLUSTER;
use phzc_ir::flops;
use std::io::Read;
use std::path::Path;

fn read(name: &str) -> Option<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    if let Ok(text) = std::fs::read_to_string(dir.join(format!("{name}.hlo"))) {
        return Some(text);
    }
    let bytes = std::fs::read(dir.join(format!("{name}.hlo.gz"))).ok()?;
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).ok()?;
    Some(text)
}

/// FLOPs of one run, and bytes of all values, those of loops once.
fn size(module: &Module) -> (f64, f64) {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    (flops::totals(module).with_trips.flops, instrs.map(|instr| instr.shape.bytes()).sum())
}

fn check(name: &str, pipeline: &str) {
    let Some(text) = read(name) else {
        eprintln!("SKIPPED: no {name} in ../shared/corpus");
        return;
    };
    let original = parse(&text).expect("a legal program");
    let mut planned = original.clone();
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    plan(&mut planned, pipeline, &cluster);
    let before = size(&planned);
    let started = std::time::Instant::now();
    let both = shrink_plan(&original, &planned, 4).expect("the notes are phzc's");
    let took = started.elapsed().as_secs_f64();
    for shrunk in &both {
        let after = size(shrunk);
        eprintln!(
            "{name}: {:.3e} flops and {:.3e} bytes shrink to {:.3e} and {:.3e} in {took:.2} s",
            before.0, before.1, after.0, after.1
        );
        assert!(after.0 < 2e9 && after.1 < 5e8, "{name} is too large to run");
    }
}

#[test]
fn a_forward_pass_becomes_small() {
    check("gpt2_small_fwd", "fuse,shard{mesh=2x4}");
}

#[test]
fn a_training_step_becomes_small() {
    check("bert_large", "fuse,shard{mesh=2x4}");
}

#[test]
fn a_loop_over_layers_becomes_small() {
    check("llama_7b_scan", "fuse,shard{mesh=2x4}");
}
