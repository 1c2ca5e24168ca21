//! Two stages and rates worked out by hand.

use super::*;

fn growth() -> Growth {
    Growth { points: vec![(1, 1.0)], is_linear: true }
}

#[test]
fn a_microbatch_grows_by_its_points_and_then_with_its_size() {
    let growth = Growth { points: vec![(1, 1.0), (4, 1.5)], is_linear: true };
    assert_eq!([1, 2, 4, 8].map(|size| growth.factor(size)), [1.0, 1.0, 1.5, 3.0]);
    let constant = Growth { points: vec![(1, 1.0)], is_linear: false };
    assert_eq!(constant.factor(16), 1.0);
}

#[test]
fn stages_wait_for_each_other() {
    // Two stages of 3 s a microbatch, 1 forward and 2 backward: F0 F1 B0 B1 on the first.
    assert_eq!(step_secs(&[3.0, 3.0], &[0.0], 2, Variant::Faithful), [9.0, 8.0 - 1.0]);
    // A second across, there and back.
    assert_eq!(step_secs(&[3.0, 3.0], &[1.0], 1, Variant::Strict), [8.0, 5.0]);
    // The last stage waits while its backward results go across; the first goes on at once.
    let ends = step_secs(&[3.0, 3.0], &[1.0], 2, Variant::Faithful);
    assert_eq!(ends, [12.0, 9.0]);
}

/// Two nodes of one device each, the second kind half as fast, and a model of a table, two layers and a head.
fn small() -> (Fleet, Transformer) {
    let kind = |device: &str, gib: f64| NodeKind::plain(device, [1e9, 1e10], 3600.0, gib);
    let times = |secs: f64| vec![LayerTimes { forward_secs: vec![secs; 4], growth: vec![growth(); 4] }];
    let model = Transformer {
        hidden: 64.0,
        seq: 32.0,
        vocab: 100.0,
        heads: 4.0,
        batch: 4,
        roles: vec![Role::Embedding, Role::Layer, Role::Layer, Role::Head],
        shares_embedding: true,
        times: vec![times(1.0), times(2.0)],
    };
    let kinds = vec![kind("fast", 16.0), kind("slow", 1e-6)];
    (Fleet { kinds, per_node: 1, zones: Zones::default() }, model)
}

#[test]
fn a_stage_has_the_times_and_the_memory_of_its_node() {
    let (fleet, model) = small();
    let degrees = Degrees { tensor: 1, data: 1, stages: 2, micro_batch: 2 };
    let placement =
        Placement { fleet: &fleet, model: &model, variant: Variant::Strict, order: vec![0, 1], degrees };
    let times = Times::of(&placement);
    assert_eq!(times.kinds, [0, 1]);
    assert_eq!(times.stage_secs(&[3, 1]), [3.0 * 3.0 * 2.0, 3.0 * 2.0 * 2.0]);
    assert_eq!(times.boundary_secs, [2.0 * 32.0 * 64.0 * 16.0 / (1e9 / 1.05)]);
    let fits = placement.memory(&[3, 1]).iter().map(StageMemory::fits).collect::<Vec<_>>();
    assert_eq!(fits, [true, false]);
    assert_eq!(placement.usd_per_sec(), 2.0);
}

#[test]
fn a_critical_path_is_as_long_as_its_stage_runs_and_no_longer_for_other_times() {
    let (secs, other, sends) = ([5.0, 3.0, 4.0, 2.0], [2.0, 6.0, 1.0, 4.0], [0.5, 0.25, 0.125]);
    for (n, variant) in (1..9).flat_map(|n| [(n, Variant::Faithful), (n, Variant::Strict)]) {
        let (ends, others) = (step_secs(&secs, &sends, n, variant), step_secs(&other, &sends, n, variant));
        for stage in 0..4 {
            let path = critical_path(&secs, &sends, n, variant, stage);
            let long = |secs: &[f64]| -> f64 {
                path.constant_secs + path.weights.iter().zip(secs).map(|(n, secs)| n * secs).sum::<f64>()
            };
            assert!((long(&secs) - ends[stage]).abs() < 1e-9, "{n} {variant:?} {stage}");
            assert!(long(&other) <= others[stage] + 1e-9, "{n} {variant:?} {stage}");
        }
    }
}
