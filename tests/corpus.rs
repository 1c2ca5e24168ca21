//! Every real program beside the checkout is read, printed, planned on eight devices and stays below 2 GiB.

mod common;

use common::{corpus, program, root};
use phzc_ir::{Module, parse, print, verify};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Memory that planning any program may take.
const MAX_KIB: u64 = 2 << 20;

fn read(path: &Path) -> Module {
    let module = parse(&program(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let errors = verify(&module);
    assert!(errors.is_empty(), "{}: {}", path.display(), errors[0]);
    module
}

#[test]
fn every_program_reads_verifies_and_prints_as_itself() {
    let programs = corpus();
    for path in &programs {
        let printed = print(&read(path));
        let again = parse(&printed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(print(&again) == printed, "{}: the second print differs from the first", path.display());
    }
    eprintln!("{} programs round-trip", programs.len());
}

#[test]
fn the_grammar_is_xla_s() {
    let path = root().join("../shared/oracle/hlo_grammar_cases.json");
    let Ok(text) = fs::read_to_string(path) else {
        eprintln!("SKIPPED: no ../shared/oracle/hlo_grammar_cases.json, 0 cases compared");
        return;
    };
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list of cases");
    let text_of = |case: &serde_json::Value| case["text"].as_str().expect("a text").to_owned();
    let differs =
        |case: &&serde_json::Value| Some(parse(&text_of(case)).is_ok()) != case["xla_accepts"].as_bool();
    let differing: Vec<String> = cases.iter().filter(differs).map(|case| case["case"].to_string()).collect();
    assert!(differing.is_empty(), "XLA decides otherwise: {}", differing.join(", "));
    eprintln!("{} grammar cases get XLA's verdict", cases.len());
}

#[test]
fn every_program_is_planned_on_eight_devices_below_2_gib() {
    let programs = corpus();
    for path in &programs {
        let (is_planned, peak_kib) = plan(path);
        assert!(is_planned, "{}", path.display());
        assert!(peak_kib < MAX_KIB, "{}: {peak_kib} KiB", path.display());
        eprintln!("{:>8} KiB {}", peak_kib, path.file_name().unwrap_or_default().display());
    }
    eprintln!("{} programs planned", programs.len());
}

/// Plans in a process of its own; whether that works, and its peak memory where the system tells.
fn plan(path: &Path) -> (bool, u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phzc"));
    let command =
        command.arg(path).args(["--passes", "fuse,shard,place,check", "--quiet"]).stdout(Stdio::null());
    let mut child = command.spawn().expect("the binary is built");
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    loop {
        let lines = fs::read_to_string(&status).unwrap_or_default();
        let peak = lines
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return (status.success(), peak_kib);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
