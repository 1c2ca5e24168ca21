//! Loops over layers: their unrolled form computes the same, and plans of both forms of a model are as fast.

use crate::common::{phzc, scratch};
use std::path::PathBuf;

/// The families whose layers `gen` writes as a loop.
const FAMILIES: &[&str] = &["gpt", "opt", "llama", "bert", "t5", "mixtral", "deepseek", "vit"];

/// A step of four layers, written by `gen`.
fn step(test: &str, family: &str, form: &[&str]) -> PathBuf {
    let path = scratch(test).join(format!("{family}{}.ir", form.concat()));
    let args = ["gen", family, "--size", "tiny", "--layers", "4", "-o", &*path.to_string_lossy()];
    let outcome = phzc(&[&args[..], form].concat(), b"");
    assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{family}");
    path
}

/// Runs phzc, which has to have no complaint; what it printed.
fn run(args: &[&str]) -> String {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout + &outcome.stderr
}

#[test]
fn unrolled_loops_of_every_family_compute_what_the_loops_do() {
    for family in FAMILIES {
        let program = step("unroll_equal", family, &["--scan"]);
        let (program, plan) = (program.to_string_lossy(), program.with_extension("plan.ir"));
        let plan = plan.to_string_lossy();
        run(&[&*program, "--passes", "unroll,fuse,shard{mesh=2x4}", "-q", "-o", &plan]);
        let text = std::fs::read_to_string(&*plan).expect("it was written");
        assert!(!text.contains(" while("), "{family}: a loop is left");
        let note = text.split_once("phzc.unstacked=\"parameters=").expect("a note of layers").1;
        // One of DeepSeek's layers has no experts, and is no part of the loop.
        let n_layers = if *family == "deepseek" { "x3," } else { "x4," };
        assert!(
            note.split_once(';').is_some_and(|(parameters, _)| parameters.contains(n_layers)),
            "{family}"
        );
        let verdict = run(&["verify", &*program, &plan]);
        assert!(verdict.contains("outputs equal"), "{family}: {verdict}");
    }
}

#[test]
fn a_plan_with_one_layer_s_weight_in_another_s_place_is_refused() {
    let program = step("unroll_wrong", "gpt", &["--scan"]);
    let (program, plan) = (program.to_string_lossy(), program.with_extension("plan.ir"));
    run(&[&*program, "--passes", "unroll,fuse,shard{mesh=8}", "-q", "-o", &plan.to_string_lossy()]);
    let text = std::fs::read_to_string(&plan).expect("it was written");
    let number = |layer: usize| {
        let start =
            text.find(&format!("params.layers.mlp.up.kernel.{layer} = ")).expect("a weight per layer");
        let at = start + text[start..].find("parameter(").expect("it is one");
        text[at..at + text[at..].find(')').expect("a number in brackets") + 1].to_owned()
    };
    let (first, second) = (number(0), number(1));
    let wrong =
        text.replace(&first, "parameter(x)").replace(&second, &first).replace("parameter(x)", &second);
    std::fs::write(&plan, wrong).expect("it can be written");
    let outcome = phzc(&["verify", &*program, &plan.to_string_lossy()], b"");
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
}

/// Seconds of a step of the plan that phzc makes.
fn time_secs(program: &str) -> f64 {
    let figures = format!("{program}.json");
    run(&[program, "--cluster", "a100-8", "-q", "--plan", &figures, "-o", &format!("{program}.plan")]);
    let text = std::fs::read_to_string(figures).expect("it was written");
    let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    plan["time_secs"].as_f64().expect("a number")
}

/// A plan of a loop is at most 2 % slower than one of the layers written out.
fn looped_is_as_fast(family: &str) {
    let of_form = |form: &[&str]| time_secs(&step("unroll_forms", family, form).to_string_lossy());
    let (looped, unrolled) = (of_form(&["--scan"]), of_form(&[]));
    assert!(looped <= 1.02 * unrolled, "{family}: {looped} s in a loop, {unrolled} s written out");
}

#[test]
fn a_model_in_a_loop_is_planned_as_well_as_one_that_is_written_out() {
    ["gpt", "deepseek"].iter().for_each(|family| looped_is_as_fast(family));
}

#[test]
#[ignore = "takes a minute"]
fn models_of_all_families_are_planned_as_well_in_a_loop() {
    FAMILIES.iter().for_each(|family| looped_is_as_fast(family));
}
