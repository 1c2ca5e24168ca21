//! Pinned layouts are planned like free ones: around them everything is open, memory decides no earlier.

mod common;

use common::{phzc, scratch};
use std::fs;
use std::path::{Path, PathBuf};

/// A machine on which the program below fits only if it computes values again.
const CLUSTER: &str = r#"name = "small"
per_node = 8
nodes = 1

[accelerator]
base = "a100-80"
name = "small"
hbm_bytes = 300e6

[[levels]]
name = "link"
bytes_per_sec = 300e9
efficiency = 0.8
latency_secs = 2e-6
topology = "switch"
source = "made up for tests"
"#;

const PIN: &str = r"{^batch\.(input_ids|labels)$=[x,-]}";

/// The folder of a test, with the program and the cluster.
fn given(name: &str) -> (PathBuf, String, String) {
    let dir = scratch(name);
    let (model, cluster) = (text(&dir.join("model.ir")), text(&dir.join("small.toml")));
    fs::write(&cluster, CLUSTER).expect("writable");
    let sizes = "gen gpt --layers 4 --hidden 512 --heads 8 --seq 512 --vocab 4096 --global-batch 64 -o";
    ran(&sizes.split(' ').chain([&*model]).collect::<Vec<_>>());
    (dir, model, cluster)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn ran(args: &[&str]) -> String {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "phzc {}:\n{}", args.join(" "), outcome.stderr);
    outcome.stdout
}

#[test]
fn a_pin_that_the_best_plan_has_anyway_costs_nothing() {
    let (dir, model, cluster) = given("pins_cost_nothing");
    let figures = text(&dir.join("plan.json"));
    let secs = |pin: &str, place: &str| {
        let passes = format!("fuse,shard{{mesh=8{pin}}},place{{{place}}}");
        ran(&[&model, "--cluster", &cluster, "--passes", &passes, "-q", "--plan", &figures]);
        let plan: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&figures).expect("a plan")).expect("JSON");
        assert!(plan["stages"][0]["recompute_secs"].as_f64() > Some(0.0), "memory decides nothing");
        plan["time_secs"].as_f64().expect("seconds")
    };
    for place in ["stages=1,microbatches=1", "stages=1,microbatches=1,recompute=all", "stages=1"] {
        let (free, pinned) = (secs("", place), secs(&format!(",pin={PIN}"), place));
        assert!(pinned <= free * 1.000_001, "{place}: {free} s, pinned {pinned} s");
    }
}

#[test]
fn a_dump_of_a_pinned_program_resumes_to_the_bytes_of_the_whole_run() {
    let (dir, model, cluster) = given("pins_resume");
    let (dump, after) = (text(&dir.join("sharded.ir")), text(&dir.join("after.ir")));
    let shard = format!("shard{{mesh=8,pin={PIN},forbid=all-to-all}}");
    let place = "place{stages=1,microbatches=1}";
    ran(&[&model, "--cluster", &cluster, "--passes", &format!("fuse,{shard}"), "-q", "-o", &dump]);
    ran(&[&dump, "--cluster", &cluster, "--passes", place, "-q", "-o", &after]);
    let resumed = fs::read_to_string(&after).expect("a plan");
    let whole = ran(&[&model, "--cluster", &cluster, "--passes", &format!("fuse,{shard},{place}"), "-q"]);
    let body = |text: &str| text.split_once("HloModule").map(|(_, rest)| rest.to_owned());
    assert!(body(&whole).is_some() && body(&resumed) == body(&whole), "resumed, it is another plan");
}
