//! Whether a bound holds: plans of 20 programs under random pins, prohibitions and options of `place`, each
//! against the lower bound that a run of the same passes prints without, and against its plan: a restriction
//! that finds a faster one shows that the search has missed it. Exits with 1 if some plan is below the bound.
//!
//! `cargo bench --bench bounds -- 10` makes 10 runs for each program and pipeline instead of 4.

#[path = "../tests/common/mod.rs"]
mod common;

use common::bounds::{Found, restricted};
use common::{Random, corpus, examples, program as text};
use phzc_cost::Cluster;
use phzc_ir::text::parse;
use phzc_passes::partitioned::partitioned;
use std::path::PathBuf;
use std::process::ExitCode;

const N_PROGRAMS: usize = 20;

fn main() -> ExitCode {
    let cluster = Cluster::named("a100-8").expect("it is built in");
    let n_runs = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(4);
    let is_form = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "forms");
    let paths = examples().into_iter().chain(corpus()).filter(|path| !is_form(path));
    let modules = paths.filter_map(|path| Some((parse(&text(&path)).ok()?, path)));
    let modules = modules.filter(|(module, _)| partitioned(module).is_none());
    println!("{:32}{:>8}{:>8}{:>10}{:>8}{:>10}", "program", "plans", "below", "worst %", "faster", "worst %");
    let (mut random, mut all) = (Random(1), Found::default());
    for (module, path) in modules.take(N_PROGRAMS) {
        let found = restricted(&module, n_runs, &cluster, &mut random);
        print_line(&path.file_name().unwrap_or_default().to_string_lossy(), &found);
        for (what, cases) in [("below", &found.below), ("faster", &found.faster)] {
            cases.iter().for_each(|(passes, by)| println!("{:8.4} % {what}  {passes}", 100.0 * by));
        }
        all.n_planned += found.n_planned;
        all.below.extend(found.below);
        all.faster.extend(found.faster);
    }
    print_line("all", &all);
    ExitCode::from(u8::from(!all.below.is_empty()))
}

fn print_line(name: &str, found: &Found) {
    let worst = |cases: &[(String, f64)]| 100.0 * cases.iter().map(|(_, by)| *by).fold(0.0, f64::max);
    println!(
        "{name:32}{:8}{:8}{:10.4}{:8}{:10.4}",
        found.n_planned,
        found.below.len(),
        worst(&found.below),
        found.faster.len(),
        worst(&found.faster)
    );
}
