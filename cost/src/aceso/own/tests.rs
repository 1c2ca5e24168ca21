//! The terms of the own cost, each by hand.

use super::super::{Machine, OpChain, OpChoice, Own, PipelinePlan, PlanSchedule, StageChoice, Step};
use crate::profile::{OpProfile, OpSplit, OpTables};
use std::collections::BTreeMap;

/// Two operators of 1 ms forward, 2 ms backward and 16 MiB of parameters on machines of two devices.
fn machine(own: Option<Own>) -> Machine {
    let row = OpProfile {
        forward_ms: 1.0,
        backward_ms: 2.0,
        input_mib: 4.0,
        output_mib: 4.0,
        weight_mib: 16.0,
        activation_mib: 10.0,
        ..OpProfile::default()
    };
    let names = ["a", "b"].map(String::from).to_vec();
    let chain = OpChain::new(&names, &[]);
    let mut tables = OpTables {
        names,
        near_gib_per_s: vec![1.0, 2.0, 4.0],
        far_gib_per_s: vec![0.5],
        ..OpTables::default()
    };
    for batch in [1, 2] {
        tables.rows.insert(OpSplit { batch, tensor: 1, algo: 0 }, vec![row; 2]);
    }
    tables.all_reduce_ms.insert(2, BTreeMap::from([(8, 4.0), (64, 16.0), (128, 1e6)]));
    tables.all_gather_ms.insert(2, BTreeMap::from([(4, 2.0), (8, 3.0)]));
    Machine {
        tables,
        chain,
        state_copies: 8.0,
        global_batch: 8,
        devices_per_node: 2,
        limit_mib: 1e9,
        forgets_last_run: false,
        own,
    }
}

fn own() -> Own {
    Own { is_overlapped: false, memory_mib_per_ms: 240.0, tied: Vec::new() }
}

/// One stage on two replicas.
fn adjusted(own: Own, zero: u32) -> OpProfile {
    let machine = machine(Some(own));
    let row = machine.tables.rows.values().next().expect("a row")[0];
    let step = Step { microbatch: 2, n_devices: 2, is_pipeline: false };
    machine.adjusted(0, &row, &OpChoice { tensor: 1, data: 2, zero, ..OpChoice::default() }, &step)
}

#[test]
fn gradients_and_the_optimizer_are_spread_over_the_microbatches() {
    // 4 microbatches; 0.25 ms per MiB; 15 times 16 MiB over 240 MiB/ms.
    assert_eq!(adjusted(own(), 0).backward_ms, 2.0 + (4.0 + 1.0) / 4.0);
    assert_eq!(adjusted(own(), 1).backward_ms, 2.0 + (4.0 + 0.5) / 4.0);
    assert_eq!(adjusted(own(), 2).backward_ms, 2.0 + 2.0 + (2.0 + 0.5) / 4.0);
    let zero_3 = adjusted(own(), 3);
    assert_eq!((zero_3.forward_ms, zero_3.backward_ms), (1.0 + 2.0, 2.0 + 4.0 + 0.5 / 4.0));
}

#[test]
fn each_zero_stage_shards_more_of_the_state() {
    let state = [0, 1, 2, 3].map(|zero| adjusted(own(), zero).state_mib / 16.0);
    assert_eq!(state, [8.0, 5.0, 4.5, 4.0]);
    let reserved = [0, 1, 2, 3].map(|zero| adjusted(own(), zero).backward_reserved_mib);
    assert_eq!(reserved, [0.0, 0.0, 16.0, 32.0]);
}

#[test]
fn what_runs_beside_the_backward_part_costs_what_that_does_not_hide() {
    let beside = Own { is_overlapped: true, ..own() };
    assert_eq!(adjusted(beside.clone(), 0).backward_ms, 2.0 + (2.0 + 1.0) / 4.0);
    assert_eq!(adjusted(beside, 1).backward_ms, 2.0 + (0.0 + 1.0 + 0.5) / 4.0);
}

