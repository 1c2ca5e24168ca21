//! What single instructions take: the figures that dumps carry as remarks.

use super::price::{first_dtype, local, op_runs, step_runs};
use crate::derive::{Facts, Step, planned_comps};
use crate::pricing::{self, AxisMask};
use phzc_cost::{Cluster, Collective};
use phzc_ir::{CompId, InstrId, Module};
use std::collections::BTreeMap;

/// Instructions that take a smaller share of all work have no entry: nobody looks for their time.
const MIN_SHARE: f64 = 1e-3;

/// A kernel or a collective of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The collective and the mesh axes that it goes over; `None` for the kernel.
    pub collective: Option<(Collective, AxisMask)>,
    /// How often in one step: loops and microbatches multiplied out.
    pub times: u64,
    /// Seconds of one time.
    pub secs: f64,
}

/// The costs of every instruction that takes a noticeable part of the step: the kernel first.
pub fn costs_of(module: &Module, facts: &Facts, cluster: &Cluster) -> BTreeMap<(CompId, InstrId), Vec<Cost>> {
    let total = |costs: &[Cost]| costs.iter().map(|cost| cost.secs * cost.times as f64).sum::<f64>();
    let mut found = BTreeMap::new();
    for comp in planned_comps(module) {
        for id in (0..module.comp(comp).instrs.len()).map(InstrId::new) {
            found.insert((comp, id), costs(module, facts, cluster, comp, id));
        }
    }
    let least = MIN_SHARE * found.values().map(|costs| total(costs)).sum::<f64>();
    found.retain(|_, costs| total(costs) > 0.0 && total(costs) >= least);
    found
}

fn costs(module: &Module, facts: &Facts, cluster: &Cluster, comp: CompId, id: InstrId) -> Vec<Cost> {
    let (instr, own) = (module.comp(comp).instr(id), &facts.comps[comp.index()][id.index()]);
    let executions = facts.executions[comp.index()];
    let (op, moved) = (op_runs(facts, comp, id, instr), step_runs(facts, own));
    let dtype = first_dtype(module, comp, instr);
    let secs = pricing::op_secs(cluster, &local(own, dtype, op));
    let kernel = Cost { collective: None, times: (op.times * executions) as u64, secs };
    let mesh = &facts.header.meshes[own.stage];
    let collective = |step: &Step| Cost {
        collective: Some((step.kind, step.axes)),
        times: (moved.times * executions) as u64,
        secs: pricing::collective_secs(cluster, mesh, step.kind, step.axes, step.bytes * moved.share),
    };
    let all = std::iter::once(kernel).chain(own.steps.iter().map(collective));
    all.filter(|cost| cost.secs > 0.0).collect()
}
