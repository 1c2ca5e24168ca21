//! Around given layouts everything else is open: pins that change nothing cost nothing, and a dump keeps what
//! was given.

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

/// The text after the header's first line, which names the passes that have run.
fn body(text: &str) -> &str {
    text.split_once("\n\n").map_or("", |(_, body)| body)
}

/// Given on the batch: what the option `pin` has, what stands in the text.
const GIVEN: [(&str, &str, &str); 6] = [
    ("mesh=8,", "^batch\\.(input_ids|labels)$=[x,-]", ""),
    ("mesh=2x4,", "^batch\\.(input_ids|labels)$=[xy,-]", ""),
    ("", "^batch\\.(input_ids|labels)$=[x,-]", "{devices=[8,1]<=[8]}"),
    ("", "", "{devices=[8,1]<=[8]}"),
    ("", "", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
    ("", "", "{unknown}"),
];

#[test]
fn a_dump_of_given_layouts_resumes_to_the_bytes_of_the_whole_run() {
    let (dir, model, cluster) = given("pins_resume");
    let (given, dump) = (text(&dir.join("given.ir")), text(&dir.join("sharded.ir")));
    let program = fs::read_to_string(&model).expect("a program");
    for (at, (mesh, pin, sharding)) in GIVEN.iter().enumerate() {
        let annotated = |line: &str| match line.contains("batch.") && line.contains(" parameter(") {
            true if !sharding.is_empty() => format!("{line}, sharding={sharding}\n"),
            _ => format!("{line}\n"),
        };
        fs::write(&given, program.lines().map(annotated).collect::<String>()).expect("writable");
        let shard = format!("shard{{{mesh}pin={{{pin}}},forbid=all-to-all}}");
        let place = "place{stages=1,microbatches=1}";
        let plan = |input: &str, passes: &str| ran(&[input, "--cluster", &cluster, "--passes", passes, "-q"]);
        let whole = plan(&given, &format!("fuse,{shard},{place}"));
        fs::write(&dump, plan(&given, &format!("fuse,{shard}"))).expect("writable");
        for passes in [place.to_owned(), format!("shard,{place}")] {
            assert!(body(&plan(&dump, &passes)) == body(&whole), "{at}: `{passes}` makes another plan");
        }
        let batch = whole.lines().find(|line| line.contains("batch.input_ids =")).expect("a parameter");
        let is_kept = |is: &str| {
            sharding.is_empty() && pin.is_empty() || *sharding == "{unknown}" || batch.contains(is)
        };
        let kept = if sharding.is_empty() { "{devices=[8,1]<=[8]}" } else { sharding };
        assert!(is_kept(kept), "{at}: {batch}");
    }
}
