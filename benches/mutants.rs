//! Real programs and edits of them that stay legal, planned on eight devices: CPU seconds, memory, and how
//! each ended.
//!
//! `cargo bench --bench mutants -- 2000` draws so many edits; the same each time. A process each, with a
//! limit on its address space. A finding is left below the target directory and named.

#[path = "../tests/common/mod.rs"]
mod common;

use common::mutate::mutated;
use common::{Random, corpus, program, scratch};
use phzc_ir::{parse, verify};
use std::path::Path;
use std::process::Command;

/// How many edits are drawn if not said otherwise.
const N: usize = 100;
/// CPU seconds that no run should take.
const TARGET_SECS: f64 = 10.0;
/// CPU and address space of one command; `time` writes user and system seconds last.
const LIMITED: &str = "ulimit -t 120; ulimit -v 4194304; TIMEFORMAT='%U %S'; time \"$@\"";
/// Exit codes of a run that planned, and of one that said why not.
const GOOD: [i32; 2] = [0, 1];

/// What became of all runs.
#[derive(Default)]
struct Tally {
    n_runs: usize,
    n_planned: usize,
    n_slow: usize,
    n_bad: usize,
    worst_secs: f64,
}

impl Tally {
    /// Plans a program; prints it where it took long or ended badly, and whether it did.
    fn add(&mut self, name: &str, path: &Path) -> bool {
        let mut command = Command::new("bash");
        command.args(["-c", LIMITED, "bash", env!("CARGO_BIN_EXE_phzc")]).arg(path);
        command.args(["--passes", "fuse,shard,place", "--quiet", "-o"]).arg(path.with_extension("after.ir"));
        let outcome = command.output().expect("there is a shell");
        let log = String::from_utf8_lossy(&outcome.stderr).into_owned();
        let times = log.lines().last().unwrap_or_default();
        let secs: f64 = times.split(' ').filter_map(|secs| secs.parse::<f64>().ok()).sum();
        let is_bad = !outcome.status.code().is_some_and(|code| GOOD.contains(&code));
        self.n_runs += 1;
        self.n_planned += usize::from(outcome.status.success());
        self.n_slow += usize::from(secs > TARGET_SECS);
        self.n_bad += usize::from(is_bad);
        self.worst_secs = self.worst_secs.max(secs);
        let is_finding = is_bad || secs > TARGET_SECS;
        if is_finding {
            println!("{name}: {secs:.1} s, {}", outcome.status);
        }
        is_finding
    }

    fn print(&self, what: &str) {
        let Tally { n_runs, n_planned, n_slow, n_bad, worst_secs } = self;
        println!(
            "{n_runs} {what}: {n_planned} planned, {} refused, {n_bad} ended badly, {n_slow} took over \
             {TARGET_SECS} s of CPU, {worst_secs:.1} at most",
            n_runs - n_planned - n_bad
        );
    }
}

fn main() {
    let n_wanted = std::env::args().filter_map(|arg| arg.parse().ok()).next_back().unwrap_or(N);
    let seeds = real();
    let mut edits = Tally::default();
    let dir = scratch("bench_mutants");
    for number in 0.. {
        if edits.n_runs == n_wanted || seeds.is_empty() {
            break;
        }
        let text = mutated(&seeds, &mut Random(number));
        if !parse(&text).is_ok_and(|module| verify(&module).is_empty()) {
            continue;
        }
        let path = dir.join(format!("mutant_{number}.ir"));
        std::fs::write(&path, text).expect("the target directory is writable");
        if !edits.add(&path.display().to_string(), &path) {
            std::fs::remove_file(&path).expect("it was just written");
        }
    }
    edits.print("legal edits");
}

/// The texts of the corpus, planned as they are first.
fn real() -> Vec<String> {
    let mut as_given = Tally::default();
    let path = scratch("bench_mutants").join("program.ir");
    let text_of = |file: &std::path::PathBuf| {
        let text = program(file);
        std::fs::write(&path, &text).expect("the target directory is writable");
        as_given.add(&file.display().to_string(), &path);
        text
    };
    let texts = corpus().iter().map(text_of).collect();
    as_given.print("programs");
    texts
}
