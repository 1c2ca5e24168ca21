//! What goes from stage to stage: a value goes on, stage by stage, to the farthest one that reads it.
//!
//! A part of the batch goes once per microbatch; weights' casts, sums over microbatches and what updates read
//! (the gradient of a weight that two stages share, the parts of a norm) go once per step.

use super::CollectiveUse;
use super::replicas::{Summed, summed};
use crate::derive::{Facts, Nature, Phase, is_naming, origin};
use phzc_cost::Cluster;
use phzc_ir::{InstrId, Module, Opcode};
use std::collections::BTreeMap;

/// Traffic between stages.
pub struct Sends {
    /// Seconds of one microbatch over the boundary after each stage but the last, the slower direction.
    pub boundary_secs: Vec<f64>,
    /// Seconds of what goes over each boundary once per step.
    pub once_secs: Vec<f64>,
    /// What replicas of a stage sum up.
    pub over_replicas: Summed,
    /// One entry per sending stage, and per stage that has replicas.
    pub uses: Vec<CollectiveUse>,
}

/// Bytes over one boundary in one direction, on one device.
#[derive(Clone, Copy, Default)]
pub(super) struct Traffic {
    /// Of one microbatch.
    each: f64,
    /// Once per step.
    once: f64,
    /// Messages of one step.
    count: f64,
}

/// What goes over each boundary, onwards and back. Parameters lie where they are read.
pub(super) fn traffic(module: &Module, facts: &Facts) -> [Vec<Traffic>; 2] {
    let n_boundaries = facts.header.meshes.len() - 1;
    let [mut up, mut down] = [vec![Traffic::default(); n_boundaries], vec![Traffic::default(); n_boundaries]];
    for ((maker, leaf, by_update), reach) in reaches(module, facts) {
        let made = &facts.comps[module.entry.index()][maker.index()];
        let is_part = made.natures.get(leaf) == Some(&Nature::Part);
        for (traffic, boundaries) in [(&mut up, made.stage..reach.last), (&mut down, reach.first..made.stage)]
        {
            for boundary in boundaries {
                let bytes = reach.bytes / narrowest(facts, boundary);
                traffic[boundary].add(bytes, is_part, by_update, facts);
            }
        }
    }
    [up, down]
}

/// The sends of a step.
pub fn sends(module: &Module, facts: &Facts, cluster: &Cluster) -> Sends {
    let [up, down] = traffic(module, facts);
    let (header, n_boundaries) = (&facts.header, up.len());
    let secs = |stage: usize, bytes: f64| match header.group(stage) == header.group(stage + 1) {
        true => 0.0,
        false => {
            cluster.send_between_secs(bytes, [stage, stage + 1].map(|stage| facts.header.devices(stage)))
        }
    };
    let slower = |bytes: fn(&Traffic) -> f64| -> Vec<f64> {
        (0..n_boundaries).map(|stage| secs(stage, bytes(&up[stage]).max(bytes(&down[stage])))).collect()
    };
    let (boundary_secs, once_secs) = (slower(|it| it.each), slower(|it| it.once));
    let over_replicas = summed(module, facts, cluster);
    let uses = [uses(facts, &up, &down, &secs), over_replicas.uses.clone()].concat();
    Sends { over_replicas, uses, boundary_secs, once_secs }
}

impl Traffic {
    /// Bytes of a step of so many microbatches.
    pub(super) fn of_step(&self, n_microbatches: usize) -> f64 {
        self.each * n_microbatches as f64 + self.once
    }

    fn add(&mut self, whole_bytes: f64, is_part: bool, by_update: bool, facts: &Facts) {
        let n_parts = facts.header.n_microbatches as f64;
        let bytes = if is_part { whole_bytes / n_parts } else { whole_bytes };
        let n_own = facts.header.n_own_microbatches() as f64;
        // Of the parts, an update reads the last microbatch's.
        if is_part && !by_update {
            self.each += bytes;
            self.count += n_own;
        } else {
            self.once += bytes;
            self.count += 1.0;
        }
    }
}

/// What each stage sends in one step: onwards over the boundary after it, back over the one before it.
fn uses(
    facts: &Facts,
    up: &[Traffic],
    down: &[Traffic],
    secs: &impl Fn(usize, f64) -> f64,
) -> Vec<CollectiveUse> {
    let n_parts = facts.header.n_own_microbatches() as f64;
    let mut uses = Vec::new();
    for stage in 0..=up.len() {
        let onwards = up.get(stage).map(|it| (stage, it));
        let back = stage.checked_sub(1).map(|boundary| (boundary, &down[boundary]));
        let mut sum = CollectiveUse {
            kind: "send".to_owned(),
            axes: Vec::new(),
            stage,
            count: 0,
            bytes: 0.0,
            time_secs: 0.0,
            hidden_secs: 0.0,
        };
        for (boundary, it) in [onwards, back].into_iter().flatten() {
            sum.count += it.count as u64;
            sum.bytes += it.of_step(facts.header.n_own_microbatches());
            sum.time_secs += n_parts * secs(boundary, it.each) + secs(boundary, it.once);
        }
        if sum.count > 0 {
            uses.push(sum);
        }
    }
    uses
}

/// How far a value goes.
struct Reach {
    first: usize,
    last: usize,
    /// Bytes that the devices of a stage read of it, together.
    bytes: f64,
}

/// The values that instructions of other stages read, by maker, leaf, and whether updates are the readers. A
/// loop is one instruction.
fn reaches(module: &Module, facts: &Facts) -> BTreeMap<(InstrId, usize, bool), Reach> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut found: BTreeMap<(InstrId, usize, bool), Reach> = BTreeMap::new();
    for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr)) {
        let own = &all[id.index()];
        let mut reads = own.reads.iter();
        for &operand in &instr.operands {
            for leaf in 0..all[operand.index()].leaves.len() {
                let read = reads.next();
                let (maker, leaf) = origin(comp, operand, leaf);
                let made = &all[maker.index()];
                if made.stage == own.stage || comp.instr(maker).op == Opcode::Parameter || !made.in_memory {
                    continue;
                }
                let bytes = n_devices(facts, own.stage) * read.copied().unwrap_or(made.bytes[leaf]);
                let key = (maker, leaf, own.phase == Phase::Update);
                let reach = found.entry(key).or_insert(Reach { first: own.stage, last: own.stage, bytes });
                (reach.first, reach.last) = (reach.first.min(own.stage), reach.last.max(own.stage));
                reach.bytes = reach.bytes.max(bytes);
            }
        }
    }
    found
}

fn n_devices(facts: &Facts, stage: usize) -> f64 {
    facts.header.meshes[stage].n_devices() as f64
}

/// The devices of the smaller of the two stages at a boundary, which share what goes over it.
pub(super) fn narrowest(facts: &Facts, boundary: usize) -> f64 {
    n_devices(facts, boundary).min(n_devices(facts, boundary + 1))
}
