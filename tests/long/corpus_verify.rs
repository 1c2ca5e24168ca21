//! The plan of every real program beside the checkout computes what the program computes.

use crate::common::{corpus, phzc, scratch};

/// Outputs that prove nothing are all zero, not finite or too small: no more than one in this many.
const MAX_SILENT: usize = 10;

/// Whether a program was refused because it is one device's part already.
fn is_one_device_s(error: &str) -> bool {
    ["communicates already", "asks for the device", "is partitioned already"]
        .iter()
        .any(|it| error.contains(it))
}

#[test]
fn plans_of_real_programs_compute_the_same() {
    let plan = scratch("corpus_verify").join("plan.ir").to_string_lossy().into_owned();
    let mut n_plans = 0;
    for path in corpus() {
        let (name, model) = (path.file_name().unwrap_or_default().display(), path.to_string_lossy());
        let passes = "fuse,shard,place";
        let made = phzc(&[&model, "--cluster", "a100-8x1", "--passes", passes, "-q", "-o", &plan], b"");
        assert_eq!(made.code, 0, "{name}: {}", made.stderr);
        let found = phzc(&["verify", &model, &plan, "--fill-elided"], b"");
        if is_one_device_s(&found.stderr) {
            eprintln!("{name:40} SKIPPED: one device's part of a program");
            continue;
        }
        assert_eq!(found.code, 0, "{name}: {}{}", found.stdout, found.stderr);
        let count = |word: &str| {
            let line = found.stdout.lines().find(|line| line.contains(word))?;
            line.split(' ').next()?.parse::<usize>().ok()
        };
        let (n_equal, n_silent) = (count("equal, largest").unwrap_or(0), count("prove nothing").unwrap_or(0));
        assert!(n_silent * MAX_SILENT <= n_equal, "{name}: {n_silent} outputs prove nothing");
        eprintln!("{name:40} {}", found.stdout.lines().last().unwrap_or_default());
        n_plans += 1;
    }
    eprintln!("{n_plans} plans of real programs verified");
}

/// Real programs, each plan in pieces alone.
#[test]
fn plans_of_real_programs_are_proven_in_pieces() {
    let plan = scratch("corpus_pieces").join("plan.ir").to_string_lossy().into_owned();
    for path in corpus() {
        let (name, model) = (path.file_name().unwrap_or_default().display(), path.to_string_lossy());
        let passes = ["--cluster", "a100-8x1", "--passes", "fuse,shard,place", "-q", "-o", &plan];
        let made = phzc(&[&[&*model][..], &passes[..]].concat(), b"");
        assert_eq!(made.code, 0, "{name}: {}", made.stderr);
        let found = phzc(&["verify", &model, &plan, "--fill-elided", "--pieces"], b"");
        if is_one_device_s(&found.stderr) {
            eprintln!("{name:40} SKIPPED: one device's part of a program");
            continue;
        }
        assert_eq!(found.code, 0, "{name}: {}{}", found.stdout, found.stderr);
        eprintln!("{name:40} {}", found.stdout.lines().last().unwrap_or_default());
    }
}
