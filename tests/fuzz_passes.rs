//! Runs the whole line on mutated small programs: a program that verifies is planned or refused, never a
//! panic.
//!
//! `cargo test --release --test all fuzz_passes:: -- --ignored --nocapture` runs for ten minutes; a
//! finding is written below the target directory and named.

use crate::common::mutate::{MAX_CASE, case, for_secs, timed_case, until_said};
use crate::common::{peak_mib, program};
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Diagnostic, Module, eval, parse, print, verify};
use phzc_passes::registry::REGISTRY;
use phzc_passes::verify::Settings;
use phzc_passes::{Context, Hooks, Pipeline, manager};
use std::sync::atomic::{AtomicU64, Ordering};

/// Cases of a plain `cargo test`.
const N_CASES: u64 = 1_000;

/// Golden files only: they are small, so that planning takes milliseconds.
fn seeds() -> Vec<String> {
    crate::common::golden().iter().map(|path| program(path)).collect()
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
    let seeds: Vec<String> = crate::common::golden()
        .iter()
        .filter(|path| is_differentiated(path))
        .map(|path| program(path))
        .collect();
    let pipeline = phzc_passes::pipeline("grad{loss=0,wrt=all},optimizer").expect("both are known");
    let examine = |text: &str| examine_with(text, &pipeline);
    let n_made = (0..N_CASES).filter(|&number| case("gradients", &seeds, number, examine)).count();
    eprintln!("{N_CASES} cases from {} programs, {n_made} of them legal", seeds.len());
    assert!(n_made as u64 > N_CASES / 100, "mutations that are never legal test little: {n_made}");
}

#[test]
fn plans_are_run_or_refused() {
    let seeds = seeds();
    let n_cases = N_CASES / 2;
    let n_run = (0..n_cases).filter(|&number| case("runs", &seeds, number, run_whole)).count();
    eprintln!("{n_cases} cases from {} programs, {n_run} of them planned and run", seeds.len());
    assert!(n_run as u64 > n_cases / 100, "mutations that are never run test little: {n_run}");
}

#[test]
#[ignore = "takes ten minutes"]
fn plans_are_run_or_refused_for_ten_minutes() {
    let seeds = seeds();
    let (n_cases, n_run) = for_secs(600, |number| case("runs", &seeds, number, run_whole));
    eprintln!("{n_cases} cases from {} programs, {n_run} of them planned and run, no finding", seeds.len());
}

#[test]
#[ignore = "takes an hour"]
fn a_hundred_thousand_legal_programs_are_run_or_refused() {
    let seeds = seeds();
    let (n_run, n_slow) = (AtomicU64::new(0), AtomicU64::new(0));
    let examine = |text: &str| {
        n_run.fetch_add(u64::from(run_whole(text)), Ordering::Relaxed);
        parse(text).is_ok_and(|program| verify(&program).is_empty())
    };
    let n_cases = until_said(100_000, |number| {
        let (is_legal, took) = timed_case("runs", &seeds, number, examine);
        n_slow.fetch_add(u64::from(took > MAX_CASE), Ordering::Relaxed);
        is_legal
    });
    let (n_run, n_slow, peak_mib) = (n_run.into_inner(), n_slow.into_inner(), peak_mib("self"));
    eprintln!(
        "100,000 of {n_cases} cases are legal, {n_run} of them planned and run, {n_slow} slower than \
         {MAX_CASE:?}, {peak_mib:.0?} MiB at most"
    );
    assert!(peak_mib.is_none_or(|mib| mib < 4096.0));
}

/// What a user may do with a program: run it, plan it on one and on two axes, prove the plan whole or in
/// pieces, and run the program of each device. Whether all that came to its end.
fn run_whole(text: &str) -> bool {
    let Ok(program) = parse(text) else { return false };
    if !verify(&program).is_empty() {
        return false;
    }
    let options =
        eval::Options { max_array_bytes: MAX_ARRAY_BYTES, max_trips: 1000, ..eval::Options::default() };
    let run = |module: &Module, n_devices: usize| {
        let inputs = eval::inputs_within(module, 1, &options)?;
        eval::eval(module, &vec![inputs; n_devices], &options)
    };
    let is_small = run(&program, 1).is_ok();
    let pipelines = ["fuse,shard{mesh=8},place", "fuse,shard{mesh=2x4},place,estimate"];
    let mut n_whole = 0;
    for pipeline in pipelines {
        let mut plan = program.clone();
        if !examine_module(&mut plan, &phzc_passes::pipeline(pipeline).expect("all are known")) || !is_small {
            continue;
        }
        for by_pieces in [false, true] {
            let settings = Settings { by_pieces, ..Settings::default() };
            n_whole += usize::from(phzc_passes::verify::verify(&program, &plan, &settings).is_ok());
        }
        let lowered = examine_module(&mut plan, &phzc_passes::pipeline("spmd").expect("it is known"));
        n_whole += usize::from(lowered && run(&plan, 8).is_ok());
    }
    n_whole > 0
}

/// Arrays of mutated programs that are run.
const MAX_ARRAY_BYTES: f64 = 1e7;

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
    examine_module(&mut module, pipeline);
    true
}

/// Whether the passes came to their end; what one of them broke is a finding.
fn examine_module(module: &mut Module, pipeline: &Pipeline) -> bool {
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("the default exists");
    let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
    let mut cx = Context { is_suspicious: true, ..Context::new(&cluster) };
    let ran = manager::run(module, pipeline, &mut cx, &mut hooks);
    let is_bug = |error: &Diagnostic| error.help.as_ref().is_some_and(|help| help.contains("bug in phzc"));
    match ran {
        Ok(()) => {
            assert!(parse(&print(module)).is_ok(), "the plan does not parse");
            true
        }
        Err(errors) => {
            assert!(!errors.iter().any(is_bug), "{errors:?}");
            false
        }
    }
}
