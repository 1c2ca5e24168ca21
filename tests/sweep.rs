//! `phzc sweep`: fleets of unlike nodes, cut off and joined, and FASOP's own tables.

mod common;

use common::fasop::toml;
use common::{Outcome, Random, phzc, scratch};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;

fn sweep(fleet: &str, rest: &[&str]) -> Outcome {
    phzc(&[&["sweep", fleet], rest].concat(), b"")
}

fn points(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect()
}

const EXAMPLE: &str = "examples/fleet.toml";

#[test]
fn the_front_falls_in_price_as_it_rises_in_time() {
    let front = points(&sweep(EXAMPLE, &["--json"]));
    let figures: Vec<[f64; 2]> = front
        .iter()
        .map(|it| ["step_secs", "usd"].map(|key| it["plan"][key].as_f64().expect("a number")))
        .collect();
    assert!(front.len() > 2, "{front:?}");
    assert!(figures.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] > pair[1][1]), "{figures:?}");
    let [least] = &points(&sweep(EXAMPLE, &["--json", "--objective", "price"]))[..] else { panic!("one") };
    assert_eq!(Some(least), front.last());
    let most = figures[1][1].to_string();
    let [within] = &points(&sweep(EXAMPLE, &["--json", "--objective", "time", "--max-price", &most]))[..]
    else {
        panic!("one")
    };
    assert_eq!(within, &front[1]);
}

#[test]
fn a_sweep_that_was_cut_off_anywhere_goes_on_to_the_same_bytes() {
    let folder = scratch("sweep_cut");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let whole = sweep(EXAMPLE, &["-o", &path("whole.jsonl")]);
    let bytes = fs::read(path("whole.jsonl")).expect("written");
    let mut random = Random(34);
    for _ in 0..20 {
        let length = random.below(bytes.len());
        fs::write(path("cut.jsonl"), &bytes[..length]).expect("writable");
        let again = sweep(EXAMPLE, &["-o", &path("cut.jsonl")]);
        assert_eq!(again.stdout, whole.stdout, "cut at {length}");
        assert_eq!(fs::read(path("cut.jsonl")).expect("written"), bytes, "cut at {length}");
    }
}

