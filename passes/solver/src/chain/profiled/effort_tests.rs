//! The plans of some profiled chains to the last digit. The other tests say that a plan is near the best and
//! that its bound holds; a bound that is looser or a tie that falls otherwise shows here alone. Plans are
//! reproducible: a line that changes is a change of behaviour, to be read before it is taken over.

use super::own_tests::{SIZES, own};
use super::tests::{machine, reserving, space};
use super::*;
use insta::assert_snapshot;

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
