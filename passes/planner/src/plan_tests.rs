//! Whole plans, figure by figure. The other tests say that a plan is legal and near the best; a bound that is
//! looser or a price that is off by little shows here alone. Plans are reproducible: a line that changes is a
//! change of behaviour, and `tests/golden` shows which, to be read before it is taken over.

use crate::testing::{EXAMPLES, pipeline, slow_8};
use insta::assert_snapshot;
use phzc_cost::Cluster;
use phzc_ir::parse;
use phzc_pass::pass::Context;
use phzc_plan::report;

const TWO_LAYERS: &str = include_str!("../../../tests/golden/place/two_stages.ir");
const UNEQUAL: &str = include_str!("../../../tests/golden/place/unequal_groups.ir");
const STEP: &str = include_str!("../../../tests/golden/place/mlp_step.ir");

fn example(name: &str) -> &'static str {
    EXAMPLES.iter().find(|(own, _)| *own == name).expect("an example").1
}

fn cluster(name: &str) -> Cluster {
    let text = match name {
        "slow-8" => return slow_8(),
        "lean-8" => include_str!("../../../tests/clusters/lean-8.toml"),
        "small-memory-4" => include_str!("../../../tests/clusters/small-memory-4.toml"),
        name => return Cluster::named(name).expect("a built-in cluster"),
    };
    Cluster::from_toml(text).expect("a legal cluster")
}

/// Seconds by the text and by the model, and their bound.
fn planned(text: &str, name: &str, passes: &str) -> String {
    let (mut module, cluster) = (parse(text).expect("a legal program"), cluster(name));
    let mut cx = Context::new(&cluster);
    for step in &pipeline(passes).expect("a legal pipeline").steps {
        if let Err(error) = step.run(&mut module, &mut cx) {
            return error.to_string();
        }
    }
    let Ok(plan) = report::plan(&module, &cluster) else { return "no layouts".to_owned() };
    let [planned, bound] = [plan.planned_secs, plan.lower_bound_secs].map(|secs| secs.unwrap_or(0.0));
    format!("{:.6e} {planned:.6e} {bound:.6e}", plan.time_secs)
}

#[test]
fn examples_on_one_mesh() {
    let of = |name: &str, cluster: &str| planned(example(name), cluster, "fuse,shard");
    assert_snapshot!(of("mlp", "slow-8"), @"1.602473e-3 1.602473e-3 1.602473e-3");
    assert_snapshot!(of("gpt", "slow-8"), @"2.664297e-2 2.664326e-2 2.664326e-2");
    assert_snapshot!(of("llama", "lean-8"), @"2.648529e-2 2.648521e-2 2.648521e-2");
    assert_snapshot!(of("moe", "a100-8"), @"3.225715e-4 3.225715e-4 3.225715e-4");
    assert_snapshot!(of("gpt_scan", "slow-8"), @"5.583034e-2 5.574002e-2 5.574002e-2");
}

#[test]
fn meshes_and_limits() {
    let of = |passes: &str| planned(example("mlp"), "slow-8", passes);
    assert_snapshot!(of("fuse,shard{mesh=2x4}"), @"1.602473e-3 1.602473e-3 1.602473e-3");
    assert_snapshot!(of("shard{mesh=8,forbid=weights}"), @"2.893749e-3 2.893749e-3 2.893749e-3");
    assert_snapshot!(of("fuse,shard{mesh=8,map=full,enumerate=true}"), @"1.605782e-3 1.605782e-3 1.605782e-3");
    assert_snapshot!(planned(example("gpt"), "lean-8", "fuse,shard{mesh=2x2x2}"), @"2.663725e-2 2.663557e-2 2.663557e-2");
}

#[test]
fn small_programs_in_stages() {
    let of = |text: &str, options: &str| {
        planned(text, "small-memory-4", &format!("fuse,shard,place{{{options}}}"))
    };
    assert_snapshot!(of(TWO_LAYERS, "top=3"), @"6.823101e-4 6.823101e-4 6.822922e-4");
    assert_snapshot!(of(TWO_LAYERS, "stages=2,microbatches=4,schedule=zero-bubble"), @"8.787935e-4 8.787935e-4 7.136304e-4");
    assert_snapshot!(of(TWO_LAYERS, "stages=2,microbatches=4,schedule=gpipe,recompute=all"), @"9.447363e-4 9.447363e-4 8.447044e-4");
    assert_snapshot!(of(UNEQUAL, "top=4"), @"7.749274e-4 7.749274e-4 7.749274e-4");
    assert_snapshot!(of(UNEQUAL, "stages=3,microbatches=4"), @"9.722030e-4 9.722030e-4 7.700600e-4");
    assert_snapshot!(of(UNEQUAL, "stages=2,microbatches=4,schedule=interleaved:2"), @"9.061528e-4 9.061528e-4 8.180794e-4");
    assert_snapshot!(planned(STEP, "a100-8", "fuse,shard,place{max-plans=2}"), @"7.995943e-4 7.995943e-4 4.762524e-4");
}
