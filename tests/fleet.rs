//! `phzc sweep --program`: programs on every cluster that can be rented, cut off, joined, and planned alone.

use crate::common::{Outcome, phzc, scratch};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const MODEL: &str = "examples/mlp.ir";

/// Two kinds of nodes, of which any number may be rented.
const FLEET: &str = "name = \"rented\"
price_basis = \"a test\"
[[nodes]]
cluster = \"a100-8\"
count = [0, 2]
usd_per_hour = 30
[[nodes]]
cluster = \"t4-4\"
count = [0, 1]
usd_per_hour = 4";

/// A folder with the fleet's file, and that.
fn fleet(name: &str, text: &str) -> (PathBuf, String) {
    let folder = scratch(name);
    let file = folder.join("fleet.toml");
    fs::write(&file, text).expect("writable");
    (folder, file.to_string_lossy().into_owned())
}

fn sweep(file: &str, rest: &[&str]) -> Outcome {
    phzc(&[&["sweep", file, "--program", MODEL], rest].concat(), b"")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_point_is_the_plan_of_its_cluster_and_costs_what_all_its_nodes_do() {
    let (folder, file) = fleet("fleet_point", FLEET);
    let results = folder.join("results.jsonl");
    let swept = sweep(&file, &["-o", &results.to_string_lossy()]);
    assert_eq!(swept.code, 0, "{}", swept.stderr);
    let points = lines(&fs::read_to_string(&results).expect("written")).split_off(1);
    let counts: Vec<String> = points.iter().map(|point| point["counts"].to_string()).collect();
    assert_eq!(counts, ["[0,1]", "[1,0]", "[1,1]", "[2,0]", "[2,1]"]);
    for point in &points {
        let nodes = &point["counts"];
        let json = folder.join("plan.json");
        let cluster = format!("{file}{nodes}");
        let alone = phzc(&[MODEL, "--cluster", &cluster, "-q", "--plan", &json.to_string_lossy()], b"");
        assert_eq!(alone.code, 0, "{}", alone.stderr);
        let plan: Value = serde_json::from_str(&fs::read_to_string(&json).expect("written")).expect("JSON");
        assert_eq!(plan["time_secs"], point["plan"]["step_secs"], "{nodes}");
        let usd_per_hour = 30.0 * number(&nodes[0]) + 4.0 * number(&nodes[1]);
        let usd = number(&plan["time_secs"]) * usd_per_hour / 3600.0;
        assert!((number(&point["plan"]["usd"]) / usd - 1.0).abs() < 1e-9, "{nodes}");
    }
}

#[test]
fn the_front_falls_in_price_as_it_rises_in_time() {
    let (_, file) = fleet("fleet_front", FLEET);
    let front = lines(&sweep(&file, &["--json"]).stdout);
    let figures: Vec<[f64; 2]> =
        front.iter().map(|it| ["step_secs", "usd"].map(|key| number(&it["plan"][key]))).collect();
    assert!(figures.len() >= 2, "{figures:?}");
    assert!(figures.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] > pair[1][1]), "{figures:?}");
    let cheapest = lines(&sweep(&file, &["--json", "--objective", "price"]).stdout);
    assert_eq!(cheapest.first(), front.last());
    let none = sweep(&file, &["--max-time", "1e-9"]);
    assert!(none.code == 1 && none.stderr.contains("within these limits"), "{}", none.stderr);
}

#[test]
fn a_sweep_that_was_cut_off_goes_on_and_parts_are_joined_to_the_same() {
    let (folder, file) = fleet("fleet_cut", FLEET);
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let whole = sweep(&file, &["-o", &path("whole")]);
    let bytes = fs::read(path("whole")).expect("written");
    for length in [0, 10, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(path("cut"), &bytes[..length]).expect("writable");
        assert_eq!(sweep(&file, &["-o", &path("cut")]).stdout, whole.stdout, "cut at {length}");
        assert_eq!(fs::read(path("cut")).expect("written"), bytes, "cut at {length}");
    }
    for part in ["1/2", "2/2"] {
        let name = path(&part[..1]);
        assert_eq!(sweep(&file, &["--part", part, "-o", &name]).code, 0);
    }
    assert_eq!(sweep(&file, &["--merge", &path("2"), &path("1")]).stdout, whole.stdout);
    let half = sweep(&file, &["--part", "1/2", "-o", &path("1")]);
    assert!(half.stdout.contains("3 of 5 clusters were looked at"), "{}", half.stdout);
    let other = sweep(&file, &["-o", &path("whole"), "--part", "1/2"]);
    assert!(other.code == 1 && other.stderr.contains("of another part"), "{}", other.stderr);
    let other = sweep(&file, &["-o", &path("whole"), "--passes", "fuse,shard"]);
    assert!(other.code == 1 && other.stderr.contains("of other inputs"), "{}", other.stderr);
}

