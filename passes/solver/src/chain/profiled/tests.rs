//! Planned stages against Aceso's price of the whole plan, and against all recomputations of small ones.

use super::*;
use phzc_cost::aceso::{OpChain, OpChoice, Repeat};
use phzc_cost::profile::{OpSplit, OpTables};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A model of layers of three operators between an embedding and a loss; splits over two devices that cost a
/// little.
pub(super) fn machine(sizes: &[(u8, u8)], n_layers: usize, limit_mib: f64) -> Machine {
    let names: Vec<String> = ["in", "enc-1st-layernorm", "b", "c", "out"].map(String::from).to_vec();
    let row = |at: usize, tensor: u32, batch: u32| {
        let (ms, mib) = sizes[at % sizes.len()];
        let share = f64::from(batch) / f64::from(tensor);
        let forward_ms = (f64::from(ms) + 0.25) * share + 0.1 * f64::from(tensor - 1);
        OpProfile {
            forward_ms,
            backward_ms: 2.0 * forward_ms,
            input_mib: 2.0 * f64::from(batch),
            output_mib: if at == 4 { 0.0 } else { 2.0 * f64::from(batch) },
            weight_mib: 3.0 / f64::from(tensor),
            activation_mib: f64::from(mib) * share,
            forward_reserved_mib: 1.0,
            backward_reserved_mib: 2.0,
            ..OpProfile::default()
        }
    };
    let mut tables =
        OpTables { near_gib_per_s: vec![40.0, 50.0], far_gib_per_s: vec![5.0, 6.0], ..OpTables::default() };
    for (batch, tensor) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let rows = (0..names.len()).map(|at| row(at, tensor, batch)).collect();
        tables.rows.insert(OpSplit { batch, tensor, algo: 0 }, rows);
    }
    tables.all_gather_ms.insert(2, BTreeMap::from([(2, 0.2), (4, 0.3)]));
    let chain = OpChain::new(&names, &[Repeat { first: 1, end: 4, n_layers }]);
    tables.names = names;
    Machine {
        tables,
        chain,
        state_copies: 8.0,
        global_batch: 16,
        devices_per_node: 2,
        limit_mib,
        forgets_last_run: false,
        own: None,
    }
}

/// The same model, its operators reserving amounts as different as their sizes.
pub(super) fn reserving(sizes: &[(u8, u8)], machine: Machine) -> Machine {
    let mut machine = machine;
    for (split, rows) in &mut machine.tables.rows {
        let share = f64::from(split.batch) / f64::from(split.tensor);
        for (row, &(ms, mib)) in rows.iter_mut().zip(sizes.iter().cycle()) {
            row.forward_reserved_mib = f64::from(mib % 7) * share;
            row.backward_reserved_mib = f64::from(ms) + f64::from(split.tensor);
        }
    }
    machine
}

pub(super) fn space(is_mixed: bool) -> Space {
    Space {
        n_devices: 2,
        max_stages: 2,
        max_group: 2,
        max_tensor: 2,
        microbatches: vec![1, 2],
        is_mixed,
        limits: Limits::default(),
    }
}

/// The least milliseconds of any plan of one stage, every split and recomputation of each operator tried;
/// replicas share what `zero` says.
pub(super) fn least_mixed(machine: &Machine, zero: u32) -> f64 {
    let n_ops = machine.chain.len();
    let mut least = f64::INFINITY;
    let all =
        [1, 2].into_iter().flat_map(|microbatch| (0..1u32 << n_ops).map(move |splits| (microbatch, splits)));
    for (microbatch, splits) in all {
        for set in 0..1u32 << (n_ops - 2) {
            let op = |op: usize| OpChoice {
                tensor: 1 + (splits >> op & 1),
                data: 2 - (splits >> op & 1),
                algo: 0,
                recompute: op > 0 && op + 1 < n_ops && set >> (op - 1) & 1 == 1,
                zero: zero * (1 - (splits >> op & 1)),
            };
            let stage = StageChoice { start: 0, n_devices: 2, ops: (0..n_ops).map(op).collect() };
            let cost =
                machine.price(&PipelinePlan { microbatch, stages: vec![stage], ..PipelinePlan::default() });
            let cost = cost.filter(|cost| cost.mib <= machine.limit_mib);
            least = cost.map_or(least, |cost| least.min(cost.ms));
        }
    }
    least
}

