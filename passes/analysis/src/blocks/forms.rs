//! What a node does to the form of values, by its rule and work alone: whether it spreads, views or keeps
//! whole.

use crate::graph::{Graph, Node, NodeKind, TensorId, is_shaped};
use phzc_ir::FactorKind;

/// Depth in contractions of each tensor's value; `None` for chains that only reshape and spread one value.
pub(super) fn levels(graph: &Graph) -> Vec<Option<u32>> {
    let mut levels: Vec<Option<u32>> = vec![None; graph.tensors.len()];
    for node in &graph.nodes {
        let mut inputs =
            node.operands.iter().filter(|&&id| is_shaped(graph, id)).map(|&id| levels[id as usize]);
        let deepest = inputs.clone().flatten().max();
        let level = match node.kind {
            NodeKind::Source => None,
            NodeKind::Carry => inputs.next().flatten(),
            _ if node.is_contraction => Some(deepest.unwrap_or(0) + 1),
            _ if is_spread(graph, node) => deepest,
            _ => Some(deepest.unwrap_or(0)),
        };
        node.results.iter().for_each(|&result| levels[result as usize] = level);
    }
    levels
}

/// A node with one shaped operand and no arithmetic: it only moves, repeats or converts a value.
fn is_spread(graph: &Graph, node: &Node) -> bool {
    let mut shaped = node.operands.iter().filter(|&&id| is_shaped(graph, id));
    let dtype = |id: TensorId| graph.tensors[id as usize].dtype;
    match (shaped.next(), shaped.next(), node.results.first()) {
        (Some(&operand), None, Some(&result)) => {
            let converts = node.operands.len() == 1 && dtype(operand) != dtype(result);
            node.work.transcendentals == 0.0 && (node.work.flops == 0.0 || converts)
        }
        _ => false,
    }
}

/// A node that cannot be split at all, such as an op without a rule: it keeps no other node whole.
pub(super) fn is_whole(node: &Node) -> bool {
    let mut loops = node.rule.factors.iter().filter(|factor| factor.size > 1).peekable();
    let is_stuck = |kind| matches!(kind, FactorKind::Permute | FactorKind::Replicate);
    loops.peek().is_some() && loops.all(|factor| is_stuck(factor.kind))
}

/// A node that moves one value without repeating it: transpose, reshape, convert, slice.
pub(super) fn is_view(graph: &Graph, node: &Node) -> bool {
    let mut shaped = node.operands.iter().filter(|&&id| is_shaped(graph, id));
    match (shaped.next(), shaped.next(), node.results.first()) {
        (Some(&operand), None, Some(&result)) if node.results.len() == 1 => {
            let elements = |id: TensorId| {
                graph.tensors[id as usize].dims.iter().map(|&size| size as f64).product::<f64>()
            };
            node.operands.len() == 1 && elements(result) == elements(operand)
        }
        _ => false,
    }
}

/// Whether all results of a node have the dimensions of a tensor.
pub(super) fn makes_alike(graph: &Graph, node: &Node, tensor: TensorId) -> bool {
    let dims = |id: TensorId| &graph.tensors[id as usize].dims;
    node.results.iter().all(|&result| dims(result) == dims(tensor))
}
