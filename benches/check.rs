//! What `check` says of thousands of plans with one thing changed, and how long it takes on the largest
//! program of the corpus.
//!
//! `cargo bench --bench check [-- CASES PROGRAM…]` changes one stage, phase, layout, mesh, number of
//! microbatches, alias or schedule of a plan of the examples or the corpus per case (5,000 of them). Whether
//! the plan then still runs and computes the same says `phzc verify`, which replays its schedule; larger
//! programs are only judged. A table by kind; every case in which the two disagree is a line.

#[path = "../tests/common/mod.rs"]
mod common;

use common::corrupt::{Kind, corrupted};
use common::judged::{Planned, Truth, cluster, passed, text};
use common::{Random, corpus, program};
use phzc_cost::Cluster;
use std::collections::BTreeMap;
use std::time::Instant;

const PROGRAMS: [&str; 9] = [
    "mlp",
    "gpt",
    "gpt_remat",
    "gpt_scan",
    "llama",
    "moe",
    "mlp_tiny.hlo",
    "llama_tiny.hlo",
    "moe_gshard_tiny.hlo",
];

const PIPELINES: [&str; 9] = [
    "fuse,shard{mesh=8},place{stages=1,microbatches=1}",
    "fuse,shard{mesh=2x4},place{stages=1,microbatches=1,recompute=all}",
    "fuse,shard{mesh=2x4},place{stages=1,microbatches=4}",
    "fuse,shard,place{stages=4,microbatches=4,schedule=1f1b}",
    "fuse,shard,place{stages=2,microbatches=4,schedule=gpipe,recompute=all}",
    "fuse,shard,place{stages=4,microbatches=2,schedule=zero-bubble}",
    "fuse,shard,place{stages=2,microbatches=4,schedule=interleaved:2}",
    "fuse,shard,place{stages=2,microbatches=2,groups=6+2}",
    "fuse,shard,place{stages=4,microbatches=1}",
];

/// Programs that are only judged.
const LARGE: [&str; 3] = ["gpt2_small_scan.hlo", "moe_gshard.hlo", "gpt2_small_fwd.hlo"];

/// The longest that `check` may take, in seconds.
const LIMIT_SECS: f64 = 0.5;

/// What became of the cases of a kind.
#[derive(Clone, Copy, Default)]
struct Row {
    refused: usize,
    accepted: usize,
    wrongly_accepted: usize,
    wrongly_refused: usize,
    only_refused: usize,
    only_accepted: usize,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let (numbers, names): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|arg| arg.parse::<usize>().is_ok());
    let n_cases = numbers.first().and_then(|number| number.parse().ok()).unwrap_or(5_000);
    if names.is_empty() {
        largest();
    }
    let cluster = cluster();
    let plans = plans(&cluster, |name| names.is_empty() || names.iter().any(|wanted| *wanted == name));
    eprintln!("{} plans", plans.len());
    table(&judge(&plans, n_cases, &cluster));
}

/// How long `check` takes on the largest program that there is.
fn largest() {
    let programs = corpus().into_iter().map(|path| (program(&path), path));
    let Some((text, path)) = programs.max_by_key(|(text, _)| text.len()) else { return };
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let mut plan = phzc_ir::parse(&text).expect("a legal program");
    passed(&mut plan, "fuse,shard,place", &cluster).expect("it has a plan");
    let n_instrs: usize = plan.comps.iter().map(|comp| comp.instrs.len()).sum();
    let secs = |_| {
        let begun = Instant::now();
        passed(&mut plan.clone(), "check", &cluster).expect("a legal plan");
        begun.elapsed().as_secs_f64()
    };
    let least = (0..10).map(secs).fold(f64::INFINITY, f64::min);
    let name = path.file_name().unwrap_or_default().display();
    println!("check of the plan of {name}, {n_instrs} instructions: {least:.3} s (wanted: {LIMIT_SECS} s)");
}

fn plans(cluster: &Cluster, is_wanted: impl Fn(&str) -> bool) -> Vec<Planned> {
    let small =
        PROGRAMS.iter().flat_map(|name| PIPELINES.iter().map(move |pipeline| (*name, *pipeline, true)));
    let large = LARGE
        .iter()
        .flat_map(|name| PIPELINES.iter().step_by(3).map(move |pipeline| (*name, *pipeline, false)));
    let planned = |(name, pipeline, is_small): (&str, &str, bool)| {
        let planned = Planned::new(name, &text(name)?, pipeline, cluster, is_small)?;
        let refusal = planned.refusal(&planned.plan, cluster);
        assert_eq!(refusal, None, "{} is refused", planned.name);
        Some(planned)
    };
    small.chain(large).filter(|(name, ..)| is_wanted(name)).filter_map(planned).collect()
}

fn judge(plans: &[Planned], n_cases: usize, cluster: &Cluster) -> BTreeMap<Kind, Row> {
    let mut rows: BTreeMap<Kind, Row> = BTreeMap::new();
    let (mut number, mut n_done) = (0_u64, 0);
    while n_done < n_cases {
        let mut random = Random(number);
        let kind = Kind::ALL[number as usize % Kind::ALL.len()];
        let planned = &plans[random.below(plans.len())];
        number += 1;
        let Some((plan, what)) = corrupted(&planned.plan, kind, &mut random) else { continue };
        n_done += 1;
        let (refusal, truth) = (planned.refusal(&plan, cluster), planned.truth(&plan, kind, cluster));
        let row = rows.entry(kind).or_default();
        let cell = match (&refusal, &truth) {
            (Some(_), Truth::Cannot(_)) => &mut row.refused,
            (None, Truth::Runs) => &mut row.accepted,
            (None, Truth::Cannot(_)) => &mut row.wrongly_accepted,
            (Some(_), Truth::Runs) => &mut row.wrongly_refused,
            (Some(_), Truth::Unknown(_)) => &mut row.only_refused,
            (None, Truth::Unknown(_)) => &mut row.only_accepted,
        };
        *cell += 1;
        if matches!((&refusal, &truth), (None, Truth::Cannot(_)) | (Some(_), Truth::Runs)) {
            println!(
                "case {}: {}: {what}: check says {refusal:?}, verify {truth:?}",
                number - 1,
                planned.name
            );
        }
    }
    rows
}

fn table(rows: &BTreeMap<Kind, Row>) {
    println!(
        "{:14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "refused,", "accepted,", "WRONGLY", "WRONGLY", "refused,", "accepted,"
    );
    println!(
        "{:14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "changed", "can't run", "equals", "accepted", "refused", "not run", "not run"
    );
    let mut all = Row::default();
    for (kind, row) in rows {
        line(&format!("{kind:?}").to_lowercase(), row);
        all.refused += row.refused;
        all.accepted += row.accepted;
        all.wrongly_accepted += row.wrongly_accepted;
        all.wrongly_refused += row.wrongly_refused;
        all.only_refused += row.only_refused;
        all.only_accepted += row.only_accepted;
    }
    line("all", &all);
}

fn line(name: &str, row: &Row) {
    let Row { refused, accepted, wrongly_accepted, wrongly_refused, only_refused, only_accepted } = row;
    println!(
        "{name:14} {refused:>9} {accepted:>9} {wrongly_accepted:>9} {wrongly_refused:>9} {only_refused:>9} {only_accepted:>9}"
    );
}
