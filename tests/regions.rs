//! Parts of programs that are written for one device (`shard_map`): planned as the whole arrays that they
//! compute, their borders laid out as given, alike in every spelling; what cannot be folded is named.
//!
//! `tests/regions/` is written by `tools/shard_map_steps.py`.

use crate::common::{phzc, root, scratch};
use std::path::PathBuf;

/// What is planned; each is there for GSPMD and Shardy as HLO, and as StableHLO.
const PLANNED: [&str; 7] = ["experts", "fully", "layers", "mean", "partly", "remat", "tensor"];
const SPELLINGS: [&str; 3] = ["gspmd.hlo", "shardy.hlo", "shardy.mlir"];
const CLUSTER: [&str; 2] = ["--cluster", "a100-8"];

fn path(file: &str) -> String {
    let path: PathBuf = root().join("tests/regions").join(file);
    path.to_str().expect("UTF-8").to_owned()
}

/// The plan of a program, and the first line of its summary.
fn planned(test: &str, file: &str) -> (String, String) {
    let plan = scratch(&format!("regions_{test}_{file}")).join("plan.ir");
    let plan = plan.to_str().expect("UTF-8").to_owned();
    let made = phzc(&[&[&*path(file), "-o", &plan], &CLUSTER[..]].concat(), b"");
    assert_eq!(made.code, 0, "{file}: {}", made.stderr);
    let said = made.stderr.lines().find(|line| line.contains(" per step on ")).expect("a summary");
    (plan, said.to_owned())
}

#[test]
fn a_plan_computes_what_the_regions_devices_compute_together() {
    for name in PLANNED {
        for spelling in SPELLINGS {
            let file = format!("{name}.{spelling}");
            let (plan, _) = planned("verify", &file);
            let proved = phzc(&["verify", &path(&file), &plan], b"");
            assert_eq!(proved.code, 0, "{file}: {}{}", proved.stdout, proved.stderr);
        }
    }
}

#[test]
fn every_spelling_gets_the_same_plan() {
    for name in PLANNED {
        let said = SPELLINGS.map(|spelling| planned("spelling", &format!("{name}.{spelling}")).1);
        assert!(said.iter().all(|line| *line == said[0]), "{name}: {said:?}");
    }
}

#[test]
fn borders_are_given_unless_they_are_ignored() {
    let out = phzc(&[&[&*path("tensor.shardy.hlo")], &CLUSTER[..]].concat(), b"");
    let given: Vec<&str> = out.stdout.lines().filter(|line| line.contains("phzc.given")).collect();
    assert!(given.iter().any(|line| line.contains("sharding={devices=[1,4,2]<=[2,4]T(1,0)")), "{given:?}");
    let free = phzc(&[&[&*path("tensor.shardy.hlo"), "--ignore-shardings"], &CLUSTER[..]].concat(), b"");
    assert_eq!(free.code, 0, "{}", free.stderr);
    assert!(!free.stdout.contains("phzc.given") && !free.stderr.contains("given:"), "{}", free.stderr);
}

#[test]
fn an_estimate_is_over_the_regions_devices() {
    let out = phzc(&[&[&*path("tensor.gspmd.hlo"), "--passes", "estimate"], &CLUSTER[..]].concat(), b"");
    assert!(out.stderr.contains(" per step on 8 devices"), "{}", out.stderr);
    assert!(out.stderr.contains("all-reduce"), "{}", out.stderr);
}

#[test]
fn what_cannot_be_folded_is_named() {
    for (file, why) in [
        ("ring.gspmd.hlo", "rotates tiles"),
        ("ring.shardy.mlir", "rotates tiles"),
        ("kept.shardy.hlo", "is made of tiles of two dimensions on the same devices"),
    ] {
        let out = phzc(&[&[&*path(file)], &CLUSTER[..]].concat(), b"");
        assert_eq!(out.code, 1, "{file}");
        assert!(out.stderr.contains("a region of `shard_map` is not planned"), "{file}: {}", out.stderr);
        assert!(out.stderr.contains(why) && out.stderr.contains("on whole arrays"), "{file}: {}", out.stderr);
    }
}
