//! Which part of a training step a node belongs to: forward, backward or update.
//!
//! HLO does not say. The forward part is what the early outputs (a loss, logits) depend on: outputs that need
//! at most half of the program's contractions, for a backward pass has twice as many. Where nothing after
//! them is the gradient of a product, there is no backward part: an inference program may hand out what its
//! first layers made. What comes after it is backward as long as it leads to a contraction or has the batch
//! to work on, and the update from then on. A loop runs as one, in the phase of what it computes first: what
//! a forward loop saves for the backward part is forward, and a loop that computes gradients also adds them
//! up.

use crate::batch::has_batch;
use crate::graph::{Graph, NodeId, NodeKind, TensorId};
use indexmap::IndexMap;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{CompId, InstrId, Module};
use rustc_hash::FxBuildHasher;
use std::collections::BTreeMap;

pub use phzc_ir::notes::Phase;

/// The phase of every node.
pub fn phases(module: &Module, graph: &Graph) -> Vec<Phase> {
    let forward = forward(module, graph);
    let leads_on = leads_to_contraction(graph);
    let has_batch = has_batch(graph);
    let works_on_batch =
        |node: usize| graph.nodes[node].operands.iter().any(|&operand| has_batch[operand as usize]);
    let phase = |node: usize| match () {
        () if forward[node] || graph.nodes[node].operands.is_empty() => Phase::Forward,
        () if leads_on[node] || graph.nodes[node].is_contraction || works_on_batch(node) => Phase::Backward,
        () => Phase::Update,
    };
    let mut phases: Vec<Phase> = (0..graph.nodes.len()).map(phase).collect();
    for node in (0..graph.nodes.len()).rev() {
        let may_wait = phases[node] == Phase::Forward && !leads_on[node] && !works_on_batch(node);
        if may_wait && is_read_by_updates(graph, node, &phases) {
            phases[node] = Phase::Update;
        }
    }
    settle_loops(module, graph, &mut phases);
    phases
}

/// Whether each node leads to a result, no state, with at most half of all contractions; all count where the
/// others are no gradients.
fn forward(module: &Module, graph: &Graph) -> Vec<bool> {
    let n_contractions =
        graph.nodes.iter().filter(|node| node.is_contraction).map(|node| node.trips).sum::<f64>();
    let mut forward = None;
    let is_state = |output: TensorId| graph.aliases.iter().any(|&(aliased, _)| aliased == output);
    for &output in graph.outputs.iter().filter(|&&output| !is_state(output)) {
        let ancestors = ancestors(graph, output);
        let needed: f64 = (0..graph.nodes.len())
            .filter(|&node| ancestors[node] && graph.nodes[node].is_contraction)
            .map(|node| graph.nodes[node].trips)
            .sum();
        if needed > 0.0 && needed <= 0.5 * n_contractions {
            let all = forward.get_or_insert_with(|| vec![false; graph.nodes.len()]);
            all.iter_mut().zip(&ancestors).for_each(|(all, &one)| *all |= one);
        }
    }
    let forward = forward.filter(|forward| differentiates(graph, module.entry, forward));
    forward.unwrap_or_else(|| vec![true; graph.nodes.len()])
}

/// Whether updates read what a node makes of other values, and nothing else does: a metric's total is handed
/// out, and so is early, but what the step returns instead of another parameter is made of it.
fn is_read_by_updates(graph: &Graph, node: usize, phases: &[Phase]) -> bool {
    let node = &graph.nodes[node];
    let mut readers = node.results.iter().flat_map(|&result| &graph.tensors[result as usize].uses).peekable();
    !node.operands.is_empty()
        && readers.peek().is_some()
        && readers.all(|&(reader, _)| phases[reader as usize] == Phase::Update)
}

