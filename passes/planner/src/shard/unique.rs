//! Unique blocks: equal layers have equal strategies and prices, so these are worked out once.
//!
//! Two blocks are equal when their nodes, in program order, do the same in the same phase to tensors of the
//! same sizes, with loops tied alike. A block's menu, its kernels' seconds and its bytes follow from nothing
//! else. Who reads its results is no part of that: edges are priced by the ends that they join (`edges.rs`).

use super::Pinned;
use super::liveness::{Does, Remade};
use super::strategies::Menu;
use indexmap::IndexMap;
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::classes::{ClassId, ClassMap};
use phzc_analysis::graph::{Graph, NodeId, TensorId};
use phzc_plan::derive::Nature;
use phzc_plan::pricing::Share;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// Which blocks and tensors are copies of earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Unique {
    /// Per block: the first that is equal to it, which may be itself.
    pub first: Vec<BlockId>,
    /// Per tensor: its counterpart in the first block that equals its maker's.
    pub twin: Vec<TensorId>,
    /// Per block: its loops, ascending; those of equal blocks correspond by position.
    loops: Vec<Vec<ClassId>>,
}

/// What blocks are compared by, beside the graph.
pub(super) struct Traits<'a> {
    pub pinned: &'a [Option<Pinned>],
    pub ops: &'a [Does],
    pub is_stored: &'a [bool],
    pub shares: &'a [Share],
    pub remade: &'a [Remade],
    pub is_live: &'a [bool],
    pub batch: &'a BTreeSet<ClassId>,
    pub natures: &'a [Nature],
}

impl Unique {
    pub(super) fn find(graph: &Graph, blocks: &Blocks, traits: &Traits) -> Unique {
        let mut seen: IndexMap<Exact, BlockId, FxBuildHasher> = IndexMap::default();
        let n_blocks = blocks.members.len();
        let mut unique = Unique {
            first: Vec::with_capacity(n_blocks),
            twin: (0..graph.tensors.len() as TensorId).collect(),
            loops: Vec::with_capacity(n_blocks),
        };
        for (block, members) in (0..).zip(&blocks.members) {
            let loops = blocks.loops(members);
            let exact = Describer { graph, blocks, traits, loops: &loops }.block(members);
            let first = *seen.entry(exact).or_insert(block);
            unique.first.push(first);
            unique.loops.push(loops);
            unique.pair(graph, &blocks.members[first as usize], members);
        }
        unique
    }

    /// As if every block were unlike all others.
    #[cfg(test)]
    pub(super) fn alone(graph: &Graph, blocks: &Blocks) -> Unique {
        Unique {
            first: (0..blocks.members.len() as BlockId).collect(),
            twin: (0..graph.tensors.len() as TensorId).collect(),
            loops: blocks.members.iter().map(|members| blocks.loops(members)).collect(),
        }
    }

    /// Makes the results of `first` the twins of those of `copy`.
    fn pair(&mut self, graph: &Graph, first: &[NodeId], copy: &[NodeId]) {
        let results = |nodes: &[NodeId]| {
            nodes.iter().flat_map(|&id| graph.nodes[id as usize].results.clone()).collect()
        };
        let (first, copy): (Vec<TensorId>, Vec<TensorId>) = (results(first), results(copy));
        copy.iter().zip(first).for_each(|(&copy, first)| self.twin[copy as usize] = first);
    }

    /// The menu of a block, from the menus of the blocks before it if it is a copy, else from `build`.
    pub(super) fn menu(&self, block: BlockId, menus: &[Menu], build: impl FnOnce() -> Menu) -> Menu {
        let first = self.first[block as usize] as usize;
        let Some(menu) = menus.get(first) else { return build() };
        let counterpart = |class: &ClassId| {
            let position = self.loops[first].binary_search(class).expect("a menu's loops are its block's");
            self.loops[block as usize][position]
        };
        Menu { loops: menu.loops.iter().map(counterpart).collect(), strategies: menu.strategies.clone() }
    }
}

struct Describer<'a> {
    graph: &'a Graph,
    blocks: &'a Blocks,
    traits: &'a Traits<'a>,
    loops: &'a [ClassId],
}

impl Describer<'_> {
    fn block(&self, members: &[NodeId]) -> Exact {
        let mut out = Exact::default();
        members.iter().for_each(|&id| self.blocks.summands[id as usize].hash(&mut out));
        self.blocks.block_of[members[0] as usize].map(|it| self.blocks.is_linear[it as usize]).hash(&mut out);
        for &class in self.loops {
            (self.blocks.classes.size(class), self.traits.batch.contains(&class)).hash(&mut out);
        }
        members.iter().for_each(|&id| self.node(id, &mut out));
        out
    }

    fn node(&self, id: NodeId, out: &mut Exact) {
        let node = &self.graph.nodes[id as usize];
        let does = &self.traits.ops[id as usize];
        (node.kind, does.op, does.attention.map(|it| it.product), self.blocks.phases[id as usize]).hash(out);
        let share = &self.traits.shares[id as usize];
        (&share.reads, share.launches).hash(out);
        for figure in [node.weight, node.trips, node.work.flops, node.work.transcendentals, node.work.bytes] {
            figure.to_bits().hash(out);
        }
        node.rule.factors.len().hash(out);
        for (factor, &class) in node.rule.factors.iter().zip(&self.blocks.node_classes[id as usize]) {
            let mut classes = SmallVec::new();
            self.blocks.classes.leaves(class, &mut classes);
            factor.kind.hash(out);
            self.classes(&classes, out);
        }
        (node.operands.len(), node.results.len()).hash(out);
        for (slot, &operand) in node.operands.iter().enumerate() {
            self.value(operand, self.blocks.use_map(id, slot), out);
            let remade = self.traits.remade[operand as usize];
            remade.map(|(reader, bytes)| (reader == id).then_some(bytes.to_bits())).hash(out);
        }
        for &result in &node.results {
            self.value(result, self.blocks.def_map(result), out);
            let (tensor, at) = (&self.graph.tensors[result as usize], result as usize);
            (&tensor.dims, tensor.is_free, self.traits.is_live[at], self.traits.pinned[at]).hash(out);
        }
    }

    fn value(&self, id: TensorId, map: &ClassMap, out: &mut Exact) {
        let tensor = &self.graph.tensors[id as usize];
        (
            tensor.dtype,
            tensor.bytes.to_bits(),
            tensor.weight.to_bits(),
            self.traits.is_stored[id as usize],
            self.traits.natures[id as usize],
            map.len(),
        )
            .hash(out);
        map.iter().for_each(|dim| self.classes(dim, out));
    }

    /// Classes by their position in the block.
    fn classes(&self, classes: &[ClassId], out: &mut Exact) {
        classes.len().hash(out);
        classes.iter().for_each(|class| self.loops.binary_search(class).hash(out));
    }
}

/// All that was hashed, byte by byte: equal only for equal blocks, as no digest is.
#[derive(Default, PartialEq, Eq, Hash)]
struct Exact(Vec<u8>);

impl Hasher for Exact {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
