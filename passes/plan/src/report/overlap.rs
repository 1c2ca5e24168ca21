//! What asynchronous work takes beside computation: a replay of `-start` and `-done` in the text's order.
//!
//! A device computes one instruction after another; what a `-start` begins runs on a second queue, in order,
//! and its `-done` waits for it. Only that wait takes time, and what both lose by sharing the memory
//! ([`Cluster::beside_secs`]). Loops and branches are computation to the text around them.

use super::price::StagePrice;
use crate::derive::{Facts, control_flow, origin, planned_comps};
use phzc_cost::Cluster;
use phzc_ir::ops::collective::{is_done, started_leaves};
use phzc_ir::{CompId, Computation, Instr, InstrId, Module, Opcode};
use std::collections::BTreeMap;

/// Per `-start` that overlaps computation, by its computation: the part of its time that is hidden.
pub type Hidden = BTreeMap<(CompId, InstrId), f64>;

/// What a `-start` has under way.
#[derive(Clone, Copy)]
struct UnderWay {
    end_secs: f64,
    secs: f64,
    bytes: f64,
}

/// One computation's run.
#[derive(Default)]
struct Replay {
    /// When the instruction before was done.
    now_secs: f64,
    /// When the second queue is idle.
    idle_secs: f64,
    under_way: BTreeMap<InstrId, UnderWay>,
}

/// The hidden parts of all asynchronous work.
pub fn hidden(module: &Module, facts: &Facts, cluster: &Cluster) -> Hidden {
    let mut found = Hidden::new();
    if !module.comps.iter().flat_map(|comp| &comp.instrs).any(is_start) {
        return found;
    }
    let mut comp_secs = vec![0.0; module.comps.len()];
    for comp in planned_comps(module) {
        let mut replay = Replay::default();
        for (id, instr) in module.comp(comp).iter() {
            let inside_secs = |callee: CompId| comp_secs[callee.index()] * runs(facts, comp, callee);
            let inner_secs: f64 = control_flow(instr).into_iter().map(inside_secs).sum();
            let secs = inner_secs + own_secs(module, facts, cluster, (comp, id, instr));
            if is_start(instr) {
                replay.start(id, secs, moved_bytes(facts, comp, id));
            } else {
                replay.now_secs += secs;
            }
            let started = is_done(instr.op).then(|| started_by(module.comp(comp), instr));
            if let Some((start, share)) = started.and_then(|start| replay.done(start, cluster)) {
                found.insert((comp, start), share);
            }
        }
        comp_secs[comp.index()] = replay.now_secs;
    }
    found
}

fn is_start(instr: &Instr) -> bool {
    started_leaves(instr).is_some() && instr.op != Opcode::AsyncUpdate
}

/// How often a computation runs per run of its caller.
fn runs(facts: &Facts, caller: CompId, callee: CompId) -> f64 {
    let [outer, inner] = [caller, callee].map(|comp| facts.executions[comp.index()]);
    if outer > 0.0 { inner / outer } else { 0.0 }
}

/// Seconds of one execution, callees aside.
fn own_secs(module: &Module, facts: &Facts, cluster: &Cluster, instr: (CompId, InstrId, &Instr)) -> f64 {
    let mut price = StagePrice::default();
    price.instr(module, facts, cluster, instr);
    let executions = facts.executions[instr.0.index()];
    if executions > 0.0 { price.busy_secs(facts) / executions } else { 0.0 }
}

fn moved_bytes(facts: &Facts, comp: CompId, id: InstrId) -> f64 {
    let own = &facts.comps[comp.index()][id.index()];
    own.steps.iter().map(|step| step.bytes).sum::<f64>() + own.work.bytes
}

/// The `-start` of a `-done`, through updates between them.
fn started_by(comp: &Computation, done: &Instr) -> InstrId {
    let mut id = done.operands[0];
    loop {
        id = origin(comp, id, 0).0;
        match comp.instr(id).op {
            Opcode::AsyncUpdate => id = comp.instr(id).operands[0],
            _ => return id,
        }
    }
}

impl Replay {
    fn start(&mut self, id: InstrId, secs: f64, bytes: f64) {
        let end_secs = self.now_secs.max(self.idle_secs) + secs;
        self.idle_secs = end_secs;
        self.under_way.insert(id, UnderWay { end_secs, secs, bytes });
    }

    /// Waits for what a `-start` began; the part of its time that is hidden.
    fn done(&mut self, start: InstrId, cluster: &Cluster) -> Option<(InstrId, f64)> {
        let UnderWay { end_secs, secs, bytes } = self.under_way.remove(&start)?;
        let wait_secs = (end_secs - self.now_secs).max(0.0).min(secs);
        let beside_secs = secs - wait_secs;
        let lost_secs = match secs > 0.0 {
            true => cluster.beside_secs(beside_secs, beside_secs, bytes * beside_secs / secs) - beside_secs,
            false => 0.0,
        };
        self.now_secs += wait_secs + lost_secs;
        (secs > 0.0).then(|| (start, ((beside_secs - lost_secs) / secs).max(0.0)))
    }
}
