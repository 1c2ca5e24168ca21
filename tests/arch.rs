//! `phzc arch`: its accelerator as a device on which programs are planned.

use crate::common::{Outcome, Random, killed, phzc, scratch};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs that are killed.
const N_KILLS: usize = 8;
/// Samples of examples/mlp.ir.
const MLP_SAMPLES: &str = "64";

fn done(args: &[&str]) -> Outcome {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A program of `gen`, of 8 samples.
fn written(folder: &Path, model: &str) -> PathBuf {
    let path = folder.join("model.ir");
    let args: Vec<&str> = ["gen"].into_iter().chain(model.split(' ')).collect();
    done(&[&args[..], &["--global-batch", "8", "-o", &text(&path)]].concat());
    path
}

/// Of one accelerator, without recomputation: what the search says of a step of 8 samples in microbatches of
/// so many, and the device file that it writes.
fn searched(folder: &Path, model: &Path, arch: &str, samples: u64) -> (Value, PathBuf) {
    let device = folder.join("device.toml");
    let limits = ["--devices", "1", "--batch", "8", "--recompute", "never", "--hbm-gib", "80"];
    let of = ["--arch", arch, "--microbatches", &samples.to_string(), "--mode", "native", "--json"];
    let outcome = done(&[&["arch", &text(model), "--device", &text(&device)], &limits[..], &of[..]].concat());
    let found: Value = serde_json::from_str(&outcome.stdout).expect("one object");
    (found["modes"][0]["best"][0]["runs"][0].clone(), device)
}

/// Seconds of a step by the report of a plan.
fn planned_secs(folder: &Path, model: &Path, device: &Path, passes: &str) -> f64 {
    let (figures, after) = (folder.join("plan.json"), folder.join("after.ir"));
    let files = ["--cluster", &text(device), "--plan", &text(&figures), "-o", &text(&after)];
    done(&[&[&text(model), "--passes", passes], &files[..]].concat());
    let figures = fs::read_to_string(figures).expect("written");
    serde_json::from_str::<Value>(&figures).expect("an object")["time_secs"].as_f64().expect("a number")
}

/// The report of a plan with the search's microbatches on one device says what the search said, and the best
/// plan takes no longer. Printed: how far they are apart.
#[test]
fn a_program_takes_on_the_device_file_what_the_search_said() {
    let folder = scratch("arch_device");
    let models = [
        "gpt --size 125m --layers 3 --seq 256",
        "bert --size base --layers 3 --seq 128",
        "llama --size tiny --seq 128",
    ];
    for model in models {
        let path = written(&folder, model);
        for (arch, samples) in [("tpu-v4-proxy", 8), ("tpu-v4-proxy", 2), ("4,4,64,32,16", 4)] {
            let (run, device) = searched(&folder, &path, arch, samples);
            let secs = run["step_secs"].as_f64().expect("a number");
            let passes = format!("fuse,shard,place{{stages=1,microbatches={}}}", 8 / samples);
            let same = planned_secs(&folder, &path, &device, &passes);
            let best = planned_secs(&folder, &path, &device, "default");
            eprintln!("{model}, {arch}, microbatch {samples}: {secs} s, planned {same}, best plan {best}");
            assert!((same / secs - 1.0).abs() < 0.01 && best < 1.01 * secs, "{model} {arch}: {secs}, {same}");
        }
    }
}

/// A search over two accelerators, what plans say of them and the device file of the better one.
fn planned(model: &Path, device: &Path, [n_devices, batch]: [&str; 2]) -> Value {
    let of = ["--microbatches", "2,4", "--mode", "native", "--link-bytes-per-sec", "4e9", "--json"];
    let fleet =
        ["--arch", "4,4,64,32,16", "--arch", "tpu-v4-proxy", "--devices", n_devices, "--batch", batch];
    let outcome = done(&[&["arch", &text(model), "--device", &text(device)], &fleet[..], &of[..]].concat());
    serde_json::from_str(&outcome.stdout).expect("one object")
}

/// On several devices the search's pipelines are not the planner's: what is said is planned, and the report
/// of `phzc MODEL --cluster` says the same. A GPT ties its embeddings; a perceptron's layers are products.
#[test]
fn on_several_devices_the_figure_and_the_choice_are_those_of_plans() {
    let folder = scratch("arch_devices");
    let gpt = written(&folder, "gpt --size 125m --layers 3 --seq 256");
    let mlp = crate::common::root().join("examples/mlp.ir");
    let device = folder.join("device.toml");
    for (model, batch) in [(&gpt, "8"), (&mlp, MLP_SAMPLES)] {
        for n_devices in ["2", "4"] {
            let found = planned(model, &device, [n_devices, batch]);
            let runs: Vec<&Value> =
                found["planned"].as_array().expect("plans").iter().map(|it| &it["runs"][0]).collect();
            let secs: Vec<f64> = runs.iter().map(|it| it["step_secs"].as_f64().expect("a number")).collect();
            assert!(secs.len() == 2 && secs[0] <= secs[1], "{secs:?}");
            let report = planned_secs(&folder, model, &device, "default");
            let (name, searched) = (model.display(), &runs[0]["searched_secs"]);
            eprintln!("{name} on {n_devices}: {} s, report {report}, searched {searched}", secs[0]);
            assert!((report / secs[0] - 1.0).abs() < 0.01, "{name} on {n_devices}: {report}, {}", secs[0]);
        }
    }
    let other = planned(&gpt, &device, ["2", "16"]);
    assert_eq!(other["planned"].as_array().map(Vec::len), Some(0), "of 8 samples, and a step of 16");
}

#[test]
fn the_best_of_parts_are_joined_to_the_best_of_all() {
    let folder = scratch("arch_best_parts");
    let (model, path) = (chain(&folder), |part: &str| text(&folder.join(format!("{part}.jsonl"))));
    let best = |rest: &[&str]| {
        let outcome = done(&small(&model, &[&["--best", "--limits", "3"], rest].concat()));
        let found: Value = serde_json::from_str(&outcome.stdout).expect("one object");
        let modes = found["modes"].as_array().expect("modes").clone();
        let result = |it: &Value| [&it["best"], &it["best_common"], &it["front"]].map(Value::clone);
        modes.iter().map(result).collect::<Vec<_>>()
    };
    let whole = best(&["-o", &path("whole")]);
    assert_eq!(best(&[]), whole, "without a file");
    let bytes = fs::read(path("whole")).expect("written");
    fs::write(path("whole"), &bytes[..bytes.len() / 3]).expect("writable");
    assert_eq!(best(&["-o", &path("whole")]), whole, "cut off");
    assert_eq!(fs::read(path("whole")).expect("written"), bytes);
    best(&["--part", "1/2", "-o", &path("1")]);
    best(&["--part", "2/2", "-o", &path("2")]);
    assert_eq!(best(&["--merge", &path("2"), &path("1")]), whole);
    let front = phzc(&small(&model, &["--merge", &path("2"), &path("1")]), b"");
    let is_other = front.stderr.contains("of other models or another search");
    assert!(front.code == 1 && is_other, "{}", front.stderr);
}

#[test]
fn a_template_that_is_none_is_an_error_of_the_device_file() {
    let folder = scratch("arch_template");
    let model = written(&folder, "gpt --size tiny");
    let (_, device) = searched(&folder, &model, "tpu-v4-proxy", 8);
    let sound = fs::read_to_string(&device).expect("written");
    fs::write(&device, sound.replace("global_bytes = 134217728", "global_bytes = 5")).expect("writable");
    let outcome =
        phzc(&[&text(&model), "--cluster", &text(&device), "-o", &text(&folder.join("after.ir"))], b"");
    assert!(outcome.code == 1 && outcome.stderr.contains("5 bytes"), "{}", outcome.stderr);
}

/// A search over a few hundred small accelerators, in both modes.
fn small<'a>(model: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let limits = ["--area-mm2", "4.2", "--devices", "8", "--batch", "16", "--microbatches", "1,2"];
    [&["arch", model], &limits[..], &["--json"], rest].concat()
}

