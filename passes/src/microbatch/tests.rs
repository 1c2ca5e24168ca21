//! Microbatches of the example programs are legal; what comes after all of them is what sums over them.

use super::*;
use crate::pass::Context;
use crate::pipeline::Pipeline;
use phzc_cost::Cluster;

const EXAMPLES: &[(&str, &str)] = &[
    ("gpt", include_str!("../../../examples/gpt.ir")),
    ("llama", include_str!("../../../examples/llama.ir")),
    ("mlp", include_str!("../../../examples/mlp.ir")),
    ("moe", include_str!("../../../examples/moe.ir")),
    ("gpt_scan", include_str!("../../../examples/gpt_scan.ir")),
];

fn placed(text: &str, pipeline: &str) -> Module {
    let mut module = phzc_ir::parse(text).expect("a legal program");
    let cluster = Cluster::named("a100-4").expect("a known cluster");
    let pipeline = Pipeline::parse(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(&cluster);
    for step in &pipeline.steps {
        (step.pass.run)(&mut module, &step.options, &mut cx).expect("it has a plan");
    }
    module
}

#[test]
fn the_examples_can_run_in_microbatches() {
    for (name, text) in EXAMPLES {
        let timed =
            on_time_axis(&placed(text, "fuse,shard,place{stages=2,microbatches=4}")).expect("one axis more");
        assert!(phzc_ir::verify(&timed).is_empty(), "{name}");
        let facts = derive(&timed).expect("a planned module");
        if let Err(error) = after_all(&timed, &facts) {
            panic!("{name}: {error:?}");
        }
    }
}
