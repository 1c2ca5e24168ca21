//! Whole plans, figure by figure and as digests of their texts. The other tests say that a plan is legal and
//! near the best; a bound that is looser, a price that is off by little or a tie that falls otherwise shows
//! here alone. Plans are reproducible: a line that changes is a change of behaviour, and `tests/golden` shows
//! which, to be read before it is taken over.

use crate::testing::{EXAMPLES, pipeline, slow_8};
use insta::assert_snapshot;
use phzc_cost::Cluster;
use phzc_ir::{Opcode, parse, print};
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

/// FNV-1a: texts that differ have digests that do.
fn digest<'t>(texts: impl IntoIterator<Item = &'t str>) -> u32 {
    let bytes = texts.into_iter().flat_map(str::bytes);
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Seconds by the text and by the model, their bound; digests of the plan, of its files and of what is
/// explained and said.
fn planned(text: &str, name: &str, passes: &str) -> String {
    let (mut module, cluster) = (parse(text).expect("a legal program"), cluster(name));
    let mut cx = Context::new(&cluster);
    let products = module.entry().instrs.iter().filter(|instr| instr.op == Opcode::Dot);
    cx.explain = products.map(|instr| instr.name.to_string()).collect();
    for step in &pipeline(passes).expect("a legal pipeline").steps {
        if let Err(error) = step.run(&mut module, &mut cx) {
            return error.to_string();
        }
    }
    let Ok(plan) = report::plan(&module, &cluster) else { return "no layouts".to_owned() };
    let [planned, bound] = [plan.planned_secs, plan.lower_bound_secs].map(|secs| secs.unwrap_or(0.0));
    let said = format!("{:?} {:?}", cx.explanations, cx.warnings);
    let others =
        cx.alternatives.iter().map(|it| it.options.clone() + &report::to_json(&it.plan)).collect::<String>();
    let files = cx.artifacts.iter().flat_map(|(name, text)| [&name[..], &text[..]]);
    let [program, files] = [digest([&print(&module)[..]]), digest(files)];
    let said = digest([&said[..], &others[..]]);
    format!("{:.6e} {planned:.6e} {bound:.6e} {program:08x} {files:08x} {said:08x}", plan.time_secs)
}

#[test]
fn examples_on_one_mesh() {
    let of = |name: &str, cluster: &str| planned(example(name), cluster, "fuse,shard");
    assert_snapshot!(of("mlp", "slow-8"), @"1.863360e-3 1.863360e-3 1.863360e-3 1aa9e118 ba38a6c8 fd3c0c8a");
    assert_snapshot!(of("gpt", "slow-8"), @"2.947060e-2 2.947050e-2 2.947050e-2 94d35500 d39a3b44 da74e3f3");
    assert_snapshot!(of("llama", "lean-8"), @"2.865591e-2 2.865545e-2 2.865545e-2 e28622e7 bc4f064c 7f41a966");
    assert_snapshot!(of("moe", "a100-8"), @"8.945001e-4 8.945001e-4 8.945001e-4 8d9ed3b7 8b187f75 a41749d1");
    assert_snapshot!(of("gpt_scan", "slow-8"), @"5.490596e-2 5.494671e-2 5.494671e-2 2bcba962 09297b56 67f8363e");
}

#[test]
fn meshes_and_limits() {
    let of = |passes: &str| planned(example("mlp"), "slow-8", passes);
    assert_snapshot!(of("fuse,shard{mesh=2x4}"), @"1.863360e-3 1.863360e-3 1.863360e-3 1aa9e118 ba38a6c8 fd3c0c8a");
    assert_snapshot!(of("shard{mesh=8,forbid=weights}"), @"3.646840e-3 3.646840e-3 3.646840e-3 c4b139cf 074784f3 a31c8639");
    assert_snapshot!(of("fuse,shard{mesh=8,map=full,enumerate=true}"), @"1.866745e-3 1.866745e-3 1.866745e-3 ffb55454 95e243a3 d19aee34");
    assert_snapshot!(planned(example("gpt"), "lean-8", "fuse,shard{mesh=2x2x2}"), @"2.946439e-2 2.946232e-2 2.946232e-2 8c26644b d052ca66 c649872c");
}

#[test]
fn small_programs_in_stages() {
    let of = |text: &str, options: &str| {
        planned(text, "small-memory-4", &format!("fuse,shard,place{{{options}}}"))
    };
    assert_snapshot!(of(TWO_LAYERS, "top=3"), @"6.823101e-4 6.823101e-4 6.822922e-4 9a912fa9 04dec21f 40a37e1c");
    assert_snapshot!(of(TWO_LAYERS, "stages=2,microbatches=4,schedule=zero-bubble"), @"8.787935e-4 8.787935e-4 7.136304e-4 99dcb3b2 04dec21f 5201bf50");
    assert_snapshot!(of(TWO_LAYERS, "stages=2,microbatches=4,schedule=gpipe,recompute=all"), @"9.447363e-4 9.447363e-4 8.447044e-4 32355a60 04dec21f 5201bf50");
    assert_snapshot!(of(UNEQUAL, "top=4"), @"7.749274e-4 7.749274e-4 7.748172e-4 4d186342 563ef32b 11bd1a29");
    assert_snapshot!(of(UNEQUAL, "stages=3,microbatches=4"), @"9.712233e-4 9.712233e-4 7.700600e-4 085dd7c3 563ef32b 8b8dff19");
    assert_snapshot!(of(UNEQUAL, "stages=2,microbatches=4,schedule=interleaved:2"), @"9.066823e-4 9.066823e-4 8.169039e-4 f2305bcc 563ef32b 8b8dff19");
    assert_snapshot!(planned(STEP, "a100-8", "fuse,shard,place{max-plans=2}"), @"8.060143e-4 8.060143e-4 8.060143e-4 2c5281ae cf2e7dac 3178f39f");
}

#[test]
fn examples_in_stages() {
    let of = |name: &str, cluster: &str, options: &str| {
        planned(example(name), cluster, &format!("fuse,shard,place{{{options}}}"))
    };
    assert_snapshot!(of("mlp", "slow-8", ""), @"1.796790e-3 1.796790e-3 1.693056e-3 e3e36118 ba38a6c8 fd3c0c8a");
    assert_snapshot!(of("mlp", "slow-8", "recompute=all,top=3"), @"1.803683e-3 1.803683e-3 1.693056e-3 f67656c0 ba38a6c8 09a2c9c7");
    assert_snapshot!(of("gpt", "a100-8", "stages=2,microbatches=4"), @"2.171348e-3 2.171348e-3 1.569487e-3 2286e7d6 d6894d18 4aacee75");
    assert_snapshot!(of("gpt_scan", "slow-8", "stages=2"), @"1.075167e-1 1.075167e-1 5.557607e-2 9a6aa2c2 09297b56 67f8363e");
}
