//! Plans of three measured operators on nodes of two devices, term by term, by Aceso's cost and by the own
//! one.

use super::*;
use crate::profile::{OpProfile, OpSplit};
use std::collections::BTreeMap;

/// Operators of 1, 2 and 4 ms forward and 3, 5 and 6 ms backward, of which the second has no parameters and
/// keeps half more than was measured. A message of 1, 2, 4, 8 MiB takes 1, 2, 2, 2 ms in a node.
pub(super) fn machine() -> Machine {
    let row = |forward_ms,
               backward_ms,
               [input_mib, output_mib]: [f64; 2],
               weight_mib,
               activation_mib,
               reserved: [f64; 2]| {
        OpProfile {
            forward_ms,
            backward_ms,
            input_mib,
            output_mib,
            weight_mib,
            activation_mib,
            forward_reserved_mib: reserved[0],
            backward_reserved_mib: reserved[1],
            ..OpProfile::default()
        }
    };
    let names = ["in", "enc-attention-dropout", "out"].map(String::from).to_vec();
    let chain = OpChain::new(&names, &[]);
    let rows = vec![
        row(1.0, 3.0, [4.0, 8.0], 16.0, 10.0, [5.0, 7.0]),
        row(2.0, 5.0, [8.0, 2.0], 0.0, 20.0, [11.0, 3.0]),
        row(4.0, 6.0, [2.0, 1.0], 6.0, 30.0, [50.0, 50.0]),
    ];
    let tables = OpTables {
        names,
        rows: BTreeMap::from([(OpSplit { batch: 1, tensor: 1, algo: 0 }, rows)]),
        near_gib_per_s: vec![1.0, 2.0, 4.0],
        far_gib_per_s: vec![0.5, 0.25, 0.125],
        all_gather_ms: BTreeMap::from([(2, BTreeMap::from([(8, 7.0), (2, 3.0)]))]),
        ..OpTables::default()
    };
    Machine {
        tables,
        chain,
        state_copies: 8.0,
        global_batch: 8,
        devices_per_node: 2,
        limit_mib: 1e9,
        forgets_last_run: false,
        own: None,
    }
}

/// The same with the own cost, whose memory is so fast that the optimizer takes nothing.
pub(super) fn own_machine() -> Machine {
    let own = Own { is_overlapped: false, memory_mib_per_ms: f64::INFINITY, tied: Vec::new() };
    Machine { own: Some(own), ..machine() }
}

pub(super) fn choice(data: u32) -> OpChoice {
    OpChoice { tensor: 1, data, ..OpChoice::default() }
}

/// Stages that begin with these operators, on one device each, microbatches of one sample.
pub(super) fn plan(starts: &[usize], schedule: PlanSchedule) -> PipelinePlan {
    let ends = starts.iter().skip(1).copied().chain([3]);
    let stage = |(&start, end): (&usize, usize)| StageChoice {
        start,
        n_devices: 1,
        ops: vec![choice(1); end - start],
    };
    PipelinePlan { microbatch: 1, schedule, stages: starts.iter().zip(ends).map(stage).collect() }
}

fn price(machine: &Machine, starts: &[usize], schedule: PlanSchedule) -> [f64; 2] {
    let cost = machine.price(&plan(starts, schedule)).expect("measured");
    [cost.ms, cost.mib]
}

#[test]
fn one_stage_takes_its_operators_and_what_it_receives_and_sends() {
    // 2 ms of 4 MiB in, 1 ms of 1 MiB of gradients; 8 microbatches.
    let ms = 8.0 * (2.0 + 7.0 + 1.0 + 14.0);
    // 8 copies of 22 MiB; the input and 10, 30, 30 MiB; parameters are more than the reserve of all operators
    // but the last.
    let mib = 8.0 * 22.0 + (4.0 + 70.0) + 22.0;
    assert_eq!(price(&machine(), &[0], PlanSchedule::OneFOneB), [ms, mib]);
}

