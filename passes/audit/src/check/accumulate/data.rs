//! Which inputs are a step's data: those that no output replaces, less what only the update uses.

use phzc_analysis::batch::{batch_dims_of, data as replaced_by_none};
use phzc_analysis::graph::{Graph, Node, TensorId};
use phzc_ir::Module;
use phzc_plan::derive::{Facts, Phase};

/// Inputs whose first dimension is the batch. With several microbatches they are cut, whoever reads them;
/// otherwise what an update reads beside nothing that has a part per microbatch is state, such as an average
/// of weights that is handed in and not out.
pub fn data(module: &Module, facts: &Facts, graph: &Graph) -> Vec<TensorId> {
    let all: Vec<TensorId> = replaced_by_none(graph).collect();
    if facts.header.n_microbatches > 1 {
        return all;
    }
    let is_update = |node: &Node| {
        node.comp == module.entry && facts.comps[node.comp.index()][node.instr.index()].phase == Phase::Update
    };
    let updates = |tensor: TensorId| {
        let readers = graph.tensors[tensor as usize].uses.iter();
        readers.map(|&(node, _)| &graph.nodes[node as usize]).filter(|node| is_update(node))
    };
    if all.iter().all(|&tensor| updates(tensor).next().is_none()) {
        return all;
    }
    // What updates alone read would make parts of the sums that they read beside it.
    let is_read_early =
        |&tensor: &TensorId| updates(tensor).count() < graph.tensors[tensor as usize].uses.len();
    let dims = batch_dims_of(graph, all.iter().copied().filter(is_read_early));
    let has_part = |tensor: TensorId| {
        let own = &graph.tensors[tensor as usize];
        // A constant beside state is spread as that is.
        let is_made = own.param.is_none() && !own.is_free && !is_update(&graph.nodes[own.def as usize]);
        is_made && dims[tensor as usize] != 0
    };
    let is_state =
        |tensor: TensorId| updates(tensor).any(|node| !node.operands.iter().any(|&it| has_part(it)));
    all.into_iter().filter(|&tensor| !is_state(tensor)).collect()
}