#[test]
fn a_reduction_takes_the_largest_measured_rate_or_that_of_gathers_or_links() {
    let mut tables = machine(None).tables;
    assert_eq!(tables.all_reduce_ms_per_mib(2, false), 0.25);
    tables.all_reduce_ms.clear();
    assert_eq!(tables.all_reduce_ms_per_mib(2, false), 2.0 * 3.0 / 16.0);
    assert_eq!(tables.all_reduce_ms_per_mib(4, false), 1.5 / (4.0 * 1.024));
    assert_eq!(tables.all_reduce_ms_per_mib(2, true), 1.0 / (0.5 * 1.024));
    assert_eq!(tables.all_reduce_ms_per_mib(1, false), 0.0);
}

#[test]
fn transfers_and_gathers_lie_between_their_neighbours() {
    let tables = machine(None).tables;
    assert_eq!(tables.transfer_ms(4.0, false), 4.0 / (4.0 * 1.024));
    assert_eq!(tables.transfer_ms(0.5, false), 0.5 / 1.024);
    assert_eq!(tables.transfer_ms(0.0, false), 0.0);
    let half = 2.0f64.sqrt();
    assert!((tables.transfer_ms(half, false) - half / (1.5 * 1.024)).abs() < 1e-12);
    assert_eq!([2.0, 6.0, 16.0].map(|mib| tables.gather_ms(2, mib)), [1.0, 2.5, 6.0]);
    assert_eq!(tables.gather_ms(4, 4.0), 3.0 * tables.transfer_ms(4.0, false));
}

#[test]
fn measured_tables_are_read_at_their_ends() {
    let mut tables = machine(None).tables;
    // What was skipped or is of no size counts for nothing.
    tables.all_gather_ms.insert(2, BTreeMap::from([(0, 9.0), (4, 2.0), (8, 3.0), (16, 1e5)]));
    tables.all_reduce_ms.insert(2, BTreeMap::from([(0, 9.0), (8, 4.0), (64, 1e5)]));
    assert_eq!([2.0, 16.0].map(|mib| tables.gather_ms(2, mib)), [1.0, 6.0]);
    assert_eq!(tables.all_reduce_ms_per_mib(2, false), 0.5);
    tables.all_reduce_ms.insert(2, BTreeMap::from([(0, 9.0)]));
    assert_eq!(tables.all_reduce_ms_per_mib(2, false), 2.0 * 3.0 / 16.0);
}

#[test]
fn parameters_that_are_gathered_are_whole_while_their_operator_runs() {
    let reserved = |zero, data| {
        let machine = machine(Some(own()));
        let row = OpProfile {
            forward_reserved_mib: 3.0,
            backward_reserved_mib: 5.0,
            ..machine.tables.rows.values().next().expect("a row")[0]
        };
        let step = Step { microbatch: 2, n_devices: 2, is_pipeline: false };
        let adjusted =
            machine.adjusted(0, &row, &OpChoice { tensor: 1, data, zero, ..OpChoice::default() }, &step);
        [adjusted.forward_reserved_mib, adjusted.backward_reserved_mib]
    };
    assert_eq!(reserved(2, 2), [3.0, 21.0]);
    assert_eq!(reserved(3, 2), [19.0, 37.0]);
    assert_eq!(reserved(3, 1), [3.0, 5.0]);
}

#[test]
fn replicas_beyond_a_node_reduce_over_its_links() {
    let rate = |tensor, data| {
        machine(Some(own())).all_reduce_ms_per_mib(&OpChoice { tensor, data, ..OpChoice::default() })
    };
    assert_eq!(rate(1, 2), 0.25);
    assert_eq!(rate(2, 2), 1.0 / (0.5 * 1.024));
}

#[test]
fn parameters_of_one_stage_or_that_nobody_shares_are_not_reduced_between_stages() {
    let tied = |is_pipeline, op, n_devices| {
        let own = Own { tied: vec![0, 1], ..own() };
        machine(None).tied_ms(&own, op, 16.0, &Step { microbatch: 2, n_devices, is_pipeline })
    };
    assert_eq!([tied(false, 0, 2), tied(true, 2, 2)], [0.0, 0.0]);
    // All of 16 MiB once over the link, in a node of two devices or beyond.
    assert_eq!([tied(true, 1, 2), tied(true, 1, 3)], [16.0 / (4.0 * 1.024), 16.0 / (0.5 * 1.024)]);
}

