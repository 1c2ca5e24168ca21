//! On random programs, layouts and meshes, the devices' parts join to what the whole program computes;
//! tests/long tries more of them.

use super::Random;
use super::cases::{MESHES, all_agree, own_rule, padded, strategies};
use super::compare::values;
use super::layouts::{RuleOf, annotate};
use crate::spmd::parts;
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::{FactorKind, Mesh, Module, Opcode, Reducer, Rule, View, verify};
use phzc_plan::derive::{Facts, derive};

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

#[test]
fn with_short_shards() {
    all_agree("short shards", 400, padded);
}

/// Of 60 random layouts, those by which the parts of a program do not join to the whole when planned and
/// lowered by a rule.
fn n_found(text: &str, rule: RuleOf) -> usize {
    let whole = phzc_ir::parse(&format!("HloModule m\n{text}")).expect("legal");
    let is_found = |&seed: &u64| {
        let (mut random, mut planned) = (Random(seed), whole.clone());
        let mesh = Mesh::new(random.pick(MESHES));
        annotate(&mut planned, &mesh, rule, &mut random);
        let facts: Facts = derive(&planned).expect("a planned module");
        let local = parts(&planned, &facts, rule).expect("legal by that rule");
        // The verifier finds some before they run.
        verify(&local).is_empty()
            && !matches!(values(&whole, (&planned, &facts), &local, &mut random), Ok(None))
    };
    (0..60u64).filter(is_found).count()
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
    let pad = "ENTRY e { x = f32[8,8] parameter(0) h = f32[] constant(3) ROOT y = f32[8,8] pad(x, h), padding=-1_1x0_0 }";
    let wrong: RuleOf = |view| Rule { halos: Default::default(), ..own_rule(view) };
    assert_eq!(n_found(pad, own_rule), 0);
    assert!(n_found(pad, wrong) > 0, "a wrong pad is not found");
    // An initial value that counts would count on every device.
    let sum = "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
        ENTRY e { x = f32[8,8] parameter(0) h = f32[] constant(3) ROOT y = f32[8] reduce(x, h), dimensions={1}, to_apply=add }";
    let wrong: RuleOf =
        |view| with_kind(view, Opcode::Reduce, FactorKind::Replicate, FactorKind::Reduce(Reducer::Add));
    assert_eq!(n_found(sum, own_rule), 0);
    assert!(n_found(sum, wrong) > 0, "a wrong sum is not found");
}

#[test]
fn windows_find_the_edges_and_corners_of_neighbouring_tiles() {
    let convolution = "ENTRY e { x = f32[2,8,8,2] parameter(0) k = f32[3,3,2,2] parameter(1)
        ROOT y = f32[2,8,8,2] convolution(x, k), window={size=3x3 pad=1_1x0_2}, dim_labels=b01f_01io->b01f }";
    let pool = "max { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] maximum(p, q) }
        ENTRY e { x = f32[8,8] parameter(0) h = f32[] constant(-inf)
        ROOT y = f32[4,8] reduce-window(x, h), window={size=3x3 stride=2x1 pad=1_0x1_1}, to_apply=max }";
    let without: RuleOf = |view| Rule { halos: Default::default(), ..own_rule(view) };
    for text in [convolution, pool] {
        assert_eq!(n_found(text, own_rule), 0);
        assert!(n_found(text, without) > 0, "edges that are missing are not found");
    }
}
