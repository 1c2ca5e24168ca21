//! What `verify` says of the plans of hard programs and of the corpus: verdicts, shares, time and memory.
//!
//! `cargo bench --bench verify_programs [-- NAME...]` prints a table as `docs/verify.md` has it, of all programs or of
//! those whose names hold a word. Each is verified in a process of its own, so that its peak memory is its own.

#[path = "../tests/common/mod.rs"]
mod common;

use common::usage::{cpu_secs, peak_mib};
use common::{corpus, hard_programs, phzc, program, scratch, stem};
use std::path::Path;
use std::process::Command;

/// The word by which a process knows that it is to print one row.
const ROW: &str = "--row";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [word, model, plan, name] = &args[..]
        && word == ROW
    {
        return row(model, plan, name);
    }
    println!("| program | instructions | verdict | outputs equal | CPU s | MiB |");
    println!("|---|---:|---|---:|---:|---:|");
    for path in hard_programs().into_iter().chain(corpus()) {
        let name = stem(&path);
        if args.is_empty() || args.iter().any(|word| name.contains(word)) {
            plan_and_verify(&path, &name);
        }
    }
}

/// Plans a program and has another process verify the plan.
fn plan_and_verify(path: &Path, name: &str) {
    let plan = scratch("bench_verify_programs").join("plan.ir").to_string_lossy().into_owned();
    let model = path.to_string_lossy();
    let args = [&model, "--cluster", "a100-8x1", "--passes", "fuse,shard,place", "-q", "-o", &plan];
    let made = phzc(&args, b"");
    if made.code != 0 {
        return println!("| {name} | | no plan: {} | | | |", reason(&made.stderr));
    }
    let exe = std::env::current_exe().expect("this process has a program");
    let ran = Command::new(exe).args([ROW, &model, &plan, name]).status().expect("it can be run again");
    if !ran.success() {
        println!("| {name} | | verifying it ended with {ran} | | | |");
    }
}

/// Verifies a plan and prints its row.
fn row(model: &str, plan: &str, name: &str) {
    let n_instrs = phzc_ir::parse(&program(Path::new(model))).map_or(0, |module| module.n_instrs());
    let found = phzc(&["verify", model, plan, "--fill-elided"], b"");
    let verdict = match found.code {
        0 => "equal".to_owned(),
        _ if found.stdout.is_empty() => format!("not proven: {}", reason(&found.stderr)),
        _ => "differs".to_owned(),
    };
    let share =
        found.stdout.lines().find_map(|line| line.split_once(" equal, ")).map_or("", |(share, _)| share);
    let cpu = cpu_secs().map_or("?".to_owned(), |secs| format!("{secs:.1}"));
    let mib = peak_mib().map_or("?".to_owned(), |mib| mib.to_string());
    println!("| {name} | {n_instrs} | {verdict} | {share} | {cpu} | {mib} |");
}

/// The first line of an error, without the word.
fn reason(stderr: &str) -> &str {
    stderr.lines().next().unwrap_or_default().trim_start_matches("error: ")
}
