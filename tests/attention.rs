//! Attention as one kernel (`--attention flash`): what its plans compute, and what they take.

use crate::common::{phzc, scratch};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs phzc, which has to have no complaint; what it printed.
fn run(args: &[&str]) -> String {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome.stdout + &outcome.stderr
}

/// A training step, written by `gen`.
fn step(test: &str, family: &str, options: &[&str]) -> PathBuf {
    let path = scratch(test).join(format!("{family}.ir"));
    run(&[&["gen", family, "--size", "tiny", "-o", &*path.to_string_lossy()], options].concat());
    path
}

/// Plans a program; its plan, and the figures of the report.
fn planned(program: &Path, attention: &str, options: &[&str]) -> (PathBuf, Value) {
    let [plan, figures] = ["plan", "json"].map(|end| program.with_extension(format!("{attention}.{end}")));
    let [from, to, json] = [program, &plan, &figures].map(|path| path.to_string_lossy().into_owned());
    run(&[&[&*from, "--attention", attention, "-q", "-o", &to, "--plan", &json], options].concat());
    let text = fs::read_to_string(figures).expect("it was written");
    (plan, serde_json::from_str(&text).expect("JSON"))
}

const MESH: &[&str] = &["--passes", "fuse,shard,place{stages=1}"];

#[test]
fn plans_of_it_compute_what_the_program_does() {
    let dropout: &[&str] = &["--dropout", "0.1"];
    for (family, options) in [("gpt", &[][..]), ("llama", &[]), ("bert", &[]), ("t5", &[]), ("gpt", dropout)]
    {
        let program = step("attention_equal", family, options);
        let (plan, _) = planned(&program, "flash", MESH);
        let text = fs::read_to_string(&plan).expect("it was written");
        assert!(text.contains(":gradient"), "{family}: no backward kernel");
        let verdict = run(&["verify", &program.to_string_lossy(), &plan.to_string_lossy()]);
        assert!(verdict.contains("outputs equal"), "{family}: {verdict}");
    }
}

#[test]
fn stages_and_microbatches_of_it_compute_what_the_program_does() {
    let program = step("attention_stages", "gpt", &[]);
    let (plan, _) = planned(&program, "flash", &["--passes", "fuse,shard,place{stages=2,microbatches=2}"]);
    let verdict = run(&["verify", &program.to_string_lossy(), &plan.to_string_lossy()]);
    assert!(verdict.contains("outputs equal"), "{verdict}");
}

#[test]
fn the_report_takes_as_long_as_the_planner_says() {
    for family in ["gpt", "llama", "t5", "vit"] {
        let program = step("attention_report", family, &[]);
        let (plan, _) = planned(&program, "flash", &["--passes", "fuse,shard"]);
        let text = fs::read_to_string(plan).expect("it was written");
        let module = phzc_ir::parse(&text).expect("a plan");
        let cluster = phzc_testing::default_cluster();
        let report = phzc_passes::report::plan(&module, &cluster).expect("a plan");
        let (reported, planned) = (report.time_secs, report.planned_secs.expect("it is noted"));
        assert!((reported / planned - 1.0).abs() < 1e-6, "{family}: {reported} against {planned}");
    }
}

/// Bytes that one device needs for a step of sequences of a length.
fn peak_bytes(attention: &str, length: &str) -> f64 {
    let options = ["--seq", length, "--global-batch", "8", "--vocab", "64"];
    let program = step("attention_memory", "gpt", &options);
    let (_, figures) = planned(&program, attention, &["--passes", "fuse,shard", "--cluster", "a100-1"]);
    figures["stages"][0]["memory_bytes"].as_f64().expect("a number")
}

#[test]
fn memory_grows_with_the_sequence_and_not_with_its_square() {
    let more = |attention| {
        let [a, b, c] = ["1024", "2048", "4096"].map(|length| peak_bytes(attention, length));
        (c - b) / (b - a)
    };
    let (flash, written) = (more("flash"), more("as-written"));
    assert!((1.9..2.1).contains(&flash), "the second doubling adds {flash} times the first");
    assert!(written > 3.9, "the second doubling adds {written} times the first");
}

#[test]
fn what_it_is_without_being_asked_for_is_as_written() {
    let program = step("attention_default", "gpt", &[]);
    let name = program.to_string_lossy();
    let plan = |options: &[&str]| run(&[&[&*name, "--passes", "fuse,shard", "-q"], options].concat());
    assert_eq!(
        plan(&[]).replace("{attention=as-written}", ""),
        plan(&["--attention", "as-written"]).replace("{attention=as-written}", "")
    );
    assert!(!plan(&[]).contains("phzc.attention"));
}

#[test]
fn its_dumps_resume_to_the_bytes_of_the_whole_run() {
    let program = step("attention_resume", "llama", &[]);
    let (name, dumps) = (program.to_string_lossy(), scratch("attention_dumps"));
    let dir = dumps.to_string_lossy();
    let whole = run(&[&*name, "--attention", "flash", "-q", "--dump-dir", &dir]);
    let files = crate::common::files(&dumps);
    let resumed = files.iter().filter(|file| file.extension().is_some_and(|it| it == "ir"));
    for dump in resumed {
        let text = fs::read_to_string(dump).expect("a dump");
        let command = text.lines().next().and_then(|line| line.strip_prefix("// phzc ")).expect("a command");
        let dump_name = dump.to_string_lossy();
        // Pipelines with options are quoted for a shell.
        let mut args: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches('\'')).collect();
        args[0] = &dump_name;
        assert!(
            run(&[&args[..], &["-q"]].concat()) == whole,
            "{dump_name}: resumed, it gives another program"
        );
    }
}
