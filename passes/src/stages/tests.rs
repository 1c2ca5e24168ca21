//! Modules of a plan, run microbatch by microbatch, compute what the program computes.

use super::execute::execute;
use super::*;
use crate::pass::Context;
use crate::pipeline::Pipeline;
use phzc_cost::Cluster;
use phzc_ir::eval::{Options, Value, inputs, run};
use phzc_ir::{parse, print, verify};

const EXAMPLES: &[(&str, &str)] = &[
    ("mlp", include_str!("../../../examples/mlp.ir")),
    ("gpt", include_str!("../../../examples/gpt.ir")),
    ("llama", include_str!("../../../examples/llama.ir")),
    ("moe", include_str!("../../../examples/moe.ir")),
];

/// Eight devices that compute slowly and talk fast, so that small programs are split.
const SLOW_8: &str = include_str!("../../../tests/clusters/slow-8.toml");

fn placed(text: &str, n_stages: usize, n_microbatches: usize) -> Module {
    let mut module = parse(text).expect("a legal program");
    let cluster = Cluster::from_toml(SLOW_8).expect("a legal cluster");
    let pipeline = format!("fuse,shard,place{{stages={n_stages},microbatches={n_microbatches}}}");
    let pipeline = Pipeline::parse(&pipeline).expect("a legal pipeline");
    let mut cx = Context::new(&cluster);
    for step in &pipeline.steps {
        (step.pass.run)(&mut module, &step.options, &mut cx).expect("it has a plan");
    }
    module
}

/// The largest relative error of any result.
fn error(text: &str, stages: &Stages) -> f64 {
    let original = parse(text).expect("a legal program");
    let given = inputs(&original, 1).expect("its inputs can be made");
    let wanted = run(&original, &given, &Options::default()).expect("it can be run");
    let made = execute(stages, &given, &Options::default()).expect("the modules can be run");
    let wanted = wanted.leaves();
    assert_eq!(wanted.len(), made.len());
    let values = |value: &Value| value.leaves()[0].to_f64_vec();
    let off = |(wanted, made): (&&phzc_ir::eval::Array, &Value)| {
        let (wanted, made) = (wanted.to_f64_vec(), values(made));
        assert_eq!(wanted.len(), made.len());
        let scale = wanted.iter().fold(0.0_f64, |most, x| most.max(x.abs())).max(1e-30);
        wanted.iter().zip(&made).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max)
    };
    wanted.iter().zip(&made).map(off).fold(0.0, f64::max)
}

#[test]
fn the_modules_of_the_examples_compute_the_step() {
    for (name, text) in EXAMPLES {
        for (n_stages, n_microbatches) in [(1, 1), (2, 1), (1, 2), (2, 4), (4, 4)] {
            let cut = match stages(&placed(text, n_stages, n_microbatches)) {
                Ok(cut) => cut,
                Err(error) => panic!("{name}, {n_stages}x{n_microbatches}: {error:?}"),
            };
            for (_, module) in &cut.modules {
                let again = parse(&print(module)).expect("a module is legal text");
                assert!(verify(&again).is_empty(), "{name}: {:?}", verify(&again));
            }
            let error = error(text, &cut);
            assert!(error < 1e-4, "{name}, {n_stages} stages, {n_microbatches} microbatches: {error}");
        }
    }
}
