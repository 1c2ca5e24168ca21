//! Random programs, planned at random and partitioned by `spmd`: what is recovered computes the same.

use super::super::{mesh, whole};
use crate::spmd::program;
use crate::spmd::tests::cases::{Case, own_rule, strategies};
use crate::spmd::tests::compare::integers;
use crate::spmd::tests::layouts::annotate;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::eval::{Options, Value, run};
use phzc_ir::{Mesh, Module, print};
use phzc_plan::derive::derive;
use phzc_testing::Random;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// How one case ended: recovered, or why not.
fn outcome(seed: u64, plan: &(impl Fn(&mut Module, &Mesh, &mut Random) + Sync)) -> Result<(), String> {
    let mut case = Case::new(seed, plan);
    let facts = derive(&case.planned).expect("a planned module");
    let local = program(&case.planned, &facts).expect("a legal plan");
    let (devices, mesh) = mesh(&local).expect("a mesh").expect("a partitioned program");
    let made = whole(&local, devices, &mesh).map_err(|error| {
        let notes: Vec<String> = error.notes.into_iter().map(|(_, note)| note).collect();
        notes.join("; ")
    })?;
    let shape = |id: &phzc_ir::InstrId| case.whole.entry().instr(*id).shape.clone();
    let shapes: Vec<phzc_ir::Shape> = case.whole.entry().params().iter().map(shape).collect();
    let inputs: Vec<Value> =
        shapes.iter().map(|shape| Value::Array(integers(shape, &mut case.random))).collect();
    let wanted = run(&case.whole, &inputs, &Options::default()).expect("it runs");
    let found = run(&made, &inputs, &Options::default());
    let is_same = found.as_ref().is_ok_and(|found| found.leaves() == wanted.leaves());
    assert!(is_same, "case {seed}: {found:?} is not {wanted:?}\n{}\n{}", print(&local), print(&made));
    Ok(())
}

/// Runs so many cases; the share that is recovered, and why the others are not.
fn recovered(n_cases: u64, plan: impl Fn(&mut Module, &Mesh, &mut Random) + Sync) -> f64 {
    let all: Vec<Result<(), String>> =
        (0..n_cases).into_par_iter().map(|seed| outcome(seed, &plan)).collect();
    let n_recovered = all.iter().filter(|one| one.is_ok()).count();
    let mut whys: BTreeMap<String, usize> = BTreeMap::new();
    for why in all.into_iter().filter_map(Result::err) {
        let kind = why.split('`').skip(2).collect::<Vec<_>>().join("`");
        assert!(!why.is_empty(), "not recovered for no reason");
        *whys.entry(kind.split(';').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    println!("{n_recovered} of {n_cases} recovered; {whys:#?}");
    n_recovered as f64 / n_cases as f64
}

#[test]
fn programs_with_random_layouts_are_recovered_and_compute_the_same() {
    let plan =
        |module: &mut Module, mesh: &Mesh, random: &mut Random| annotate(module, mesh, own_rule, random);
    assert!(recovered(400, plan) > 0.5);
}

#[test]
fn programs_with_random_strategies_are_recovered_and_compute_the_same() {
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    let plan =
        |module: &mut Module, mesh: &Mesh, random: &mut Random| strategies(module, mesh, &cluster, random);
    assert!(recovered(100, plan) > 0.5);
}
