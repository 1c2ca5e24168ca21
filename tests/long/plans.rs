//! What the tests of plans share: example programs, clusters, and the passes run on them.

pub use phzc_testing::perceptron::perceptron;
pub use phzc_testing::{EXAMPLES, slow_8};

use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, parse};
use phzc_passes::Context;
use phzc_passes::derive::derive;
use phzc_passes::report::{Plan, plan};

/// Those without experts.
pub const DENSE: &[(&str, &str)] = &[EXAMPLES[1], EXAMPLES[2], EXAMPLES[0], EXAMPLES[4]];

/// Four devices of a real kind.
pub fn cluster() -> Cluster {
    Cluster::named("a100-4").expect("a known cluster")
}

/// Four devices with so much memory.
pub fn with_memory(hbm_bytes: f64) -> Cluster {
    let toml = include_str!("../clusters/small-memory-4.toml");
    let line = |line: &str| match line.starts_with("hbm_bytes =") {
        true => format!("hbm_bytes = {hbm_bytes}\n"),
        false => format!("{line}\n"),
    };
    Cluster::from_toml(&toml.lines().map(line).collect::<String>()).expect("a legal cluster")
}

/// The program after the passes of a pipeline.
///
/// # Errors
/// The first that a pass finds.
pub fn passed(text: &str, pipeline: &str, cluster: &Cluster) -> Result<Module, Diagnostic> {
    let mut module = parse(text).expect("a legal program");
    let mut cx = Context::new(cluster);
    for step in &phzc_passes::pipeline(pipeline).expect("a legal pipeline").steps {
        step.run(&mut module, &mut cx)?;
    }
    Ok(module)
}

/// The same of a program that has a plan.
pub fn planned(text: &str, pipeline: &str, cluster: &Cluster) -> Module {
    passed(text, pipeline, cluster).unwrap_or_else(|error| panic!("{pipeline}: {error:?}"))
}

/// The report of a program placed with some options.
pub fn placed(program: &str, options: &str, cluster: &Cluster) -> Plan {
    let placed = planned(program, &format!("fuse,shard,place{{{options}}}"), cluster);
    let facts = derive(&placed).expect("a placed module");
    assert!(facts.problems.is_empty(), "{options}: {:?}", facts.problems);
    plan(&placed, cluster).expect("a placed module")
}

/// The most bytes that any stage needs.
pub fn peak_bytes(plan: &Plan) -> f64 {
    plan.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max)
}