/// Whether a contraction outside of the forward part is the gradient of one in it: it reads one of its
/// operands, and makes as many elements as the other has. Loops read slices of their own: what they contract
/// is taken for one.
fn differentiates(graph: &Graph, entry: CompId, forward: &[bool]) -> bool {
    let n_elements = |tensor: TensorId| graph.tensors[tensor as usize].dims.iter().product::<i64>();
    let contractions = |is_forward: bool| {
        let all = graph.nodes.iter().enumerate().filter(|(_, node)| node.is_contraction);
        all.filter(move |(at, _)| forward[*at] == is_forward).map(|(_, node)| node)
    };
    let mut beside: IndexMap<TensorId, Vec<i64>, FxBuildHasher> = IndexMap::default();
    for node in contractions(true) {
        for (at, &operand) in node.operands.iter().enumerate() {
            let others = node.operands.iter().enumerate().filter(|(other, _)| *other != at);
            beside.entry(origin(graph, operand)).or_default().extend(others.map(|it| n_elements(*it.1)));
        }
    }
    contractions(false).any(|node| {
        let others = node.operands.iter().filter_map(|&operand| beside.get(&origin(graph, operand)));
        let mut others = others.flatten();
        let made: Vec<i64> = node.results.iter().map(|&result| n_elements(result)).collect();
        node.comp != entry || others.any(|other| made.contains(other))
    })
}

/// The tensor of which another is made by operations with one operand: conversions, transposes.
fn origin(graph: &Graph, mut tensor: TensorId) -> TensorId {
    loop {
        let node = &graph.nodes[graph.tensors[tensor as usize].def as usize];
        match node.operands[..] {
            [operand] if !node.is_contraction => tensor = operand,
            _ => return tensor,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The backward contractions of a program.
    fn check(entry: &str) -> String {
        let module =
            phzc_ir::parse(&format!("HloModule m\nENTRY e {{\n{entry}\n}}")).expect("a legal program");
        let graph = Graph::build(&module);
        let phases = phases(&module, &graph);
        let all = graph.nodes.iter().zip(phases);
        let backward = all.filter(|(node, phase)| node.is_contraction && *phase == Phase::Backward);
        backward
            .map(|(node, _)| &*module.comp(node.comp).instr(node.instr).name)
            .collect::<Vec<_>>()
            .join(" ")
    }

    const FORWARD: &str = "  x = f32[32,8] parameter(0)
  w1 = f32[8,16] parameter(1)
  w2 = f32[16,64] parameter(2)
  h1 = f32[32,16] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h2 = f32[32,64] dot(h1, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}";

    #[test]
    fn gradients_of_products_are_backward() {
        let backward = "  t2 = f32[64,16] transpose(w2), dimensions={1,0}
  d1 = f32[32,16] dot(h2, t2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g1 = f32[8,16] dot(x, d1), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  g2 = f32[16,64] dot(h1, h2), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT out = (f32[32,64], f32[8,16], f32[16,64]) tuple(h2, g1, g2)";
        assert_eq!(check(&format!("{FORWARD}\n{backward}")), "d1 g1 g2");
    }

    /// JAX lets an output reuse whatever donated buffer fits: the mean that of another scalar, the total
    /// none.
    #[test]
    fn a_total_that_an_update_reads_is_the_update_s() {
        let text = format!(
            "HloModule m, input_output_alias={{ {{0}}: (4, {{}}, may-alias) }}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
{FORWARD}
  old = f32[] parameter(3)
  other = f32[] parameter(4)
  zero = f32[] constant(0)
  loss = f32[] reduce(h2, zero), dimensions={{0,1}}, to_apply=add
  total = f32[] add(old, loss)
  mean = f32[] divide(total, other)
  g2 = f32[16,64] dot(h1, h2), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  g1 = f32[8,16] dot(x, h1), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT out = (f32[], f32[], f32[16,64], f32[8,16]) tuple(mean, total, g2, g1)
}}"
        );
        let module = phzc_ir::parse(&text).expect("a legal program");
        let graph = Graph::build(&module);
        let found = graph.nodes.iter().zip(phases(&module, &graph)).filter_map(|(node, phase)| {
            let name = &*module.comp(node.comp).instr(node.instr).name;
            ["loss", "total", "mean"].contains(&name).then_some((name, phase))
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, [("loss", Phase::Forward), ("total", Phase::Update), ("mean", Phase::Update)]);
    }

    #[test]
    fn layers_after_one_that_is_handed_out_are_not() {
        let more = "  w3 = f32[64,24] parameter(3)
  w4 = f32[24,40] parameter(4)
  h3 = f32[32,24] dot(h2, w3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h4 = f32[32,40] dot(h3, w4), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (f32[32,64], f32[32,40]) tuple(h2, h4)";
        assert_eq!(check(&format!("{FORWARD}\n{more}")), "");
    }
}
