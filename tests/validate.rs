//! `phzc validate` and `phzc calibrate` on tables: small ones written here, and the published ones beside the
//! checkout.

use crate::common::runs::{GPT, HEADER, table, validate};
use crate::common::{root, scratch};
use serde_json::Value;
use std::fs;

fn score(path: &std::path::Path) -> Value {
    let outcome = validate(path, &["--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("one object")
}

#[test]
fn a_published_step_is_predicted_within_its_interval() {
    let score = score(&table("validate_one", &[GPT]));
    assert_eq!(
        (score["rows"].as_u64(), score["scored"].as_u64(), score["coverage80"].as_f64()),
        (Some(1), Some(1), Some(100.0))
    );
    assert!(score["mape"].as_f64().is_some_and(|mape| mape < 10.0), "{score}");
}

#[test]
fn rows_that_cannot_be_expressed_are_listed_with_their_reason() {
    let (resnet, partial) = (GPT.replace(",gpt,", ",resnet,"), GPT.replace(",ok,", ",partial-config,"));
    let outcome = validate(&table("validate_reasons", &[GPT, &resnet, &partial]), &[]);
    for reason in
        ["1, its family is `resnet` (row 2)", "not expressed: 1, its status is `partial-config` (row 3)"]
    {
        assert!(outcome.stdout.contains(reason), "{}", outcome.stdout);
    }
}

#[test]
fn a_run_that_did_not_fit_is_a_label_for_the_memory() {
    let oom = GPT
        .replace(",18.13,,ok,", ",,,oom,")
        .replace(",full,", ",none,")
        .replace(",8,0,8,3,", ",1,0,1,1,")
        .replace(",64,8,", ",1,8,");
    assert_eq!(score(&table("validate_oom", &[GPT, &oom]))["out_of_memory"], serde_json::json!([0, 1]));
}

#[test]
fn bad_tables_are_rejected_with_file_line_and_column() {
    let cases = [
        ("negative", GPT.replace("18.13", "-1"), "runs.csv:2:"),
        ("nan", GPT.replace("18.13", "NaN"), "`iter_time_s`, found `NaN`"),
        ("device", GPT.replace("A100-SXM4-80GB", "B52"), "unknown device `B52`"),
        ("narrow", GPT.replace(",Megatron-LM", ""), "expected 29 cells as in the header, found 28"),
        ("quote", format!("{GPT}\"x"), "runs.csv:2:"),
    ];
    for (name, row, message) in cases {
        let row = if name == "quote" { row.replace(",ok,", ",ok,\"") } else { row };
        let outcome = validate(&table(&format!("validate_{name}"), &[&row]), &[]);
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.stdout);
        assert!(
            outcome.stderr.contains(message) && outcome.stderr.contains("runs.csv:"),
            "{name}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn absurd_numbers_end_in_a_reason() {
    let rows = [
        GPT.replace(",96,12288,", ",1e18,12288,"),
        GPT.replace(",64,8,8,0,8,3,", ",1e15,8,1e9,0,1e9,1e9,"),
        GPT.replace(",1,64,full", ",1,1e15,full"),
        GPT.replace(",1,64,full", ",,1e15,full"),
        GPT.replace(",64,8,8,0,8,3,,1,", ",0.5,0,0,0,0,0,0,0,"),
    ];
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let score = score(&table("validate_absurd", &rows));
    assert_eq!((score["scored"].as_u64(), score["rows"].as_u64()), (Some(0), Some(5)), "{score}");
}

#[test]
fn a_folder_with_one_bad_file_scores_the_others_and_fails() {
    let good = table("validate_folder", &[GPT]);
    let bad = good.with_file_name("bad.csv");
    fs::write(&bad, fs::read_to_string(&good).expect("readable").replace("18.13", "-1")).expect("writable");
    let outcome = validate(good.parent().expect("a folder"), &[]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stdout.contains("runs  "), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("bad.csv:2:"), "{}", outcome.stderr);
}

#[test]
fn a_missing_column_is_named() {
    let path = scratch("validate_missing").join("runs.csv");
    fs::write(&path, format!("{}\n{}\n", HEADER.replace(",seq,", ",length,"), GPT)).expect("writable");
    let outcome = validate(&path, &[]);
    assert!(outcome.code == 1 && outcome.stderr.contains("missing column `seq`"), "{}", outcome.stderr);
}

#[test]
fn the_plot_has_a_point_per_row() {
    let path = table("validate_plot", &[GPT, GPT]);
    let svg = path.with_extension("svg");
    let outcome = validate(&path, &["--svg", &svg.to_string_lossy()]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(svg).expect("written").matches("<circle").count(), 2);
}

/// What each published file must reach: file, largest error of the time in per cent, largest error of the
/// memory.
const BOUNDS: [(&str, f64, f64); 15] = [
    ("korthikanti2022_a100", 4.0, 100.0),
    ("korthikanti2022_memory", 100.0, 5.0),
    ("megatron_sc21_a100", 6.0, 100.0),
    ("vtrain_a100_multi", 7.0, 100.0),
    ("nemo_launcher_a100_scaling", 10.0, 100.0),
    ("nemo_h100_fp8_2024", 9.0, 100.0),
    ("mosaicml_mpt_fsdp", 12.0, 100.0),
    ("mlperf_training_llm", 12.0, 100.0),
    ("torchtitan_h100_h200", 12.0, 10.0),
    ("vtrain_a100_single_part", 9.0, 100.0),
    ("bigscience_a100_part", 5.0, 16.0),
    ("megatron_bridge_part", 14.0, 100.0),
    ("simumax_b200_part", 11.0, 3.0),
    ("kwai_h800_memory_part", 100.0, 5.0),
    // Two of its 27 records contradict themselves: without them the memory is within 6 %, see the test of its
    // plans.
    ("sailor_sosp25_gh200_rtx", 100.0, 13.0),
];

#[test]
fn published_runs_are_predicted_as_well_as_the_readme_says() {
    let mut n_files = 0;
    for (name, most, most_memory) in BOUNDS {
        let path = root().join(format!("../shared/data/published/{name}.csv"));
        if !path.exists() {
            eprintln!("SKIPPED: no ../shared/data/published/{name}.csv");
            continue;
        }
        let score = score(&path);
        n_files += 1;
        assert!(score["mape"].as_f64().is_none_or(|mape| mape <= most), "{score}");
        assert!(score["memory_mape"].as_f64().is_none_or(|mape| mape <= most_memory), "{score}");
        let baseline = score["constant_mape"].as_f64().unwrap_or(100.0);
        assert!(
            score["mape"].as_f64().is_none_or(|mape| mape < baseline),
            "no better than one rate per device: {score}"
        );
    }
    eprintln!("{n_files} published files");
}

#[test]
fn measured_layers_take_the_place_of_computed_ones() {
    let row =
        GPT.replace(",8,0,8,3,", ",8,0,2,1,").replace(",64,8,8,", ",16,8,8,").replace("gpt3-175B", "toy");
    let runs = table("validate_profile", &[&row]);
    let profile = runs.with_file_name("profile.json");
    let layers = r#"{"0": [0.5, 1.0, 0.1], "1": [0.5, 1.0, 0.1]}"#;
    fs::write(&profile, format!(r#"{{"toy": {{"A100-SXM4-80GB": {{"1": {{"8": {layers}}}}}}}}}"#))
        .expect("writable");
    let outcome = validate(&runs, &["--rows", "--profile", &profile.to_string_lossy()]);
    // 64 microbatches and one more slot of 1.5 s, sends, one update.
    assert!(
        outcome.stdout.contains("measured layers") && outcome.stdout.contains("predicted 97."),
        "{}",
        outcome.stdout
    );
    fs::write(&profile, layers.replace("0.5", "-0.5")).expect("writable");
    assert_eq!(validate(&runs, &["--profile", &profile.to_string_lossy()]).code, 1);
}

#[test]
fn sailor_s_plans_are_predicted_from_its_own_layers_better_than_by_its_simulator() {
    let path = root().join("../shared/data/published/sailor_sosp25_gh200_rtx.csv");
    let profile = root().join("../shared/data/fasop/sailor/simulator_profiles.json");
    let (Ok(text), true) = (fs::read_to_string(path), profile.exists()) else {
        eprintln!("SKIPPED: no ../shared/data/published/sailor_sosp25_gh200_rtx.csv");
        return;
    };
    // Its own error in per cent; two records contradict themselves (docs/validation.md).
    for (model, most) in [("OPT-350M", 8.9), ("GPT-Neo-2.7B", 10.1)] {
        let is_kept = |line: &&str| line.contains(model) && !line.contains("red_grads=1.06094");
        let rows: Vec<&str> = text.lines().filter(is_kept).collect();
        let one = scratch("validate_sailor").join("rows.csv");
        fs::write(&one, format!("{}\n{}\n", text.lines().next().unwrap_or_default(), rows.join("\n")))
            .expect("writable");
        let outcome = validate(&one, &["--json", "--profile", &profile.to_string_lossy()]);
        let score: Value = serde_json::from_str(&outcome.stdout).expect("one object");
        assert!(score["mape"].as_f64().is_some_and(|mape| mape < most), "{score}");
        assert!(score["memory_mape"].as_f64().is_some_and(|mape| mape < 10.0), "{score}");
    }
}

#[test]
fn sailor_s_plans_over_unlike_devices_are_predicted_better_than_by_its_simulator() {
    let path = root().join("../shared/data/published/sailor_sosp25_gh200_rtx.csv");
    let folder = root().join("../shared/data/fasop/sailor");
    let Ok(text) = fs::read_to_string(path) else {
        eprintln!("SKIPPED: no ../shared/data/published/sailor_sosp25_gh200_rtx.csv");
        return;
    };
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("HETEROGENEOUS")).collect();
    let one = scratch("validate_unlike").join("rows.csv");
    fs::write(&one, format!("{}\n{}\n", text.lines().next().unwrap_or_default(), rows.join("\n")))
        .expect("writable");
    let inside = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let [profile, plans, links] =
        ["simulator_profiles.json", "measured_plans", "multizone_bandwidths_het.json"].map(inside);
    let outcome = validate(&one, &["--json", "--profile", &profile, "--plans", &plans, "--links", &links]);
    let score: Value = serde_json::from_str(&outcome.stdout).expect("one object");
    assert_eq!(score["scored"].as_u64(), Some(9), "{score}");
    assert!(score["mape"].as_f64().is_some_and(|mape| mape < 10.3), "{score}");
}

#[test]
fn a_row_over_unlike_devices_needs_its_plan() {
    let row = GPT.replace("A100-SXM4-80GB", "2xA100+2xH100");
    let row = format!("{row}\"file plans/one.json; x\"");
    let runs = table("validate_no_plan", &[GPT, &row]);
    let without = validate(&runs, &[]);
    assert!(without.stdout.contains("not expressed: 1, its devices differ"), "{}", without.stdout);
    let empty = runs.with_file_name("empty.json");
    fs::write(&empty, "{}").expect("writable");
    let (empty, folder) = (empty.to_string_lossy().into_owned(), runs.with_file_name("none"));
    let options = ["--profile", &empty, "--links", &empty, "--plans", &folder.to_string_lossy()];
    let with = validate(&runs, &options);
    assert!(with.code == 1 && with.stderr.contains("runs.csv:3:"), "{}", with.stderr);
    assert!(with.stderr.contains("plan `plans/one.json`"), "{}", with.stderr);
}

const TRIALS: &str = "experiment,mbs,tp,dp,pp,cuts,predicted_s,measured_s";

#[test]
fn a_trial_that_failed_is_a_label_unless_a_larger_microbatch_ran() {
    let path = scratch("validate_trials").join("trials.csv");
    let rows = [
        "homogeneous,4,1,8,2,0-15-30,1.0,1.7",
        "homogeneous,1,1,8,2,0-15-30,1.0,inf",
        "homogeneous,16,1,16,1,0-30,1.0,inf",
    ];
    fs::write(&path, format!("{TRIALS}\n{}\n", rows.join("\n"))).expect("writable");
    let score = score(&path);
    assert_eq!(
        (score["scored"].as_u64(), &score["out_of_memory"]),
        (Some(1), &serde_json::json!([0, 1])),
        "{score}"
    );
    assert!(
        score["unexpressed"][0][0].as_str().is_some_and(|reason| reason.contains("larger microbatch")),
        "{score}"
    );
    fs::write(&path, format!("{TRIALS}\nhomogeneous,4,1,8,2,0-15-29,1.0,1.7\n")).expect("writable");
    let outcome = validate(&path, &[]);
    assert!(outcome.code == 1 && outcome.stderr.contains("trials.csv:2:"), "{}", outcome.stderr);
}

#[test]
fn scales_of_rows_gain_less_than_those_of_tensors_as_was_published() {
    let outcome = validate(&root().join("tests/published/torchao_h100.csv"), &["--rows"]);
    let steps: Vec<f64> = ["0001", "0002", "0003"].map(|row| predicted_secs(&outcome.stdout, row)).to_vec();
    // torchao's README: 25.03 and 10.05 % more tokens per second than in 16 bits. The rate of products with
    // scales of rows was set by the last row; that with scales of tensors was not.
    for (step, published) in steps[1..].iter().zip([1.2503, 1.1005]) {
        assert!((steps[0] / step / published - 1.0).abs() < 0.02, "{}", outcome.stdout);
    }
}

/// The seconds that `--rows` says are predicted for a row.
fn predicted_secs(rows: &str, name: &str) -> f64 {
    let line =
        rows.lines().find(|line| line.contains(&format!("-{name} measured")) && !line.contains("worst"));
    let (_, rest) = line.and_then(|line| line.split_once("predicted ")).expect("the row");
    let [number, unit] = rest.split([' ', ',']).take(2).collect::<Vec<_>>()[..] else { panic!("{rest}") };
    number.parse::<f64>().expect("a number") * if unit == "ms" { 1e-3 } else { 1.0 }
}

#[test]
fn amp_s_trials_are_predicted_better_than_by_amp() {
    let folder = root().join("../shared/data/fasop");
    let (path, profile) =
        (folder.join("amp_measured_trials.csv"), folder.join("legacy_layer_fwd_seconds.json"));
    if !path.exists() {
        eprintln!("SKIPPED: no ../shared/data/fasop/amp_measured_trials.csv");
        return;
    }
    let outcome = validate(&path, &["--json", "--profile", &profile.to_string_lossy()]);
    let scores: Vec<Value> =
        outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect();
    for (score, n_scored) in scores.iter().zip([47, 43]) {
        assert_eq!(score["scored"].as_u64(), Some(n_scored), "{score}");
        let [own, peer] = ["mape", "peer_mape"].map(|key| score[key].as_f64().expect("a number"));
        assert!(own < 25.0 && own < peer, "{score}");
    }
    let rank = |key: &str| scores[1][key].as_f64().expect("a number");
    assert!(rank("spearman") > rank("peer_spearman"), "{}", scores[1]);
}

#[test]
fn picks_among_measured_plans_are_the_fastest_or_as_good() {
    let folder = root().join("../shared/data");
    let inside = |name: &str| folder.join("fasop").join(name).to_string_lossy().into_owned();
    let runs = fs::read_to_string(folder.join("published/sailor_sosp25_gh200_rtx.csv"));
    let (Ok(text), true) = (runs, folder.join("fasop").exists()) else {
        eprintln!("SKIPPED: no ../shared/data");
        return;
    };
    // Records that contradict themselves (docs/validation.md).
    let is_kept = |line: &&str| !line.contains("red_grads=1.06094") && !line.contains("N3/plan_config_N3_D1");
    let kept: Vec<&str> = text.lines().filter(is_kept).collect();
    let sailor = scratch("validate_picks").join("sailor.csv");
    fs::write(&sailor, kept.join("\n") + "\n").expect("writable");
    let [trials, lists] = ["amp_measured_trials.csv", "legacy_layer_fwd_seconds.json"].map(inside);
    let [profile, plans, links] =
        ["sailor/simulator_profiles.json", "sailor/measured_plans", "sailor/multizone_bandwidths_het.json"]
            .map(inside);
    let amp = validate(trials.as_ref(), &["--json", "--profile", &lists]);
    let own = ["--json", "--profile", &profile, "--plans", &plans, "--links", &links];
    let sailor = validate(&sailor, &own);
    let picks = |outcome: &str| -> Vec<Value> {
        let scores = outcome.lines().map(|line| serde_json::from_str::<Value>(line).expect("one object"));
        scores.flat_map(|score| score["picks"].as_array().expect("a list").clone()).collect()
    };
    for (name, stdout, n_near, n_all) in [("AMP", &amp.stdout, 2, 2), ("Sailor", &sailor.stdout, 12, 13)] {
        let picks = picks(stdout);
        let lost = |pick: &Value| {
            let secs = ["picked_secs", "best_secs"].map(|key| pick[key].as_f64().expect("seconds"));
            100.0 * (secs[0] / secs[1] - 1.0)
        };
        let near = picks.iter().filter(|pick| lost(pick) <= 2.0).count();
        picks.iter().for_each(|pick| eprintln!("{name} {pick}: {:+.1} %", lost(pick)));
        assert!(near >= n_near && picks.len() == n_all, "{name}: {near} of {} within 2 %", picks.len());
    }
}

#[test]
fn what_a_row_does_not_say_is_printed_with_it() {
    let row = GPT.replace("a,gpt,gpt3-175B,96,12288,49152", "a,novel,x,96,12288,");
    let outcome = validate(&table("validate_assumed", &[&row]), &["--rows"]);
    assert!(outcome.stdout.contains("assumed: inner width 32768 with a gate"), "{}", outcome.stdout);
}

#[test]
fn a_run_is_predicted_by_a_program_in_its_degrees_beside_the_list_of_operators() {
    // Two layers, four tensor-parallel devices, two copies.
    let row = GPT
        .replace(",96,12288,49152,96,", ",2,1024,4096,16,")
        .replace(",64,8,8,0,8,3,,1,", ",8,8,4,0,1,1,,2,");
    let row = row.replace(",1,64,full,", ",4,32,full,").replace("18.13", "0.05");
    let encoder = row.replace("a,gpt,", "b,bert,");
    let narrow =
        row.replace("a,gpt,", "c,gpt,").replace("A100-SXM4", "H100-SXM5").replace(",fp16,", ",int8,");
    let path = table("validate_programs", &[&row, &encoder, &narrow]);
    let outcome = validate(&path, &["--programs", "--json"]);
    let score: Value = serde_json::from_str(&outcome.stdout).expect("one object");
    assert_eq!((score["rows"].as_u64(), score["planned"].as_u64()), (Some(3), Some(2)), "{score}");
    assert!(score["from_list"].as_f64().is_some_and(|it| it < 40.0), "{score}");
    let reason = "its products are of whole numbers";
    assert_eq!(score["unplanned"][reason].as_u64(), Some(1), "{score}");
    let outcome = validate(&path, &["--programs", "--rows"]);
    assert!(outcome.stdout.contains("  a: measured 50.0 ms, program "), "{}", outcome.stdout);
}
