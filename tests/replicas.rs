//! Replicas of a plan on unlike devices: each runs microbatches by its speed, together they do the step.

use crate::common::{Outcome, phzc, scratch};
use serde_json::Value;
use std::fs;

const CLUSTER: &str = "tests/clusters/unlike-2+2.toml";
const MODEL: &str = "examples/mlp.ir";

/// Plans the example; the plan's file and its figures.
fn planned(folder: &str) -> (String, Value) {
    let folder = scratch(folder);
    let [text, figures] =
        ["plan.ir", "plan.json"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let pipeline = "fuse,shard,place{stages=1}";
    let args = [MODEL, "--cluster", CLUSTER, "--passes", pipeline, "-q", "-o", &text, "--plan", &figures];
    let outcome = phzc(&args, b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let figures = fs::read_to_string(figures).expect("written");
    (text, serde_json::from_str(&figures).expect("an object"))
}

/// The figures of some replicas.
fn each(plan: &Value, key: &str) -> Vec<f64> {
    let replicas = plan["replicas"].as_array().expect("replicas").iter();
    replicas.map(|replica| replica[key].as_f64().expect("a number")).collect()
}

fn emitted(plan: &str, form: &str, to: &str) -> Outcome {
    phzc(&[plan, "--cluster", CLUSTER, "--passes", "estimate", "--emit", form, "-o", to], b"")
}

#[test]
fn the_faster_replica_runs_more_microbatches_and_both_are_done_at_about_the_same_time() {
    let (_, plan) = planned("replicas_shares");
    let (shares, times) = (each(&plan, "n_microbatches"), each(&plan, "pipeline_secs"));
    assert_eq!(shares.iter().sum::<f64>(), plan["n_microbatches"].as_f64().expect("a number"));
    assert!(shares[0] > shares[1], "{shares:?}");
    // No update begins before the last gradient is there.
    let longest = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    let step_secs = longest(&times) + longest(&each(&plan, "once_secs"));
    assert!((plan["time_secs"].as_f64().expect("a number") / step_secs - 1.0).abs() < 1e-9);
    // One microbatch more or less is all that is between them.
    assert!((times[0] - times[1]).abs() < times[0] / shares[1], "{times:?}");
    let alone =
        phzc(&[MODEL, "--cluster", CLUSTER, "--passes", "fuse,shard,place{replicas=never,stages=1}"], b"");
    assert_eq!(alone.code, 0, "{}", alone.stderr);
    assert!(!alone.stderr.contains("replica"), "{}", alone.stderr);
}

#[test]
fn verify_replays_each_replica() {
    let (plan, _) = planned("replicas_verify");
    let outcome = phzc(&["verify", MODEL, &plan], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("4 virtual devices, 1 stage in 2 replicas"), "{}", outcome.stdout);
}

/// Stages of two sizes, three replicas with 5, 2 and 1 microbatches, devices left idle between them.
#[test]
fn verify_replays_unequal_stages_with_mixed_microbatches_and_idle_devices() {
    let plan = scratch("replicas_unequal").join("plan.ir").to_string_lossy().into_owned();
    let pipeline = "fuse,shard,place{groups=4+2,stages=2,microbatches=8,schedule=1f1b}";
    let outcome =
        phzc(&["examples/gpt.ir", "--cluster", "a100-6", "--passes", pipeline, "-q", "-o", &plan], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = fs::read_to_string(&plan).expect("written");
    let with = |replicas: &str| {
        let noted = text.replacen("phzc.stages=", &format!("phzc.replicas=\"{replicas}\",phzc.stages="), 1);
        phzc(&["verify", "examples/gpt.ir", "-"], noted.as_bytes())
    };
    let outcome = with("5:0,4;2:8,12;1:20,16");
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("18 virtual devices, 2 stages in 3 replicas, 8 microbatches"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("the schedule replayed task by task"), "{}", outcome.stdout);
    let short = with("5:0,4;2:8,12");
    assert!(
        short.stderr.contains("they run 7 microbatches, the step has 8 microbatches"),
        "{}",
        short.stderr
    );
    let shared = with("5:0,4;3:8,10");
    assert!(shared.stderr.contains("two of them have device 10"), "{}", shared.stderr);
}

#[test]
fn a_replica_that_does_not_fit_is_refused() {
    let (plan, figures) = planned("replicas_fit");
    let text = fs::read_to_string(CLUSTER).expect("a test's cluster");
    let needed = figures["replicas"][1]["stages"][0]["memory_bytes"].as_f64().expect("a number");
    let (quick, slow) = text.split_at(text.rfind("hbm_bytes = 16000000").expect("the second kind's"));
    let slow = slow.replacen("16000000", &format!("{}", needed / 2.0), 1);
    let small = scratch("replicas_small").join("small.toml").to_string_lossy().into_owned();
    fs::write(&small, [quick, &slow].concat()).expect("writable");
    let outcome = phzc(&[&*plan, "--cluster", &small, "--passes", "check"], b"");
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("in replica 1 of the stages"), "{}", outcome.stderr);
    // Nor does the plan go on where its second replica has too little memory.
    let outcome = phzc(&["replan", &plan, "--cluster", CLUSTER, "--to", &small, "--json"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let told: Value = serde_json::from_str(&outcome.stdout).expect("an object");
    assert_eq!(told["chosen"]["name"], "planned anew", "{told}");
}

#[test]
fn modules_are_each_replicas_and_the_manifest_says_which_microbatches() {
    let (plan, figures) = planned("replicas_stages");
    let folder = scratch("replicas_modules");
    let outcome = emitted(&plan, "stages", &folder.to_string_lossy());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let manifest = fs::read_to_string(folder.join("stages.json")).expect("written");
    let manifest: Value = serde_json::from_str(&manifest).expect("an object");
    let first = figures["replicas"][0]["n_microbatches"].as_u64().expect("a number");
    let all = figures["n_microbatches"].as_u64().expect("a number");
    let microbatches: Vec<&Value> =
        manifest["replicas"].as_array().expect("replicas").iter().map(|it| &it["microbatches"]).collect();
    assert_eq!(microbatches, [&serde_json::json!([0, first - 1]), &serde_json::json!([first, all - 1])]);
    assert_eq!(manifest["replicas"][1]["devices"], serde_json::json!([[2, 3]]));
}

#[test]
fn the_trace_has_each_replica() {
    let (plan, _) = planned("replicas_trace");
    let trace = emitted(&plan, "trace", "-");
    for name in ["replica 0, stage 0: devices 0-1, x=2", "replica 1, stage 0: devices 2-3, x=2"] {
        assert!(trace.stdout.contains(name), "{}", trace.stderr);
    }
}

#[test]
fn what_one_program_cannot_say_is_refused() {
    let (plan, _) = planned("replicas_refused");
    let lowered = phzc(&[&plan, "--cluster", CLUSTER, "--passes", "spmd"], b"");
    let exported = emitted(&plan, "megatron", "-");
    let again = phzc(&[&plan, "--cluster", CLUSTER, "--passes", "place{replicas=never}"], b"");
    for outcome in [lowered, exported, again] {
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("the plan has 2 replicas"), "{}", outcome.stderr);
    }
}

/// A replica has all states: nothing is lost with the other one.
#[test]
fn what_one_replica_loses_another_has() {
    let (plan, _) = planned("replicas_replan");
    let outcome = phzc(&["replan", &plan, "--cluster", CLUSTER, "--lost", "0", "--json"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let told: Value = serde_json::from_str(&outcome.stdout).expect("an object");
    assert_eq!(told["chosen"]["checkpoint_bytes"].as_f64(), Some(0.0), "{told}");
}

#[test]
fn plans_over_several_kinds_are_not_listed_and_that_is_said() {
    let list = |top: &str| {
        let pipeline = format!("fuse,shard,place{{stages=1,top={top}}}");
        phzc(&[MODEL, "--cluster", CLUSTER, "--passes", &pipeline], b"").stderr
    };
    assert!(list("3").contains("`top` lists no plans but those on one kind"), "{}", list("3"));
    assert!(!list("1").contains("`top` lists"));
}
