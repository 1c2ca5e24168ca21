//! How the layouts limit the number of microbatches: each device has its part of every microbatch.

use super::{Facts, Nature};
use crate::batch::batch_dims;
use crate::graph::Graph;
use phzc_ir::{CompId, InstrId, Module};

/// A dimension of an activation that runs over the batch and is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSplit {
    /// The computation of the instruction.
    pub comp: CompId,
    /// The instruction that makes the activation.
    pub instr: InstrId,
    /// Elements of the dimension, for the whole batch.
    pub size: i64,
    /// Over how many devices it is split.
    pub n_tiles: i64,
}

impl BatchSplit {
    /// Whether each of `n` microbatches can be split as the batch is.
    pub fn allows(&self, n: usize) -> bool {
        i64::try_from(n).ok().and_then(|n| n.checked_mul(self.n_tiles)).is_some_and(|n| self.size % n == 0)
    }
}

/// Every split of the batch in a planned module.
pub fn batch_splits(module: &Module, facts: &Facts) -> Vec<BatchSplit> {
    let graph = Graph::build(module);
    let dims = batch_dims(&graph);
    let mut found = Vec::new();
    for (tensor, dims) in graph.tensors.iter().zip(dims) {
        let (comp, instr, leaf) = (tensor.home.0, tensor.home.1, tensor.home.2 as usize);
        let Some(own) = facts.comps[comp.index()].get(instr.index()) else { continue };
        if own.natures.get(leaf) != Some(&Nature::Part) {
            continue;
        }
        let (layout, mesh) = (own.leaves[leaf].layout, &facts.header.meshes[own.leaves[leaf].stage]);
        for (dim, &size) in tensor.dims.iter().enumerate().take(64).filter(|(dim, _)| dims >> dim & 1 == 1) {
            let n_tiles = layout.tiles(dim, mesh);
            found.extend((n_tiles > 1).then_some(BatchSplit { comp, instr, size, n_tiles }));
        }
    }
    found
}
