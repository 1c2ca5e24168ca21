//! The placement against every plan of small chains.

use super::best;
use phzc_cost::phaze::{Chain, Copies, Edge, Instance, Layer, Plan, PlanStage};
use proptest::prelude::*;

/// Every way to cut the chain into stages, each with the devices that it needs.
fn cuts(instance: &Instance, chain: &Chain) -> Vec<Vec<PlanStage>> {
    let n_layers = chain.layers.len();
    let stages = |mask: usize| {
        let ends: Vec<usize> =
            (1..=n_layers).filter(|end| *end == n_layers || mask >> (end - 1) & 1 == 1).collect();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let stage = |(start, end): (usize, &usize)| PlanStage {
            layers: start..*end,
            n_devices: instance.stage(chain, start..*end).n_devices,
        };
        starts.zip(&ends).map(stage).collect()
    };
    (0..1_usize << (n_layers - 1)).map(stages).collect()
}

/// The least seconds per step of all plans.
fn exhausted(instance: &Instance) -> Option<f64> {
    let mut least: Option<f64> = None;
    for (chain, it) in instance.chains.iter().enumerate() {
        for stages in cuts(instance, it) {
            for data_parallel in 1..=instance.n_devices {
                let secs = instance.price(&Plan { chain, data_parallel, stages: stages.clone() });
                least = least.into_iter().chain(secs).reduce(f64::min);
            }
        }
    }
    least
}

/// One layer by small numbers: parameters, activations, seconds forward and backward, bytes to the next
/// layer, whether it is split.
type Seed = (u8, u8, u8, u8, u8, bool);

fn chain(width: usize, seeds: &[Seed], skip: Option<(usize, usize, u8)>) -> Chain {
    let share = |value: u8| f64::from(value) / width as f64;
    let layer = |(at, seed): (usize, &Seed)| Layer {
        id: at as i64,
        parameter_bytes: share(seed.0),
        activation_bytes: share(seed.1),
        forward_secs: share(seed.2),
        backward_secs: share(seed.3),
        update_secs: 0.0,
        is_tensor_parallel: seed.5,
    };
    let n_layers = seeds.len();
    let (mut inputs, mut outputs) = (vec![Vec::new(); n_layers], vec![Vec::new(); n_layers]);
    let next = (1..n_layers).map(|to| (to - 1, to, seeds[to].4));
    let skip = skip.filter(|(from, to, _)| from + 1 < *to && *to < n_layers);
    for (from, to, bytes) in next.chain(skip) {
        inputs[to].push(Edge { layer: from, bytes: f64::from(bytes) });
        outputs[from].push(Edge { layer: to, bytes: f64::from(bytes) });
    }
    Chain { width, layers: seeds.iter().enumerate().map(layer).collect(), inputs, outputs }
}

prop_compose! {
    fn instances()(
        seeds in prop::collection::vec((1..40_u8, 0..40_u8, 0..20_u8, 0..20_u8, 0..60_u8, any::<bool>()), 1..7),
        (from, to, bytes) in (0..6_usize, 0..6_usize, 0..200_u8),
        (n_devices, n_microbatches, memory) in (1..13_usize, 1..14_usize, 60..600_u16),
        (recompute, adam, wide) in (any::<bool>(), any::<bool>(), 2..5_usize),
    ) -> Instance {
        Instance {
            memory_bytes: f64::from(memory),
            n_devices,
            bytes_per_sec: 7.0,
            n_microbatches,
            recompute,
            parameter_copies: if adam { Copies::Adam } else { Copies::Sgd },
            chains: [1, wide].map(|width| chain(width, &seeds, Some((from, to, bytes)))).to_vec(),
            expert: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_plan_of_a_small_chain_is_better(instance in instances()) {
        let found = best(&instance).map(|(plan, secs)| {
            assert_eq!(instance.price(&plan), Some(secs));
            secs
        });
        match (found, exhausted(&instance)) {
            (Some(found), Some(least)) => prop_assert!((found - least).abs() <= 1e-9 * least, "{found} {least}"),
            (found, least) => prop_assert_eq!(found, least),
        }
    }
}

/// Equal layers without transfers.
fn equal(n_layers: usize, n_devices: usize) -> Instance {
    Instance {
        memory_bytes: 100.0,
        n_devices,
        bytes_per_sec: 1.0,
        n_microbatches: 1,
        recompute: false,
        parameter_copies: Copies::Sgd,
        chains: vec![chain(1, &vec![(10, 0, 1, 1, 0, false); n_layers], None)],
        expert: None,
    }
}

#[test]
fn of_plans_that_tie_the_first_stages_are_the_shortest() {
    let (plan, _) = best(&equal(8, 2)).expect("two stages of at most five layers fit");
    assert_eq!(plan.stages.iter().map(|stage| stage.layers.len()).collect::<Vec<_>>(), [4, 4]);
    let (plan, _) = best(&equal(7, 2)).expect("two stages of at most five layers fit");
    assert_eq!(plan.stages.iter().map(|stage| stage.layers.len()).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn devices_that_help_nothing_stay_idle() {
    // One microbatch takes 8 s in one stage as in four; ties go to the shortest first stage.
    let (plan, secs) = best(&equal(4, 50)).expect("one stage fits");
    assert_eq!((plan.stages.len(), plan.data_parallel, secs), (4, 1, 8.0));
}

#[test]
fn a_layer_that_fits_nowhere_leaves_no_plan() {
    let instance = Instance { memory_bytes: 19.0, ..equal(3, 8) };
    assert_eq!(best(&instance), None);
}
