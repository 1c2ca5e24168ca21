//! `phzc phaze-plan` on Phaze's own problems beside the checkout, and on problems that are wrong.

use crate::common::{Outcome, files, phzc, root, scratch};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// Phaze's problems, if they are there; says loudly when they are not.
fn problems() -> Vec<PathBuf> {
    let mut found = files(&root().join("../shared/data/phaze/dp"));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    if found.is_empty() {
        eprintln!("SKIPPED: nothing at ../shared/data/phaze/dp, its 0 problems are not solved");
    }
    found
}

fn solved(path: &std::path::Path) -> Value {
    let outcome = phzc(&["phaze-plan", &path.to_string_lossy()], b"");
    assert_eq!(outcome.code, 0, "{}: {}", path.display(), outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("one object")
}

#[test]
fn plans_are_phaze_s_own() {
    for path in problems() {
        let Ok(expected) = fs::read_to_string(path.with_extension("json.expected")) else { continue };
        let (mut ours, mut expected): (Value, Value) =
            (solved(&path), serde_json::from_str(&expected).expect("JSON"));
        for key in ["finalTimePerBatch", "fixedStrategyTimePerBatch"] {
            let [ours, expected] =
                [&mut ours, &mut expected].map(|plan| plan[key].take().as_f64().expect("a number"));
            assert!((ours - expected).abs() <= 1e-6, "{}: {key} {ours}, not {expected}", path.display());
        }
        // What is left are the stages, and the two degrees.
        assert_eq!(ours, expected, "{}", path.display());
    }
}

/// The two problems without an expected file: the figures are those of `reference/phaze.md`, sections 9 and
/// 10.
#[test]
fn a_plan_is_found_where_the_expert_s_does_not_fit_and_where_the_best_width_is_one_of_four() {
    let of = |name: &str| problems().into_iter().find(|path| path.to_string_lossy().contains(name));
    if let Some(path) = of("mbs8") {
        let plan = solved(&path);
        assert_eq!(plan["fixedStrategyTimePerBatch"], Value::Null);
        assert!(
            plan["finalTimePerBatch"].as_f64().is_some_and(|secs| (secs - 55.7048).abs() < 5e-5),
            "{plan}"
        );
        assert_eq!(
            (&plan["dataParallelDegree"], plan["stages"].as_array().map(Vec::len)),
            (&json!(32), Some(32))
        );
    }
    if let Some(path) = of("t1248") {
        let plan = solved(&path);
        assert!(
            plan["finalTimePerBatch"].as_f64().is_some_and(|secs| (secs - 844.0683).abs() < 5e-5),
            "{plan}"
        );
        assert_eq!(plan["tensorParallelDegree"], 8);
    }
}

/// Four equal layers on eight devices, without an expert's plan.
fn problem() -> Value {
    let node = |id: i64| {
        json!({"id": id, "parameterSize": 10.0, "activationSize": 5.0, "optimalLatencyFw": 1.0,
               "optimalLatencyBw": 2.0, "isTensorParallelized": false})
    };
    let edge = |id: i64| json!({"sourceId": id, "destId": id + 1, "communicationCost": 4});
    json!({"maxMemoryPerDevice": 64, "maxDevices": 8, "bandwidth": 8.0, "mbsInBatch": 16.0,
           "nodes": {"1": (0..4).map(node).collect::<Value>()}, "edges": {"1": (0..3).map(edge).collect::<Value>()},
           "activationRecomputation": true, "optimizerAlgorithm": "SGD"})
}

fn run(problem: &Value) -> Outcome {
    phzc(&["phaze-plan", "-"], format!("{problem:#}").as_bytes())
}

/// The message and the line that an edit of the problem leads to.
#[track_caller]
fn wrong(edit: impl FnOnce(&mut Value), message: &str, at: &str) {
    let mut problem = problem();
    edit(&mut problem);
    let outcome = run(&problem);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    for part in [message, at, "help"] {
        assert!(outcome.stderr.contains(part), "no `{part}` in\n{}", outcome.stderr);
    }
}

#[test]
fn a_problem_without_an_expert_has_no_expert_s_time() {
    let outcome = run(&problem());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let plan: Value = serde_json::from_str(&outcome.stdout).expect("one object");
    assert_eq!(plan["fixedStrategyTimePerBatch"], Value::Null);
    assert_eq!(plan["stages"].as_array().map(|stages| stages[0]["nodes"][0].clone()), Some(json!(0)));
}

#[test]
fn a_plan_goes_to_the_file_that_is_named() {
    let path = scratch("phaze_output").join("plan.json");
    let args = ["phaze-plan", "-", "-o", &path.to_string_lossy()];
    let outcome = phzc(&args, problem().to_string().as_bytes());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(&path).expect("written"), run(&problem()).stdout);
}