/// The least milliseconds of any plan of one split per stage, every set of recomputed operators tried.
fn least(machine: &Machine) -> f64 {
    let n_ops = machine.chain.len();
    let mut least = f64::INFINITY;
    for microbatch in [1, 2] {
        let two_stages = (1..n_ops).map(|cut| vec![(0, cut, 1), (cut, n_ops, 1)]);
        for spans in std::iter::once(vec![(0, n_ops, 2)]).chain(two_stages) {
            for degrees in
                [(1, 1), (1, 2), (2, 1)].into_iter().filter(|degrees| degrees.0 * degrees.1 == spans[0].2)
            {
                for set in 0..1u32 << (n_ops - 2) {
                    let op = |op: usize| OpChoice {
                        tensor: degrees.0,
                        data: degrees.1,
                        algo: 0,
                        recompute: op > 0 && op + 1 < n_ops && set >> (op - 1) & 1 == 1,
                        zero: 0,
                    };
                    let stage = |&(start, end, n_devices): &(usize, usize, u32)| StageChoice {
                        start,
                        n_devices: n_devices as usize,
                        ops: (start..end).map(op).collect(),
                    };
                    let plan = PipelinePlan {
                        microbatch,
                        stages: spans.iter().map(stage).collect(),
                        ..PipelinePlan::default()
                    };
                    let cost = machine.price(&plan).filter(|cost| cost.mib <= machine.limit_mib);
                    least = cost.map_or(least, |cost| least.min(cost.ms));
                }
            }
        }
    }
    least
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_plan_fits_costs_what_is_said_and_lies_above_a_bound_that_holds(
        sizes in prop::collection::vec((1u8..9, 1u8..30), 5), limit in 120u32..320, is_mixed in any::<bool>(),
    ) {
        let machine = machine(&sizes, 2, f64::from(limit));
        let least = least(&machine);
        let near = Limits { gap: Some(5e-4), ..Limits::default() };
        let Some(found) = best(&machine, &Space { limits: near, ..space(is_mixed) }) else {
            prop_assert!(least.is_infinite(), "no plan, but one of {least}");
            return Ok(());
        };
        let cost = machine.price(&found.plan).expect("measured splits");
        prop_assert!(cost.mib <= machine.limit_mib, "{} MiB of {}", cost.mib, machine.limit_mib);
        prop_assert!(found.bound_ms <= cost.ms * (1.0 + 1e-9), "bound {} of {}", found.bound_ms, cost.ms);
        prop_assert!(found.bound_ms <= least * (1.0 + 1e-9), "bound {} of {least}", found.bound_ms);
        prop_assert!(is_mixed || cost.ms >= least * (1.0 - 1e-9), "{} below {least}", cost.ms);
        // Stages are solved: what is left is the gap and ways that are told apart no more.
        prop_assert!(cost.ms <= least * 1.001, "{} for {least}", cost.ms);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_splits_of_single_operators_are_below_the_bound_of_mixed_plans(
        sizes in prop::collection::vec((1u8..9, 1u8..30), 5), limit in 100u32..300,
    ) {
        let machine = reserving(&sizes, machine(&sizes, 2, f64::from(limit)));
        let least = least_mixed(&machine, 0);
        if least.is_finite() {
            let near = Limits { gap: Some(5e-4), ..Limits::default() };
            let found = best(&machine, &Space { limits: near, ..space(true) }).expect("a plan");
            prop_assert!(found.bound_ms <= least * (1.0 + 1e-9), "bound {} of {least}", found.bound_ms);
            let cost = machine.price(&found.plan).expect("measured splits");
            prop_assert!(cost.mib <= machine.limit_mib, "{} MiB of {}", cost.mib, machine.limit_mib);
            // Stages are solved: what is left is the gap and ways that are told apart no more.
            prop_assert!(cost.ms <= least * 1.001, "{} for {least}", cost.ms);
        }
    }
}

#[test]
fn memory_that_suffices_recomputes_nothing_and_the_least_that_does_something() {
    let sizes = [(2, 20), (3, 10), (1, 25), (2, 15), (4, 5)];
    let n_recomputed = |limit: f64| {
        let plan = best(&machine(&sizes, 2, limit), &space(false))?.plan;
        Some(plan.stages.iter().flat_map(|stage| &stage.ops).filter(|op| op.recompute).count())
    };
    assert_eq!(n_recomputed(1e9), Some(0));
    let least = (100..1000).find_map(|limit| n_recomputed(f64::from(limit)));
    assert!(least.is_some_and(|n| n > 0), "{least:?}");
}

#[test]
fn a_stage_under_a_cap_takes_what_it_takes_and_one_above_it_is_above_it() {
    let machine = machine(&[(2, 20), (3, 10), (1, 25), (2, 15), (4, 5)], 2, 260.0);
    let shared = shared(&machine, &space(false));
    let problems = problems(&shared, &space(false));
    let (mut n_below, mut n_above) = (0, 0);
    for (problem, end) in
        problems.iter().flat_map(|problem| (1..=problem.n_units()).map(move |end| (problem, end)))
    {
        for (start, side) in (0..end).flat_map(|start| [(start, Side::Lower), (start, Side::Upper)]) {
            let span = Span { start, end, n_devices: 1, links: 0, in_flight: 2 };
            let ms = problem.ms_within(&span, side, f64::INFINITY);
            assert!(problem.quick_ms(&span) <= ms);
            for cap in [0.5 * problem.quick_ms(&span), ms, 1.3 * problem.quick_ms(&span)] {
                let within = problem.ms_within(&span, side, cap);
                assert!(if ms <= cap { within == ms } else { within > cap }, "{span:?} {ms} {cap} {within}");
                n_below += usize::from(ms <= cap && ms.is_finite());
                n_above += usize::from(ms > cap);
            }
        }
    }
    assert!(n_below > 0 && n_above > 0);
}
