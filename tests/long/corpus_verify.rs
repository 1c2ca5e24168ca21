//! The plan of every real program beside the checkout computes what the program computes.

use crate::common::{corpus, phzc, scratch, xla_bench};
use std::path::Path;

/// Outputs that prove nothing are all zero, not finite or too small: no more than one in this many.
const MAX_SILENT: usize = 10;

/// What `verify` prints of a program's plan for eight A100; `None` where the program is one device's part.
fn verified(path: &Path, dir: &str, options: &[&str]) -> Option<String> {
    let plan = scratch(dir).join("plan.ir").to_string_lossy().into_owned();
    let (name, model) = (path.file_name().unwrap_or_default().display(), path.to_string_lossy());
    let passes = ["--cluster", "a100-8x1", "--passes", "fuse,shard,place", "-q", "-o", &plan];
    let made = phzc(&[&[&*model][..], &passes[..]].concat(), b"");
    let found = phzc(&[&["verify", &model, &plan, "--fill-elided"], options].concat(), b"");
    if is_one_device_s(&made.stderr) || is_one_device_s(&found.stderr) {
        eprintln!("{name:40} SKIPPED: one device's part of a program");
        return None;
    }
    assert_eq!(made.code, 0, "{name}: {}", made.stderr);
    assert_eq!(found.code, 0, "{name}: {}{}", found.stdout, found.stderr);
    eprintln!("{name:40} {}", found.stdout.lines().last().unwrap_or_default());
    Some(found.stdout)
}

/// Whether a program was refused because it is one device's part already.
fn is_one_device_s(error: &str) -> bool {
    ["communicates already", "asks for the device", "is partitioned already", "is partitioned for"]
        .iter()
        .any(|it| error.contains(it))
}

/// The number before these words.
fn count(text: &str, words: &str) -> usize {
    let line = text.lines().find(|line| line.contains(words));
    line.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "takes six minutes"]
fn plans_of_real_programs_compute_the_same() {
    let mut n_plans = 0;
    for path in corpus() {
        let Some(text) = verified(&path, "corpus_verify", &[]) else { continue };
        let (n_equal, n_silent) = (count(&text, "equal, largest"), count(&text, "prove nothing"));
        assert!(n_silent * MAX_SILENT <= n_equal, "{}: {n_silent} outputs prove nothing", path.display());
        n_plans += 1;
    }
    eprintln!("{n_plans} plans of real programs verified");
}

/// Caches of generation come out as they came in, so many outputs of these prove nothing.
#[test]
#[ignore = "takes six minutes"]
fn plans_of_xla_s_benchmarks_compute_the_same() {
    let programs = xla_bench();
    let n_plans = programs.iter().filter(|path| verified(path, "xla_bench_verify", &[]).is_some()).count();
    eprintln!("{n_plans} plans of {} programs verified", programs.len());
    assert!(n_plans >= 7 || programs.is_empty(), "only {n_plans}");
}

/// Every other real program, its plan in pieces alone.
#[test]
fn plans_of_every_other_real_program_are_proven_in_pieces() {
    in_pieces(2);
}

#[test]
#[ignore = "takes three minutes"]
fn plans_of_real_programs_are_proven_in_pieces() {
    in_pieces(1);
}

fn in_pieces(one_of: usize) {
    for path in corpus().iter().step_by(one_of) {
        verified(path, "corpus_pieces", &["--pieces"]);
    }
}
