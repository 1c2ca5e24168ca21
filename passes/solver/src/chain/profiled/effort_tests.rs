//! The plans of some profiled chains to the last digit. The other tests say that a plan is near the best and
//! that its bound holds; a bound that is looser or a tie that falls otherwise shows here alone. Plans are
//! reproducible: a line that changes is a change of behaviour, to be read before it is taken over.

use super::own_tests::{SIZES, own};
use super::tests::{machine, reserving, space};
use super::*;
use insta::assert_snapshot;
use phzc_cost::profile::OpSplit;

/// What is found of machines of several sizes, added up, and the first plans.
fn planned(of: impl Fn(f64, usize) -> Machine, space: &Space) -> String {
    let (mut ms, mut mib, mut bound, mut n_none, mut stages) = (0.0, 0.0, 0.0, 0, 0);
    for (limit_mib, n_layers) in [(140.0, 2), (180.0, 2), (240.0, 3), (330.0, 5), (420.0, 7), (1e6, 7)] {
        let machine = of(limit_mib, n_layers);
        let found = top(&machine, space);
        n_none += usize::from(found.is_empty());
        for found in found {
            let cost = machine.price(&found.plan).expect("measured splits");
            (ms, mib, bound) = (ms + cost.ms, mib + cost.mib, bound + found.bound_ms);
            let ops = found.plan.stages.iter().flat_map(|stage| &stage.ops).enumerate();
            stages += found.plan.stages.len()
                + ops
                    .map(|(at, op)| at * (usize::from(op.recompute) + 3 * op.tensor as usize))
                    .sum::<usize>();
        }
    }
    format!("{ms:.9} ms, bound {bound:.9}, {mib:.6} MiB, {n_none} without a plan, choices {stages}")
}

fn limits(n_best: usize) -> Limits {
    Limits { n_best, ..Limits::default() }
}

#[test]
fn plans_of_one_split_per_stage() {
    let of = |limit_mib: f64, n_layers: usize| machine(&SIZES, n_layers, limit_mib);
    assert_snapshot!(planned(of, &space(false)), @"5412.000000000 ms, bound 5404.546672439, 2145.000000 MiB, 1 without a plan, choices 3875");
    assert_snapshot!(planned(of, &Space { limits: limits(3), ..space(false) }), @"8191.100000000 ms, bound 8183.368762439, 3383.000000 MiB, 1 without a plan, choices 6155");
    let of = |limit_mib: f64, n_layers: usize| reserving(&SIZES, of(limit_mib, n_layers));
    assert_snapshot!(planned(of, &space(false)), @"5412.000000000 ms, bound 5404.546673945, 2145.000000 MiB, 1 without a plan, choices 3875");
}

#[test]
fn plans_of_a_split_per_operator() {
    let of = |limit_mib: f64, n_layers: usize| machine(&SIZES, n_layers, limit_mib);
    assert_snapshot!(planned(of, &space(true)), @"5412.000000000 ms, bound 5401.287585931, 2145.000000 MiB, 1 without a plan, choices 3875");
    let of = |limit_mib: f64, n_layers: usize| reserving(&SIZES, of(limit_mib, n_layers));
    assert_snapshot!(planned(of, &space(true)), @"5412.000000000 ms, bound 5401.287587437, 2145.000000 MiB, 1 without a plan, choices 3875");
}

#[test]
fn plans_under_own_costs() {
    let planned = |schedule: PlanSchedule, min_stages: usize, is_mixed: bool| {
        let limits = Limits { schedules: vec![schedule], min_stages, ..limits(2) };
        let is_overlapped = schedule == PlanSchedule::GPipe;
        let of = |limit_mib: f64, _: usize| own(&SIZES, 0.6 * limit_mib + 60.0, is_overlapped);
        planned(of, &Space { limits, ..space(is_mixed) })
    };
    assert_snapshot!(planned(PlanSchedule::GPipe, 1, false), @"1009.200000000 ms, bound 1009.099080000, 2372.000000 MiB, 5 without a plan, choices 254");
    assert_snapshot!(planned(PlanSchedule::OneFOneB, 1, true), @"4159.975000000 ms, bound 4149.286153159, 1734.500000 MiB, 1 without a plan, choices 1209");
    assert_snapshot!(planned(PlanSchedule::ZeroBubble, 2, true), @"2174.580582682 ms, bound 2169.144131226, 1152.000000 MiB, 3 without a plan, choices 344");
    assert_snapshot!(planned(PlanSchedule::Interleaved(2), 2, false), @"1517.292480469 ms, bound 1450.800000000, 986.000000 MiB, 4 without a plan, choices 264");
}

/// What is said of every stage of some machines, added up: the bound that takes no time, the bound, and the
/// way that is found, of those that seem to fit; then the same of mixed stages, what was done for them, and
/// what a closer look says.
fn stages(of: impl Fn(f64) -> Machine, space: &Space) -> String {
    let (mut sums, mut n_none, mut work) = ([0.0; 7], [0; 7], 0);
    let mut add = |at: usize, ms: f64| match ms < 1e5 {
        true => sums[at] += ms,
        false => n_none[at] += 1,
    };
    for limit_mib in [90.0, 140.0, 220.0, 1e6] {
        let machine = of(limit_mib);
        let shared = shared(&machine, space);
        for problem in &problems(&shared, space) {
            let mixed = Mixed::new(problem, false);
            for span in spans(problem) {
                add(0, problem.quick_ms(&span));
                add(1, problem.lower_ms(&span));
                add(2, problem.upper_ms(&span));
                add(3, mixed.quick_ms(&span));
                add(4, mixed.lower_ms(&span));
                let cap = 1.02 * problem.upper_ms(&span).min(1e4);
                mixed.refined(&span, cap, 1).into_iter().zip(5..).for_each(|(ms, at)| add(at, ms));
            }
            work += mixed.work();
        }
    }
    format!("{:.6?} ms, {n_none:?} without, work {work}", sums)
}