/// A small program as a chain of layers.
fn chain(folder: &Path) -> String {
    let (model, chain) = (written(folder, "gpt --size tiny"), folder.join("chain.json"));
    done(&["arch", &text(&model), "--microbatches", "1,2", "--until", "extract", "-o", &text(&chain)]);
    text(&chain)
}

#[test]
fn a_search_that_is_killed_anywhere_goes_on_to_the_same_bytes() {
    let folder = scratch("arch_killed");
    let (model, path) = (chain(&folder), |name: &str| text(&folder.join(name)));
    let whole = done(&small(&model, &["-o", &path("whole.jsonl")]));
    let bytes = fs::read(path("whole.jsonl")).expect("written");
    assert_eq!(done(&small(&model, &[])).stdout, whole.stdout, "without a file");
    let (mut random, mut n_cut) = (Random(36), 0);
    for _ in 0..N_KILLS {
        let n_bytes = random.below(bytes.len());
        fs::remove_file(path("killed.jsonl")).unwrap_or_default();
        killed(&small(&model, &[]), &path("killed.jsonl"), n_bytes);
        let left = fs::metadata(path("killed.jsonl")).map_or(0, |it| it.len() as usize);
        n_cut += usize::from(left < bytes.len());
        let again = done(&small(&model, &["-o", &path("killed.jsonl")]));
        assert_eq!(again.stdout, whole.stdout, "killed at {n_bytes} bytes, {left} were left");
        let again = fs::read(path("killed.jsonl")).expect("written");
        assert!(again == bytes, "killed at {n_bytes} bytes, {left} were left");
    }
    eprintln!(
        "{} lines, {n_cut} of {N_KILLS} runs were cut off",
        bytes.iter().filter(|it| **it == b'\n').count()
    );
}

