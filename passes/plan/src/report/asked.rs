//! The kernels and collectives that a plan asks for, with their prices and where those come from.

use super::price::{Runs, local, op_runs, product_dtype, step_runs};
use crate::derive::{Facts, planned_comps};
use crate::pricing::{self, keys};
use phzc_cost::measured::Item;
use phzc_cost::{Cluster, Source};
use phzc_ir::{CompId, InstrId, Module};
use std::collections::BTreeMap;

/// A kernel or a collective of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its key, its class and its time by formula.
    pub item: Item,
    /// Seconds of one time.
    pub secs: f64,
    /// Where they come from.
    pub source: Source,
    /// How often in one step.
    pub times: f64,
}

/// All of a plan, those with one key together.
pub fn asked(module: &Module, facts: &Facts, cluster: &Cluster) -> BTreeMap<String, Asked> {
    let mut found: BTreeMap<String, Asked> = BTreeMap::new();
    for comp in planned_comps(module) {
        let executions = facts.executions[comp.index()];
        for id in (0..module.comp(comp).instrs.len()).map(InstrId::new) {
            for one in asked_by(module, facts, cluster, comp, id) {
                let times = one.times * executions;
                let all = found.entry(one.item.key.clone()).or_insert(Asked { times: 0.0, ..one });
                all.times += times;
            }
        }
    }
    found
}

/// What one instruction asks for in one execution of its computation.
pub fn asked_by(module: &Module, facts: &Facts, cluster: &Cluster, comp: CompId, id: InstrId) -> Vec<Asked> {
    let (instr, own) = (module.comp(comp).instr(id), &facts.comps[comp.index()][id.index()]);
    let cluster = facts.header.around(cluster, own.stage);
    let moved = step_runs(facts, own);
    let mut found: Vec<Asked> = Vec::new();
    let runs = op_runs(facts, comp, id, instr);
    let kernel = local(own, product_dtype(module, comp, instr), runs);
    let formula_secs = pricing::op_formula_secs(cluster, &kernel);
    found.extend(
        keys::of_kernel(&kernel, formula_secs)
            .map(|item| one(item, pricing::op_price(cluster, &kernel), runs)),
    );
    found.extend(own.spilled_bytes.map(|bytes| {
        let bytes = bytes.map(|bytes| bytes * moved.share);
        let item = keys::of_spill(bytes, pricing::spill_formula_secs(cluster, bytes));
        one(item, pricing::spill_price(cluster, bytes), moved)
    }));
    let mesh = &facts.header.meshes[own.stage];
    found.extend(own.steps.iter().map(|step| {
        let (kind, axes, bytes) = (step.kind, step.axes, step.bytes * moved.share);
        let formula_secs = pricing::collective_formula_secs(cluster, mesh, kind, axes, bytes);
        let item = keys::of_collective(kind, bytes, mesh, axes, formula_secs);
        one(item, pricing::collective_price(cluster, mesh, kind, axes, bytes), moved)
    }));
    found.retain(|one| one.item.formula_secs > 0.0);
    found
}

fn one(item: Item, (secs, source): (f64, Source), runs: Runs) -> Asked {
    Asked { item, secs, source, times: runs.times }
}
