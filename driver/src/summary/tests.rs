//! Tests of how the summary looks.

use super::*;
use insta::assert_snapshot;
use phzc_passes::report::Throughput;

fn done() -> Throughput {
    Throughput {
        tokens_per_step: Some(8192),
        tokens_per_sec: Some(8192.0 / 0.0123),
        mfu: Some(0.312),
        hfu: Some(0.345),
        ..Throughput::default()
    }
}

/// A stage on four devices.
fn stage(first: usize) -> Stage {
    Stage {
        devices: [first, first + 3],
        group: None,
        mesh: "x=2,y=2".to_owned(),
        device: None,
        n_instrs: 1200,
        forward_secs: 0.0012,
        backward_secs: 0.0024,
        recompute_secs: 0.0,
        send_secs: 0.0,
        n_in_flight: 1,
        weight_gradient_secs: 0.0,
        update_secs: 3e-4,
        memory_bytes: 9e10 / (1.0 + first as f64),
        parameter_bytes: 1e9,
        parallelism: None,
    }
}

fn sample() -> Plan {
    let used = |index: usize| CollectiveUse {
        kind: "all-reduce".to_owned(),
        axes: vec!["x".to_owned()],
        stage: 0,
        count: 2,
        bytes: 1e6,
        time_secs: 1e-5 * index as f64,
        hidden_secs: 0.0,
    };
    let tensor = BigTensor {
        name: "w".to_owned(),
        shape: "f32[8192,1024]".to_owned(),
        layout: "[x,-]".to_owned(),
        stage: 0,
        count: 3,
        bytes: 4e6,
    };
    Plan {
        schema: 1,
        time_secs: 0.0123,
        straggling: None,
        once_secs: 0.0,
        planned_secs: Some(0.012),
        lower_bound_secs: Some(0.0119),
        gap: Some(0.0083),
        stop: Some("memory-gap".to_owned()),
        n_devices: 8,
        memory_limit_bytes: 8e10,
        cluster: "a100-8".to_owned(),
        n_microbatches: 4,
        schedule: "1f1b".to_owned(),
        n_implicit_collectives: 2,
        n_given_layouts: 0,
        free_secs: None,
        stages: vec![stage(0), stage(4)],
        replicas: Vec::new(),
        collectives: (0..10).map(used).collect(),
        breakdown: Breakdown {
            compute_secs: 6e-3,
            memory_bound_secs: 2e-3,
            collective_secs: 1e-3,
            bubble_secs: 3e-3,
        },
        throughput: Some(done()),
        tensors: vec![tensor],
    }
}

#[test]
fn devices_of_a_kind_without_stages_are_idle() {
    let of = |name: &str| idle(&sample(), &Cluster::named(name).expect("a name"));
    assert_eq!(of("a100-8+v100-8+t4-8x2"), "idle: 8 of 8 v100-32, 16 of 16 t4\n");
    assert_eq!([of("a100-4+a100-4"), of("a100-8x2")], ["", ""]);
}

#[test]
fn shows_stages_time_communication_and_tensors() {
    assert_snapshot!(plan(&sample(), ""), @r"
    12.3 ms per step on 8 devices of a100-8, 4 microbatches, schedule 1f1b
    planner: planned 12.0 ms, lower bound 11.9 ms, gap 0.8 %, stop memory-gap
    report: the final text takes 2.5 % more than planned

    stage  devices  mesh     instrs  forward  backward  update    memory      of limit
    0      0-3      x=2,y=2    1200  1.20 ms   2.40 ms  300 us  83.8 GiB  112.5 % OVER
    1      4-7      x=2,y=2    1200  1.20 ms   2.40 ms  300 us  16.8 GiB        22.5 %
    memory limit: 74.5 GiB per device

    time: compute 6.00 ms (50.0 %), memory traffic 2.00 ms (16.7 %), communication 1.00 ms (8.3 %), waiting 3.00 ms (25.0 %)
    throughput: 666,016 tokens/s, MFU 31.2 %, HFU 34.5 %

    communication  axes  stage  per step    bytes     time
    all-reduce     x         0         2  977 KiB  90.0 us
    all-reduce     x         0         2  977 KiB  80.0 us
    all-reduce     x         0         2  977 KiB  70.0 us
    all-reduce     x         0         2  977 KiB  60.0 us
    all-reduce     x         0         2  977 KiB  50.0 us
    all-reduce     x         0         2  977 KiB  40.0 us
    all-reduce     x         0         2  977 KiB  30.0 us
    all-reduce     x         0         2  977 KiB  20.0 us
    and 2 more: 10.0 us
    2 of them are left to the partitioner

    tensor  shape           layout  stage  count  per device
    w       f32[8192,1024]  [x,-]       0      3    3.81 MiB
    ");
}

#[test]
fn the_report_and_the_planner_are_told_apart() {
    let one = Plan { n_devices: 1, n_microbatches: 1, planned_secs: Some(0.0123), ..sample() };
    assert_snapshot!(headline(&one, ""), @r"
    12.3 ms per step on 1 device of a100-8, 1 microbatch, schedule 1f1b
    planner: planned 12.3 ms, lower bound 11.9 ms, gap 0.8 %, stop memory-gap
    report: the final text takes as long as planned
    ");
    let foreign = Plan { planned_secs: None, lower_bound_secs: None, gap: None, stop: None, ..sample() };
    assert_eq!(planner(&foreign), "");
}

#[test]
fn says_when_nothing_is_worth_splitting() {
    let mut whole = sample();
    assert!(!tensors(&whole).contains("no large tensor"));
    whole.stages.truncate(1);
    whole.tensors[0].layout = "[-,-]".to_owned();
    assert!(tensors(&whole).contains("no large tensor is split"));
}

#[test]
fn says_nothing_of_passes_that_did_not_run() {
    assert_eq!(passes(&[]), "");
    assert_eq!(passes(&[("fuse", 0.25), ("shard", 1.5)]), "passes: fuse 250 ms, shard 1.50 s\n");
}

#[test]
fn a_plan_of_nothing_is_compared_without_a_quotient() {
    assert_eq!(compared(0.0, -0.0), "as long as planned");
    assert_eq!(compared(4e-6, 0.0), "4.00 us, which the planner does not count");
    assert_eq!(compared(1.5, 1.0), "50.0 % more than planned");
}
