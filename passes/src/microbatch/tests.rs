//! Microbatches of a program are legal; what comes after all of them is what sums over them.

use super::*;
use crate::testing::{EXAMPLES, passed};
use phzc_cost::Cluster;

fn placed(text: &str, pipeline: &str) -> Module {
    let cluster = Cluster::named("a100-4").expect("a known cluster");
    passed(text, pipeline, &cluster).expect("it has a plan")
}

#[test]
fn an_example_can_run_in_microbatches() {
    for (name, text) in &EXAMPLES[..1] {
        let timed =
            on_time_axis(&placed(text, "fuse,shard,place{stages=2,microbatches=4}")).expect("one axis more");
        assert!(phzc_ir::verify(&timed).is_empty(), "{name}");
        let facts = derive(&timed).expect("a planned module");
        if let Err(error) = after_all(&timed, &facts) {
            panic!("{name}: {error:?}");
        }
    }
}
