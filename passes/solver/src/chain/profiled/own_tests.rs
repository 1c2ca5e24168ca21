//! Plans under phzc's own cost against all plans of small chains, and what limits force or forbid.

use super::tests::{least_mixed, machine, reserving, space};
use super::*;
use phzc_cost::aceso::{OpChoice, Own};
use proptest::prelude::*;

pub(super) fn own(sizes: &[(u8, u8)], limit_mib: f64, is_overlapped: bool) -> Machine {
    let machine = machine(sizes, 2, limit_mib);
    let tied = vec![0, machine.chain.len() - 1];
    Machine { own: Some(Own { is_overlapped, memory_mib_per_ms: 50.0, tied }), ..machine }
}

fn limited(limits: Limits, is_mixed: bool) -> Space {
    Space { limits, ..space(is_mixed) }
}

/// Every plan of one split per stage on two devices, every set of recomputed operators.
fn plans(n_ops: usize, schedule: PlanSchedule, zeros: &[u32]) -> Vec<PipelinePlan> {
    let two_stages = (1..n_ops).map(|cut| vec![(0, cut, 1, 1, 0), (cut, n_ops, 1, 1, 0)]);
    let replicas = zeros.iter().map(|&zero| vec![(0, n_ops, 1, 2, zero)]);
    let whole = std::iter::once(vec![(0, n_ops, 2, 1, 0)]).chain(replicas);
    let mut plans = Vec::new();
    for spans in whole.chain(two_stages) {
        for set in 0..1u32 << (n_ops - 2) {
            let stage = |&(start, end, tensor, data, zero): &(usize, usize, u32, u32, u32)| {
                let op = |op: usize| {
                    let recompute = op > 0 && op + 1 < n_ops && set >> (op - 1) & 1 == 1;
                    OpChoice { tensor, data, algo: 0, recompute, zero }
                };
                StageChoice {
                    start,
                    n_devices: (tensor * data) as usize,
                    ops: (start..end).map(op).collect(),
                }
            };
            let stages: Vec<StageChoice> = spans.iter().map(stage).collect();
            plans.extend([1, 2].map(|microbatch| PipelinePlan {
                microbatch,
                schedule,
                stages: stages.clone(),
            }));
        }
    }
    plans
}

