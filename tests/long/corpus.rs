//! Every real program beside the checkout is planned on eight devices and stays below 2 GiB.

use crate::common::corpus;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Memory that planning any program may take.
const MAX_KIB: u64 = 2 << 20;

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
