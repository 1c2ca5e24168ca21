//! Programs that XLA's partitioner has partitioned, as people have them: recognised, priced on their own
//! devices as they stand, and left alone.

#[path = "partitioned/count.rs"]
mod count;

use crate::common::{Outcome, corpus, phzc, program, scratch, xla_bench};
use count::Text;
use phzc_cost::Cluster;
use phzc_ir::flops::totals;
use phzc_ir::parse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The partitioned programs beside the checkout: those with collectives in their text.
fn partitioned() -> Vec<PathBuf> {
    let all = [xla_bench(), corpus()].concat();
    let found: Vec<PathBuf> =
        all.into_iter().filter(|path| program(path).contains("replica_groups=")).collect();
    if found.is_empty() {
        eprintln!("SKIPPED: no partitioned programs at ../shared, 0 are priced");
    }
    found
}

/// `a100-8x16` for 128 devices.
fn cluster(n_devices: usize) -> String {
    if n_devices > 8 { format!("a100-8x{}", n_devices / 8) } else { format!("a100-{n_devices}") }
}

fn run(path: &Path, rest: &[&str]) -> Outcome {
    let path = path.to_string_lossy();
    phzc(&[&[&*path], rest, &["-o", "/dev/null"]].concat(), b"")
}

#[test]
fn each_is_priced_on_its_own_devices_and_moves_the_bytes_that_its_text_says() {
    for path in partitioned() {
        let text = program(&path);
        let counted = Text::new(&text);
        let json = scratch("partitioned").join("plan.json");
        let shown = json.to_string_lossy();
        let outcome = run(&path, &["--passes", "estimate", "--plan", &shown]);
        assert_eq!(outcome.code, 0, "{}: {}", path.display(), outcome.stderr);
        let json = std::fs::read_to_string(&json).expect("a plan");
        let plan: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(plan["n_devices"], counted.n_devices(), "{}", path.display());
        assert_same_bytes(&path, &plan, &counted.bytes());
        let cluster = Cluster::named("a100-8").expect("a known cluster");
        let peak = cluster.accelerator.peak_flops_per_sec.bf16.expect("an A100 has one");
        let least_secs = totals(&parse(&text).expect("legal")).dot_conv_with_trips / peak;
        let secs = plan["time_secs"].as_f64().expect("a number");
        assert!(secs >= least_secs, "{}: {secs} s, the products take {least_secs} s", path.display());
        eprintln!("{}: {secs:.4} s on {} devices", path.display(), plan["n_devices"]);
    }
}

fn assert_same_bytes(path: &Path, plan: &serde_json::Value, counted: &BTreeMap<&str, f64>) {
    let mut priced: BTreeMap<&str, f64> = BTreeMap::new();
    for one in plan["collectives"].as_array().expect("a list") {
        let kind = one["kind"].as_str().expect("a word");
        *priced.entry(kind).or_default() += one["bytes"].as_f64().expect("a number");
    }
    assert!(priced.keys().eq(counted.keys()), "{}: {priced:?}, {counted:?}", path.display());
    for (kind, bytes) in counted {
        let off = (priced[kind] - bytes).abs() / bytes;
        assert!(off < 1e-9, "{}: {kind}: {} priced, {bytes} counted", path.display(), priced[kind]);
    }
}

#[test]
fn no_pass_shards_one_again_and_check_judges_it_as_it_stands() {
    for path in partitioned() {
        let n_devices = Text::new(&program(&path)).n_devices();
        let outcome =
            run(&path, &["--passes", "fuse,shard,place,spmd,check", "--cluster", &cluster(n_devices)]);
        assert_eq!(outcome.code, 0, "{}: {}", path.display(), outcome.stderr);
        let said = format!("the program is partitioned already, for {n_devices} devices");
        assert_eq!(outcome.stderr.matches(&said).count(), 1, "{}: {}", path.display(), outcome.stderr);
        let priced = format!(" per step on {n_devices} devices of ");
        assert!(outcome.stderr.contains(&priced), "{}: {}", path.display(), outcome.stderr);
    }
}

#[test]
fn other_numbers_of_devices_are_told_of() {
    for path in partitioned() {
        let n_devices = Text::new(&program(&path)).n_devices();
        for passes in ["estimate", "check"] {
            let few = run(&path, &["--passes", passes, "--cluster", &cluster(n_devices / 2)]);
            let many = run(&path, &["--passes", passes, "--cluster", &cluster(2 * n_devices)]);
            assert_eq!((few.code, many.code), (1, 0), "{} {passes}: {}", path.display(), few.stderr);
            for (outcome, n_there) in [(few, n_devices / 2), (many, 2 * n_devices)] {
                let said = format!(
                    "the program is partitioned for {n_devices} devices, `{}` has {n_there}",
                    cluster(n_there)
                );
                assert!(outcome.stderr.contains(&said), "{} {passes}: {}", path.display(), outcome.stderr);
            }
        }
    }
}

#[test]
fn verify_says_that_there_is_no_plan_to_compare() {
    for path in partitioned() {
        let path = path.to_string_lossy();
        let outcome = phzc(&["verify", &path, &path], b"");
        assert_eq!(outcome.code, 1, "{path}");
        assert!(outcome.stderr.contains("there is no plan to compare"), "{path}: {}", outcome.stderr);
    }
}
