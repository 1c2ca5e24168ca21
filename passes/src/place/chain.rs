//! The chain that a pipeline cuts: the instructions of a sharded program in forward order, gathered into layers.
//!
//! All figures are those of the text: what a layer takes is what [`crate::report`] says its instructions take.

use super::cut::Chain;
use super::position::positions;
use crate::derive::{Facts, Nature, Phase, control_flow, is_naming, operand_origins, planned_comps};
use crate::report::price::StagePrice;
use phzc_cost::Cluster;
use phzc_ir::{CompId, InstrId, Module, Opcode};

/// A program is cut at no more places than this.
const MAX_LAYERS: usize = 48;

/// A sharded program as a chain.
pub struct Layers<'a> {
    module: &'a Module,
    cluster: &'a Cluster,
    facts: Facts,
    /// Per computation: the layer of each instruction; loops and branches are in that of their caller.
    layer_of: Vec<Vec<usize>>,
    n_layers: usize,
    crossings: Vec<Crossing>,
}

/// Bytes of values that cross the boundary before a layer, on one device.
#[derive(Clone, Copy, Default)]
struct Crossing {
    up: f64,
    down: f64,
}

impl<'a> Layers<'a> {
    /// Gathers a module's instructions into layers.
    pub fn new(module: &'a Module, facts: Facts, cluster: &'a Cluster) -> Layers<'a> {
        let at = positions(module, &facts);
        let n_positions = module.entry().instrs.len();
        let starts =
            starts(&secs_at(module, &facts, cluster, &at), &crossings(module, &facts, &at, n_positions));
        let entry: Vec<usize> = at.iter().map(|at| starts.partition_point(|start| start <= at) - 1).collect();
        let crossings = crossings(module, &facts, &entry, starts.len());
        let layer_of = with_callees(module, entry);
        Layers { module, cluster, facts, layer_of, n_layers: starts.len(), crossings }
    }

    /// What the text says.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How many layers there are; no more stages than that are possible.
    pub fn n_layers(&self) -> usize {
        self.n_layers
    }

    /// The chain for a number of microbatches.
    pub fn chain(&mut self, n_microbatches: usize) -> Chain {
        self.facts.header.n_microbatches = n_microbatches;
        let prices = prices(self.module, &self.facts, self.cluster, &self.layer_of, self.n_layers);
        let share = 1.0 / n_microbatches as f64;
        let far = self.cluster.n_nodes() > 1;
        let send =
            |crossing: &Crossing| 2.0 * self.cluster.send_secs(crossing.up.max(crossing.down) * share, far);
        let (fixed_bytes, flight_bytes) = self.bytes();
        Chain {
            secs: prices.iter().map(|price| price.forward_secs + price.backward_secs).collect(),
            update_secs: prices.iter().map(|price| price.update_secs).collect(),
            fixed_bytes,
            flight_bytes: flight_bytes.iter().map(|bytes| bytes * share).collect(),
            send_secs: self.crossings.iter().map(send).collect(),
        }
    }

    /// Per layer: bytes that stay for the whole step (parameters, sums of gradients), and bytes of the whole
    /// batch's activations that the backward part reads.
    fn bytes(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut fixed, mut flight) = (vec![0.0; self.n_layers], vec![0.0; self.n_layers]);
        let (comp, all) = (self.module.entry(), &self.facts.comps[self.module.entry.index()]);
        let layer_of = &self.layer_of[self.module.entry.index()];
        let last_phase = last_phases(self.module, &self.facts);
        for (id, instr) in comp.iter() {
            let own = &all[id.index()];
            let is_param = instr.op == Opcode::Parameter;
            if is_naming(instr)
                || !(own.is_allocated || matches!(instr.op, Opcode::While | Opcode::Conditional))
            {
                continue;
            }
            for (leaf, bytes) in own.bytes.iter().enumerate() {
                let is_part = own.natures.get(leaf) == Some(&Nature::Part);
                let sums = match () {
                    () if is_param => &mut fixed,
                    () if is_part
                        && own.phase == Phase::Forward
                        && last_phase[id.index()] > Phase::Forward =>
                    {
                        &mut flight
                    }
                    () if own.phase == Phase::Backward && last_phase[id.index()] == Phase::Update => {
                        &mut fixed
                    }
                    () => continue,
                };
                sums[layer_of[id.index()]] += bytes;
            }
        }
        (fixed, flight)
    }

    /// Per computation and instruction: the stage that its layer is in.
    pub fn stages(&self, starts: &[usize]) -> Vec<Vec<usize>> {
        let stage = |layer: &usize| starts.partition_point(|start| start <= layer) - 1;
        self.layer_of.iter().map(|layers| layers.iter().map(stage).collect()).collect()
    }
}

