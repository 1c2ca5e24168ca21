//! Random programs, planned at random: whether the devices' parts join to what the whole program computes.

use super::compare::difference;
use super::layouts::annotate;
use phzc_cost::Cluster;
use phzc_ir::{Mesh, Module, Opcode, Rule, View, parse, print};
use phzc_passes::blocks::Blocks;
use phzc_passes::derive::{Facts, derive, planned_comps};
use phzc_passes::graph::Graph;
use phzc_passes::shard::decision::Decision;
use phzc_passes::shard::model::Model;
use phzc_passes::shard::strategies::{PARTIAL, Strategy};
use phzc_passes::shard::write_layouts::emit;
use phzc_passes::{shard, spmd};
use phzc_testing::Random;
use phzc_testing::ops::program;
use phzc_testing::program::cluster;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Sizes of meshes.
pub const MESHES: &[&[i64]] = &[&[2], &[4], &[8], &[2, 2], &[2, 4], &[4, 2], &[2, 2, 2]];
/// Layouts per program.
const N_LAYOUTS: u64 = 4;

/// The factor rule of an instruction's op.
pub fn own_rule(view: &View) -> Rule {
    phzc_ir::ops::split_rule(view)
}

/// A program, planned at random.
pub struct Case {
    pub whole: Module,
    pub planned: Module,
    pub random: Random,
}

impl Case {
    pub fn new(seed: u64, plan: impl Fn(&mut Module, &Mesh, &mut Random)) -> Case {
        // The layouts of one program have seeds in a row.
        let mut random = Random((seed / N_LAYOUTS) ^ 0xfeed_5eed);
        let n_ops = 1 + random.below(9);
        let text = program(&mut random, n_ops);
        let whole = parse(&text).unwrap_or_else(|error| panic!("program {seed}: {error}\n{text}"));
        random.0 ^= seed << 32;
        let mesh = Mesh::new(random.pick(MESHES));
        let mut planned = whole.clone();
        plan(&mut planned, &mesh, &mut random);
        Case { whole, planned, random }
    }

    fn difference(&mut self, seen: &mut Seen) -> Option<String> {
        let facts = derive(&self.planned).expect("a planned module");
        seen.add(&self.planned, &facts);
        if !facts.problems.is_empty() {
            return Some(format!("illegal: {:?}\n{}", facts.problems, print(&self.planned)));
        }
        match spmd::program(&self.planned, &facts) {
            Ok(local) => {
                let found = difference(&self.whole, (&self.planned, &facts), &local, &mut self.random);
                found.map(|found| format!("{found}\n{}\n{}", print(&self.planned), print(&local)))
            }
            Err(error) => Some(format!("refused: {error}\n{}", print(&self.planned))),
        }
    }
}

/// Lengthens what the mesh does not divide; then shards at random.
pub fn padded(module: &mut Module, mesh: &Mesh, random: &mut Random) {
    let cluster = cluster(mesh.n_devices() as usize, 1e9, 1e9);
    let pipeline = phzc_passes::pipeline("pad{waste=100}").expect("a legal pipeline");
    let mut cx = phzc_passes::Context::new(&cluster);
    pipeline.steps.iter().for_each(|step| {
        step.run(module, &mut cx).expect("any program may be padded");
    });
    annotate(module, mesh, own_rule, random);
}

/// What so many cases tried; the first that differs ends the test.
pub fn all_agree(what: &str, n_cases: u64, plan: impl Fn(&mut Module, &Mesh, &mut Random) + Sync) -> Seen {
    let find = |seed: u64| {
        let mut seen = Seen::default();
        (Case::new(seed, &plan).difference(&mut seen).map(|found| (seed, found)), seen)
    };
    let (found, seen): (Vec<Option<(u64, String)>>, Vec<Seen>) =
        (0..n_cases).into_par_iter().map(find).unzip();
    let differs: Vec<(u64, String)> = found.into_iter().flatten().collect();
    if let Some((seed, found)) = differs.first() {
        let seeds: Vec<u64> = differs.iter().map(|(seed, _)| *seed).take(20).collect();
        panic!("{what}: {} of {n_cases} cases differ, {seeds:?}; case {seed}: {found}", differs.len());
    }
    let seen = Seen::sum(seen);
    println!("{n_cases} random programs with {what}: the parts join to the whole, collectives are as priced");
    println!("split: {:?}\ncollectives: {:?}", seen.ops, seen.steps);
    seen
}

