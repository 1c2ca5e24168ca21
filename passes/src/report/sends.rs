//! What goes from stage to stage: every value that another stage reads, sent to it once.

use super::CollectiveUse;
use crate::derive::{Facts, Nature, Phase, planned_comps};
use phzc_cost::Cluster;
use phzc_ir::{Module, Opcode};
use std::collections::BTreeMap;

/// Traffic between stages.
pub struct Sends {
    /// Seconds of one microbatch over the boundary after each stage but the last, the slower direction.
    pub boundary_secs: Vec<f64>,
    /// One entry per sending stage.
    pub uses: Vec<CollectiveUse>,
}

/// Bytes of one microbatch over one boundary, on one device.
#[derive(Clone, Copy, Default)]
struct Boundary {
    up: f64,
    down: f64,
}

/// The sends of a step. Parameters lie where they are read; what the update reads is not counted.
pub fn sends(module: &Module, facts: &Facts, cluster: &Cluster) -> Sends {
    let n_parts = facts.header.n_microbatches as f64;
    let mut boundaries = vec![Boundary::default(); facts.header.meshes.len() - 1];
    let mut bytes_from: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for ((from, to), (count, bytes)) in crossings(module, facts) {
        let between = from.min(to)..from.max(to);
        for boundary in &mut boundaries[between] {
            *(if from < to { &mut boundary.up } else { &mut boundary.down }) += bytes;
        }
        let sum = bytes_from.entry(from).or_default();
        *sum = (sum.0 + count * n_parts, sum.1 + bytes * n_parts);
    }
    let secs = |stage: usize, bytes: f64| cluster.send_secs(bytes, crosses(facts, cluster, stage));
    let boundary_secs =
        boundaries.iter().enumerate().map(|(stage, it)| secs(stage, it.up.max(it.down))).collect();
    let name = |(stage, (count, bytes)): (usize, (f64, f64))| {
        let time_secs = n_parts * secs(stage.min(boundaries.len().saturating_sub(1)), bytes / n_parts);
        CollectiveUse { kind: "send".to_owned(), axes: Vec::new(), stage, count, bytes, time_secs }
    };
    Sends { uses: bytes_from.into_iter().map(name).collect(), boundary_secs }
}

/// Number and bytes of the values of one microbatch that one stage sends to another.
fn crossings(module: &Module, facts: &Facts) -> BTreeMap<(usize, usize), (f64, f64)> {
    let mut seen = BTreeMap::new();
    for comp in planned_comps(module) {
        let all = &facts.comps[comp.index()];
        for (id, instr) in module.comp(comp).iter().filter(|(id, _)| all[id.index()].phase != Phase::Update) {
            let own = &all[id.index()];
            let mut reads = own.reads.iter();
            for &operand in &instr.operands {
                let is_param = module.comp(comp).instr(operand).op == Opcode::Parameter;
                let maker = &all[operand.index()];
                for (leaf, (made, &bytes)) in maker.leaves.iter().zip(reads.by_ref()).enumerate() {
                    if made.stage != own.stage && !is_param && maker.in_memory {
                        let is_part = maker.natures.get(leaf) == Some(&Nature::Part);
                        let share = if is_part { 1.0 / facts.header.n_microbatches as f64 } else { 1.0 };
                        let times = facts.executions[comp.index()];
                        seen.entry((made.stage, own.stage, comp, operand, leaf))
                            .or_insert((times, times * bytes * share));
                    }
                }
            }
        }
    }
    let mut sums: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    for ((from, to, ..), (count, bytes)) in seen {
        let sum = sums.entry((from, to)).or_default();
        *sum = (sum.0 + count, sum.1 + bytes);
    }
    sums
}

/// Whether stage `stage` and the next are not all in one node.
fn crosses(facts: &Facts, cluster: &Cluster, stage: usize) -> bool {
    let size = |stage: usize| facts.header.meshes[stage].n_devices() as usize;
    let first: usize = (0..stage).map(size).sum();
    let last = first + size(stage) + size((stage + 1).min(facts.header.meshes.len() - 1)) - 1;
    first / cluster.per_node() != last / cluster.per_node()
}
