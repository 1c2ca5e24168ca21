//! What one stage of three measured operators takes and keeps, and where its neighbours are.

use super::super::OpChain;
use super::super::tests::{choice, machine, own_machine, plan};
use super::*;

fn parts(machine: &Machine, plan: &PipelinePlan) -> StageParts {
    machine.parts(plan).expect("measured")[0]
}

fn recomputed(at: &[usize]) -> PipelinePlan {
    let mut plan = plan(&[0], PlanSchedule::OneFOneB);
    at.iter().for_each(|&at| plan.stages[0].ops[at].recompute = true);
    plan
}

#[test]
fn a_stage_sums_its_operators() {
    let parts = parts(&machine(), &recomputed(&[]));
    assert_eq!(
        [parts.forward_ms, parts.backward_ms, parts.weight_gradient_ms],
        [2.0 + 7.0, 1.0 + 14.0, 1.0 + 3.0]
    );
    assert_eq!([parts.state_mib, parts.kept_mib, parts.spare_mib], [8.0 * 22.0, 4.0 + 70.0, 22.0]);
}

#[test]
fn a_reserve_of_all_operators_but_the_last_counts_where_parameters_are_less() {
    let mut machine = machine();
    machine.tables.rows.values_mut().flatten().for_each(|row| row.weight_mib = 1.0);
    assert_eq!(parts(&machine, &recomputed(&[])).spare_mib, 11.0 + 7.0);
}

#[test]
fn what_runs_again_is_kept_at_the_end_of_its_run_only_and_held_while_it_runs() {
    let kept = |machine: &Machine, at: &[usize]| {
        let parts = parts(machine, &recomputed(at));
        [parts.kept_mib, parts.spare_mib - 22.0]
    };
    assert_eq!(kept(&machine(), &[0]), [74.0, 0.0]);
    // The result of the last of a run stays.
    assert_eq!(kept(&machine(), &[0, 1]), [64.0, 10.0]);
    assert_eq!(kept(&machine(), &[0, 1, 2]), [34.0, 40.0]);
    // So does that of the last of a layer.
    let mut layers = machine();
    layers.chain.ends_runs[1] = true;
    assert_eq!(kept(&layers, &[0, 1, 2]), [44.0, 30.0]);
    let plain = parts(&machine(), &recomputed(&[]));
    assert_eq!(parts(&machine(), &recomputed(&[0, 2])).backward_ms, plain.backward_ms + 1.0 + 4.0);
}

#[test]
fn aceso_forgets_a_run_at_a_stages_end_behind_an_operator_that_shares_buffers() {
    let strict = Machine { forgets_last_run: true, ..machine() };
    let spare = |machine: &Machine, at: &[usize]| parts(machine, &recomputed(at)).spare_mib - 22.0;
    assert_eq!([spare(&machine(), &[0, 1, 2]), spare(&strict, &[0, 1, 2])], [40.0, 0.0]);
    // One that ends before is not forgotten.
    assert_eq!([spare(&machine(), &[0, 1]), spare(&strict, &[0, 1])], [10.0, 10.0]);
    // Neither is one behind an operator with buffers of its own.
    let plain = OpChain::new(&["in", "middle", "out"].map(String::from), &[]);
    assert_eq!(spare(&Machine { chain: plain, ..strict }, &[0, 1, 2]), 30.0);
}

#[test]
fn a_change_of_layout_inside_a_stage_is_paid_forward() {
    let mut machine = machine();
    let rows = machine.tables.rows.values().next().expect("rows").clone();
    machine.tables.rows.insert(OpSplit { batch: 2, tensor: 1, algo: 0 }, rows);
    let mut plan = recomputed(&[]);
    plan.microbatch = 2;
    (plan.stages[0].ops[0].data, plan.stages[0].ops[1].data, plan.stages[0].ops[2].data) = (2, 1, 1);
    // 8 MiB before the second operator over two devices.
    assert_eq!(parts(&machine, &plan).forward_ms, 2.0 + 7.0 + 7.0);
}

#[test]
fn a_split_shares_the_microbatch_evenly_or_not_at_all() {
    let split = |data, microbatch| OpChoice { tensor: 2, algo: 1, ..choice(data) }.split(microbatch);
    assert_eq!(split(2, 6), Some(OpSplit { batch: 3, tensor: 2, algo: 1 }));
    assert_eq!([split(4, 6), split(0, 6)], [None, None]);
}

