//! Runs the whole line on mutated small programs: a program that verifies is planned or refused, never a
//! panic.
//!
//! `cargo test --release --test fuzz_passes -- --ignored --nocapture` runs for ten minutes; a finding is
//! written below the target directory and named.

mod common;

use common::mutate::{case, for_secs};
use common::program;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Diagnostic, parse, print, verify};
use phzc_passes::registry::REGISTRY;
use phzc_passes::{Context, Hooks, Pipeline, manager};

/// Cases of a plain `cargo test`.
const N_CASES: u64 = 1_000;

/// Golden files only: they are small, so that planning takes milliseconds.
fn seeds() -> Vec<String> {
    common::golden().iter().map(|path| program(path)).collect()
}

/// Every pass that changes programs, then the judges.
fn pipeline() -> Pipeline {
    let wanted = ["dce", "inline", "simplify", "fuse", "shard", "place", "check", "estimate", "spmd"];
    let known: Vec<&str> = wanted.into_iter().filter(|name| REGISTRY.find(name).is_some()).collect();
    phzc_passes::pipeline(&known.join(",")).expect("all are known")
}

#[test]
fn passes_plan_or_refuse() {
    let seeds = seeds();
    let n_planned = (0..N_CASES).filter(|&number| case("passes", &seeds, number, examine)).count();
    eprintln!("{N_CASES} cases from {} programs, {n_planned} of them planned", seeds.len());
    assert!(n_planned as u64 > N_CASES / 100, "mutations that are never planned test little: {n_planned}");
}

#[test]
fn gradients_are_made_or_refused() {
    let seeds: Vec<String> =
        common::golden().iter().filter(|path| is_differentiated(path)).map(|path| program(path)).collect();
    let pipeline = phzc_passes::pipeline("grad{loss=0,wrt=all},optimizer").expect("both are known");
    let examine = |text: &str| examine_with(text, &pipeline);
    let n_made = (0..N_CASES).filter(|&number| case("gradients", &seeds, number, examine)).count();
    eprintln!("{N_CASES} cases from {} programs, {n_made} of them legal", seeds.len());
    assert!(n_made as u64 > N_CASES / 100, "mutations that are never legal test little: {n_made}");
}

fn is_differentiated(path: &std::path::Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("grad" | "optimizer")))
}

#[test]
#[ignore = "takes ten minutes"]
fn passes_plan_or_refuse_for_ten_minutes() {
    let seeds = seeds();
    let (n_cases, n_planned) = for_secs(600, |number| case("passes", &seeds, number, examine));
    eprintln!("{n_cases} cases from {} programs, {n_planned} of them planned, no finding", seeds.len());
}

/// Whether the program was planned; what a pass broke is a finding, what it refuses is not.
fn examine(text: &str) -> bool {
    examine_with(text, &pipeline())
}

fn examine_with(text: &str, pipeline: &Pipeline) -> bool {
    let Ok(mut module) = parse(text) else { return false };
    if !verify(&module).is_empty() {
        return false;
    }
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("the default exists");
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
    let ran = manager::run(&mut module, pipeline, &mut Context::new(&cluster), &mut hooks);
    let is_bug = |error: &Diagnostic| error.help.as_ref().is_some_and(|help| help.contains("bug in phzc"));
    match ran {
        Ok(()) => assert!(parse(&print(&module)).is_ok(), "the plan does not parse"),
        Err(errors) => assert!(!errors.iter().any(is_bug), "{errors:?}"),
    }
    true
}
