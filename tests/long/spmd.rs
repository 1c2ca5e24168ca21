//! On thousands of random programs, layouts and meshes, the devices' parts join to what the whole program
//! computes.

#[path = "../../passes/spmd/src/spmd/tests/cases.rs"]
mod cases;
#[path = "../../passes/spmd/src/spmd/tests/compare.rs"]
mod compare;
#[path = "../../passes/spmd/src/spmd/tests/layouts.rs"]
mod layouts;

use cases::{all_agree, own_rule, padded, strategies};
use layouts::annotate;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{Mesh, Module};
use phzc_testing::Random;

#[test]
fn with_random_layouts() {
    const N_CASES: u64 = 16_000;
    let plan =
        |module: &mut Module, mesh: &Mesh, random: &mut Random| annotate(module, mesh, own_rule, random);
    all_agree("random layouts", N_CASES, plan).assert_all_tried(N_CASES);
}

#[test]
fn with_random_strategies_of_blocks() {
    const N_CASES: u64 = 4_000;
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    let plan =
        |module: &mut Module, mesh: &Mesh, random: &mut Random| strategies(module, mesh, &cluster, random);
    let seen = all_agree("random strategies", N_CASES, plan);
    seen.assert_all_tried(N_CASES);
    assert!(seen.n_undone >= 100, "only {} sums are left undone", seen.n_undone);
}

#[test]
fn with_short_shards() {
    const N_CASES: u64 = 4_000;
    all_agree("short shards", N_CASES, padded);
}
