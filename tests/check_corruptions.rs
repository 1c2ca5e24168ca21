//! Of plans with one thing changed `check` refuses those that cannot run, and accepts those that run and
//! compute the same.

use crate::common::Random;
use crate::common::corrupt::{Kind, corrupted};
use crate::common::judged::{Planned, Truth, cluster, text};
use rayon::prelude::*;

const N_CASES: usize = 100;

const PLANS: [(&str, &str); 6] = [
    ("mlp", "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}"),
    ("mlp", "fuse,shard,place{stages=2,microbatches=4,schedule=1f1b,recompute=all}"),
    ("mlp", "fuse,shard,place{stages=4,microbatches=2,schedule=zero-bubble}"),
    ("mlp", "fuse,shard,place{stages=2,microbatches=4,schedule=interleaved:2}"),
    ("mlp", "fuse,shard,place{stages=2,microbatches=2,schedule=gpipe,groups=6+2}"),
    ("gpt_scan", "fuse,shard,place{stages=2,microbatches=1}"),
];

#[test]
fn what_cannot_run_is_refused_and_what_runs_and_equals_is_not() {
    let cluster = cluster();
    let plan = |&(name, pipeline): &(&str, &str)| {
        Planned::new(name, &text(name).expect("an example"), pipeline, &cluster, true).expect("it has a plan")
    };
    let plans: Vec<Planned> = PLANS.iter().map(plan).collect();
    let cases = (1 << 32..).filter_map(|number| {
        let mut random = Random(number);
        let planned = &plans[random.below(plans.len())];
        let kind = Kind::ALL[number as usize % Kind::ALL.len()];
        Some((number, kind, planned, corrupted(&planned.plan, kind, &mut random)?))
    });
    let cases: Vec<_> = cases.take(N_CASES).collect();
    let refused = cases.par_iter().map(|(number, kind, planned, (plan, what))| {
        match (planned.refusal(plan, &cluster), planned.truth(plan, *kind, &cluster)) {
            (Some(_), Truth::Cannot(_)) => Some(true),
            (None, Truth::Runs) => Some(false),
            (_, Truth::Unknown(_)) => None,
            (refusal, truth) => {
                panic!("case {number}: {}: {what}: check says {refusal:?}, verify {truth:?}", planned.name)
            }
        }
    });
    let refused: Vec<bool> = refused.collect::<Vec<_>>().into_iter().flatten().collect();
    let n_refused = refused.iter().filter(|refused| **refused).count();
    let n_accepted = refused.len() - n_refused;
    eprintln!("{n_refused} plans refused, {n_accepted} accepted");
    assert!(n_refused > N_CASES / 4 && n_accepted > N_CASES / 10, "{n_refused} {n_accepted}");
}