#[test]
fn two_stages_fill_and_hold_as_1f1b_does() {
    // 2 + 1 and 2 + 3 ms; 2 + 2 + 4 and, to another node, 1 / 0.5 + 5 + 6 ms.
    let [first, second] = [8.0, 8.0 + 13.0];
    let ms = 7.0 * second + (first + second);
    // The first stage holds two microbatches of 4 + 10 MiB, its spare is its parameters.
    let mib = 8.0 * 16.0 + 2.0 * 14.0 + 16.0;
    let second_mib = 8.0 * 6.0 + (8.0 + 30.0 + 30.0) + (11.0 + 3.0);
    assert!(mib > second_mib);
    assert_eq!(price(&machine(), &[0, 1], PlanSchedule::OneFOneB), [ms, mib]);
    let of = |stage| {
        let cost = machine().price_stage(&plan(&[0, 1], PlanSchedule::OneFOneB), stage).expect("measured");
        [cost.ms, cost.mib]
    };
    assert_eq!([of(0), of(1)], [[first, mib], [second, second_mib]]);
}

#[test]
fn aceso_counts_a_microbatch_in_flight_for_each_stage_even_where_there_are_fewer() {
    let mib =
        |machine: Machine| price(&Machine { global_batch: 1, ..machine }, &[0, 1], PlanSchedule::OneFOneB)[1];
    assert_eq!(
        [mib(machine()), mib(own_machine())],
        [8.0 * 16.0 + 2.0 * 14.0 + 16.0, 8.0 * 16.0 + 14.0 + 16.0]
    );
}

#[test]
fn gpipe_waits_for_the_longest_of_each_phase() {
    let parts = own_machine().parts(&plan(&[0, 2], PlanSchedule::GPipe)).expect("measured");
    // Nothing is received by the first and sent by the last: 3 ms forward, 4 and 2 MiB to receive.
    let sends = own_machine().tables.transfer_ms(2.0, false);
    let expected = [[3.0, 8.0 + sends], [4.0 + sends, 6.0]];
    assert_eq!([0, 1].map(|at| [parts[at].forward_ms, parts[at].backward_ms]), expected);
    let ms = 7.0 * (4.0 + sends + 8.0 + sends) + (21.0 + 2.0 * sends);
    assert_eq!(price(&own_machine(), &[0, 2], PlanSchedule::GPipe)[0], ms);
}

#[test]
fn weight_gradients_fill_what_they_can_of_the_bubble() {
    // min(1.5, 1) and min(3, 4) ms of 21: the second operator has no parameters.
    let fill = 1.0 - 2.0 * 4.0 / 21.0;
    assert_eq!(own_machine().fill(PlanSchedule::ZeroBubble), fill);
    assert_eq!(own_machine().fill(PlanSchedule::Interleaved(4)), 0.25);
    assert_eq!([PlanSchedule::GPipe, PlanSchedule::OneFOneB].map(|it| own_machine().fill(it)), [1.0; 2]);
    let [alone, filled] =
        [PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble].map(|it| price(&own_machine(), &[0, 2], it)[0]);
    let both = own_machine()
        .parts(&plan(&[0, 2], PlanSchedule::OneFOneB))
        .expect("measured")
        .iter()
        .map(StageParts::both_ms)
        .collect::<Vec<_>>();
    let longest = both[0].max(both[1]);
    crate::toy::assert_close(alone, 7.0 * longest + both[0] + both[1]);
    crate::toy::assert_close(filled, (8.0 - fill) * longest + fill * (both[0] + both[1]));
    let mut none = own_machine();
    none.tables.rows.clear();
    assert_eq!(none.fill(PlanSchedule::ZeroBubble), 1.0);
    let mut idle = own_machine();
    idle.tables.rows.values_mut().flatten().for_each(|row| (row.forward_ms, row.backward_ms) = (0.0, 0.0));
    assert_eq!(idle.fill(PlanSchedule::ZeroBubble), 1.0);
    let mut weights = own_machine();
    weights
        .tables
        .rows
        .values_mut()
        .flatten()
        .for_each(|row| (row.forward_ms, row.backward_ms, row.weight_mib) = (0.0, 8.0, 1.0));
    weights.tables.rows.values_mut().flatten().for_each(|row| row.forward_ms = 4.0);
    crate::toy::assert_close(weights.fill(PlanSchedule::ZeroBubble), 1.0 - 2.0 / 3.0);
}

