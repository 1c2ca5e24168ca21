//! `verify` on 2,000 plans of the examples and of small corpus programs with one opcode, operand or constant
//! changed.
//!
//! A plan that it calls equal is run on other inputs: one that differs there is a miss. `cargo bench --bench
//! verify` prints a table by kind of change and the misses; another number of cases may follow after `--`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::changes::{Case, Fate, KINDS, bases, cases};
use std::time::Instant;

const N_CASES: usize = 2_000;
/// Small programs.
const PROGRAMS: [&str; 9] = [
    "examples/mlp.ir",
    "examples/gpt.ir",
    "examples/llama.ir",
    "examples/moe.ir",
    "examples/gpt_scan.ir",
    "examples/gpt_remat.ir",
    "../shared/corpus/mlp_tiny.hlo",
    "../shared/corpus/llama_tiny.hlo",
    "../shared/corpus/moe_gshard_tiny.hlo",
];
const PIPELINES: [&str; 3] = [
    "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}",
    "fuse,shard{mesh=8},place{stages=1,microbatches=1}",
    "fuse,shard,place{stages=2,microbatches=2}",
];

fn main() {
    let asked = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let start = Instant::now();
    let bases = bases(&PROGRAMS, &PIPELINES);
    println!("{} plans after {:.0} s", bases.len(), start.elapsed().as_secs_f64());
    let found = cases(&bases, asked.unwrap_or(N_CASES));
    println!(
        "{:10} {:>8} {:>8} {:>8} {:>16} {:>6}",
        "changed", "cases", "differ", "refused", "equal everywhere", "missed"
    );
    for kind in KINDS {
        let own: Vec<&Case> = found.iter().filter(|case| case.kind == kind).collect();
        let n = |is: fn(&Fate) -> bool| own.iter().filter(|case| is(&case.fate)).count();
        let (differ, refused) = (n(|fate| *fate == Fate::Differs), n(|fate| *fate == Fate::Refused));
        let (equal, missed) = (n(|fate| *fate == Fate::Equal), n(|fate| matches!(fate, Fate::Missed(_))));
        println!("{:10} {:8} {differ:8} {refused:8} {equal:16} {missed:6}", format!("{kind:?}"), own.len());
    }
    for case in &found {
        match &case.fate {
            Fate::Missed(how) => println!("MISSED {}: {}: {how}", case.base, case.what),
            Fate::Equal => println!("equal  {}: {}", case.base, case.what),
            _ => {}
        }
    }
    println!("{} cases in {:.0} s", found.len(), start.elapsed().as_secs_f64());
}
