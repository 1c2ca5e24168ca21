//! Every real program beside the checkout is planned on eight devices and stays below 2 GiB.

use crate::common::{corpus, peak_mib};
use std::path::Path;
use std::process::{Command, Stdio};

/// Memory that planning any program may take.
const MAX_MIB: f64 = 2048.0;

#[test]
#[ignore = "takes two minutes"]
fn every_program_is_planned_on_eight_devices_below_2_gib() {
    let programs = corpus();
    for path in &programs {
        let (is_planned, most_mib) = plan(path);
        assert!(is_planned, "{}", path.display());
        assert!(most_mib < MAX_MIB, "{}: {most_mib} MiB", path.display());
        eprintln!("{:>8.0} MiB {}", most_mib, path.file_name().unwrap_or_default().display());
    }
    eprintln!("{} programs planned", programs.len());
}

/// Plans in a process of its own; whether that works, and its peak memory where the system tells.
fn plan(path: &Path) -> (bool, f64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phzc"));
    let command =
        command.arg(path).args(["--passes", "fuse,shard,place,check", "--quiet"]).stdout(Stdio::null());
    let mut child = command.spawn().expect("the binary is built");
    let mut most_mib = 0.0;
    loop {
        let peak = peak_mib(&child.id().to_string());
        most_mib = f64::max(most_mib, peak.unwrap_or(0.0));
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return (status.success(), most_mib);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
