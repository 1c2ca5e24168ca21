//! Loops over microbatches: each trip takes its part of the data.

use super::data;
use crate::graph::{Graph, Node, NodeKind, TensorId};
use phzc_ir::{CompId, Module, Opcode, TensorMap};
use std::collections::BTreeSet;

/// A loop that a program itself runs over parts of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulation {
    /// What a trip runs.
    pub body: CompId,
    /// How often.
    pub n_microbatches: usize,
}

/// The loop whose trips look up parts of the data along the first dimension, if there is one.
pub fn accumulation(module: &Module, graph: &Graph) -> Option<Accumulation> {
    let mut seen: BTreeSet<TensorId> = data(graph).collect();
    let mut todo: Vec<TensorId> = seen.iter().copied().collect();
    while let Some(at) = todo.pop() {
        for &(reader, _) in &graph.tensors[at as usize].uses {
            let node = &graph.nodes[reader as usize];
            let is_inside = node.comp != module.entry && node.kind == NodeKind::Op;
            if is_inside
                && graph.opcode(module, reader) == Some(Opcode::DynamicSlice)
                && slices_first(graph, node, at)
            {
                return Some(Accumulation { body: node.comp, n_microbatches: node.trips as usize });
            }
            if node.kind == NodeKind::Carry || node.operands.len() == 1 && keeps_first(node) {
                todo.extend(node.results.iter().filter(|&&result| seen.insert(result)));
            }
        }
    }
    None
}

/// Whether what is outermost in the only operand is so in the result: samples, where they are split in two
/// dimensions.
fn keeps_first(node: &Node) -> bool {
    let outermost = |loops: Option<&TensorMap>| {
        let first = loops.and_then(|dims| dims.first())?;
        first.iter().copied().find(|&factor| node.rule.factors[factor as usize].size > 1)
    };
    let [operand, result] = [node.rule.operands.first(), node.rule.results.first()].map(outermost);
    operand.is_some() && operand == result
}

/// Whether the trips of a loop look up a value's first dimension, a part of it each.
fn slices_first(graph: &Graph, node: &Node, of: TensorId) -> bool {
    let first = |tensor: TensorId| graph.tensors[tensor as usize].dims.first().copied().unwrap_or(1);
    let parts = |result: TensorId| first(result) as f64 * node.trips == first(of) as f64;
    let is_whole = node.results.iter().all(|&result| parts(result));
    node.operands.first() == Some(&of) && node.trips > 1.0 && is_whole
}