#[test]
fn nothing_is_claimed_of_plans_without_bounds() {
    let (_, file) = fleet("fleet_unbounded", FLEET);
    let outcome = sweep(&file, &["--passes", "fuse"]);
    assert!(
        outcome.stdout.contains("another plan may be is not known"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}

#[test]
fn what_some_passes_do_not_find_is_said_of_these_passes_only() {
    let (_, file) = fleet("fleet_passes", FLEET);
    let claim = |rest: &[&str]| sweep(&file, rest).stdout.lines().last().expect("a last line").to_owned();
    assert!(claim(&[]).starts_with("no plan is more than"), "{}", claim(&[]));
    let some = claim(&["--passes", "fuse,shard"]);
    assert!(some.starts_with("no plan by these passes is more than"), "{some}");
}

#[test]
fn a_plan_on_nodes_with_prices_says_what_its_step_costs() {
    let (_, file) = fleet("fleet_price", FLEET);
    let planned = phzc(&[MODEL, "--cluster", &format!("{file}[1,1]"), "-o", "/dev/null"], b"");
    assert_eq!(planned.code, 0, "{}", planned.stderr);
    let price = planned.stderr.lines().find(|line| line.starts_with("price: ")).expect("a line");
    assert!(price.starts_with("price: 34.00 USD per hour, ") && price.ends_with("(a test)"), "{price}");
}

#[test]
fn what_a_fleet_lacks_is_said() {
    let says = |name: &str, text: &str, what: &str| {
        let (_, file) = fleet(name, text);
        let outcome = sweep(&file, &[]);
        assert!(outcome.code == 1 && outcome.stderr.contains(what), "{}", outcome.stderr);
    };
    says("fleet_unpriced", &FLEET.replace("usd_per_hour = 4", ""), "not all nodes of `rented` have a price");
    says("fleet_many", &FLEET.replace("[0, 1]", "[0, 9999]"), "expected 10000 clusters at most");
    let (_, file) = fleet("fleet_more", FLEET);
    let more = phzc(&[MODEL, "--cluster", &format!("{file}[3,0]")], b"");
    assert!(more.stderr.contains("`rented` has [2, 1] nodes of its kinds, found [3, 0]"), "{}", more.stderr);
}

#[test]
fn a_step_waits_for_nodes_that_are_not_there_and_draws_the_watts_of_all_devices() {
    let text = FLEET
        .replace("usd_per_hour = 30", "usd_per_hour = 30\navailability = 0.9\nwatts = 400")
        .replace("usd_per_hour = 4", "usd_per_hour = 4\nwatts = 70");
    let (folder, file) = fleet("fleet_energy", &text);
    let results = folder.join("results.jsonl");
    let swept = sweep(&file, &["-o", &results.to_string_lossy(), "--objective", "energy", "--json"]);
    assert_eq!(swept.code, 0, "{}", swept.stderr);
    let points = lines(&fs::read_to_string(&results).expect("written")).split_off(1);
    for point in &points {
        let [quick, slow] = [0, 1].map(|at| number(&point["counts"][at]));
        let (plan, step_secs) = (&point["plan"], number(&point["plan"]["step_secs"]));
        let expected_secs = plan["expected_secs"].as_f64().unwrap_or(step_secs);
        assert!((expected_secs / (step_secs / 0.9_f64.powf(quick)) - 1.0).abs() < 1e-12, "{point}");
        let kwh = (8.0 * 400.0 * quick + 4.0 * 70.0 * slow) * step_secs / 3.6e6;
        assert!((number(&plan["kwh"]) / kwh - 1.0).abs() < 1e-12, "{point}");
        let paid = expected_secs * (30.0 * 0.9 * quick + 4.0 * slow) / 3600.0;
        assert!((number(&plan["usd"]) / paid - 1.0).abs() < 1e-12, "{point}");
    }
    let least = points.iter().map(|point| number(&point["plan"]["kwh"])).fold(f64::INFINITY, f64::min);
    let chosen = lines(&swept.stdout);
    assert!(chosen.len() == 1 && number(&chosen[0]["plan"]["kwh"]) == least, "{}", swept.stdout);
    let said = phzc(&[MODEL, "--cluster", &format!("{file}[1,0]"), "-o", "/dev/null"], b"").stderr;
    assert!(said.contains("Wh per step") && said.contains("nodes are not there"), "{said}");
    let dark = sweep(&fleet("fleet_dark", FLEET).1, &["--objective", "energy"]);
    assert!(
        dark.code == 1 && dark.stderr.contains("not all nodes of `rented` have `watts`"),
        "{}",
        dark.stderr
    );
}

#[test]
fn bytes_between_zones_are_paid() {
    let text = fs::read_to_string("tests/clusters/unlike-4+2.toml").expect("a test's cluster");
    let (first, second) = text.split_at(text.rfind("[[nodes]]").expect("the second kind's"));
    let offer = |zone: &str| format!("[[nodes]]\nusd_per_hour = 1\nzone = \"{zone}\"\n");
    let nodes = [first.replace("[[nodes]]\n", &offer("a")), second.replace("[[nodes]]\n", &offer("b"))];
    let prices = "[egress_usd_per_gb.a]\nb = 1000\n[egress_usd_per_gb.b]\na = 1000\n";
    let free = format!("price_basis = \"a test\"\n{}", nodes.concat());
    let paid = format!("{free}\n{prices}");
    let plan = |name: &str, text: &str| {
        let (_, file) = fleet(name, text);
        let pipeline = "fuse,shard,place{stages=2,replicas=never}";
        let model = "examples/llama.ir";
        let outcome = phzc(&[model, "--cluster", &file, "--passes", pipeline, "-o", "/dev/null"], b"");
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        outcome.stderr
    };
    assert!(plan("fleet_egress", &paid).contains("of these for bytes between zones"));
    assert!(!plan("fleet_no_egress", &free).contains("between zones"));
}
