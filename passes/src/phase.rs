//! Which part of a training step a node belongs to: forward, backward or update.
//!
//! HLO does not say. The forward part is what the early outputs (a loss, logits) depend on: outputs
//! that need at most half of the program's contractions, for a backward pass has twice as many.

use crate::graph::{Graph, NodeId, TensorId};
use phzc_ir::Module;

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Computes the outputs; all of an inference program.
    Forward,
    /// Computes gradients.
    Backward,
    /// Computes new parameters, once per step.
    Update,
}

impl Phase {
    /// The note's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Forward => "fwd",
            Phase::Backward => "bwd",
            Phase::Update => "upd",
        }
    }
}

/// The phase of every node.
pub fn phases(_module: &Module, graph: &Graph) -> Vec<Phase> {
    let n_contractions =
        graph.nodes.iter().filter(|node| node.is_contraction).map(|node| node.trips).sum::<f64>();
    let mut forward = vec![false; graph.nodes.len()];
    let mut found = false;
    let is_state = |output: TensorId| graph.aliases.iter().any(|&(aliased, _)| aliased == output);
    for &output in graph.outputs.iter().filter(|&&output| !is_state(output)) {
        let ancestors = ancestors(graph, output);
        let needed: f64 = (0..graph.nodes.len())
            .filter(|&node| ancestors[node] && graph.nodes[node].is_contraction)
            .map(|node| graph.nodes[node].trips)
            .sum();
        if needed > 0.0 && needed <= 0.5 * n_contractions {
            found = true;
            forward.iter_mut().zip(&ancestors).for_each(|(all, &one)| *all |= one);
        }
    }
    let leads_on = leads_to_contraction(graph);
    let phase = |node: usize| match () {
        () if !found || forward[node] || graph.nodes[node].operands.is_empty() => Phase::Forward,
        () if leads_on[node] || graph.nodes[node].is_contraction => Phase::Backward,
        () => Phase::Update,
    };
    (0..graph.nodes.len()).map(phase).collect()
}

/// Nodes that a tensor's value depends on.
fn ancestors(graph: &Graph, tensor: TensorId) -> Vec<bool> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut todo: Vec<NodeId> = vec![graph.tensors[tensor as usize].def];
    while let Some(node) = todo.pop() {
        if !std::mem::replace(&mut seen[node as usize], true) {
            todo.extend(
                graph.nodes[node as usize]
                    .operands
                    .iter()
                    .map(|&operand| graph.tensors[operand as usize].def),
            );
        }
    }
    seen
}

/// Nodes with a contraction among their descendants.
fn leads_to_contraction(graph: &Graph) -> Vec<bool> {
    let mut leads = vec![false; graph.nodes.len()];
    for id in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[id];
        if leads[id] || node.is_contraction {
            node.operands
                .iter()
                .for_each(|&operand| leads[graph.tensors[operand as usize].def as usize] = true);
        }
    }
    leads
}
