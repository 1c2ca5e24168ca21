//! On random programs, layouts and meshes, the devices' parts join to what the whole program computes; tests/long tries more of them.

use super::Random;
use super::cases::{Case, all_agree, own_rule, strategies};
use super::compare::values;
use super::layouts::{RuleOf, annotate};
use crate::derive::{Facts, derive};
use crate::spmd::parts;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{FactorKind, Mesh, Module, Opcode, Reducer, Rule, View, verify};
use rayon::prelude::*;

#[test]
fn with_random_layouts() {
    let plan =
        |module: &mut Module, mesh: &Mesh, random: &mut Random| annotate(module, mesh, own_rule, random);
    all_agree("random layouts", 400, plan).assert_all_tried(400);
}

#[test]
fn with_random_strategies_of_blocks() {
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    let plan =
        |module: &mut Module, mesh: &Mesh, random: &mut Random| strategies(module, mesh, &cluster, random);
    all_agree("random strategies", 100, plan);
}

/// Cases of which the values differ when programs are planned and lowered by a rule.
fn n_found(rule: RuleOf) -> usize {
    let is_found = |&seed: &u64| {
        let case = Case::new(seed, |module, mesh, random| annotate(module, mesh, rule, random));
        let Case { whole, planned, mut random } = case;
        let facts: Facts = derive(&planned).expect("a planned module");
        let local = parts(&planned, &facts, rule).expect("legal by that rule");
        // The verifier finds some before they run.
        verify(&local).is_empty()
            && !matches!(values(&whole, (&planned, &facts), &local, &mut random), Ok(None))
    };
    (0..200u64).into_par_iter().filter(is_found).count()
}

/// The rules, but in ops `op` loops of one kind are of another.
fn with_kind(view: &View, op: Opcode, from: FactorKind, to: FactorKind) -> Rule {
    let mut rule = own_rule(view);
    for factor in rule.factors.iter_mut().filter(|factor| view.instr.op == op && factor.kind == from) {
        factor.kind = to;
    }
    rule
}

#[test]
fn a_wrong_rule_is_found() {
    assert_eq!(n_found(own_rule), 0);
    let of_pads = n_found(|view| with_kind(view, Opcode::Pad, FactorKind::Permute, FactorKind::Pass));
    // An initial value that counts would count on every device.
    let of_sums = n_found(|view| {
        let sum = FactorKind::Reduce(Reducer::Add);
        with_kind(view, Opcode::Reduce, FactorKind::Replicate, sum)
    });
    assert!(of_pads > 0 && of_sums > 0, "{of_pads} of 200 cases find a wrong pad, {of_sums} a wrong sum");
}