/// Stages of all devices and of one, in flight once and twice, near and far.
fn spans(problem: &Problem) -> Vec<Span> {
    let n_units = problem.n_units();
    let ends = (0..n_units).flat_map(|start| (start + 1..=n_units).map(move |end| (start, end)));
    let groups = problem.groups().to_vec();
    let of = |(start, end): (usize, usize)| {
        let span = move |n_devices: usize| {
            let (links, in_flight) = ((start % 4) as u8, 1 + end % 2);
            Span { start, end, n_devices, links, in_flight }
        };
        groups.iter().map(|&n_devices| span(n_devices)).collect::<Vec<_>>()
    };
    ends.flat_map(of).collect()
}

/// The same machine whose operators can be split along another dimension too.
fn with_two_dimensions(machine: Machine) -> Machine {
    let mut machine = machine;
    let others = machine.tables.rows.clone().into_iter().filter(|(split, _)| split.tensor > 1);
    for (split, mut rows) in others {
        for (at, row) in rows.iter_mut().enumerate() {
            row.forward_ms *= if at % 2 == 0 { 0.8 } else { 1.3 };
            row.activation_mib *= if at % 3 == 0 { 1.5 } else { 0.9 };
        }
        machine.tables.rows.insert(OpSplit { algo: 1, ..split }, rows);
    }
    machine
}

#[test]
fn every_stage_of_some_machines() {
    let plain = |limit_mib: f64| machine(&SIZES, 2, limit_mib);
    assert_snapshot!(stages(plain, &space(false)), @"[15479.999985, 9680.854625, 7750.228333, 15479.999985, 9715.166708, 21405.632059, 8132.053333] ms, [0, 134, 187, 0, 132, 132, 176] without, work 259487");
    assert_snapshot!(stages(|limit_mib| reserving(&SIZES, plain(limit_mib)), &space(true)), @"[15479.999985, 9646.954875, 7625.058333, 15479.999985, 9626.404542, 21379.355205, 8015.843333] ms, [0, 136, 193, 0, 135, 135, 180] without, work 274802");
    let split = |limit_mib: f64| with_two_dimensions(reserving(&SIZES, plain(limit_mib)));
    assert_snapshot!(stages(split, &space(true)), @"[15432.039985, 9609.556006, 7692.296667, 15413.359985, 9576.043172, 20886.250016, 8027.474167] ms, [0, 134, 188, 0, 134, 134, 178] without, work 506102");
    let one_f_one_b = Limits {
        schedules: vec![PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble],
        zero: vec![0, 2],
        ..limits(1)
    };
    let owned = Space { limits: one_f_one_b, ..space(false) };
    assert_snapshot!(stages(|limit_mib| own(&SIZES, limit_mib, true), &owned), @"[36405.218714, 22394.596330, 17856.357875, 36405.218714, 61618.903499, 88473.735285, 18797.188729] ms, [0, 428, 592, 0, 423, 423, 554] without, work 2010542");
}

#[test]
fn plans_of_operators_that_are_split_along_two_dimensions() {
    let of = |limit_mib: f64, n_layers: usize| {
        with_two_dimensions(reserving(&SIZES, machine(&SIZES, n_layers.min(3), limit_mib)))
    };
    assert_snapshot!(planned(of, &space(true)), @"3118.480000000 ms, bound 3111.797326273, 1620.250000 MiB, 1 without a plan, choices 1295");
    assert_snapshot!(planned(of, &Space { limits: limits(4), ..space(false) }), @"8778.610000000 ms, bound 8775.804900396, 4318.750000 MiB, 1 without a plan, choices 3161");
}

#[test]
fn plans_of_forced_groups_and_replicas() {
    let planned = |limits: Limits, is_mixed: bool| {
        let of = |limit_mib: f64, n_layers: usize| own(&SIZES, limit_mib + n_layers as f64, false);
        planned(of, &Space { limits, n_devices: 4, max_stages: 4, max_group: 4, ..space(is_mixed) })
    };
    assert_snapshot!(planned(Limits { groups: vec![1, 3], ..limits(3) }, false), @"3437.778238932 ms, bound 3433.061889186, 2076.000000 MiB, 1 without a plan, choices 795");
    assert_snapshot!(planned(Limits { groups: vec![3], ..limits(1) }, false), @"0.000000000 ms, bound 0.000000000, 0.000000 MiB, 6 without a plan, choices 0");
    assert_snapshot!(planned(Limits { data: vec![2], zero: vec![1, 3], gap: Some(0.02), ..limits(2) }, false), @"3070.263769531 ms, bound 3065.029264299, 1862.000000 MiB, 0 without a plan, choices 1449");
    assert_snapshot!(planned(Limits { max_plans: Some(2), keeps_all: true, ..limits(2) }, false), @"3510.064371745 ms, bound 3504.430229504, 2204.500000 MiB, 0 without a plan, choices 1709");
}