#[test]
fn replays_agree_with_closed_forms_of_one_stage() {
    for schedule in [PlanSchedule::GPipe, PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble] {
        let plan = plan(&[0], schedule);
        crate::toy::assert_close(own_machine().replayed_ms(&plan).expect("measured"), 8.0 * 21.0);
    }
    let mut unmeasured = plan(&[0], PlanSchedule::OneFOneB);
    unmeasured.stages[0].ops[1].tensor = 4;
    assert_eq!(own_machine().replayed_ms(&unmeasured), None);
}

#[test]
fn replays_of_two_stages_wait_for_each_other() {
    let ms = |schedule| own_machine().replayed_ms(&plan(&[0, 2], schedule)).expect("measured");
    let sends = own_machine().tables.transfer_ms(2.0, false);
    // Forward 3 and 4 + s, backward 8 + s and 6: GPipe's first forward, 8 of the second, its first backward,
    // 8 of the first.
    crate::toy::assert_close(ms(PlanSchedule::GPipe), 3.0 + 8.0 * (4.0 + sends) + 6.0 + 8.0 * (8.0 + sends));
    assert!(ms(PlanSchedule::ZeroBubble) < ms(PlanSchedule::OneFOneB));
    let split = own_machine().replayed_ms(&plan(&[0, 1], PlanSchedule::Interleaved(2))).expect("measured");
    assert!(split > 8.0 * 21.0, "one device does all of it: {split}");
}

#[test]
fn an_interleaved_device_holds_the_parts_of_its_stages() {
    let parts = own_machine().parts(&plan(&[0, 1], PlanSchedule::Interleaved(2))).expect("measured");
    let state = 8.0 * 22.0;
    let spare = parts[0].spare_mib.max(parts[1].spare_mib);
    let mib = price(&own_machine(), &[0, 1], PlanSchedule::Interleaved(2))[1];
    // One microbatch at a time in the second, that and the next one in the first.
    let held = own_machine().price(&plan(&[0, 1], PlanSchedule::Interleaved(2))).expect("measured").mib
        - state
        - spare;
    assert_eq!(mib, state + spare + held);
    assert_eq!(held, parts[0].kept_mib + parts[1].kept_mib);
}

#[test]
fn a_change_of_replicas_is_a_gather_over_their_ratio() {
    let ms = |from: OpChoice, to: OpChoice| machine().reshard_ms(1, &from, &to, 8.0);
    assert_eq!(ms(choice(2), choice(2)), 0.0);
    assert_eq!([ms(choice(1), choice(2)), ms(choice(4), choice(2))], [7.0, 7.0]);
    assert_eq!(ms(choice(2), OpChoice { tensor: 2, ..choice(4) }), 7.0);
    // Over one device none was measured.
    assert_eq!(ms(choice(2), OpChoice { tensor: 2, ..choice(2) }), 100_000.0);
}

#[test]
fn the_own_cost_gathers_pieces_forward_and_gradients_backward() {
    let ms = |from, to| own_machine().reshard_ms(1, &choice(from), &choice(to), 8.0);
    // Half the replicas: each has a half of the 8 MiB; twice as many: each has 8 MiB of the gradient.
    let between = 3.0 + (7.0 - 3.0) * (4.0 - 2.0) / (8.0 - 2.0);
    assert_eq!([ms(2, 1), ms(1, 2)], [between, 7.0]);
    assert_eq!(ms(3, 2), between);
}

#[test]
fn microbatches_are_the_batch_over_their_samples() {
    assert_eq!(machine().n_microbatches(2), 4.0);
}

#[test]
fn a_plan_schedule_is_interleaved_by_two_unless_it_says_otherwise() {
    assert_eq!("interleaved".parse(), Ok(PlanSchedule::Interleaved(2)));
    assert_eq!(PlanSchedule::Interleaved(3).n_chunks(), 3);
}
