//! A plan computes what its program does; tests/long has every mesh and pipeline on all examples.

use super::*;
use crate::testing::{EXAMPLES, passed, slow_8};

/// Asserts that the plan computes the same.
fn check(name: &str, text: &str, pipeline: &str) -> Verified {
    let original = phzc_ir::parse(text).expect("a legal program");
    let planned = passed(text, pipeline, &slow_8()).expect("it has a plan");
    let verified = verify(&original, &planned, &Settings::default())
        .unwrap_or_else(|error| panic!("{name}, {pipeline}: {error:?}"));
    let wrong = verified.outputs.iter().position(|output| !output.is_equal());
    assert_eq!(wrong, None, "{name}, {pipeline}: {:?}", wrong.map(|at| &verified.outputs[at]));
    verified
}

#[test]
fn a_plan_computes_the_same_in_lock_step_and_replayed() {
    let (name, text) = EXAMPLES[0];
    let verified = check(name, text, "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}");
    assert_eq!((verified.n_stages, verified.n_devices, verified.is_replayed), (1, 8, false));
    for (schedule, n_stages) in [("1f1b", 2), ("zero-bubble", 2), ("interleaved:2", 4)] {
        let options = format!("stages=2,microbatches=4,schedule={schedule}");
        let verified = check(name, text, &format!("fuse,shard,place{{{options}}}"));
        assert!(verified.is_replayed, "{schedule}");
        assert_eq!((verified.n_stages, verified.n_microbatches), (n_stages, 4), "{schedule}");
    }
}
