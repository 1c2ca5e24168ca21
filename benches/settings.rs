//! Random settings of `phzc profile-plan` on Aceso's tables: the gap, CPU seconds and whether 1 GiB of
//! address space is enough.
//!
//! `cargo bench --bench settings -- 200` draws so many; the same each time.

#[path = "../tests/common/mod.rs"]
mod common;

use common::root;
use std::process::Command;

const MODELS: [(&str, &str); 15] = [
    ("gpt", "350M"),
    ("gpt", "1_3B"),
    ("gpt", "2_6B"),
    ("gpt", "6_7B"),
    ("gpt", "13B"),
    ("resnet", "500M"),
    ("resnet", "2B"),
    ("resnet", "4B"),
    ("resnet", "6_8B"),
    ("resnet", "13B"),
    ("t5", "770M"),
    ("t5", "3B"),
    ("t5", "6B"),
    ("t5", "11B"),
    ("t5", "22B"),
];
const GPUS: [&str; 16] =
    ["1", "2", "3", "4", "5", "6", "8", "10", "12", "16", "20", "24", "32", "40", "48", "64"];
const MIB: [&str; 8] = ["7000", "10000", "12000", "14000", "16000", "20000", "24000", "28000"];
const BATCHES: [&str; 10] = ["64", "96", "128", "256", "512", "768", "1024", "1536", "3072", "6144"];
/// What is wanted: percent, and CPU seconds.
const TARGET: (f64, f64) = (1.0, 5.0);
/// How many settings are drawn if not said otherwise.
const N: usize = 100;
/// CPU and address space of one command; `time` writes user seconds last.
const LIMITED: &str = "ulimit -t 60; ulimit -v 1048576; TIMEFORMAT=%U; time \"$@\"";

/// Gap in percent, `None` where there is no plan; CPU seconds.
fn run(args: &[&str]) -> Result<(Option<f64>, f64), String> {
    let mut command = Command::new("bash");
    command.args(["-c", LIMITED, "bash", env!("CARGO_BIN_EXE_phzc"), "profile-plan"]).args(args);
    let outcome = command.output().map_err(|error| error.to_string())?;
    let [text, log] =
        [outcome.stdout, outcome.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let seconds = log.lines().last().and_then(|line| line.parse().ok()).unwrap_or(f64::INFINITY);
    let gap = text.split_once("(gap ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    match gap {
        None if !log.contains("no plan on") => Err(log),
        gap => Ok((gap, seconds)),
    }
}

fn main() {
    let dir = root().join("../shared/data/aceso/eurosys");
    if !dir.is_dir() {
        println!("SKIPPED: no tables at ../shared/data/aceso");
        return;
    }
    let db = dir.to_string_lossy().into_owned();
    let n = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(N);
    let mut state = 1_u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut missed = [0; 3];
    println!("model         GPUs    MiB  batch   gap %   CPU s");
    for _ in 0..n {
        let (model, size) = MODELS[below(MODELS.len())];
        let (gpus, mib, batch) =
            (GPUS[below(GPUS.len())], MIB[below(MIB.len())], BATCHES[below(BATCHES.len())]);
        let setting = ["--gpus", gpus, "--memory-limit-mb", mib, "--global-batch", batch];
        let args = [&["--db", &db, "--model", model, "--size", size], &setting[..]].concat();
        let said = match run(&args) {
            Ok((gap, seconds)) => {
                missed[0] += usize::from(gap.is_some_and(|gap| gap > TARGET.0));
                missed[1] += usize::from(seconds > TARGET.1);
                format!("{:>7} {seconds:7.2}", gap.map_or("no plan".to_owned(), |gap| format!("{gap:.2}")))
            }
            Err(error) => {
                missed[2] += 1;
                error
            }
        };
        println!("{model:6} {size:5} {gpus:>5} {mib:>6} {batch:>6} {said}");
    }
    let [gap, seconds, failed] = missed;
    println!("of {n}: {gap} above {} %, {seconds} above {} CPU s, {failed} failed", TARGET.0, TARGET.1);
}
