//! The best plans of two layers, as they are listed.

use super::*;
use crate::testing::pipeline;
use phzc_cost::Cluster;
use phzc_ir::{Module, parse};
use phzc_pass::pass::Context;

const PROGRAM: &str = include_str!("../../../../../tests/golden/place/two_stages.ir");

fn cluster() -> Cluster {
    let text = include_str!("../../../../../tests/clusters/small-memory-4.toml");
    Cluster::from_toml(text).expect("a legal cluster")
}

/// The plan and the alternatives that are listed.
fn placed(options: &str) -> (Module, Vec<Alternative>) {
    let (mut module, cluster) = (parse(PROGRAM).expect("a program"), cluster());
    let mut cx = Context::new(&cluster);
    for step in &pipeline(&format!("fuse,shard,place{{{options}}}")).expect("a legal pipeline").steps {
        step.run(&mut module, &mut cx).expect("a plan");
    }
    (module, cx.alternatives)
}

fn secs(module: &Module) -> f64 {
    report::plan(module, &cluster()).expect("a placed module").time_secs
}

#[test]
fn the_best_plans_are_listed_by_their_time_and_each_is_that_of_its_options() {
    let (best, listed) = placed("top=6");
    assert_eq!(listed.len(), 6);
    assert!(listed.is_sorted_by(|a, b| a.plan.time_secs <= b.plan.time_secs));
    assert!((listed[0].plan.time_secs - secs(&best)).abs() < 1e-12);
    for (at, one) in listed.iter().enumerate() {
        assert!(listed[..at].iter().all(|other| other.options != one.options), "{}", one.options);
        assert!((secs(&placed(&one.options).0) - one.plan.time_secs).abs() < 1e-12, "{}", one.options);
    }
}

#[test]
fn every_number_of_microbatches_is_listed_by_every_schedule() {
    let (_, listed) = placed("stages=2,top=40,recompute=never");
    let mut options: Vec<String> = listed.into_iter().map(|one| one.options).collect();
    let mut wanted: Vec<String> = [1, 2, 4, 8, 16, 32, 64]
        .iter()
        .flat_map(|count| {
            Schedule::ALL
                .map(|schedule| format!("stages=2,microbatches={count},schedule={schedule},recompute=never"))
        })
        .collect();
    options.sort();
    wanted.sort();
    assert_eq!(options, wanted);
}

#[test]
fn no_more_are_tried_than_may_be_among_the_best() {
    let (_, all) = placed("stages=2,top=40");
    for k in [1, 2, 5] {
        let (_, some) = placed(&format!("stages=2,top={k}"));
        let n = some.len();
        assert!(n == k || k == 1 && n == 0, "{n} of {k}");
        // Candidates are dropped by estimates: all but the best may be missed.
        let secs = |plans: &[Alternative]| plans.iter().map(|one| one.plan.time_secs).collect::<Vec<_>>();
        assert_eq!(secs(&some).first(), secs(&all[..n]).first());
        assert!(secs(&some).iter().zip(secs(&all)).all(|(some, all)| *some < 1.05 * all));
    }
}

#[test]
fn alternatives_say_what_else_was_asked_for() {
    let (_, listed) = placed("stages=2,top=2,recompute=all,groups=equal,microbatches=4");
    let options: Vec<&str> = listed.iter().map(|one| &*one.options).collect();
    assert!(options.iter().all(|it| it.ends_with(",recompute=all,groups=equal")), "{options:?}");
    assert!(options.iter().all(|it| it.starts_with("stages=2,microbatches=4,schedule=")), "{options:?}");
}
