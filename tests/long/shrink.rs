//! `shrink` on plans of the corpus, where it is there: small enough to run.

use super::plans::planned;
use crate::common::{corpus, program};
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Module, flops, parse};
use phzc_passes::verify::shrink::shrink_plan;

/// FLOPs of one run, and bytes of all values, those of loops once.
fn size(module: &Module) -> (f64, f64) {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    (flops::totals(module).with_trips.flops, instrs.map(|instr| instr.shape.bytes()).sum())
}

fn check(name: &str, pipeline: &str) {
    let is_it = |path: &&std::path::PathBuf| {
        path.file_name().is_some_and(|file| file.to_string_lossy().split('.').next() == Some(name))
    };
    let Some(path) = corpus().iter().find(is_it).cloned() else {
        eprintln!("SKIPPED: no {name} in ../shared/corpus");
        return;
    };
    let text = program(&path);
    let original = parse(&text).expect("a legal program");
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    let planned = planned(&text, pipeline, &cluster);
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
