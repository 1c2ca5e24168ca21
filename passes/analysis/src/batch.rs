//! The batch: which inputs are data, how many samples they hold, and which dimensions of which tensors run
//! over them.

mod accumulation;
mod weights;

pub use accumulation::{Accumulation, accumulation};

use crate::graph::{Graph, Node, NodeKind, TensorId};
use phzc_ir::FactorKind;
use phzc_ir::dtype::Class;
use phzc_ir::rule::TensorMap;
use smallvec::SmallVec;

/// Inputs that no output replaces: a step's data, whose first dimension is the batch. No frozen weight is,
/// and where no output replaces an input there is no data. Running statistics that are handed out without
/// taking the place of the old ones are state all the same.
pub fn data(graph: &Graph) -> impl Iterator<Item = TensorId> {
    let mut is_state = vec![false; graph.tensors.len()];
    graph.aliases.iter().for_each(|&(_, param)| is_state[param as usize] = true);
    let is_data = move |&id: &TensorId| {
        let tensor = &graph.tensors[id as usize];
        let is_array = !tensor.is_scalar() && tensor.dtype.class() != Class::Complex;
        let is_given = tensor.param.is_some() && is_array && !graph.aliases.is_empty();
        is_given && !is_state[id as usize] && !is_running_average(graph, id) && !weights::is_weight(graph, id)
    };
    (0..graph.tensors.len() as TensorId).filter(is_data)
}

/// Whether an input is read once, to be scaled by constants, and becomes an output of its sizes: `0.9 * mean
/// + 0.1 * new`.
fn is_running_average(graph: &Graph, input: TensorId) -> bool {
    let (mut at, mut is_scaled, mut is_added) = (input, false, false);
    loop {
        let tensor = &graph.tensors[at as usize];
        if is_added && graph.outputs.contains(&at) {
            return true;
        }
        let [(reader, _)] = tensor.uses[..] else { return false };
        let node = &graph.nodes[reader as usize];
        let [result] = node.results[..] else { return false };
        let is_alike = node.kind == NodeKind::Op && graph.tensors[result as usize].dims == tensor.dims;
        let is_free = |&operand: &TensorId| operand == at || graph.tensors[operand as usize].is_free;
        let is_constant = node.operands.iter().all(is_free);
        if !is_alike || !is_scaled && !is_constant {
            return false;
        }
        is_added |= !is_constant;
        is_scaled |= node.operands.len() > 1;
        at = result;
    }
}

/// The number of samples: the greatest common divisor of the first sizes of the data.
pub fn batch_size(graph: &Graph) -> usize {
    data(graph).map(|id| graph.tensors[id as usize].dims[0]).fold(0, gcd).max(1) as usize
}

/// The greatest common divisor; that of 0 and `a` is `a`.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether each tensor has a dimension that runs over the batch.
pub fn has_batch(graph: &Graph) -> Vec<bool> {
    batch_dims(graph).into_iter().map(|dims| dims != 0).collect()
}

/// The dimensions of each tensor that run over the batch, a bit each.
///
/// Loops are followed from op to op, from operands to results and, for what is spread over the batch, such as
/// a bias, from results to operands. State has none.
pub fn batch_dims(graph: &Graph) -> Vec<u64> {
    batch_dims_of(graph, data(graph))
}

/// The same where these are the data.
pub fn batch_dims_of(graph: &Graph, data: impl Iterator<Item = TensorId>) -> Vec<u64> {
    let mut dims: Vec<u64> = vec![0; graph.tensors.len()];
    data.for_each(|id| dims[id as usize] = 1);
    let mut is_changed = dims.iter().any(|&dims| dims != 0);
    let mut factors = Vec::new();
    // Values that loops carry lead back to earlier nodes.
    while std::mem::take(&mut is_changed) {
        for node in &graph.nodes {
            if !batch_factors(node, &dims, &mut factors) {
                continue;
            }
            let made = node.results.iter().zip(&node.rule.results);
            let read = node.operands.iter().zip(&node.rule.operands);
            for (&tensor, map) in made.chain(read) {
                let is_state = graph.tensors[tensor as usize].param.is_some();
                let found = if is_state { 0 } else { dims_with(map, &factors) };
                is_changed |= found & !dims[tensor as usize] != 0;
                dims[tensor as usize] |= found;
            }
        }
    }
    dims
}

/// Finds out for each loop of a node whether it runs over the batch; returns whether one does. Of a dimension
/// that several loops make, it is the outermost.
fn batch_factors(node: &Node, dims: &[u64], found: &mut Vec<bool>) -> bool {
    let factors = &node.rule.factors;
    found.clear();
    if node.operands.iter().chain(&node.results).all(|&tensor| dims[tensor as usize] == 0) {
        return false;
    }
    found.resize(factors.len(), false);
    let made = node.results.iter().zip(&node.rule.results);
    for (&tensor, map) in node.operands.iter().zip(&node.rule.operands).chain(made) {
        for (dim, loops) in map.iter().enumerate().take(64) {
            let outermost = loops.iter().find(|&&factor| factors[factor as usize].size > 1);
            if let Some(&factor) = outermost.filter(|_| dims[tensor as usize] >> dim & 1 == 1) {
                let kind = factors[factor as usize].kind;
                let is_apart = !node.rule.halos.iter().any(|halo| halo.factor == factor);
                found[factor as usize] = is_apart && matches!(kind, FactorKind::Pass | FactorKind::Reduce(_));
            }
        }
    }
    found.contains(&true)
}

fn dims_with(map: &TensorMap, factors: &[bool]) -> u64 {
    let has = |(_, dim): &(usize, &SmallVec<[u32; 2]>)| dim.iter().any(|&factor| factors[factor as usize]);
    map.iter().enumerate().take(64).filter(has).fold(0, |all, (dim, _)| all | 1 << dim)
}

#[cfg(test)]
mod tests;