/// A sweep that is killed (SIGKILL) once so many bytes of results are there, or that has ended before.
fn killed(results: &str, n_bytes: usize) {
    let mut run = std::process::Command::new(env!("CARGO_BIN_EXE_phzc"));
    let run = run.args(["sweep", EXAMPLE, "-o", results]).current_dir(common::root());
    let run = run.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().expect("it starts");
    while run.try_wait().expect("its state").is_none() {
        if fs::metadata(results).is_ok_and(|it| it.len() as usize >= n_bytes) {
            run.kill().expect("it is running");
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_sweep_that_is_killed_anywhere_goes_on_to_the_same_bytes() {
    let folder = scratch("sweep_killed");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    sweep(EXAMPLE, &["-o", &path("whole.jsonl")]);
    let bytes = fs::read(path("whole.jsonl")).expect("written");
    let mut random = Random(35);
    for _ in 0..20 {
        let n_bytes = random.below(bytes.len());
        fs::remove_file(path("killed.jsonl")).unwrap_or_default();
        killed(&path("killed.jsonl"), n_bytes);
        let left = fs::metadata(path("killed.jsonl")).map_or(0, |it| it.len());
        sweep(EXAMPLE, &["-o", &path("killed.jsonl")]);
        let again = fs::read(path("killed.jsonl")).expect("written");
        assert!(again == bytes, "killed at {n_bytes} bytes, {left} were left");
    }
}

#[test]
fn clusters_without_a_plan_are_gone_on_with_too() {
    let folder = scratch("sweep_tight");
    let [file, results] =
        ["fleet.toml", "results.jsonl"].map(|it| folder.join(it).to_string_lossy().into_owned());
    let text = fs::read_to_string(common::root().join(EXAMPLE)).expect("readable");
    fs::write(&file, text.replace("memory_gib = 22.2", "memory_gib = 0.1")).expect("writable");
    let first = sweep(&file, &["-o", &results]);
    let again = sweep(&file, &["-o", &results]);
    assert_eq!((first.code, again.code, &again.stdout), (0, 0, &first.stdout), "{}", again.stderr);
}

#[test]
fn results_of_another_part_are_not_gone_on_with() {
    let results = scratch("sweep_part").join("results.jsonl").to_string_lossy().into_owned();
    assert_eq!(sweep(EXAMPLE, &["--part", "1/2", "-o", &results]).code, 0);
    let other = sweep(EXAMPLE, &["--part", "2/2", "-o", &results]);
    assert!(other.code == 1 && other.stderr.contains("of another part"), "{}", other.stderr);
}

#[test]
fn parts_are_joined_to_the_whole() {
    let folder = scratch("sweep_parts");
    let path = |part: usize| folder.join(format!("{part}.jsonl")).to_string_lossy().into_owned();
    for part in 1..=3 {
        let outcome = sweep(EXAMPLE, &["--part", &format!("{part}/3"), "-o", &path(part)]);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    }
    let joined = sweep(EXAMPLE, &["--merge", &path(3), &path(1), &path(2)]);
    assert_eq!(joined.stdout, sweep(EXAMPLE, &[]).stdout);
    let lacking = sweep(EXAMPLE, &["--merge", &path(1), &path(2)]);
    assert!(
        lacking.code == 1 && lacking.stderr.contains("clusters are in these files"),
        "{}",
        lacking.stderr
    );
}

#[test]
fn results_of_another_fleet_are_not_gone_on_with() {
    let folder = scratch("sweep_other");
    let (file, results) = (folder.join("fleet.toml"), folder.join("results.jsonl"));
    let text = fs::read_to_string(common::root().join(EXAMPLE)).expect("readable");
    fs::write(&file, text.replace("count = [0, 2]", "count = 1").replace("count = [0, 4]", "count = 1"))
        .expect("writable");
    let [file, results] = [&file, &results].map(|it: &std::path::PathBuf| it.to_string_lossy().into_owned());
    assert_eq!(sweep(&file, &["-o", &results]).code, 0);
    let other = sweep(&file, &["-o", &results, "--cost", "fasop"]);
    assert!(other.code == 1 && other.stderr.contains("of other inputs"), "{}", other.stderr);
    fs::write(&results, "my notes").expect("writable");
    let other = sweep(&file, &["-o", &results]);
    assert!(other.code == 1 && other.stderr.contains("of other inputs"), "{}", other.stderr);
    assert_eq!(fs::read_to_string(&results).expect("it is there"), "my notes");
}

#[test]
fn a_wrong_key_is_named_and_nothing_fits_is_said() {
    let folder = scratch("sweep_wrong");
    let text = fs::read_to_string(common::root().join(EXAMPLE)).expect("readable");
    let outcome = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("writable");
        sweep(&path.to_string_lossy(), &[])
    };
    let wrong = outcome("wrong.toml", &text.replace("per_node = 8", "per_nodes = 8"));
    assert!(wrong.code == 1 && wrong.stderr.contains("unknown field `per_nodes`"), "{}", wrong.stderr);
    let tight = text
        .replace("memory_gib = 39.6", "memory_gib = 0.1")
        .replace("memory_gib = 22.2", "memory_gib = 0.1");
    let tight = outcome("tight.toml", &tight);
    assert!(tight.code == 1 && tight.stderr.contains("no cluster has a plan"), "{}", tight.stderr);
}

/// Model, preset, nodes of A100 and A10, cost model, and the least step that was found before
/// (reference/fasop.md, section 5).
const BEST_FOUND: [(&str, &str, &str, &str, f64); 10] = [
    ("bert", "lab", "0;4", "fasop", 0.954590),
    ("bert", "lab", "1;3", "fasop", 0.819397),
    ("gpt2XL", "lab", "0;8", "fasop", 1.197905),
    ("gpt2XL", "lab", "1;7", "fasop", 1.048973),
    ("T5", "lab", "0;8", "fasop", 1.003839),
    ("T5", "lab", "1;7", "fasop", 0.964176),
    ("bert", "lab", "1;3", "fasop-strict", 0.865145),
    ("gpt2XL", "lab", "1;7", "fasop-strict", 1.132015),
    ("T5", "lab", "1;7", "fasop-strict", 1.020764),
    ("gpt2XL", "aws", "2;5", "fasop", 0.640700),
];

#[test]
fn no_plan_that_was_found_before_is_faster() {
    let folder = scratch("sweep_fasop");
    for (name, preset, counts, cost, known) in BEST_FOUND {
        let Some(text) = toml(name, preset, counts) else { return };
        let path = folder.join("fleet.toml");
        fs::write(&path, text).expect("writable");
        let file = path.to_string_lossy();
        let [best] = &points(&sweep(&file, &["--json", "--objective", "time", "--cost", cost]))[..] else {
            panic!("one plan")
        };
        let secs = best["plan"]["step_secs"].as_f64().expect("a number");
        assert!(secs <= known * (1.0 + 1e-6), "{name} {preset} {counts} {cost}: {secs}, {known} was found");
        let bound = best["bound_secs"].as_f64().expect("a number");
        assert_eq!(bound, secs, "{name} {preset} {counts} {cost} is not proved");
        eprintln!("{name} {preset} {counts} {cost}: {secs:.6}, found before {known}, bound {bound:.6}");
    }
}

/// FASOP's own front (reference/fasop.md, section 6): seconds and dollars of a step.
const FRONT: [(f64, f64); 17] = [
    (0.361138, 0.026301),
    (0.526029, 0.025790),
    (0.570758, 0.024884),
    (0.593492, 0.023695),
    (0.597798, 0.021768),
    (0.646484, 0.020546),
    (0.702743, 0.019752),
    (0.770701, 0.019570),
    (0.787531, 0.017859),
    (0.804169, 0.017465),
    (0.824314, 0.015664),
    (0.938478, 0.015286),
    (0.950807, 0.012906),
    (1.151922, 0.012509),
    (1.362332, 0.011095),
    (1.783152, 0.009682),
    (3.073997, 0.008345),
];

#[test]
fn the_front_of_eighty_clusters_is_at_or_below_fasop_s_at_every_budget() {
    let Some(text) = toml("gpt2XL", "aws", "[0, 8];[0, 8]") else { return };
    let path = scratch("sweep_front").join("fleet.toml");
    fs::write(&path, text).expect("writable");
    let front = points(&sweep(&Path::new(&path).to_string_lossy(), &["--json", "--cost", "fasop"]));
    for (secs, usd) in FRONT {
        let is_met = front.iter().any(|it| {
            let [own_secs, own_usd] =
                ["step_secs", "usd"].map(|key| it["plan"][key].as_f64().expect("a number"));
            own_secs <= secs * (1.0 + 1e-5) && own_usd <= usd * (1.0 + 1e-4)
        });
        assert!(is_met, "{secs} s for {usd} USD");
    }
}