#[test]
fn the_ends_of_a_chain_receive_and_send_nothing_by_the_own_cost() {
    let (own, aceso) = (machine(Some(own())), machine(None));
    let between = own.tables.transfer_ms(4.0, false);
    assert_eq!([0, 1].map(|op| own.send_before_ms(op, 4.0, false)), [0.0, between]);
    assert_eq!([0, 1].map(|op| own.send_after_ms(op, 4.0, false)), [between, 0.0]);
    assert_eq!([0, 1].map(|op| aceso.send_before_ms(op, 4.0, false)), [2.0, 2.0]);
    assert_eq!([0, 1].map(|op| aceso.send_after_ms(op, 4.0, false)), [2.0, 2.0]);
}

fn stage(start: usize, data: u32) -> StageChoice {
    let choice = OpChoice { tensor: 1, data, ..OpChoice::default() };
    StageChoice { start, n_devices: data as usize, ops: vec![choice] }
}

fn priced(schedule: PlanSchedule, stages: Vec<StageChoice>, own: Own) -> [f64; 2] {
    let machine = Machine { devices_per_node: 4, ..machine(Some(own)) };
    let cost = machine.price(&PipelinePlan { microbatch: 2, schedule, stages }).expect("measured");
    [cost.ms, cost.mib]
}

#[test]
fn a_stage_that_sends_to_twice_its_devices_takes_twice_as_long_to() {
    let [even, wider] = [1, 2].map(|data| {
        let machine = machine(Some(own()));
        let plan = PipelinePlan {
            microbatch: 2,
            stages: vec![stage(0, 1), stage(1, data)],
            ..PipelinePlan::default()
        };
        machine.parts(&plan).expect("measured")[1].forward_ms
    });
    let send_ms = machine(None).tables.transfer_ms(4.0, false);
    assert!((wider - even - send_ms).abs() < 1e-12, "{wider} {even} {send_ms}");
}

#[test]
fn stages_that_share_a_parameter_reduce_its_gradient() {
    let alone = priced(PlanSchedule::OneFOneB, vec![stage(0, 1), stage(1, 1)], own())[0];
    let tied = Own { tied: vec![0, 1], ..own() };
    let both = priced(PlanSchedule::OneFOneB, vec![stage(0, 1), stage(1, 1)], tied)[0];
    // Spread over 4 microbatches, of which the slowest stage counts 3 times more.
    let sum_ms = 16.0 / (4.0 * 1.024) / 4.0;
    assert!((both - alone - 5.0 * sum_ms).abs() < 1e-9, "{both} {alone}");
}

#[test]
fn schedules_differ_in_what_fills_the_pipeline_and_in_what_is_held() {
    let stages = || vec![stage(0, 1), stage(1, 1)];
    let of = |schedule| priced(schedule, stages(), own());
    let [gpipe, one, zero] = [PlanSchedule::GPipe, PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble].map(of);
    assert!(gpipe[0] >= one[0] && one[0] > zero[0], "{gpipe:?} {one:?} {zero:?}");
    // The first stage holds 14 MiB per microbatch in flight: 4, 2 and 2 of them.
    assert_eq!([gpipe[1] - one[1], zero[1] - one[1]], [28.0, 0.0]);
}

#[test]
fn one_f_one_b_holds_no_more_microbatches_than_there_are() {
    assert_eq!(PlanSchedule::OneFOneB.in_flight(4, 4, 2), 2);
    assert_eq!(PlanSchedule::ZeroBubble.in_flight(1, 4, 8), 4);
    assert_eq!(PlanSchedule::GPipe.in_flight(1, 4, 8), 8);
}

#[test]
fn schedules_parse_their_own_names() {
    for schedule in
        [PlanSchedule::GPipe, PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble, PlanSchedule::Interleaved(3)]
    {
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }
    assert!("interleaved:1".parse::<PlanSchedule>().is_err());
}

#[test]
fn an_interleaved_device_sums_its_parts() {
    let schedule = PlanSchedule::Interleaved(2);
    let [ms, mib] = priced(schedule, vec![stage(0, 1), stage(1, 1)], own());
    let [alone_ms, _] = priced(PlanSchedule::OneFOneB, vec![stage(0, 1)], own());
    assert!(ms > alone_ms, "{ms} {alone_ms}");
    assert!(mib >= 2.0 * 16.0 * 8.0, "{mib}");
}