/// The phase of the last reader of each instruction of the entry.
fn last_phases(module: &Module, facts: &Facts) -> Vec<Phase> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut last = vec![Phase::Forward; all.len()];
    for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr)) {
        for (maker, _) in operand_origins(comp, instr) {
            last[maker.index()] = last[maker.index()].max(all[id.index()].phase);
        }
    }
    last
}

/// The price of every layer.
fn prices(
    module: &Module,
    facts: &Facts,
    cluster: &Cluster,
    layer_of: &[Vec<usize>],
    n_layers: usize,
) -> Vec<StagePrice> {
    let mut prices = vec![StagePrice::default(); n_layers];
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            let layer = layer_of[comp.index()][id.index()];
            prices[layer].instr(module, facts, cluster, (comp, id, instr));
        }
    }
    prices
}

/// Seconds of forward and backward at each position.
fn secs_at(module: &Module, facts: &Facts, cluster: &Cluster, at: &[usize]) -> Vec<f64> {
    let positions = with_callees(module, at.to_vec());
    let prices = prices(module, facts, cluster, &positions, module.entry().instrs.len());
    prices.iter().map(|price| price.forward_secs + price.backward_secs).collect()
}

/// Gives the instructions of loops and branches the number of the entry's instruction that runs them.
fn with_callees(module: &Module, entry: Vec<usize>) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = module.comps.iter().map(|comp| vec![0; comp.instrs.len()]).collect();
    found[module.entry.index()] = entry;
    for comp in planned_comps(module).into_iter().rev() {
        for (id, instr) in module.comp(comp).iter() {
            let own = found[comp.index()][id.index()];
            control_flow(instr).into_iter().for_each(|callee: CompId| found[callee.index()].fill(own));
        }
    }
    found
}

/// What crosses the boundary before each of `n` places when every instruction of the entry is at its place.
fn crossings(module: &Module, facts: &Facts, at: &[usize], n: usize) -> Vec<Crossing> {
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut reach: Vec<(usize, usize)> = at.iter().map(|&at| (at, at)).collect();
    for (id, instr) in
        comp.iter().filter(|(id, instr)| all[id.index()].phase != Phase::Update && !is_naming(instr))
    {
        for (maker, _) in operand_origins(comp, instr) {
            let (first, last) = &mut reach[maker.index()];
            (*first, *last) = ((*first).min(at[id.index()]), (*last).max(at[id.index()]));
        }
    }
    let mut steps = vec![Crossing::default(); n + 1];
    for (id, _) in comp.iter().filter(|(_, instr)| !is_naming(instr) && instr.op != Opcode::Parameter) {
        let (own, (first, last)) = (at[id.index()], reach[id.index()]);
        let bytes = part_bytes(facts, module.entry, id);
        steps[own + 1].up += bytes;
        steps[last + 1].up -= bytes;
        steps[first + 1].down += bytes;
        steps[own + 1].down -= bytes;
    }
    let sum = |sum: &mut Crossing, step: &Crossing| {
        (sum.up, sum.down) = (sum.up + step.up, sum.down + step.down);
        Some(Crossing { up: sum.up.max(0.0), down: sum.down.max(0.0) })
    };
    steps[..n].iter().scan(Crossing::default(), sum).collect()
}

/// Bytes of an instruction's values that exist once per microbatch, for the whole batch.
fn part_bytes(facts: &Facts, comp: CompId, id: InstrId) -> f64 {
    let own = &facts.comps[comp.index()][id.index()];
    let parts = own.bytes.iter().zip(&own.natures).filter(|(_, nature)| **nature == Nature::Part);
    parts.map(|(bytes, _)| bytes).sum()
}

/// The first position of each layer: in each of about [`MAX_LAYERS`] spans of equal time, where least crosses.
fn starts(secs: &[f64], crossings: &[Crossing]) -> Vec<usize> {
    let total: f64 = secs.iter().sum();
    let mut best: Vec<Option<usize>> = vec![None; MAX_LAYERS];
    let weight = |at: usize| crossings[at].up + crossings[at].down;
    let mut done = 0.0;
    for (at, own) in secs.iter().enumerate() {
        let span = ((done / total * MAX_LAYERS as f64) as usize).min(MAX_LAYERS - 1);
        let is_better = best[span].is_none_or(|other| weight(at) < weight(other));
        if at > 0 && done > 0.0 && done < total && is_better {
            best[span] = Some(at);
        }
        done += own;
    }
    let mut starts: Vec<usize> = std::iter::once(0).chain(best.into_iter().flatten()).collect();
    starts.dedup();
    starts
}
