//! Figures of stages, worked out by hand.

use super::super::Level;
use super::super::tests::chain;
use super::*;

/// Four layers on four devices, two per node.
fn layers() -> Chain {
    Chain {
        devices: [4, 2],
        send_secs: vec![9.0, 8.0, 4.0, 2.0],
        near_secs: vec![0.9, 0.8, 0.4, 0.2],
        update_secs: vec![4.0, 8.0, 12.0, 16.0],
        fixed_bytes: vec![1.0, 2.0, 3.0, 4.0],
        flight_bytes: vec![10.0, 20.0, 30.0, 40.0],
        ..chain(&[3.0, 6.0, 9.0, 12.0])
    }
}

fn level(secs: f64, bytes: f64, again_bytes: f64) -> Level {
    Level { kind: 0, secs, bytes, again_bytes }
}

/// Four equal layers of a second that each hold a byte, and five of each microbatch.
fn equal(levels: Vec<Level>) -> Chain {
    let runs = (0..4).map(|layer| (layer..layer + 1, 0)).collect();
    Chain { kind: vec![0; 4], flight_bytes: vec![5.0; 4], levels, runs, ..chain(&[1.0; 4]) }
}

#[test]
fn a_send_is_near_within_a_node_and_far_beyond_it() {
    let it = layers();
    let table = StageTable::new(&it, 4, 2, f64::INFINITY);
    let sends = |table: &StageTable| [0, 1, 2, 3].map(|stage| table.times(stage, stage, stage + 1).send_secs);
    // After the last stage nothing is sent.
    assert_eq!(sends(&table), [0.8, 4.0, 0.2, 0.0]);
    assert_eq!(sends(&table.far()), [8.0, 4.0, 2.0, 0.0]);
    let is_far = |devices, n_stages| is_far(&Chain { devices, ..it.clone() }, n_stages);
    assert_eq!(is_far([4, 2], 2), [true, true]);
    assert_eq!(is_far([4, 4], 2), [false, false]);
    assert_eq!(is_far([8, 4], 4), [false, true, false, true]);
    assert_eq!(is_far([1, 8], 2), [true, true]);
    // The second stage of a group goes on to the first group: four stages on two groups of one node each.
    let interleaved = Chain { schedule: Schedule::Interleaved(2), ..layers() };
    assert_eq!(super::is_far(&interleaved, 4), [true; 4]);
}

#[test]
fn a_stage_has_the_figures_of_its_layers() {
    let it = layers();
    let table = StageTable::new(&it, 4, 2, f64::INFINITY);
    let times = table.times(1, 1, 3);
    assert_eq!((times.secs, times.forward_secs, times.weight_secs), (6.0 + 9.0 + 2.0, 5.0, 5.0));
    assert_eq!(times.update_secs, 20.0);
    // Two microbatches are in flight before the last stage, one in it.
    assert_eq!(table.bytes(0, 0, 2), 1.0 + 2.0 + 2.0 * 30.0);
    assert_eq!(table.bytes(3, 3, 4), 4.0 + 40.0);
    // A step has two microbatches and three stages' wait, of which each has a share of the update.
    assert_eq!(table.step_share_secs(1, 1, 3), 17.0 + 20.0 / 5.0);
    assert!((table.busy_before(2) - MS * (9.0 + 12.0 / 5.0)).abs() < 1e-9);
    assert!(table.is_better_end(3, 1) && table.is_better_end(1, 1) && !table.is_better_end(1, 3));
    assert_eq!((table.min_stages(), table.max_stages(), table.rounds()), (4, 4, 1.0));
}

#[test]
fn what_interleaved_stages_hold_is_shared_by_their_group() {
    let it = Chain { schedule: Schedule::Interleaved(2), ..layers() };
    let table = StageTable::new(&it, 4, 8, 10.0);
    assert_eq!(table.limit_bytes, 5.0);
    // Groups hold 2 (p - j - 1) + (V - 1) p + 1 parts of microbatches, each in one of two stages.
    let one = OfOne { saved: 1.0, ..OfOne::default() };
    assert_eq!([0, 1, 2, 3].map(|stage| table.holding[stage].bytes(one)), [2.5, 1.5, 2.5, 1.5]);
    // Eight microbatches of two stages, and one stage's wait.
    assert!((table.update_weight() - 2.0 / 17.0).abs() < 1e-12);
    assert_eq!(StageTable::new(&it, 4, 8, f64::INFINITY).memory_bytes(&[0, 1, 2, 3]), 4.0 + 2.5 * 40.0);
}

