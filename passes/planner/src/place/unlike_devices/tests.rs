//! Plans over two kinds of devices: both are used where that is faster, and each stage knows its own.

use super::super::tests::{EXAMPLES, run};
use phzc_cost::Cluster;
use phzc_ir::notes;
use phzc_plan::derive::derive;
use phzc_plan::report;

/// Four quick devices and two that are half as fast, with so much memory each.
fn cluster(hbm_bytes: [&str; 2]) -> Cluster {
    let text = include_str!("../../../../../tests/clusters/unlike-4+2.toml");
    let parts: Vec<&str> = text.split("2000000").collect();
    let text = [parts[0], hbm_bytes[0], parts[1], hbm_bytes[1], parts[2]].concat();
    Cluster::from_toml(&text).expect("a legal cluster")
}

/// Seconds and, per stage, what its devices are and where they begin.
fn placed(cluster: &Cluster) -> (f64, Vec<(String, usize)>) {
    let (module, _) = run(EXAMPLES[0].1, "fuse,shard,place", cluster);
    let plan = report::plan(&module, cluster).expect("a placed module");
    assert!(plan.stages.iter().all(|stage| stage.memory_share(plan.memory_limit_bytes) <= 1.0));
    let noted = phzc_plan::plan_note::read(&module);
    assert_eq!(noted["planned_secs"], plan.time_secs);
    assert!(noted["lower_bound_secs"].as_f64().is_some_and(|bound| bound < plan.time_secs));
    let of = |stage: &report::Stage| (stage.device.clone().expect("unlike").name, stage.devices[0]);
    (plan.time_secs, plan.stages.iter().map(of).collect())
}

#[test]
fn a_pipeline_over_both_kinds_is_faster_than_either() {
    let both = cluster(["2000000", "2000000"]);
    let (secs, stages) = placed(&both);
    let kinds: Vec<&str> = stages.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!((kinds, stages[0].1), (vec!["slow", "quick"], 4));
    for kind in both.kinds() {
        let (alone, _) = run(EXAMPLES[0].1, "fuse,shard,place", &kind.alone());
        let alone_secs = report::plan(&alone, &kind.alone()).expect("a placed module").time_secs;
        assert!(secs < alone_secs, "{secs} {alone_secs}");
    }
}

#[test]
fn a_kind_that_holds_nothing_is_left_idle() {
    let (_, stages) = placed(&cluster(["2000000", "10000"]));
    assert!(stages.iter().all(|(kind, _)| kind == "quick"), "{stages:?}");
    let (_, stages) = placed(&cluster(["10000", "4000000"]));
    assert!(stages.iter().all(|(kind, first)| kind == "slow" && *first >= 4), "{stages:?}");
}

#[test]
fn a_resumed_run_places_alike() {
    let cluster = cluster(["2000000", "2000000"]);
    let (whole, _) = run(EXAMPLES[0].1, "fuse,shard,place", &cluster);
    let (sharded, _) = run(EXAMPLES[0].1, "fuse,shard", &cluster);
    let (resumed, _) = run(&phzc_ir::print(&sharded), "place", &cluster);
    assert_eq!(whole.note(notes::STAGES), resumed.note(notes::STAGES));
    assert_eq!(phzc_ir::print(&whole), phzc_ir::print(&resumed));
}

#[test]
fn a_stage_without_products_does_nothing_that_is_worth_its_devices() {
    let equal = super::super::tests::cluster();
    let (module, _) = run(EXAMPLES[2].1, "fuse,shard,place{stages=2,schedule=1f1b}", &equal);
    let is_busy = |text: &str| {
        let module = phzc_ir::parse(text).expect("a program");
        super::is_busy(&module, &derive(&module).expect("a plan"))
    };
    let idle = |line: &str| line.replace("phzc.stage=\"1\"", "phzc.stage=\"0\"");
    let text = phzc_ir::print(&module);
    let lines = text.lines().map(|line| if line.contains(" dot(") { idle(line) } else { line.to_owned() });
    let of_one: Vec<String> = lines.collect();
    assert!(is_busy(&text) && !is_busy(&of_one.join("\n")));
}
