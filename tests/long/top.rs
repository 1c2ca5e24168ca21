//! The best plans that `place{top=k}` lists.

use super::plans::{EXAMPLES, planned, slow_8};
use phzc_ir::parse;
use phzc_passes::Context;
use phzc_passes::alternative::Alternative;
use phzc_passes::report::{Plan, plan};

/// The plan that is taken, and those that are listed.
fn ranked(program: &str, options: &str) -> (Plan, Vec<Alternative>) {
    let (mut module, cluster) = (parse(program).expect("a legal program"), slow_8());
    let mut cx = Context::new(&cluster);
    let steps =
        phzc_passes::pipeline(&format!("fuse,shard,place{{{options}}}")).expect("a legal pipeline").steps;
    for step in &steps {
        step.run(&mut module, &mut cx).expect("a plan");
    }
    (plan(&module, &cluster).expect("a placed module"), cx.alternatives)
}

#[test]
fn the_first_is_the_one_that_is_taken_and_none_after_it_is_faster() {
    for (name, program) in &EXAMPLES[..3] {
        let (taken, all) = ranked(program, "top=5");
        assert_eq!(all.len(), 5, "{name}");
        assert_eq!(taken, all[0].plan, "{name}");
        assert!(all.windows(2).all(|pair| pair[0].plan.time_secs <= pair[1].plan.time_secs), "{name}");
        let bound = taken.lower_bound_secs.expect("noted");
        assert!(bound <= all[0].plan.time_secs * (1.0 + 1e-9), "{name}");
    }
}

#[test]
fn each_is_had_by_its_options_and_no_two_are_alike() {
    for (name, program) in &EXAMPLES[..2] {
        let (_, all) = ranked(program, "top=4");
        for (at, one) in all.iter().enumerate().skip(1) {
            let pipeline = format!("fuse,shard,place{{{}}}", one.options);
            let again = planned(program, &pipeline, &slow_8());
            let again = plan(&again, &slow_8()).expect("a placed module");
            assert_eq!(again.time_secs, one.plan.time_secs, "{name}: {}", one.options);
            assert!(all[..at].iter().all(|other| other.options != one.options), "{name}");
        }
    }
}

#[test]
fn a_search_that_may_not_make_more_plans_says_so_with_its_gap() {
    let (_, program) = EXAMPLES[1];
    let [few, all] = ["stages=2,max-plans=1", "stages=2"].map(|options| ranked(program, options).0);
    assert!(all.time_secs <= few.time_secs * (1.0 + 1e-9));
    assert_eq!((few.stop.as_deref(), few.gap.is_some_and(|gap| gap > 0.0)), (Some("limit"), true));
    assert_ne!(all.stop.as_deref(), Some("limit"));
    assert!(few.lower_bound_secs <= all.planned_secs);
}
