//! Around given layouts everything else is open: pins that change nothing cost nothing, and a dump keeps what
//! was given.

use crate::common::{phzc, scratch};
use std::fs;
use std::path::{Path, PathBuf};

/// A machine on which the programs below fit only if they compute values again.
const CLUSTER: &str = r#"name = "small"
per_node = 8
nodes = 1

[accelerator]
base = "a100-80"
name = "small"
hbm_bytes = {hbm_bytes}

[[levels]]
name = "link"
bytes_per_sec = 300e9
efficiency = 0.8
latency_secs = 2e-6
topology = "switch"
source = "made up for tests"
"#;

const PIN: &str = r"{^batch\.(input_ids|labels)$=[x,-]}";

/// The folder of a test, with a program of so many layers and the cluster.
fn given(name: &str, n_layers: usize) -> (PathBuf, String, String) {
    let dir = scratch(name);
    let (model, cluster) = (text(&dir.join("model.ir")), text(&dir.join("small.toml")));
    let hbm_bytes = if n_layers > 8 { "700e6" } else { "300e6" };
    fs::write(&cluster, CLUSTER.replace("{hbm_bytes}", hbm_bytes)).expect("writable");
    let sizes = "--hidden 512 --heads 8 --seq 512 --vocab 4096 --global-batch 64 -o";
    let sizes = format!("gen gpt --layers {n_layers} {sizes}");
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
    let (dir, model, cluster) = given("pins_cost_nothing", 4);
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
const GIVEN: [(&str, &str, &str); 4] = [
    ("mesh=2x4,", "^batch\\.(input_ids|labels)$=[xy,-]", ""),
    ("", "^batch\\.(input_ids|labels)$=[x,-]", "{devices=[8,1]<=[8]}"),
    ("", "", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
    ("", "", "{unknown}"),
];

#[test]
fn a_dump_of_given_layouts_resumes_to_the_bytes_of_the_whole_run() {
    resumes(4, &GIVEN);
}

/// Of so many layers, few stand for all.
#[test]
fn a_dump_of_given_layouts_of_many_layers_resumes_to_the_bytes_of_the_whole_run() {
    resumes(12, &GIVEN[1..2]);
}

fn resumes(n_layers: usize, all: &[(&str, &str, &str)]) {
    let (dir, model, cluster) = given(&format!("pins_resume_{n_layers}"), n_layers);
    let (given, dump) = (text(&dir.join("given.ir")), text(&dir.join("sharded.ir")));
    let program = fs::read_to_string(&model).expect("a program");
    for (at, (mesh, pin, sharding)) in all.iter().enumerate() {
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

/// Tensor parallelism of all layers, or of all but one: then each layer is planned for itself.
#[test]
fn equal_layers_with_equal_pins_are_planned_as_one_and_as_well() {
    let (dir, model, _) = given("pins_of_layers", 12);
    let figures = text(&dir.join("plan.json"));
    let plan = |layers: &str| {
        let pins = format!(
            r"^batch\.(input_ids|labels)$=[data,-];^params\..*\.{layers}\..*(qkv|up)\.kernel$=[-,tensor]"
        );
        let passes = format!(
            "fuse{{attention=flash}},shard{{mesh={{data=2,tensor=4}},pin={{{pins}}}}},\
             place{{stages=1,microbatches=1}},check"
        );
        ran(&[&model, "--cluster", "a100-8", "--passes", &passes, "-q", "--plan", &figures]);
        let plan: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&figures).expect("a plan")).expect("JSON");
        plan["time_secs"].as_f64().expect("seconds")
    };
    let (alike, unlike) = (plan("[0-9]+"), plan("([0-57-9]|1[01])"));
    assert!((alike / unlike - 1.0).abs() < 0.03, "{alike} s, with one layer's weights open {unlike} s");
}

/// Fused attention's gradient reads queries and keys behind a barrier, where keys are repeated again for each
/// group of heads.
#[test]
fn what_layers_hold_and_make_again_is_their_own() {
    let model = text(&scratch("pins_of_sequences").join("model.ir"));
    let sizes = "--hidden 1024 --heads 8 --kv-heads 2 --seq 8192 --vocab 32000 --global-batch 4";
    let sizes = format!("gen llama --layers 12 {sizes} --weights bf16 --optimizer adamw -o");
    ran(&sizes.split(' ').chain([&*model]).collect::<Vec<_>>());
    let of_weights = |states: &str| {
        let prefix = format!(r"^{states}params\..*");
        format!(
            r"{prefix}(q|k|v|gate_proj|up_proj|lm_head)\.kernel$=[-,tensor];{prefix}(o|down_proj)\.kernel$=[tensor,-]"
        )
    };
    let pins = [r"^batch\.(input_ids|labels)$=[-,context]", &of_weights(""), &of_weights("(master|m|v)\\.")];
    let passes = format!(
        "fuse{{attention=flash}},shard{{mesh={{context=4,tensor=2}},pin={{{}}},forbid=zero3}},\
         place{{stages=1,microbatches=4,recompute=never}},check",
        pins.join(";")
    );
    ran(&[&model, "--cluster", "a100-8", "--passes", &passes, "-q"]);
}
