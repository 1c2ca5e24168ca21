//! Modules of a plan, run microbatch by microbatch, compute what the program computes.

mod devices;
mod small;
mod sums;

use super::execute::execute;
use super::*;
use crate::testing::{EXAMPLES, passed, slow_8};
use phzc_ir::eval::{Options, inputs, run};
use phzc_ir::{parse, print, verify};

fn placed(text: &str, n_stages: usize, n_microbatches: usize) -> Module {
    placed_by("1f1b", text, n_stages, n_microbatches)
}

fn placed_by(schedule: &str, text: &str, n_stages: usize, n_microbatches: usize) -> Module {
    let options = format!("stages={n_stages},microbatches={n_microbatches},schedule={schedule}");
    let pipeline = format!("fuse,shard,place{{{options}}}");
    passed(text, &pipeline, &slow_8()).expect("it has a plan")
}

/// The largest relative error of any result.
fn error(text: &str, stages: &Stages) -> f64 {
    let original = parse(text).expect("a legal program");
    let given = inputs(&original, 1).expect("its inputs can be made");
    let wanted = run(&original, &given, &Options::default()).expect("it can be run");
    let made = execute(stages, &given, &Options::default()).expect("the modules can be run");
    crate::testing::largest_error(&wanted, &made)
}

#[test]
fn the_modules_of_a_step_compute_it_by_every_schedule() {
    let (_, text) = EXAMPLES[0];
    for (schedule, n_stages) in [("1f1b", 1), ("gpipe", 2), ("zero-bubble", 2), ("interleaved:2", 2)] {
        let cut = stages(&placed_by(schedule, text, n_stages, 4)).expect("it can be cut");
        for (_, module) in &cut.modules {
            let again = parse(&print(module)).expect("a module is legal text");
            assert_eq!(verify(&again), [], "{schedule}");
        }
        let error = error(text, &cut);
        assert!(error < 1e-4, "{schedule}: {error}");
    }
}

#[test]
fn a_group_runs_as_many_microbatches_as_there_are_groups_through_each_of_its_stages() {
    let cut = stages(&placed_by("interleaved:2", EXAMPLES[1].1, 2, 4)).expect("it can be cut");
    let order = cut.manifest.order.iter();
    let first: Vec<(&str, Option<usize>)> = order
        .filter(|run| run.module.starts_with("stage0.") || run.module.starts_with("stage2."))
        .map(|run| (&*run.module, run.microbatch))
        .take(7)
        .collect();
    let (zero, two) = ("stage0.forward", "stage2.forward");
    let wanted = [(zero, 0), (zero, 1), (two, 0), (two, 1), (zero, 2), ("stage2.backward", 0), (zero, 3)];
    assert_eq!(first, wanted.map(|(module, microbatch)| (module, Some(microbatch))));
}

#[test]
fn gradients_of_weights_that_are_put_off_are_modules_of_their_own() {
    let cut = stages(&placed_by("zero-bubble", EXAMPLES[1].1, 2, 4)).expect("it can be cut");
    let of_stage = |stage: usize| -> Vec<&str> {
        let own = cut.manifest.modules.iter().filter(|entry| entry.stage == stage);
        own.map(|entry| entry.phase).collect()
    };
    // Nobody waits for the first stage's backward part.
    assert_eq!(of_stage(0), ["forward", "weight_gradient", "update"]);
    assert_eq!(of_stage(1), ["forward", "backward", "weight_gradient", "update", "update"]);
    let runs = cut.manifest.order.iter().filter(|run| run.module == "stage1.weight_gradient");
    assert_eq!(runs.map(|run| run.microbatch).collect::<Vec<_>>(), [0, 1, 2, 3].map(Some));
}

