//! Which part of a training step a node belongs to: forward, backward or update.
//!
//! HLO does not say. The forward part is what the early outputs (a loss, logits) depend on: outputs
//! that need at most half of the program's contractions, for a backward pass has twice as many.
//! What comes after it is backward as long as it leads to a contraction or has the batch to work on, and the update
//! from then on. A loop runs as one, in the phase of what it computes first: what a forward loop saves for the
//! backward part is forward, and a loop that computes gradients also adds them up.

use crate::batch::has_batch;
use crate::graph::{Graph, NodeId, NodeKind, TensorId};
use phzc_ir::ops::control::control_comps;
use phzc_ir::{InstrId, Module};
use std::collections::BTreeMap;

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
pub fn phases(module: &Module, graph: &Graph) -> Vec<Phase> {
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
    let has_batch = has_batch(graph);
    let works_on_batch =
        |node: usize| graph.nodes[node].operands.iter().any(|&operand| has_batch[operand as usize]);
    let phase = |node: usize| match () {
        () if !found || forward[node] || graph.nodes[node].operands.is_empty() => Phase::Forward,
        () if leads_on[node] || graph.nodes[node].is_contraction || works_on_batch(node) => Phase::Backward,
        () => Phase::Update,
    };
    let mut phases: Vec<Phase> = (0..graph.nodes.len()).map(phase).collect();
    settle_loops(module, graph, &mut phases);
    phases
}

/// Gives the nodes of each of the entry's loops the phase in which the loop runs.
fn settle_loops(module: &Module, graph: &Graph, phases: &mut [Phase]) {
    let loop_of = loops(module);
    let mut inside: BTreeMap<InstrId, Vec<usize>> = BTreeMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        let is_loop = node.comp == module.entry && matches!(node.kind, NodeKind::Carry | NodeKind::Join);
        if let Some(at) = loop_of[node.comp.index()].or(is_loop.then_some(node.instr)) {
            inside.entry(at).or_default().push(id);
        }
    }
    for nodes in inside.into_values() {
        let computing = nodes.iter().filter(|&&id| !graph.nodes[id].operands.is_empty());
        if let Some(first) = computing.map(|&id| phases[id]).min() {
            nodes.into_iter().for_each(|id| phases[id] = phases[id].min(first));
        }
    }
}

/// Per computation: the entry's loop that runs it.
fn loops(module: &Module) -> Vec<Option<InstrId>> {
    let mut found = vec![None; module.comps.len()];
    for (id, instr) in module.entry().iter() {
        control_comps(instr).into_iter().for_each(|comp| found[comp.index()] = Some(id));
    }
    // Callers come after callees.
    for index in (0..module.comps.len()).rev().filter(|&index| index != module.entry.index()) {
        if let Some(at) = found[index] {
            let inner = module.comps[index].instrs.iter().flat_map(control_comps);
            inner.for_each(|comp| found[comp.index()] = Some(at));
        }
    }
    found
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

/// Nodes with a contraction among their descendants; values that loops carry lead back into them.
fn leads_to_contraction(graph: &Graph) -> Vec<bool> {
    let mut leads = vec![false; graph.nodes.len()];
    loop {
        let mut is_changed = false;
        for (id, node) in graph.nodes.iter().enumerate().rev() {
            let operands = if node.is_contraction || leads[id] { &node.operands[..] } else { &[] };
            for &operand in operands {
                let maker = graph.tensors[operand as usize].def as usize;
                is_changed |= !std::mem::replace(&mut leads[maker], true);
            }
        }
        if !is_changed {
            return leads;
        }
    }
}
