//! Which layer of the chain each node belongs to: layers repeat the same contractions.
//!
//! The longest stretch of contractions that repeats gives the layers; every other contraction is one of its
//! own. A node belongs to the last layer that it reads from, one without data to the first that reads it, and
//! what precedes all contractions to a layer in front, unless later layers alone read it (targets of a loss).

use super::scale::Batch;
use indexmap::IndexSet;
use phzc_ir::Module;
use phzc_ir::notes::Phase;
use phzc_passes::graph::{Graph, NodeId, NodeKind};
use phzc_passes::phase::phases;
use phzc_passes::repeats::repeats;

/// By node: its layer; `None` for nodes outside of the forward part.
pub(super) fn layers(module: &Module, graph: &Graph, batch: &Batch) -> Vec<Option<usize>> {
    let phases = phases(module, graph);
    let is_forward = |id: usize| phases[id] == Phase::Forward && graph.nodes[id].kind != NodeKind::Source;
    let of_contraction = of_contractions(module, graph, &is_forward);
    let mut layers: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for id in (0..graph.nodes.len()).filter(|id| is_forward(*id)) {
        let node = &graph.nodes[id];
        if !node.results.iter().any(|result| batch.has_data[*result as usize]) {
            continue;
        }
        let read = node.operands.iter().filter_map(|id| layers[graph.tensors[*id as usize].def as usize]);
        layers[id] = Some(read.max().unwrap_or(0).max(of_contraction[id].unwrap_or(0)));
    }
    for id in (0..graph.nodes.len()).rev().filter(|id| is_forward(*id)) {
        let results = graph.nodes[id].results.iter();
        let readers = results.flat_map(|result| &graph.tensors[*result as usize].uses);
        let first = readers.filter_map(|(reader, _)| layers[*reader as usize]).min();
        let is_late = layers[id] == Some(0) && first.is_some_and(|first| first > 1);
        if is_late || layers[id].is_none() {
            layers[id] = first;
        }
    }
    layers
}

/// By node: the layer that a contraction begins or goes on with, counted from 1.
fn of_contractions(
    module: &Module,
    graph: &Graph,
    is_forward: &impl Fn(usize) -> bool,
) -> Vec<Option<usize>> {
    let is_matrix = |id: usize| {
        let op = graph.opcode(module, id as NodeId);
        op.is_some_and(phzc_ir::flops::is_contraction) && is_forward(id)
    };
    let ids: Vec<usize> = (0..graph.nodes.len()).filter(|id| is_matrix(*id)).collect();
    let mut known: IndexSet<String> = IndexSet::new();
    let prints: Vec<u64> =
        ids.iter().map(|id| known.insert_full(format!("{}", graph.nodes[*id].rule)).0 as u64).collect();
    let mut layers = vec![None; graph.nodes.len()];
    let mut layer = 0;
    let starts = starts(&prints);
    for (at, id) in ids.iter().enumerate() {
        layer += usize::from(starts[at]);
        layers[*id] = Some(layer);
    }
    layers
}

/// Whether each contraction begins a layer.
fn starts(prints: &[u64]) -> Vec<bool> {
    let mut starts = vec![true; prints.len()];
    for (copy, first) in repeats(prints) {
        for stretch in [first, copy] {
            starts[stretch.start + 1..stretch.end].fill(false);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contractions_that_repeat_are_layers_and_the_others_stand_alone() {
        let starts = starts(&[9, 1, 2, 3, 1, 2, 3, 7]);
        assert_eq!(starts, [true, true, false, false, true, false, false, true]);
    }
}
