//! Plans of the example programs compute what the programs compute, on every mesh and through every pipeline.

use super::*;
use crate::pass::Context;
use crate::pipeline::Pipeline;
use phzc_cost::Cluster;

const EXAMPLES: &[(&str, &str)] = &[
    ("mlp", include_str!("../../../examples/mlp.ir")),
    ("gpt", include_str!("../../../examples/gpt.ir")),
    ("llama", include_str!("../../../examples/llama.ir")),
    ("moe", include_str!("../../../examples/moe.ir")),
    ("gpt_scan", include_str!("../../../examples/gpt_scan.ir")),
];

/// Eight devices that compute slowly and talk fast, so that small programs are split.
const SLOW_8: &str = include_str!("../../../tests/clusters/slow-8.toml");

fn planned(text: &str, pipeline: &str, cluster: &str) -> Module {
    let mut module = phzc_ir::parse(text).expect("a legal program");
    let cluster = Cluster::from_toml(cluster).expect("a legal cluster");
    let pipeline = Pipeline::parse(pipeline).expect("a legal pipeline");
    let mut cx = Context::new(&cluster);
    for step in &pipeline.steps {
        (step.pass.run)(&mut module, &step.options, &mut cx).expect("it has a plan");
    }
    module
}

/// Asserts that the plan computes the same.
fn check(name: &str, text: &str, pipeline: &str, cluster: &str) -> Verified {
    let original = phzc_ir::parse(text).expect("a legal program");
    let planned = planned(text, pipeline, cluster);
    let verified = verify(&original, &planned, &Settings::default())
        .unwrap_or_else(|error| panic!("{name}, {pipeline}: {error:?}"));
    let wrong = verified.outputs.iter().position(|output| !output.is_equal());
    assert_eq!(wrong, None, "{name}, {pipeline}: {:?}", wrong.map(|at| &verified.outputs[at]));
    verified
}

#[test]
fn every_mesh_computes_the_same() {
    for (name, text) in EXAMPLES {
        for mesh in ["8", "2x4", "2x2x2"] {
            check(name, text, &format!("fuse,shard{{mesh={mesh}}},place{{stages=1,microbatches=1}}"), SLOW_8);
        }
    }
}

#[test]
fn every_pipeline_computes_the_same() {
    for (name, text) in EXAMPLES {
        for (stages, microbatches) in [(1, 2), (2, 2), (2, 4), (4, 4)] {
            let pipeline = format!("fuse,shard,place{{stages={stages},microbatches={microbatches}}}");
            let verified = check(name, text, &pipeline, SLOW_8);
            assert_eq!((verified.n_stages, verified.n_microbatches), (stages, microbatches), "{name}");
        }
    }
}

#[test]
fn clean_ups_and_fuse_keep_what_a_program_computes() {
    let cluster = Cluster::from_toml(SLOW_8).expect("a legal cluster");
    for seed in 0..300 {
        let text = crate::shard::tests::program::program(seed, 12);
        let original = phzc_ir::parse(&text).expect("a legal program");
        let given = inputs(&original, seed).expect("its inputs can be made");
        let wanted = run(&original, &given, &Options::default()).expect("it can be run");
        for pass in ["dce", "inline", "fuse", "dce,fuse,dce"] {
            let mut module = original.clone();
            let mut cx = Context::new(&cluster);
            for step in &Pipeline::parse(pass).expect("a legal pipeline").steps {
                (step.pass.run)(&mut module, &step.options, &mut cx).expect("it needs nothing");
            }
            let made = run(&module, &given, &Options::default()).expect("it can still be run");
            assert_eq!(wanted.digest(), made.digest(), "{pass} on program {seed}:\n{text}");
        }
    }
}
