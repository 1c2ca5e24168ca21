//! Which inputs are a step's data: those that no output replaces, less what only the update uses.

use phzc_analysis::batch::{batch_dims_of, data as replaced_by_none};
use phzc_analysis::graph::{Graph, TensorId};
use phzc_ir::Module;
use phzc_plan::derive::{Facts, Phase};

/// Inputs whose first dimension is the batch. With several microbatches they are cut, whoever reads them;
/// otherwise what an update reads beside nothing that has a part per microbatch is state, such as an average
/// of weights that is handed in and not out.
pub fn data(module: &Module, facts: &Facts, graph: &Graph) -> Vec<TensorId> {
    let mut data: Vec<TensorId> = replaced_by_none(graph).collect();
    if facts.header.n_microbatches > 1 {
        return data;
    }
    let own = &facts.comps[module.entry.index()];
    let phases = graph.nodes.iter().map(|it| (it.comp == module.entry).then(|| own[it.instr.index()].phase));
    let is_update: Vec<bool> = phases.map(|phase| phase == Some(Phase::Update)).collect();
    let updates = |tensor: TensorId| {
        let readers = graph.tensors[tensor as usize].uses.iter().map(|&(node, _)| node as usize);
        readers.filter(|&node| is_update[node])
    };
    if data.iter().all(|&tensor| updates(tensor).next().is_none()) {
        return data;
    }
    // What updates alone read would make parts of the sums that they read beside it.
    let tensors = data.iter().map(|&tensor| (tensor, graph.tensors[tensor as usize].uses.len()));
    let read_early = tensors.filter(|&(tensor, n_readers)| updates(tensor).count() < n_readers);
    let dims = batch_dims_of(graph, read_early.map(|(tensor, _)| tensor));
    let has_part = |&tensor: &TensorId| {
        let own = &graph.tensors[tensor as usize];
        // A constant beside state is spread as that is.
        let is_made = own.param.is_none() && !own.is_free && !is_update[own.def as usize];
        is_made && dims[tensor as usize] != 0
    };
    data.retain(|&tensor| updates(tensor).all(|node| graph.nodes[node].operands.iter().any(has_part)));
    data
}