/// A placed program: instructions with phase and stage; a device per stage.
fn staged(body: &[(&str, &str, usize)]) -> Module {
    let line = |(text, phase, stage): &(&str, &str, usize)| {
        format!(
            "  {text}, sharding={{replicated}}, frontend_attributes={{phzc.phase=\"{phase}\",phzc.stage=\"{stage}\"}}\n"
        )
    };
    let lines: String = body.iter().map(line).collect();
    let n_stages = body.iter().map(|(_, _, stage)| stage + 1).max().unwrap_or(1);
    let meshes: Vec<String> = (0..n_stages).map(|stage| format!("{stage}:")).collect();
    let notes = format!("phzc.stages=\"{}\",phzc.plan=\"{{}}\"", meshes.join(";"));
    parse(&format!(
        "HloModule m, num_partitions=1, frontend_attributes={{{notes}}}\n\nENTRY e {{\n{lines}}}\n"
    ))
    .expect("legal")
}

#[test]
fn an_update_that_waits_for_another_stage_is_a_module_of_its_own() {
    let cut = stages(&staged(&[
        ("a = f32[4] parameter(0)", "fwd", 0),
        ("b = f32[4] parameter(1)", "fwd", 1),
        ("g = f32[4] negate(a)", "bwd", 0),
        ("h = f32[4] negate(b)", "bwd", 1),
        ("u = f32[4] multiply(g, g)", "upd", 0),
        ("v = f32[4] multiply(h, h)", "upd", 1),
        ("n = f32[4] add(u, v)", "upd", 1),
        ("p = f32[4] divide(g, n)", "upd", 0),
        ("q = f32[4] divide(h, n)", "upd", 1),
        ("ROOT all = (f32[4], f32[4]) tuple(p, q)", "upd", 0),
    ]))
    .expect("it can be cut");
    let order: Vec<&str> = cut.manifest.order.iter().map(|run| &*run.module).collect();
    let updates = ["stage0.update", "stage1.update", "stage1.update2", "stage0.update3"];
    assert_eq!(order, [&["stage1.backward", "stage0.backward"][..], &updates].concat());
}

#[test]
fn a_value_that_an_earlier_stage_reads_is_refused() {
    let cut = stages(&staged(&[
        ("a = f32[4] parameter(0)", "fwd", 0),
        ("b = f32[4] negate(a)", "fwd", 1),
        ("ROOT c = f32[4] negate(b)", "fwd", 0),
    ]));
    let error = cut.expect_err("stage 0 runs first");
    assert_eq!(error.message, "stage0.forward reads `b` before it is made");
}

#[test]
fn a_skip_over_several_stages_goes_straight_to_its_reader() {
    let cut = stages(&staged(&[
        ("a = f32[4] parameter(0)", "fwd", 0),
        ("b = f32[4] negate(a)", "fwd", 0),
        ("c = f32[4] negate(b)", "fwd", 1),
        ("ROOT d = f32[4] add(b, c)", "fwd", 2),
    ]))
    .expect("it can be cut");
    let last = cut.manifest.modules.iter().find(|entry| entry.name == "stage2.forward").expect("it is there");
    let made = |module: &str| From::Module { module: module.to_owned(), result: 0 };
    let from: Vec<From> = last.parameters.iter().map(|given| given.from.clone()).collect();
    assert_eq!(from, [made("stage0.forward"), made("stage1.forward")]);
}

#[test]
fn the_manifest_has_the_documented_keys() {
    let cut = stages(&placed(EXAMPLES[0].1, 2, 2)).expect("it can be cut");
    let value: serde_json::Value = serde_json::from_str(&to_json(&cut.manifest)).expect("JSON");
    let mut keys = std::collections::BTreeSet::new();
    list_keys("", &value, &mut keys);
    let schema = include_str!("../../../../docs/stages.md");
    for key in keys.iter().filter(|key| !key.starts_with("results[].")) {
        assert!(schema.contains(&format!("`{key}`")), "docs/stages.md lacks `{key}`");
    }
}

/// `modules[].name`: every key of every element.
fn list_keys(prefix: &str, value: &serde_json::Value, keys: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
            list_keys(&if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") }, value, keys);
        }),
        serde_json::Value::Array(items) if items.first().is_some_and(serde_json::Value::is_object) => {
            items.iter().for_each(|item| list_keys(&format!("{prefix}[]"), item, keys));
        }
        _ => drop(keys.insert(prefix.to_owned())),
    }
}