/// What was tried: how often an op was split, and how often each collective was priced.
#[derive(Default)]
pub struct Seen {
    ops: BTreeMap<&'static str, u64>,
    steps: BTreeMap<&'static str, u64>,
    /// Values that were left sums to be done.
    pub n_undone: u64,
}

impl Seen {
    /// Fails if something was hardly tried.
    pub fn assert_all_tried(&self, n_cases: u64) {
        let rare = self.ops.iter().chain(&self.steps).filter(|(_, n)| **n * 400 < n_cases);
        assert_eq!(rare.collect::<Vec<_>>(), [], "hardly tried");
        assert!(self.ops.len() >= 25 && self.steps.len() >= 4, "hardly anything is split");
    }

    fn add(&mut self, module: &Module, facts: &Facts) {
        for comp in planned_comps(module) {
            let own = module.comp(comp).instrs.iter().zip(&facts.comps[comp.index()]);
            for (instr, own) in own.filter(|(instr, _)| instr.op != Opcode::CustomCall) {
                *self.ops.entry(instr.op.as_str()).or_default() += u64::from(own.axes != 0);
            }
            for step in facts.comps[comp.index()].iter().flat_map(|own| &own.steps) {
                *self.steps.entry(step.kind.as_str()).or_default() += 1;
            }
            let leaves = facts.comps[comp.index()].iter().flat_map(|own| &own.leaves);
            self.n_undone += leaves.filter(|leaf| leaf.partial != 0).count() as u64;
        }
        self.ops.retain(|_, n| *n > 0);
    }

    fn sum(all: Vec<Seen>) -> Seen {
        all.into_iter().fold(Seen::default(), |mut sum, seen| {
            seen.ops.into_iter().for_each(|(op, n)| *sum.ops.entry(op).or_default() += n);
            seen.steps.into_iter().for_each(|(kind, n)| *sum.steps.entry(kind).or_default() += n);
            sum.n_undone += seen.n_undone;
            sum
        })
    }
}

/// A random strategy for each block that `shard` sees.
pub fn strategies(module: &mut Module, mesh: &Mesh, cluster: &Cluster, random: &mut Random) {
    let graph = Graph::build(module);
    let blocks = Blocks::build(module, &graph, &vec![false; graph.tensors.len()]);
    let facts = shard::Facts::new(module, &graph, &blocks, vec![None; graph.tensors.len()]);
    let mut model = Model::new(facts.input(&graph, &blocks, cluster), mesh);
    let mut draw = |strategies: &[Strategy]| {
        let is_undone = |option: &u32| strategies[*option as usize].contains(&PARTIAL);
        let all = 0..strategies.len() as u32;
        let undone: Vec<u32> = all.filter(is_undone).collect();
        // Most of these become others: few sums arrive undone over the same axes.
        if undone.is_empty() { random.below(strategies.len()) as u32 } else { random.pick(&undone) }
    };
    let mut option: Vec<u32> = model.menus.iter().map(|menu| draw(&menu.strategies)).collect();
    while reduce_what_arrives_reduced(&mut model, &mut option) {}
    emit(module, &mut Decision::new(&mut model, &option));
    module.set_note("phzc.mesh", &mesh.to_string());
}

/// Gives a block that is to leave sums undone, one of which does not arrive so, a strategy without; whether
/// one had to.
fn reduce_what_arrives_reduced(model: &mut Model, option: &mut [u32]) -> bool {
    let stuck = (0..model.uses.len()).find(|&index| !model.can_read(index, option));
    let Some(block) = stuck.map(|index| model.uses[index].block as usize) else { return false };
    let strategies = &model.menus[block].strategies;
    let whole = strategies[option[block] as usize].map(|choice| if choice == PARTIAL { 0 } else { choice });
    let position = strategies.iter().position(|other| *other == whole).expect("a menu has all combinations");
    std::mem::replace(&mut option[block], position as u32) != position as u32
}