/// Stages of so many devices.
fn on(n_devices: &[usize], schedule: PlanSchedule) -> PipelinePlan {
    let stage =
        |(at, &n_devices): (usize, &usize)| StageChoice { start: at % 3, n_devices, ops: vec![choice(1)] };
    PipelinePlan { microbatch: 1, schedule, stages: n_devices.iter().enumerate().map(stage).collect() }
}

#[test]
fn stages_stand_side_by_side_and_parts_of_a_group_on_the_same_devices() {
    let plan = on(&[1, 2, 4], PlanSchedule::OneFOneB);
    assert_eq!((plan.n_groups(), plan.n_devices()), (3, 7));
    assert_eq!([0, 1, 2].map(|stage| plan.devices(stage)), [Some(0..1), Some(1..3), Some(3..7)]);
    let plan = on(&[1, 3, 1, 3], PlanSchedule::Interleaved(2));
    assert_eq!((plan.n_groups(), plan.n_devices()), (2, 4));
    assert_eq!([1, 2, 3, 4].map(|stage| plan.devices(stage)), [Some(1..4), Some(0..1), Some(1..4), None]);
    let step = Step { microbatch: 1, n_devices: 4, is_pipeline: true };
    assert_eq!(plan.step(), step);
    assert!(!on(&[4], PlanSchedule::OneFOneB).step().is_pipeline);
}

#[test]
fn a_boundary_between_nodes_is_far() {
    let far = |machine: &Machine, plan: &PipelinePlan| -> Vec<[bool; 2]> {
        let positions = (0..plan.stages.len()).map(|stage| machine.position(plan, stage));
        positions.map(|it| [it.is_far_before, it.is_far_after]).collect()
    };
    let plan = on(&[1, 1, 1, 2], PlanSchedule::OneFOneB);
    assert_eq!(far(&machine(), &plan), [[false, false], [false, true], [true, false], [false, false]]);
    // Groups on the first device and on the two after it, in one node of three or in two of two.
    let interleaved = on(&[1, 2, 1, 2], PlanSchedule::Interleaved(2));
    let nodes = Machine { devices_per_node: 3, ..machine() };
    assert_eq!(far(&nodes, &interleaved), [[false; 2]; 4]);
    assert_eq!(far(&machine(), &interleaved), [[false, false], [false, true], [true, false], [false, false]]);
}

#[test]
fn a_stage_with_more_devices_than_its_neighbour_crowds_its_links_by_the_own_cost() {
    let crowded = |machine: &Machine, stage| {
        let position = machine.position(&on(&[1, 3, 2], PlanSchedule::OneFOneB), stage);
        [position.crowded_before, position.crowded_after]
    };
    assert_eq!([0, 1, 2].map(|stage| crowded(&own_machine(), stage)), [[1.0, 1.0], [3.0, 1.5], [1.0, 1.0]]);
    assert_eq!(crowded(&machine(), 1), [1.0, 1.0]);
    let sent_ms = |n_devices: &[usize]| {
        let mut plan = on(n_devices, PlanSchedule::OneFOneB);
        plan.stages[0].n_devices = n_devices[0];
        own_machine().parts(&plan).expect("measured")[0].backward_ms - 3.0
    };
    // Gradients of 8 MiB at 4 GiB/s; three devices receive from one.
    assert_eq!([sent_ms(&[1, 1]), sent_ms(&[3, 1])], [8.0 / (4.0 * 1.024), 3.0 * 8.0 / (4.0 * 1.024)]);
}

#[test]
fn a_plan_costs_what_is_added_to_the_measured_times_of_its_operators() {
    let mut machine = own_machine();
    machine.own.as_mut().expect("own").memory_mib_per_ms = 240.0;
    // 15 times 16 and 6 MiB at 240 MiB/ms, once a step.
    let plan = plan(&[0, 1], PlanSchedule::OneFOneB);
    let added = [0, 1].map(|stage| machine.added_ms(&plan, stage).expect("measured"));
    crate::toy::assert_close(added[0], 1.0);
    crate::toy::assert_close(added[1], 0.375);
}
