//! What a dump says of every instruction adds up to what the report says of the whole plan.

use crate::common::{phzc, root, scratch};
use serde_json::Value;
use std::fs;

/// The remark of one line.
struct Remark {
    /// Seconds per step of its kernel and its collectives.
    secs: f64,
    memory_bytes: u64,
    stage: usize,
    is_in_entry: bool,
}

/// A plan as text, the lines of computations that ops apply to scalars left out, and its figures.
fn planned(model: &str, cluster: &str, passes: &str) -> (Vec<Remark>, Value) {
    let dir = scratch(&format!("costs_{}", passes.replace(|it: char| !it.is_alphanumeric(), "_")));
    let json = dir.join("plan.json").to_string_lossy().into_owned();
    let model = root().join(model).to_string_lossy().into_owned();
    let outcome = phzc(&[&*model, "--cluster", cluster, "--passes", passes, "--plan", &json], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let plan = serde_json::from_str(&fs::read_to_string(json).expect("a plan")).expect("JSON");
    (remarks(&outcome.stdout), plan)
}

fn remarks(text: &str) -> Vec<Remark> {
    let (mut found, mut is_in_entry) = (Vec::new(), false);
    for body in text.split("\n}\n") {
        is_in_entry |= body.contains("ENTRY ");
        let lines: Vec<&str> = body.lines().filter(|line| line.contains(" = ")).collect();
        let noted: Vec<Remark> = lines.iter().filter_map(|line| remark(line, is_in_entry)).collect();
        assert!(noted.is_empty() || noted.len() == lines.len(), "a line without costs:\n{body}");
        assert!(!is_in_entry || found.len() + noted.len() > 10);
        found.extend(noted);
    }
    found
}

/// `… // us=12x9.7 by=hbm bytes=1024; us=11.4 by=all-reduce over=x bytes=512; out=512 at=4096`.
fn remark(line: &str, is_in_entry: bool) -> Option<Remark> {
    let (instr, costs) = line.rsplit_once(" // ")?;
    let values = |key: &'static str| {
        costs.split([' ', ';']).filter_map(move |word| word.strip_prefix(key)?.strip_prefix('='))
    };
    let secs = |text: &str| {
        let (times, micros) = text.split_once('x').unwrap_or(("1", text));
        times.parse::<f64>().expect("a count") * micros.parse::<f64>().expect("a time") * 1e-6
    };
    let whole = |key| values(key).map(|text| text.parse().expect("whole bytes")).collect::<Vec<u64>>();
    let stage = instr.split_once("phzc.stage=\"").and_then(|(_, rest)| rest.split_once('"'));
    assert_eq!((whole("out").len(), whole("bytes").len()), (1, values("us").count()), "{line}");
    Some(Remark {
        secs: values("us").map(secs).sum(),
        memory_bytes: whole("at")[0],
        stage: stage.map_or(0, |(stage, _)| stage.parse().expect("a number")),
        is_in_entry,
    })
}

/// Seconds per step that all stages are busy, transfers between them aside.
fn busy_secs(plan: &Value) -> f64 {
    let secs = |stage: &Value, key: &str| stage[key].as_f64().expect("seconds");
    let n_microbatches = plan["n_microbatches"].as_f64().expect("a count");
    let of = |stage: &Value| {
        n_microbatches * (secs(stage, "forward_secs") + secs(stage, "backward_secs"))
            + secs(stage, "update_secs")
    };
    plan["stages"].as_array().expect("stages").iter().map(of).sum()
}

/// The most of a stage's instructions is its memory, or of those of all stages on its devices.
fn assert_peaks(remarks: &[Remark], plan: &Value) {
    let stages = plan["stages"].as_array().expect("stages");
    for (stage, own) in stages.iter().enumerate() {
        let shares = |other: usize| stages[other]["devices"] == own["devices"];
        let here = remarks.iter().filter(|it| it.is_in_entry && shares(it.stage));
        let peak = here.map(|it| it.memory_bytes).max();
        assert_eq!(peak, own["memory_bytes"].as_u64(), "stage {stage}");
    }
}

#[test]
fn the_instructions_of_one_stage_take_the_step_and_its_memory() {
    for (model, cluster) in
        [("examples/gpt2_small.ir", "a100-8"), ("examples/moe.ir", "tests/clusters/slow-8.toml")]
    {
        let (remarks, plan) = planned(model, cluster, "fuse,shard,place{stages=1,microbatches=1}");
        let secs: f64 = remarks.iter().map(|it| it.secs).sum();
        let time_secs = plan["time_secs"].as_f64().expect("seconds");
        assert!((secs / time_secs - 1.0).abs() < 1e-6, "{model}: {secs} and {time_secs}");
        assert_peaks(&remarks, &plan);
        let most = remarks.iter().map(|it| it.memory_bytes).max();
        assert_eq!(most, plan["stages"][0]["memory_bytes"].as_u64(), "{model}");
    }
}

#[test]
fn the_instructions_of_a_pipeline_take_what_its_stages_take() {
    for schedule in ["1f1b", "gpipe", "zero-bubble", "interleaved:2"] {
        let passes = format!("fuse,shard,place{{stages=2,microbatches=4,schedule={schedule}}}");
        let (remarks, plan) = planned("examples/gpt.ir", "tests/clusters/slow-8.toml", &passes);
        let (secs, all_secs) = (remarks.iter().map(|it| it.secs).sum::<f64>(), busy_secs(&plan));
        assert!((secs / all_secs - 1.0).abs() < 1e-6, "{schedule}: {secs} and {all_secs}");
        assert_peaks(&remarks, &plan);
    }
}

#[test]
fn a_program_without_a_plan_has_the_costs_of_one_device() {
    let (remarks, plan) = planned("examples/gpt.ir", "a100-8", "fuse,estimate");
    let secs: f64 = remarks.iter().map(|it| it.secs).sum();
    let time_secs = plan["time_secs"].as_f64().expect("seconds");
    assert!((secs / time_secs - 1.0).abs() < 1e-6, "{secs} and {time_secs}");
    assert_peaks(&remarks, &plan);
}
