//! How tensors relate to microbatches, as the finished plan will have it (`passes/plan/src/derive/micro.rs`):
//! what is made of weights alone is made and moved anew by every microbatch.

use super::model::{Input, Model, Use};
use phzc_analysis::batch::batch_dims;
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::{Graph, NodeId, NodeKind, TensorId};
use phzc_analysis::phase::Phase;
use phzc_plan::derive::Nature;

/// Of every tensor.
pub(super) fn natures(graph: &Graph, blocks: &Blocks) -> Vec<Nature> {
    let is_summed = summed(graph, blocks);
    let mut is_state = vec![false; graph.tensors.len()];
    graph.aliases.iter().for_each(|&(_, param)| is_state[param as usize] = true);
    let updates = graph.nodes.iter().zip(&blocks.phases).filter(|(_, phase)| **phase == Phase::Update);
    updates.flat_map(|(node, _)| &node.operands).for_each(|&read| is_state[read as usize] = true);
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

/// Per block: whether it adds up what is summed over the batch: gradients of what several layers read.
pub(super) fn gradient_sums(graph: &Graph, blocks: &Blocks) -> Vec<bool> {
    let dims = batch_dims(graph);
    let is_whole =
        |&node: &NodeId| graph.nodes[node as usize].results.iter().all(|&result| dims[result as usize] == 0);
    let all = blocks.members.iter().zip(&blocks.is_linear);
    all.map(|(members, is_linear)| *is_linear && members.iter().all(is_whole)).collect()
}

impl Input<'_> {
    /// The same as if every microbatch found weights as the first one left them, and moved no less of the
    /// batch than a step: layouts that keep the least.
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

#[cfg(test)]
mod tests {
    use super::natures;
    use phzc_analysis::blocks::Blocks;
    use phzc_analysis::graph::Graph;
    use phzc_ir::parse;
    use phzc_plan::derive::Nature;

    /// A step that pulls its weights towards others, which it reads forward, too, and does not replace.
    const PULLED: &str = "HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  w = f32[64,64] parameter(0)
  x = f32[32,64] parameter(1)
  old = f32[64,64] parameter(2)
  h = f32[32,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[32,64] dot(x, old), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[32,64] subtract(h, t)
  g = f32[64,64] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  far = f32[64,64] subtract(w, old)
  pull = f32[64,64] add(g, far)
  wn = f32[64,64] subtract(w, pull)
  dx = f32[32,64] dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  square = f32[32,64] multiply(d, d)
  zero = f32[] constant(0)
  loss = f32[] reduce(square, zero), dimensions={0,1}, to_apply=add_f32
  ROOT out = (f32[64,64], f32[], f32[32,64]) tuple(wn, loss, dx)
}";

    #[test]
    fn what_the_update_reads_is_the_same_for_every_microbatch() {
        let module = parse(PULLED).expect("a legal program");
        let graph = Graph::build(&module);
        let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
        let all = natures(&graph, &blocks);
        let nature = |name: &str| {
            let is_it = |id: &usize| {
                let def = &graph.nodes[graph.tensors[*id].def as usize];
                &*module.entry().instr(def.instr).name == name
            };
            (0..all.len()).find(is_it).map(|id| all[id])
        };
        assert_eq!(["w", "x", "old"].map(nature), [Nature::State, Nature::Part, Nature::State].map(Some));
        assert_eq!(["h", "g"].map(nature), [Nature::Part, Nature::Sum].map(Some));
    }
}
