//! Inputs that stay as they are and yet are no data: frozen weights, tables, constants of all samples.

use crate::graph::{Graph, Node, TensorId};
use phzc_ir::FactorKind;

/// How many operations are looked at.
const MAX_STEPS: usize = 64;

/// Whether the first dimension of an input cannot run over samples: the first product that reads it sums over
/// it or makes it an inner dimension, it is spread over an outer one, or its rows are looked up.
pub(super) fn is_weight(graph: &Graph, input: TensorId) -> bool {
    let (mut at, mut dim) = (input, 0);
    for _ in 0..MAX_STEPS {
        let Some(&(reader, _)) = graph.tensors[at as usize].uses.first() else { return false };
        match step(graph, &graph.nodes[reader as usize], (at, dim)) {
            Step::Is(is_weight) => return is_weight,
            Step::To(next, next_dim) => (at, dim) = (next, next_dim),
        }
    }
    false
}

enum Step {
    /// It is decided.
    Is(bool),
    /// It is what this dimension of a later value is.
    To(TensorId, usize),
}

fn step(graph: &Graph, node: &Node, (at, dim): (TensorId, usize)) -> Step {
    let rank = graph.tensors[at as usize].dims.len();
    let place = node.operands.iter().position(|&operand| operand == at).filter(|_| dim < rank);
    let (Some(place), Some(&result)) = (place, node.results.first()) else { return Step::Is(false) };
    let loops = &node.rule.operands[place][dim];
    let Some(&factor) = loops.iter().find(|&&factor| node.rule.factors[factor as usize].size > 1) else {
        // A part of one, such as one layer of a stack.
        return Step::To(at, dim + 1);
    };
    let made = node.rule.results[0].iter().position(|loops| loops.contains(&factor));
    match (node.rule.factors[factor as usize].kind, made) {
        (FactorKind::Reduce(_), _) => Step::Is(node.is_contraction),
        (FactorKind::Pass, Some(inner)) if node.is_contraction => {
            Step::Is(inner > 0 && !is_beside_state(graph, node, at))
        }
        (FactorKind::Pass, Some(inner)) if node.operands.len() == 1 && is_spread(graph, at, result) => {
            if inner > dim {
                Step::Is(true)
            } else {
                Step::To(result, inner)
            }
        }
        (FactorKind::Pass, Some(inner)) => Step::To(result, inner),
        _ if graph.tensors[result as usize].dims.get(dim) == Some(&1) => Step::To(result, dim + 1),
        _ => Step::Is(false),
    }
}

/// Whether a value is repeated along dimensions that it does not have.
fn is_spread(graph: &Graph, from: TensorId, to: TensorId) -> bool {
    let n_elements = |tensor: TensorId| graph.tensors[tensor as usize].dims.iter().product::<i64>();
    n_elements(to) > n_elements(from)
}

/// Whether the other operand of a product is what an output replaces, converted or transposed: `W · x`.
fn is_beside_state(graph: &Graph, node: &Node, at: TensorId) -> bool {
    let is_state = |tensor: TensorId| graph.aliases.iter().any(|&(_, param)| param == tensor);
    node.operands.iter().filter(|&&operand| operand != at).any(|&operand| is_state(source(graph, operand)))
}

/// The value of which another is made by operations with one operand.
fn source(graph: &Graph, mut tensor: TensorId) -> TensorId {
    while let [operand] = graph.nodes[graph.tensors[tensor as usize].def as usize].operands[..] {
        tensor = operand;
    }
    tensor
}
