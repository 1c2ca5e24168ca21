//! Inputs that stay as they are and yet are no data: frozen weights, tables, constants of all samples.

use crate::graph::{Graph, Node, TensorId};
use phzc_ir::FactorKind;
use std::collections::BTreeSet;

/// How many readers are looked at.
const MAX_STEPS: usize = 64;

/// Whether the first dimension of an input cannot run over samples: a reader shows it, none contradicts.
pub(super) fn is_weight(graph: &Graph, input: TensorId) -> bool {
    if graph.tensors[input as usize].dims.first() == Some(&1) {
        // A batch of one, as likely as not.
        return false;
    }
    let (mut todo, mut seen) = (vec![(input, 0)], BTreeSet::from([(input, 0)]));
    let (mut is_weight, mut n_steps) = (false, 0);
    while let Some((at, dim)) = todo.pop() {
        for &(reader, _) in &graph.tensors[at as usize].uses {
            n_steps += 1;
            match found(graph, &graph.nodes[reader as usize], (at, dim)) {
                _ if n_steps > MAX_STEPS => return is_weight,
                Found::Data => return false,
                Found::Weight => is_weight = true,
                Found::Nothing => {}
                Found::Same(next, dim) => todo.extend(seen.insert((next, dim)).then_some((next, dim))),
            }
        }
    }
    is_weight
}

/// What a reader shows of a dimension.
enum Found {
    /// It runs over samples: it stays the outermost one in a product, both operands of a product have it
    /// outermost and are summed over it, or it is summed over elsewhere.
    Data,
    /// It does not: a product sums over it or makes it an inner dimension, its rows are looked up, or it is
    /// spread along an outer one.
    Weight,
    Nothing,
    /// It is this dimension of a later value.
    Same(TensorId, usize),
}

fn found(graph: &Graph, node: &Node, (at, dim): (TensorId, usize)) -> Found {
    let rank = graph.tensors[at as usize].dims.len();
    let place = node.operands.iter().position(|&operand| operand == at).filter(|_| dim < rank);
    let (Some(place), Some(&result)) = (place, node.results.first()) else { return Found::Nothing };
    let loops = &node.rule.operands[place][dim];
    let Some(&factor) = loops.iter().find(|&&factor| node.rule.factors[factor as usize].size > 1) else {
        // A part of one, such as one layer of a stack.
        return Found::Same(at, dim + 1);
    };
    let made = node.rule.results[0].iter().position(|loops| loops.contains(&factor));
    match (node.rule.factors[factor as usize].kind, made) {
        (FactorKind::Reduce(_), _) if !node.is_contraction => Found::Data,
        (FactorKind::Reduce(_), _) => of_sum(node, place, factor),
        // A left operand's own dimensions come before those of a weight on its right.
        (FactorKind::Pass, Some(inner)) if node.is_contraction && inner * place == 0 => Found::Data,
        (FactorKind::Pass, Some(_)) if node.is_contraction => {
            if is_beside_data(graph, node, at) {
                Found::Weight
            } else {
                Found::Data
            }
        }
        (FactorKind::Pass, Some(inner)) if inner > dim && is_spread(graph, node, result) => Found::Weight,
        (FactorKind::Pass, Some(inner)) => Found::Same(result, inner),
        // Parts: one of a stack, or the rows of a table that there are positions for.
        _ if node.operands.first() != Some(&at) || graph.tensors[result as usize].dims.len() != rank => {
            Found::Nothing
        }
        _ if graph.tensors[result as usize].dims[dim] == 1 => Found::Same(result, dim + 1),
        _ => Found::Same(result, dim),
    }
}

/// Of a sum over a dimension: in a weight's gradient both operands have the samples first.
fn of_sum(node: &Node, place: usize, factor: u32) -> Found {
    let others = node.rule.operands.iter().enumerate().filter(|(other, _)| *other != place);
    let mut firsts = others.filter_map(|(_, dims)| dims.first());
    if firsts.any(|loops| loops.contains(&factor)) { Found::Data } else { Found::Weight }
}

/// Whether a value is repeated along dimensions that it does not have.
fn is_spread(graph: &Graph, node: &Node, result: TensorId) -> bool {
    let n_elements = |tensor: TensorId| graph.tensors[tensor as usize].dims.iter().product::<i64>();
    matches!(node.operands[..], [operand] if n_elements(result) > n_elements(operand))
}

/// Whether the other operand of a product depends on data or on frozen weights: else, in `W · x`, it is
/// the weight.
fn is_beside_data(graph: &Graph, node: &Node, at: TensorId) -> bool {
    let mut todo: Vec<TensorId> = node.operands.iter().copied().filter(|&operand| operand != at).collect();
    let mut seen: BTreeSet<TensorId> = todo.iter().copied().collect();
    let is_state = |tensor: TensorId| graph.aliases.iter().any(|&(_, param)| param == tensor);
    while let Some(tensor) = todo.pop() {
        if graph.tensors[tensor as usize].param.is_some() && !is_state(tensor) {
            return true;
        }
        let maker = &graph.nodes[graph.tensors[tensor as usize].def as usize];
        todo.extend(maker.operands.iter().filter(|&&operand| seen.insert(operand)));
    }
    false
}
