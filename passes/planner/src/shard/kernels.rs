//! The kernels that the planner's graph runs in, as prices have them.

use super::liveness::Does;
use indexmap::IndexMap;
use phzc_analysis::graph::{Graph, Node, TensorId};
use phzc_analysis::phase::Phase;
use phzc_ir::{CompId, FusionKind, Opcode, Rule, Touch};
use phzc_plan::pricing::{Input, Part, Share, shares, stored_for_less};

/// Per node: whether its results are in memory because that moves fewer bytes than making them again.
pub fn costly(graph: &Graph, regions: &[Phase], ops: &[Does], is_stored: &[bool]) -> Vec<bool> {
    stored_for_less(&parts(graph, regions, ops, is_stored))
}

/// Per node: its share of the kernels that it runs in.
pub fn kernel_shares(graph: &Graph, regions: &[Phase], ops: &[Does], is_stored: &[bool]) -> Vec<Share> {
    shares(&parts(graph, regions, ops, is_stored))
}

/// The graph as what decides about kernels sees it.
fn parts(graph: &Graph, regions: &[Phase], ops: &[Does], is_stored: &[bool]) -> Vec<Part> {
    let mut numbers: IndexMap<(CompId, Phase), u32> = IndexMap::new();
    let mut viewed: Vec<TensorId> = (0..graph.tensors.len() as TensorId).collect();
    let mut parts: Vec<Part> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.nodes.iter().enumerate() {
        let fusion = ops[id].op.map_or(FusionKind::Control, |op| op.def().fusion);
        let first = node.operands.first().filter(|&&operand| is_stored[operand as usize]);
        let source = first.filter(|_| fusion == FusionKind::View);
        let next = numbers.len() as u32;
        let region = *numbers.entry((node.comp, regions[id])).or_insert(next);
        let operand = |&operand: &TensorId| input(graph, &parts, (id, node), viewed[operand as usize]);
        let operands = node.operands.iter().map(operand).collect();
        let part = Part {
            fusion: if ops[id].attention.is_some() { FusionKind::Matrix } else { fusion },
            region,
            elements: elements(graph, node, ops[id].op),
            bytes: node.results.iter().map(|&result| graph.tensors[result as usize].bytes).sum(),
            sums_rows: ops[id].op == Some(Opcode::Reduce) && keeps_major(&node.rule),
            reads_part: ops[id].op.is_some_and(|op| op.def().touch == Touch::Part),
            is_stored: node.results.iter().any(|&result| is_stored[result as usize]),
            is_name: fusion == FusionKind::Control || source.is_some(),
            operands,
        };
        parts.push(part.after(&parts));
        if let (Some(&source), Some(&result)) = (source, node.results.first()) {
            viewed[result as usize] = viewed[source as usize];
        }
    }
    parts
}

/// A tensor as a node reads it: what another computation makes is there from the start.
fn input(graph: &Graph, before: &[Part], (id, node): (usize, &Node), value: TensorId) -> Input {
    let tensor = &graph.tensors[value as usize];
    let is_here = (tensor.def as usize) < id && graph.nodes[tensor.def as usize].comp == node.comp;
    let is_made = is_here && !before[tensor.def as usize].is_name;
    Input {
        maker: is_made.then_some(tensor.def),
        value,
        elements: n_elements(graph, value),
        bytes: tensor.bytes,
    }
}

fn n_elements(graph: &Graph, tensor: TensorId) -> f64 {
    graph.tensors[tensor as usize].dims.iter().map(|&size| size as f64).product()
}

/// Elements that a node runs over.
fn elements(graph: &Graph, node: &Node, op: Option<Opcode>) -> f64 {
    let of = if op == Some(Opcode::Reduce) { node.operands.first() } else { node.results.first() };
    of.map_or(0.0, |&tensor| n_elements(graph, tensor))
}

/// Whether what is left of a reduction's first operand are its major-most dimensions.
fn keeps_major(rule: &Rule) -> bool {
    let (Some(operand), Some(result)) = (rule.operands.first(), rule.results.first()) else { return false };
    operand.len() > result.len() && operand[..result.len()] == result[..]
}
