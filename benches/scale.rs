//! GPTs of many layers on many devices, from HLO text to the placed text: CPU seconds, memory, plan and gap.
//!
//! `cargo bench --bench scale [-- LAYERS DEVICES]` runs all rows, or one; each is a process of its own, so
//! that its peak memory is its own.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{cpu_secs, peak_mib, phzc, scratch};
use std::path::Path;
use std::process::Command;

const LAYERS: [usize; 3] = [24, 96, 1024];
const DEVICES: [usize; 4] = [8, 64, 512, 4096];

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    if let [layers, devices, 1] = numbers[..] {
        return row(layers, devices);
    }
    println!("layers  devices  instructions CPU s    MiB  stages  microbatches    step s   gap %");
    for (layers, devices) in LAYERS.iter().flat_map(|layers| DEVICES.map(|devices| (*layers, devices))) {
        if let [only_layers, only_devices] = numbers[..]
            && (only_layers, only_devices) != (layers, devices)
        {
            continue;
        }
        let exe = std::env::current_exe().expect("this process has a program");
        let args = [layers, devices, 1].map(|number| number.to_string());
        let ran = Command::new(exe).args(args).status().expect("it can be run again");
        assert!(ran.success(), "{layers} layers on {devices} devices");
    }
}

/// Writes the program, plans it and prints a line.
fn row(layers: usize, devices: usize) {
    let dir = scratch("bench_scale");
    let batch = devices.max(64).to_string();
    let model = dir.join(format!("gpt_{layers}_{batch}.ir"));
    let path = model.to_string_lossy().into_owned();
    if !model.exists() {
        let size = ["--hidden", "1024", "--heads", "16", "--seq", "1024", "--global-batch", &batch];
        let shape = ["gen", "gpt", "--layers", &layers.to_string(), "-o", &path];
        assert_eq!(phzc(&[&shape[..], &size].concat(), b"").code, 0);
    }
    let plan = dir.join("plan.json").to_string_lossy().into_owned();
    let cluster = format!("a100-8x{}", devices / 8);
    let before = cpu_secs();
    let out = dir.join("out.ir").to_string_lossy().into_owned();
    let args = [&path, "--passes", "fuse,shard,place", "--cluster", &cluster, "--plan", &plan, "-o", &out];
    let outcome = phzc(&args, b"");
    let secs = cpu_secs() - before;
    let text = std::fs::read_to_string(&plan).unwrap_or_default();
    let figures: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let stages = figures["stages"].as_array().map_or(&[][..], Vec::as_slice);
    let n_instrs: u64 = stages.iter().filter_map(|stage| stage["n_instrs"].as_u64()).sum();
    println!(
        "{layers:>6} {devices:>8} {n_instrs:>13} {secs:>5.1} {:>6.0} {:>7} {:>13} {:>9.4} {:>7.1}{}",
        peak_mib("self").unwrap_or(f64::NAN),
        stages.len(),
        figures["n_microbatches"],
        figures["time_secs"].as_f64().unwrap_or(f64::NAN),
        100.0 * figures["gap"].as_f64().unwrap_or(f64::NAN),
        if outcome.code == 0 { String::new() } else { format!("  {}", outcome.stderr) },
    );
    let _ = std::fs::remove_file(Path::new(&out));
}
