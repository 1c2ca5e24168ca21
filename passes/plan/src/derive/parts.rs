//! How the layouts limit the number of microbatches: each device has its part of every microbatch.

use super::Facts;
use phzc_analysis::batch::batch_dims;
use phzc_analysis::graph::{Graph, Tensor};
use phzc_ir::{CompId, InstrId, Module};

/// A dimension of a tensor that runs over the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSplit {
    /// The computation of the instruction.
    pub comp: CompId,
    /// The instruction that makes the tensor.
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

/// The batch of every tensor in a planned module, as its devices have it: where several dimensions run over
/// the batch, the first.
pub fn batch_splits(module: &Module, facts: &Facts) -> Vec<BatchSplit> {
    batch_splits_of(facts, &Graph::build(module))
}

/// The same of its graph.
pub fn batch_splits_of(facts: &Facts, graph: &Graph) -> Vec<BatchSplit> {
    let split = |(tensor, dims): (&Tensor, u64)| {
        let ((comp, instr, leaf), dim) = (tensor.home, dims.trailing_zeros() as usize);
        let own = facts.comps[comp.index()].get(instr.index()).filter(|_| dims != 0)?;
        let leaf = own.leaves[leaf as usize];
        let n_tiles = leaf.layout.tiles(dim, &facts.header.meshes[leaf.stage]);
        Some(BatchSplit { comp, instr, size: tensor.dims[dim], n_tiles })
    };
    graph.tensors.iter().zip(batch_dims(graph)).filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::derive;
    use crate::testing::staged;

    #[test]
    fn a_batch_is_cut_into_as_many_microbatches_as_divide_what_each_device_has() {
        let module = staged(
            " {0}: (1, {}, may-alias) ",
            "0:x=2",
            "{}",
            &[
                ("x = f32[12,4] parameter(0), sharding={devices=[2,1]<=[2]}", "fwd", 0),
                ("w = f32[4] parameter(1)", "fwd", 0),
                ("h = f32[12,4] negate(x), sharding={devices=[2,1]<=[2]}", "fwd", 0),
                (
                    "ROOT t = (f32[4], f32[12,4]) tuple(w, h), sharding={{replicated}, {devices=[2,1]<=[2]}}",
                    "upd",
                    0,
                ),
            ],
        );
        let splits = batch_splits(&module, &derive(&module).expect("a legal header"));
        let split = |index: usize| BatchSplit {
            comp: module.entry,
            instr: InstrId::new(index),
            size: 12,
            n_tiles: 2,
        };
        assert_eq!(splits, [split(0), split(2)]);
        assert_eq!([1, 2, 3, 4, 6].map(|n| splits[0].allows(n)), [true, true, true, false, true]);
    }
}
