//! By what a plan divides dimensions: the tiles of their layouts, and the microbatches of the batch.

use super::ends::gcd;
use super::ties::Place;
use phzc_analysis::batch;
use phzc_analysis::graph::Graph;
use phzc_ir::{CompId, InstrId, Module, Result};
use phzc_plan::derive::{Facts, derive};
use std::collections::BTreeSet;

/// The numbers that a dimension's size must be divisible by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Tiles of the layout: tensors that share a loop need the least common multiple of theirs.
    pub tiles: i64,
    /// Parts that the loop runs in, each of which divides by the tiles of every tensor.
    pub parts: i64,
}

impl Default for Cut {
    /// Uncut.
    fn default() -> Cut {
        Cut { tiles: 1, parts: 1 }
    }
}

impl Cut {
    /// What is divisible as both ask for; the product where the least common multiple is too large to write.
    pub fn and(self, other: Cut) -> Cut {
        Cut { tiles: lcm(self.tiles, other.tiles), parts: lcm(self.parts, other.parts) }
    }
}

fn lcm(a: i64, b: i64) -> i64 {
    (a / gcd(a, b)).saturating_mul(b)
}

/// The cuts of a planned program.
pub struct Cuts {
    facts: Facts,
    /// Leaves whose first dimension is the batch.
    batches: BTreeSet<(CompId, InstrId, usize)>,
}

impl Cuts {
    /// Reads a plan.
    ///
    /// # Errors
    /// When the header's notes cannot be read.
    pub fn of(planned: &Module) -> Result<Cuts> {
        let facts = derive(planned)?;
        let mut batches = BTreeSet::new();
        if facts.header.n_microbatches > 1 {
            let graph = Graph::build(planned);
            let home = |id| {
                let (comp, instr, leaf) = graph.tensors[id as usize].home;
                (comp, instr, leaf as usize)
            };
            batches.extend(batch::data(&graph).map(home));
        }
        Ok(Cuts { facts, batches })
    }

    /// The cut of a dimension.
    pub fn at(&self, Place { comp, instr, leaf, dim, .. }: Place) -> Cut {
        let instrs = &self.facts.comps[comp.index()];
        let found = instrs.get(instr.index()).and_then(|facts| facts.leaves.get(leaf));
        let tiles = found.map_or(1, |leaf| leaf.layout.tiles(dim, &self.facts.header.meshes[leaf.stage]));
        let is_batch = dim == 0 && self.batches.contains(&(comp, instr, leaf));
        let parts = if is_batch { self.facts.header.n_microbatches as i64 } else { 1 };
        Cut { tiles, parts }
    }
}