#[test]
fn parts_of_a_search_are_joined_to_the_whole() {
    let folder = scratch("arch_parts");
    let (model, path) = (chain(&folder), |part: usize| text(&folder.join(format!("{part}.jsonl"))));
    for part in 1..=3 {
        done(&small(&model, &["--part", &format!("{part}/3"), "-o", &path(part)]));
    }
    let found = |rest: &[&str]| {
        let outcome = done(&small(&model, rest));
        let found: Value = serde_json::from_str(&outcome.stdout).expect("one object");
        let modes = found["modes"].as_array().expect("modes").clone();
        modes.iter().map(|it| (it["best"].clone(), it["front"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(found(&["--merge", &path(3), &path(1), &path(2)]), found(&[]));
    let lacking = phzc(&small(&model, &["--merge", &path(1), &path(2)]), b"");
    let is_said = lacking.stderr.contains("accelerators are in these files");
    assert!(lacking.code == 1 && is_said, "{}", lacking.stderr);
    let other = phzc(&small(&model, &["--part", "2/3", "-o", &path(1)]), b"");
    assert!(other.code == 1 && other.stderr.contains("of another part"), "{}", other.stderr);
    let other = phzc(&small(&model, &["--optimizer", "adam", "-o", &path(1)]), b"");
    assert!(
        other.code == 1 && other.stderr.contains("of other models or another search"),
        "{}",
        other.stderr
    );
}

#[test]
fn of_a_chain_the_microbatches_are_taken_that_are_asked_for() {
    let folder = scratch("arch_microbatches");
    let model = chain(&folder);
    let arch =
        ["arch", &model, "--arch", "1,1,16,16,4", "--mode", "native", "--devices", "2", "--batch", "8"];
    let microbatch = |rest: &[&str]| {
        let outcome = done(&[&arch[..], &["--json"], rest].concat());
        let found: Value = serde_json::from_str(&outcome.stdout).expect("one object");
        found["modes"][0]["best"][0]["runs"][0]["microbatch"].as_u64().expect("a run")
    };
    let usual = microbatch(&[]);
    let other = 3 - usual;
    assert_eq!(microbatch(&["--microbatches", &other.to_string()]), other);
    let lacking = phzc(&[&arch[..], &["--microbatches", "4"]].concat(), b"");
    assert!(lacking.code == 1 && lacking.stderr.contains("and none of 4"), "{}", lacking.stderr);
}

/// Multiply-accumulates of the products among kernels.
fn macs(kernels: &Value) -> f64 {
    let product = |kernel: &Value| {
        let sizes = kernel["product"].as_array()?;
        let macs: f64 = sizes.iter().map(|size| size.as_f64().expect("a size")).product();
        Some(macs * kernel["times"].as_f64().expect("a number"))
    };
    kernels.as_array().expect("kernels").iter().filter_map(product).sum()
}

#[test]
fn each_layer_has_the_backward_products_of_its_forward_ones() {
    let folder = scratch("arch_kernels");
    let model = written(&folder, "gpt --size tiny --layers 4");
    let outcome = done(&["arch", &text(&model), "--microbatches", "2,8", "--until", "extract"]);
    let found: Value = serde_json::from_str(&outcome.stdout).expect("one object");
    for microbatch in found["microbatches"].as_array().expect("microbatches") {
        let kinds = microbatch["kinds"].as_array().expect("kinds");
        let layers = microbatch["chain"].as_array().expect("a chain").iter();
        let macs: Vec<[f64; 2]> = layers
            .map(|kind| {
                let kernels = &kinds[kind.as_u64().expect("a kind") as usize]["layer"]["kernels"];
                ["forward", "backward"].map(|pass| macs(&kernels[pass]))
            })
            .collect();
        // The embedding, four layers, the head; the first has no products forward.
        assert_eq!((macs.len(), macs[0][0]), (6, 0.0), "{macs:?}");
        assert!(macs[1..].iter().all(|[forward, backward]| *backward == 2.0 * forward), "{macs:?}");
    }
}

#[test]
fn a_page_shows_areas_and_what_bounds_operators_and_asks_for_nothing_else() {
    let folder = scratch("arch_page");
    let (model, path) = (chain(&folder), text(&folder.join("page.html")));
    done(&small(&model, &["--html", &path]));
    let html = fs::read_to_string(&path).expect("written");
    let wanted =
        ["Time against area, mode phaze", "Accelerators, mode native", "What bounds gpt", "global buffer"];
    assert!(wanted.iter().all(|words| html.contains(words)), "{wanted:?}");
    assert!(!["src=", "@import", "href=\"http", "url("].iter().any(|word| html.contains(word)));
    let pictures: Vec<&str> =
        html.split("<svg ").skip(1).map(|it| it.split("</svg>").next().expect("all")).collect();
    assert_eq!(pictures.len(), 4, "two per mode");
    for picture in pictures {
        let svg = format!("<svg {picture}</svg>");
        let drawn = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        assert!(drawn.descendants().any(|node| node.tag_name().name() == "text"));
    }
}