#[test]
fn a_missing_key_is_named_with_its_place() {
    let remove = |it: &mut Value| drop(it.as_object_mut().expect("an object").remove("bandwidth"));
    wrong(remove, "missing field `bandwidth`", "-:");
    wrong(|it| it["fixedPP"] = json!(2), "missing field `fixedTMPC`", "-:1:1");
}

#[test]
fn a_key_that_is_not_known_is_pointed_at_with_the_nearest() {
    wrong(|it| it["fixedPp"] = json!(2), "did you mean `fixedPP`?", "\"fixedPp\": 2");
    let node = |it: &mut Value| it["nodes"]["1"][2]["paramSize"] = json!(2);
    wrong(node, "unknown key `paramSize`", "\"paramSize\": 2");
}

#[test]
fn a_number_that_makes_no_sense_is_pointed_at() {
    let negative = |it: &mut Value| it["nodes"]["1"][2]["optimalLatencyFw"] = json!(-1.0);
    wrong(negative, "expected a number from 0 up, found `-1`", "\"optimalLatencyFw\": -1.0");
    wrong(|it| it["maxDevices"] = json!(0), "devices, found `0`", "\"maxDevices\": 0");
    wrong(|it| it["bandwidth"] = json!(0), "expected a positive finite number", "\"bandwidth\": 0");
    wrong(|it| it["mbsInBatch"] = json!(0.5), "at least one microbatch", "\"mbsInBatch\": 0.5");
}

#[test]
fn not_a_number_is_no_number() {
    let text = format!("{:#}", problem()).replace("8.0", "NaN");
    let outcome = phzc(&["phaze-plan", "-"], text.as_bytes());
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("\"bandwidth\": NaN"), "{}", outcome.stderr);
}

#[test]
fn a_graph_that_branches_is_refused_at_the_branch() {
    let cut = |it: &mut Value| drop(it["edges"]["1"].as_array_mut().expect("a list").pop());
    wrong(cut, "branching not supported: nodes 0 and 3", "-:");
    let circle = |it: &mut Value| {
        let edges = it["edges"]["1"].as_array_mut().expect("a list");
        edges.push(json!({"sourceId": 3, "destId": 0, "communicationCost": 1}));
    };
    wrong(circle, "the edges go in a circle", "-:");
}

#[test]
fn ids_that_contradict_each_other_are_refused() {
    wrong(|it| it["nodes"]["1"][1]["id"] = json!(0), "two nodes have the id 0", "-:");
    wrong(|it| it["edges"]["1"][1]["destId"] = json!(9), "no node has the id 9", "-:");
    wrong(|it| it["edges"]["1"][1] = it["edges"]["1"][0].clone(), "two edges go from 0 to 1", "-:");
    wrong(|it| it["edges"] = json!({"2": []}), "no edges for width 1", "-:");
    wrong(|it| it["nodes"] = json!({}), "no nodes for width 1", "-:");
    wrong(
        |it| it["nodes"]["1"][1]["isTensorParallelized"] = json!(true),
        "tensor-parallel on one device",
        "-:",
    );
}

#[test]
fn a_layer_that_fits_on_no_device_is_named() {
    wrong(
        |it| it["nodes"]["1"][2]["parameterSize"] = json!(30),
        "layer 2 alone needs more than 64 bytes",
        "",
    );
    wrong(|it| it["maxDevices"] = json!(1), "no split into stages fits on 1 device", "");
}