#[test]
fn some_cut_fits_where_its_largest_stage_does() {
    let it = layers();
    // Two layers each: 63 bytes with two microbatches, 77 with one.
    assert!(StageTable::new(&it, 2, 2, 77.0).is_possible());
    assert!(!StageTable::new(&it, 2, 2, 76.9).is_possible());
    let leanest = it.leanest(2, 2).expect("two stages");
    assert_eq!((leanest.starts, leanest.memory_bytes), (vec![0, 2], 77.0));
}

#[test]
fn what_is_computed_again_is_there_while_its_backward_part_runs() {
    let it = equal(vec![level(0.5, 3.0, 1.0), level(1.0, 1.0, 4.0)]);
    for (limit_bytes, again, secs, bytes) in [
        (24.0, [0, 0, 0, 0], 4.0, 24.0),
        (20.0, [1, 1, 0, 0], 5.0, 24.0 - 2.0 * 3.0 + 1.0),
        (13.0, [1, 1, 1, 1], 6.0, 24.0 - 4.0 * 3.0 + 1.0),
        // The second level is there with the first: four bytes, not five.
        (12.5, [2, 2, 2, 2], 10.0, 24.0 - 4.0 * 4.0 + 4.0),
    ] {
        let cut = it.cut(1, 1, limit_bytes).expect("it fits");
        assert_eq!(
            (&cut.again[..], cut.step_secs, cut.memory_bytes),
            (&again[..], secs, bytes),
            "{limit_bytes}"
        );
    }
    assert_eq!(it.cut(1, 1, 11.9), None);
}

#[test]
fn a_level_saves_for_every_microbatch_in_flight() {
    let it = equal(vec![level(0.5, 3.0, 0.0)]);
    // The first stage holds two microbatches: one layer computed again saves six bytes.
    let table = StageTable::new(&it, 2, 2, 16.0);
    assert_eq!((table.eased_bytes(0, 0, 2), table.eased_bytes(1, 2, 4)), (22.0 - 6.0, 12.0));
    assert_eq!(table.again(&[0, 2]), [1, 0, 0, 0]);
    assert_eq!(table.times(0, 0, 2).secs, 2.5);
    assert_eq!(table.eased_bytes(0, 0, 3), 33.0 - 3.0 * 6.0);
    assert_eq!(table.eased_bytes(0, 0, 4), f64::INFINITY);
}

#[test]
fn what_is_faster_again_is_computed_again_in_any_case_and_all_if_it_is_asked_for() {
    let gain = equal(vec![level(-0.25, 1.0, 0.0), level(0.5, 1.0, 0.0)]);
    let cut = gain.cut(1, 1, f64::INFINITY).expect("it fits");
    assert_eq!((cut.again, cut.step_secs), (vec![1; 4], 3.0));
    let all = Chain { is_all_again: true, ..gain };
    let cut = all.cut(1, 1, f64::INFINITY).expect("it fits");
    assert_eq!((cut.again, cut.step_secs), (vec![2; 4], 5.0));
}

#[test]
fn a_run_that_a_stage_has_in_part_is_not_computed_again_there() {
    let it = Chain { runs: vec![(0..2, 0), (2..4, 0)], ..equal(vec![level(0.5, 3.0, 0.0)]) };
    let table = StageTable::new(&it, 1, 1, 0.0);
    let n_of = |from, to| table.n_of_kind(0, from, to);
    assert_eq!([n_of(0, 4), n_of(0, 3), n_of(1, 4), n_of(1, 3), n_of(2, 4), n_of(1, 1)], [2, 1, 1, 0, 1, 0]);
}

#[test]
fn no_cut_takes_less_than_equal_stages_would_with_all_that_recomputation_saves() {
    let runs = vec![(0..2, 0), (2..4, 0)];
    let it = Chain {
        runs,
        update_secs: vec![1.0, 2.0, 3.0, 4.0],
        levels: vec![level(-0.5, 1.0, 0.0), level(0.5, 1.0, 0.0)],
        ..chain(&[1.0, 3.0, 1.0, 3.0])
    };
    // Each run saves half a second of its four.
    assert_eq!(it.least_secs(), [0.875, 2.625, 0.875, 2.625]);
    // Two groups: 3.5 s each, three microbatches and one stage's wait, and five seconds of update.
    assert_eq!(it.floor_secs(2, 3), 3.5 * 4.0 + 5.0);
    assert!(it.cut(2, 3, f64::INFINITY).expect("it fits").step_secs >= it.floor_secs(2, 3));
    let filled = Chain { schedule: Schedule::ZeroBubble, ..it };
    assert_eq!(filled.floor_secs(2, 3), 3.5 * 3.0 + 5.0);
}

#[test]
fn in_a_long_chain_any_stage_may_send_out_of_its_node() {
    let of = |n_layers: usize| is_far(&Chain { devices: [4, 4], ..chain(&vec![1.0; n_layers]) }, 2);
    assert_eq!([of(1024), of(1025)], [[false; 2], [true; 2]]);
}