fn schedule() -> impl Strategy<Value = PlanSchedule> {
    prop_oneof![Just(PlanSchedule::GPipe), Just(PlanSchedule::OneFOneB), Just(PlanSchedule::ZeroBubble)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_bound_holds_under_every_schedule_and_the_plan_is_near_the_best_of_all(
        sizes in prop::collection::vec((1u8..9, 1u8..30), 5), limit in 120u32..320,
        schedule in schedule(), is_overlapped in any::<bool>(), is_mixed in any::<bool>(),
    ) {
        let machine = own(&sizes, f64::from(limit), is_overlapped);
        let fits = |plan: &PipelinePlan| machine.price(plan).filter(|cost| cost.mib <= machine.limit_mib);
        let all = plans(machine.chain.len(), schedule, &[0, 1, 2, 3]);
        let least = all.iter().filter_map(fits).map(|cost| cost.ms).fold(f64::INFINITY, f64::min);
        let limits =
            Limits { zero: vec![0, 1, 2, 3], schedules: vec![schedule], gap: Some(5e-4), ..Limits::default() };
        let Some(found) = best(&machine, &limited(limits, is_mixed)) else {
            prop_assert!(least.is_infinite(), "no plan, but one of {least}");
            return Ok(());
        };
        let cost = machine.price(&found.plan).expect("measured splits");
        prop_assert_eq!(found.plan.schedule, schedule);
        prop_assert!(cost.mib <= machine.limit_mib, "{} MiB of {}", cost.mib, machine.limit_mib);
        prop_assert!(found.bound_ms <= cost.ms * (1.0 + 1e-9), "bound {} of {}", found.bound_ms, cost.ms);
        prop_assert!(found.bound_ms <= least * (1.0 + 1e-9), "bound {} of {least}", found.bound_ms);
        // GPipe's two slowest stages may be different ones.
        let slack = if schedule == PlanSchedule::GPipe { 1.06 } else { 1.001 };
        prop_assert!(cost.ms <= least * slack, "{} for {least}", cost.ms);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_splits_of_single_operators_are_below_the_own_costs_bound_of_mixed_plans(
        sizes in prop::collection::vec((1u8..9, 1u8..30), 5), limit in 100u32..300, zero in 0u32..=3,
    ) {
        let machine = reserving(&sizes, own(&sizes, f64::from(limit), false));
        let limits = Limits { zero: vec![zero], ..Limits::default() };
        let Some(found) = best(&machine, &limited(limits, true)) else { return Ok(()) };
        let least = least_mixed(&machine, zero);
        prop_assert!(found.bound_ms <= least * (1.0 + 1e-9), "bound {} of {least}", found.bound_ms);
    }
}

pub(super) const SIZES: [(u8, u8); 5] = [(2, 20), (3, 10), (1, 25), (2, 15), (4, 5)];

fn found(limits: Limits) -> Option<PipelinePlan> {
    best(&own(&SIZES, 1e6, false), &limited(limits, false)).map(|found| found.plan)
}

#[test]
fn limits_force_and_forbid() {
    let n_stages = |limits: Limits| found(limits).map(|plan| plan.stages.len());
    assert_eq!(n_stages(Limits { min_stages: 2, ..Limits::default() }), Some(2));
    assert_eq!(n_stages(Limits { groups: vec![2], ..Limits::default() }), Some(1));
    assert_eq!(n_stages(Limits { groups: vec![1], ..Limits::default() }), Some(2));
    let degrees =
        |limits: Limits| found(limits).map(|plan| (plan.stages[0].ops[0].tensor, plan.stages[0].ops[0].data));
    let whole = Limits { groups: vec![2], ..Limits::default() };
    assert_eq!(degrees(Limits { tensor: vec![2], ..whole.clone() }), Some((2, 1)));
    assert_eq!(degrees(Limits { data: vec![2], ..whole.clone() }), Some((1, 2)));
    assert_eq!(degrees(Limits { data: vec![4], ..whole }), None);
}

#[test]
fn what_is_kept_is_not_recomputed() {
    let n_recomputed = |limits: Limits, limit_mib: f64| {
        let plan = best(&own(&SIZES, limit_mib, false), &limited(limits, false))?.plan;
        Some(plan.stages.iter().flat_map(|stage| &stage.ops).filter(|op| op.recompute).count())
    };
    let keeps = || Limits { keeps_all: true, ..Limits::default() };
    let tight =
        (100..1000).map(f64::from).find(|&mib| n_recomputed(Limits::default(), mib).is_some_and(|n| n > 0));
    let tight = tight.expect("a limit at which something is recomputed");
    assert!(n_recomputed(keeps(), tight).is_none_or(|n| n == 0));
    assert_eq!(n_recomputed(keeps(), 1e6), Some(0));
}

#[test]
fn sharding_the_state_fits_where_a_whole_copy_does_not() {
    let replicas = |zero: u32, limit_mib: f64| {
        let limits = Limits { zero: vec![zero], data: vec![2], groups: vec![2], ..Limits::default() };
        best(&own(&SIZES, limit_mib, false), &limited(limits, false)).is_some()
    };
    let needed = |zero: u32| (10..2000).map(f64::from).find(|&mib| replicas(zero, mib)).expect("a limit");
    let needed = [0, 1, 2, 3].map(needed);
    assert!(needed[1] < needed[0], "{needed:?}");
}

#[test]
fn the_next_best_plans_differ_and_are_bounded() {
    let machine = own(&SIZES, 1e6, false);
    let limits = Limits { n_best: 3, ..Limits::default() };
    let found = top(&machine, &limited(limits, false));
    let cost = |found: &Found| machine.price(&found.plan).expect("measured").ms;
    let key = |found: &Found| {
        let groups: Vec<usize> = found.plan.stages.iter().map(|stage| stage.n_devices).collect();
        (found.plan.microbatch, groups)
    };
    assert_eq!(found.len(), 3);
    assert!(found.windows(2).all(|pair| cost(&pair[0]) <= cost(&pair[1]) && key(&pair[0]) != key(&pair[1])));
    assert!(found.iter().all(|found| found.bound_ms <= cost(found) * (1.0 + 1e-9)));
}

#[test]
fn an_interleaved_pipeline_has_each_group_of_devices_several_times_and_fits() {
    let schedules = vec![PlanSchedule::Interleaved(2)];
    let machine = own(&SIZES, 1e6, false);
    let limits = Limits { schedules, min_stages: 2, ..Limits::default() };
    let found = best(&machine, &limited(limits, false)).expect("a plan");
    assert_eq!((found.plan.n_groups(), found.plan.stages.len()), (2, 4));
    let starts: Vec<usize> = found.plan.stages.iter().map(|stage| stage.start).collect();
    assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
    let cost = machine.price(&found.plan).expect("measured");
    assert!(found.bound_ms <= cost.ms && cost.mib <= machine.limit_mib);
}

#[test]
fn of_several_schedules_the_best_one_is_taken_and_the_bound_is_one_on_all() {
    let (one, zero) = (PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble);
    for limit_mib in [150.0, 180.0, 220.0, 1e6] {
        let machine = own(&SIZES, limit_mib, false);
        let of = |schedules: &[PlanSchedule]| {
            let limits = Limits { schedules: schedules.to_vec(), min_stages: 2, ..Limits::default() };
            let found = best(&machine, &limited(limits, false))?;
            Some((machine.price(&found.plan)?.ms, found.bound_ms))
        };
        let (Some(first), Some(second), Some(both)) = (of(&[one]), of(&[zero]), of(&[one, zero])) else {
            continue;
        };
        let least = first.0.min(second.0);
        assert!(both.0 <= least * 1.001 && both.1 <= least, "{limit_mib}: {first:?} {second:?} {both:?}");
    }
}

#[test]
fn a_mixed_plan_is_no_worse_than_the_one_that_acesos_cost_takes_for_the_best() {
    for limit_mib in [150.0, 180.0, 220.0, 1e6] {
        let machine = own(&SIZES, limit_mib, false);
        let ms = |plan: &PipelinePlan| machine.price(plan).expect("measured").ms;
        let space = limited(Limits { max_plans: Some(1), ..Limits::default() }, true);
        let acesos = best(&Machine { own: None, ..machine.clone() }, &space);
        let (Some(acesos), Some(own)) = (acesos, best(&machine, &space)) else { continue };
        assert!(ms(&own.plan) <= ms(&acesos.plan) * (1.0 + 1e-9), "{limit_mib}");
    }
}
