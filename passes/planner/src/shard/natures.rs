//! How tensors relate to microbatches, as the finished plan will have it (`passes/plan/src/derive/micro.rs`):
//! what is made of weights alone is made and moved anew by every microbatch.

use super::model::{Input, Model, Use};
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::{Graph, NodeKind, TensorId};
use phzc_analysis::phase::Phase;
use phzc_plan::derive::Nature;

/// Of every tensor.
pub(super) fn natures(graph: &Graph, blocks: &Blocks) -> Vec<Nature> {
    let is_summed = summed(graph, blocks);
    let mut is_state = vec![false; graph.tensors.len()];
    graph.aliases.iter().for_each(|&(_, param)| is_state[param as usize] = true);
    let of_param = |id: usize| match graph.tensors[id].param {
        Some(_) if !is_state[id] => Nature::Part,
        _ => Nature::State,
    };
    let mut found: Vec<Nature> = (0..graph.tensors.len()).map(of_param).collect();
    let mut is_changed = true;
    // Values that loops carry lead back to earlier nodes.
    while std::mem::take(&mut is_changed) {
        for node in graph.nodes.iter().filter(|node| node.kind != NodeKind::Source) {
            let most = node.operands.iter().map(|&id| found[id as usize]).max().unwrap_or_default();
            for &result in &node.results {
                let nature = if is_summed[result as usize] { most.min(Nature::Sum) } else { most };
                is_changed |= nature != std::mem::replace(&mut found[result as usize], nature);
            }
        }
    }
    found
}

/// Whether the update reads a tensor, or the caller: it is summed up over the microbatches.
fn summed(graph: &Graph, blocks: &Blocks) -> Vec<bool> {
    let is_update = |&(node, _): &(u32, u32)| blocks.phases[node as usize] == Phase::Update;
    let mut found: Vec<bool> = graph.tensors.iter().map(|it| it.uses.iter().any(is_update)).collect();
    graph.outputs.iter().for_each(|&output| found[output as usize] = true);
    found
}

impl Input<'_> {
    /// The same as if every microbatch found weights as the first one left them: layouts that keep the least.
    #[must_use]
    pub fn gathering_once(self) -> Self {
        Input { natures: &[], ..self }
    }

    fn nature(&self, tensor: TensorId) -> Nature {
        self.natures.get(tensor as usize).copied().unwrap_or(Nature::Sum)
    }

    /// How often a step moves a tensor in a phase.
    fn n_moved(&self, tensor: TensorId, phase: Phase) -> f64 {
        match self.nature(tensor) {
            Nature::State | Nature::Part if phase != Phase::Update => self.n_microbatches as f64,
            _ => 1.0,
        }
    }

    /// The bytes of a tensor that are moved at once.
    pub(super) fn moved_bytes(&self, tensor: TensorId) -> f64 {
        let bytes = self.graph.tensors[tensor as usize].bytes;
        match self.nature(tensor) {
            Nature::Part => bytes / self.n_microbatches as f64,
            _ => bytes,
        }
    }

    /// How often a step runs a node that works on no part of the batch.
    pub(super) fn n_made(&self, node: u32) -> f64 {
        let of = |&id: &TensorId| self.nature(id);
        let it = &self.graph.nodes[node as usize];
        let nature = it.operands.iter().chain(&it.results).map(of).max().unwrap_or_default();
        match self.blocks.phases[node as usize] != Phase::Update && nature == Nature::State {
            true => self.n_microbatches as f64,
            false => 1.0,
        }
    }
}

impl Model<'_> {
    /// Movements of a reading per step.
    pub(super) fn trips(&self, it: &Use) -> f64 {
        it.trips * self.input.n_moved(it.tensor, self.phase(it))
    }

    /// Movements per step of a tensor where it is made.
    pub(super) fn made_trips(&self, tensor: TensorId) -> f64 {
        let it = &self.input.graph.tensors[tensor as usize];
        let phase = self.input.blocks.phases[it.def as usize];
        self.input.graph.nodes[it.def as usize].trips * it.weight * self.input.n_moved(tensor, phase)
    }
}
