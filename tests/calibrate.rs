//! `phzc calibrate`: a log of a few rows, and halves of the published files beside the checkout.

use crate::common::runs::{GPT, table, validate};
use crate::common::{Outcome, phzc, root, scratch};
use std::fs;
use std::path::{Path, PathBuf};

/// The errors of a file, before and after, as `calibrate` prints them.
fn errors(outcome: &Outcome, kind: &str) -> [f64; 2] {
    let line = outcome.stdout.lines().find(|line| line.starts_with(kind)).unwrap_or_default();
    let figures = line.split("MAPE ").nth(1).unwrap_or_default().split(" % ");
    let figures: Vec<f64> = figures.filter_map(|part| part.split_whitespace().last()?.parse().ok()).collect();
    figures.try_into().unwrap_or_else(|_| panic!("no `{kind}` in {}{}", outcome.stdout, outcome.stderr))
}

fn calibrate(fit: &Path, rest: &[&str]) -> Outcome {
    phzc(&[&["calibrate", &fit.to_string_lossy()], rest].concat(), b"")
}

#[test]
fn calibration_moves_the_clock_towards_the_rows_and_reports_the_rest() {
    let slow = GPT.replace("18.13", "24.0");
    let (fit, test) = (table("calibrate_fit", &[&slow, &slow, &slow]), table("calibrate_test", &[GPT]));
    let outcome = phzc(&["calibrate", &fit.to_string_lossy(), "--test", &test.to_string_lossy()], b"");
    let clock =
        outcome.stdout.split("sustained = ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(clock.is_some_and(|clock: f64| (0.5..0.75).contains(&clock)), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("test: runs, 1 rows"), "{}", outcome.stdout);
}

#[test]
fn a_device_with_a_data_sheet_only_is_calibrated_from_three_rows_and_said_to_be_new() {
    let row = |name: &str, secs: &str| {
        GPT.replace("a,gpt", &format!("{name},gpt"))
            .replace("A100-SXM4-80GB", "h200-141")
            .replace("18.13", secs)
    };
    let (one, two, three, four) = (row("a", "9.8"), row("b", "9.9"), row("c", "10.0"), row("d", "9.9"));
    let (fit, test) =
        (table("calibrate_new_fit", &[&one, &two, &three]), table("calibrate_new_test", &[&four]));
    let outcome = phzc(&["calibrate", &fit.to_string_lossy(), "--test", &test.to_string_lossy()], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("which no run was fitted to"), "{}", outcome.stdout);
    let (fit, test) = (errors(&outcome, "fit:"), errors(&outcome, "test:"));
    assert!(fit[1] < 3.0 && test[1] < test[0], "{}", outcome.stdout);
}

#[test]
fn calibration_rejects_bad_rows_with_file_line_and_column() {
    for (name, row, message) in [
        ("nan", GPT.replace("18.13", "NaN"), "`iter_time_s`, found `NaN`"),
        ("negative", GPT.replace("18.13", "-2"), "`iter_time_s`, found `-2`"),
        ("device", GPT.replace("A100-SXM4-80GB", "B52"), "unknown device `B52`"),
    ] {
        let row = row.replace("Megatron-LM", "Megatron");
        let path = table(&format!("calibrate_{name}"), &[if name == "device" { &row } else { GPT }, &row]);
        let outcome = phzc(&["calibrate", &path.to_string_lossy()], b"");
        let is_placed = outcome.stderr.contains(if name == "device" { "runs.csv:2:" } else { "runs.csv:3:" });
        assert!(outcome.code == 1 && is_placed && outcome.stderr.contains(message), "{}", outcome.stderr);
    }
}

#[test]
fn two_rows_of_a_log_are_enough_and_what_they_do_not_decide_stays() {
    let slow = GPT.replace("18.13", "24.0");
    let outcome = calibrate(&table("calibrate_two", &[&slow, &slow]), &[]);
    let [before, after] = errors(&outcome, "fit:");
    assert!(before > 20.0 && after < 5.0, "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("issue of an operator: x 1.00, which the rows do not decide"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn the_calibrated_cluster_predicts_as_the_calibration_says_and_plans_programs() {
    let slow = GPT.replace("18.13", "24.0");
    let fit = table("calibrate_file", &[&slow, &slow, &slow]);
    let cluster = fit.with_file_name("mine.toml").to_string_lossy().into_owned();
    let [_, after] = errors(&calibrate(&fit, &["-o", &cluster]), "fit:");
    let outcome = validate(&fit, &["--json", "--cluster", &cluster]);
    let score: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("one object");
    assert!((score["mape"].as_f64().expect("a number") - after).abs() < 0.1, "{score}: {after}");
    let outcome = phzc(&["examples/mlp.ir", "--cluster", &cluster, "-o", "-"], b"");
    assert!(outcome.code == 0 && outcome.stderr.contains("calibrated-a100-80-8x"), "{}", outcome.stderr);
}

/// A published file cut into every other row, from the first and from the second on.
fn halves(path: &Path) -> [PathBuf; 2] {
    let text = fs::read_to_string(path).expect("readable");
    let (header, rows) = text.split_once('\n').expect("a header");
    let folder = scratch(&format!("halves_{}", path.file_stem().unwrap_or_default().to_string_lossy()));
    [0, 1].map(|first| {
        let half: Vec<&str> = rows.lines().skip(first).step_by(2).collect();
        let path = folder.join(format!("half{first}.csv"));
        fs::write(&path, format!("{header}\n{}\n", half.join("\n"))).expect("writable");
        path
    })
}

/// Files whose halves predict each other within 8 %, and those that miss it with what they reach.
const HALVES: [(&str, f64); 12] = [
    ("bigscience_a100_part", 8.0),
    ("korthikanti2022_a100", 8.0),
    ("megatron_sc21_a100", 8.0),
    ("mlperf_training_llm", 8.0),
    ("mosaicml_mpt_fsdp", 8.0),
    ("nemo_h100_fp8_2024", 8.1),
    ("nemo_launcher_a100_scaling", 8.5),
    ("vtrain_a100_multi", 8.0),
    ("vtrain_a100_single_part", 8.0),
    ("simumax_b200_part", 9.6),
    ("torchtitan_h100_h200", 10.0),
    ("megatron_bridge_part", 11.5),
];

#[test]
fn half_of_a_source_predicts_the_other_half_and_moves_no_other_file() {
    halves_predict(1);
}

#[test]
#[ignore = "takes two minutes"]
fn each_half_of_a_source_predicts_the_other_one() {
    halves_predict(2);
}

/// Fits the first halves, or each of both, and predicts the other one.
fn halves_predict(n_fitted: usize) {
    let path = |name: &str| root().join(format!("../shared/data/published/{name}.csv"));
    if HALVES.iter().any(|(name, _)| !path(name).exists()) {
        return eprintln!("SKIPPED: no ../shared/data/published");
    }
    for (at, (name, most)) in HALVES.into_iter().enumerate() {
        let [first, second] = halves(&path(name));
        for (half, fit, other) in [(0, &first, &second), (1, &second, &first)].into_iter().take(n_fitted) {
            // Every fourth file, others beside the next half: to price all every time takes minutes.
            let others: Vec<&str> = HALVES.iter().map(|(one, _)| *one).filter(|one| *one != name).collect();
            let others: Vec<&str> = others.into_iter().skip((2 * at + half) % 4).step_by(4).collect();
            let files = [other.clone()].into_iter().chain(others.iter().map(|one| path(one)));
            let tests: Vec<String> = files.map(|it| it.to_string_lossy().into_owned()).collect();
            let args: Vec<&str> = ["--test"].into_iter().chain(tests.iter().map(String::as_str)).collect();
            let outcome = calibrate(fit, &args);
            let half = other.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let [before, after] = errors(&outcome, &format!("test: {half}"));
            println!("{name:28} {before:5.1} {after:5.1}");
            assert!(after <= most, "{name}: {}", outcome.stdout);
            for one in others {
                let [before, after] = errors(&outcome, &format!("test: {one},"));
                assert!((after - before).abs() <= 1.0, "{name} moves {one}: {}", outcome.stdout);
            }
        }
    }
}
