//! Phaze's rows, its sweep of nine accelerators and its whole space, by `phzc arch` from Phaze's own graph;
//! one search over models that `phzc gen` writes.
//!
//! Figures to reach are those of reference/phaze.md, sections 8 and 9.2: Llama2-7B, 4,096 tokens, 1,024
//! accelerators, batch 4,096, 80 GiB, recomputation. `cargo bench --bench arch -- space` also searches the
//! whole space.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{phzc, root, scratch};
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// An accelerator as `--arch` takes it, the microbatch, stages, pipelines, samples per second.
const ROWS: [(&str, u64, usize, u64, f64); 8] = [
    ("4,2,256,256,256", 1, 6, 164, 63.3322),
    ("4,2,256,256,256", 2, 16, 64, 83.170164),
    ("4,2,256,256,256", 4, 16, 64, 88.612217),
    ("4,2,256,256,256", 8, 32, 32, 73.5305),
    ("8,2,128,128,128", 1, 6, 164, 52.5674),
    ("8,2,128,128,128", 2, 16, 64, 65.5585),
    ("8,2,128,128,128", 4, 16, 64, 66.6512),
    ("1,1,128,128,128", 2, 8, 128, 48.4861),
];

/// The nine accelerators whose search took Phaze 4,189 seconds.
const SWEEP: [&str; 9] = [
    "1,2,128,128,128",
    "1,2,128,128,32",
    "2,2,128,128,32",
    "4,2,128,128,32",
    "8,2,128,128,128",
    "1,2,256,256,128",
    "1,2,256,256,256",
    "2,2,256,256,128",
    "4,2,256,256,256",
];

/// Models of `gen`, as Phaze has them (section 3): a name, and arguments.
const MODELS: [(&str, &str); 4] = [
    ("bert-large", "bert --size large --seq 512"),
    ("gpt2-xl", "gpt --size gpt2-xl --seq 1024"),
    ("opt-350m", "opt --size 125m --layers 24 --hidden 1024 --heads 16 --ffn 4096 --seq 2048"),
    ("llama2-7b", "llama --size 2-7b --seq 4096"),
];

/// The result of a search, and seconds.
fn search(args: &[&str]) -> Option<(Value, f64)> {
    let begun = Instant::now();
    let outcome = phzc(&[&["arch", "--json"], args].concat(), b"");
    let secs = begun.elapsed().as_secs_f64();
    if outcome.code != 0 {
        println!("{}", outcome.stderr);
        return None;
    }
    Some((serde_json::from_str(&outcome.stdout).expect("one object"), secs))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn print_rows(graph: &str, estimates: &str) {
    println!(
        "accelerator       microbatch   Phaze   samples/s     ours   samples/s   off %   own mapping   seconds"
    );
    for (arch, samples, n_stages, n_pipelines, rate) in ROWS {
        let samples = samples.to_string();
        let own = [graph, "--layers", "32", "--mode", "phaze", "--arch", arch, "--microbatches", &samples];
        let own = [&own[..], &["--hbm-gib", "80", "--recompute", "always"]].concat();
        let theirs = [&own[..], &["--estimates", estimates]].concat();
        let (Some((found, secs)), Some((own, _))) = (search(&theirs), search(&own)) else { continue };
        let run = |found: &Value| found["modes"][0]["best"][0]["runs"][0].clone();
        let (run, own) = (run(&found), number(&run(&own)["samples_per_sec"]));
        let (ours, stages) = (number(&run["samples_per_sec"]), run["stages"].as_array().map_or(0, Vec::len));
        println!(
            "{arch:17} {samples:>10} {:>7} {rate:11.4} {:>8} {ours:11.4} {:7.3} {own:13.4} {secs:9.2}",
            format!("{n_stages}x{n_pipelines}"),
            format!("{stages}x{}", run["pipelines"]),
            100.0 * (ours / rate - 1.0)
        );
    }
}

fn print_sweep(graph: &str) {
    let mut args = vec![graph, "--layers", "32", "--hbm-gib", "80"];
    SWEEP.iter().for_each(|arch| args.extend(["--arch", *arch]));
    if let Some((_, secs)) = search(&args) {
        println!(
            "\nnine accelerators, four microbatches, with and without recomputation, both cost modes: {secs:.2} s"
        );
    }
}

/// One line per mode: what was looked at, and the best accelerator of each model and of all.
fn print_space(title: &str, args: &[&str]) {
    for mode in ["phaze", "native"] {
        let Some((found, secs)) = search(&[args, &["--mode", mode]].concat()) else { return };
        let found = &found["modes"][0];
        println!(
            "\n{title}, {mode}: {} accelerators, {} estimated, {} placed, {} in the front, {secs:.1} s",
            found["n_architectures"],
            found["n_estimated"],
            found["n_placed"],
            found["front"].as_array().map_or(0, Vec::len)
        );
        let best = found["best"].as_array().cloned().unwrap_or_default();
        for (at, chosen) in best.iter().chain([&found["best_common"]]).enumerate() {
            print_chosen(
                if at < best.len() { "best" } else { "common" },
                chosen,
                (at < best.len()).then_some(at),
            );
        }
    }
}

fn print_chosen(label: &str, chosen: &Value, model: Option<usize>) {
    let runs = chosen["runs"].as_array().cloned().unwrap_or_default();
    for run in runs.iter().enumerate().filter(|(at, _)| model.is_none_or(|model| model == *at)).map(|it| it.1)
    {
        println!(
            "{label:7} {:34} {:28} {:6.1} mm2 {:5.0} W {:10.3} samples/s, microbatch {}, {}x{}, recompute {}",
            run["model"].as_str().unwrap_or_default(),
            chosen["name"].as_str().unwrap_or_default(),
            number(&chosen["area_mm2"]),
            number(&chosen["peak_watts"]),
            number(&run["samples_per_sec"]),
            run["microbatch"],
            run["stages"].as_array().map_or(0, Vec::len),
            run["pipelines"],
            run["recompute"]
        );
    }
}

/// Programs of `gen`, in a directory.
fn written(dir: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for (name, model) in MODELS {
        let path = dir.join(format!("{name}.ir")).to_string_lossy().into_owned();
        let mut args = vec!["gen"];
        args.extend(model.split(' '));
        args.extend(["--global-batch", "8", "-o", &path]);
        let outcome = phzc(&args, b"");
        if outcome.code == 0 { paths.push(path) } else { println!("{}", outcome.stderr) }
    }
    paths
}

fn main() {
    let data = root().join("../shared/data/phaze");
    let name = |file: &str| data.join(file).to_string_lossy().into_owned();
    let (graph, estimates) =
        (name("llama2_7b_1layer_mbs1_sl4096_graph.json"), name("llama2_7b_sl4096_sunstone_lablog.csv"));
    let with_space = std::env::args().any(|arg| arg == "space");
    if Path::new(&graph).is_file() {
        print_rows(&graph, &estimates);
        print_sweep(&graph);
        if with_space {
            print_space("the whole space for Llama2-7B", &[&graph, "--layers", "32"]);
        }
    } else {
        println!("SKIPPED: no graph at ../shared/data/phaze");
    }
    if with_space {
        let paths = written(&scratch("bench_arch"));
        let paths: Vec<&str> = paths.iter().map(String::as_str).chain(["--best"]).collect();
        print_space("four models in one search", &paths);
    }
}
