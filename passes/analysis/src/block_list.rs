//! The blocks as a reader meets them: their order, what each lists, and which are alike.

use crate::blocks::{BlockId, Blocks};
use crate::graph::{Graph, Node, NodeId};
use crate::merged::{self, Joined};
use crate::segments::{self, Listed};
use phzc_ir::{Instr, Key, Module};
use std::hash::{Hash, Hasher};

/// The blocks as a reader meets them; a block's number is its position here.
pub fn reading_order(graph: &Graph, blocks: &Blocks) -> Vec<BlockId> {
    let mut order: Vec<BlockId> = (0..blocks.members.len() as BlockId).collect();
    order.sort_by_key(|&block| !has_contraction(graph, blocks, block));
    order
}

fn has_contraction(graph: &Graph, blocks: &Blocks, block: BlockId) -> bool {
    blocks.members[block as usize].iter().any(|&node| graph.nodes[node as usize].is_contraction)
}

/// The blocks with contractions, of all in reading order.
pub fn listed<'a>(
    graph: &'a Graph,
    blocks: &'a Blocks,
    order: &'a [BlockId],
    joined: &'a [Vec<Joined>],
) -> Listed<'a> {
    let n_listed = order.iter().take_while(|&&block| has_contraction(graph, blocks, block)).count();
    Listed { graph, blocks, order: &order[..n_listed], joined }
}

/// The fingerprint of each listed block.
pub fn fingerprints(module: &Module, listed: &Listed) -> Vec<u64> {
    listed.order.iter().map(|&block| fingerprint(module, listed.graph, listed.blocks, block)).collect()
}

/// The blocks of the segment that repeats, each with its counterparts in the copies.
pub fn repeated_segment(module: &Module, graph: &Graph, blocks: &Blocks) -> Vec<Vec<BlockId>> {
    let (order, joined) = (reading_order(graph, blocks), merged::joined(graph, blocks));
    let listed = listed(graph, blocks, &order, &joined);
    segments::repeated(&listed, &fingerprints(module, &listed))
}

/// A node's instruction without the attributes that do not compute.
pub fn bare_instr(module: &Module, node: &Node) -> Instr {
    let mut instr = module.comp(node.comp).instr(node.instr).clone();
    instr.attrs.retain(|attr| !matches!(attr.key, Key::Metadata | Key::FrontendAttributes | Key::Sharding));
    instr
}

/// Equal for blocks that do the same work on the same shapes, in whatever order: JAX writes the gradients of
/// equal layers in different ones.
pub fn fingerprint(module: &Module, graph: &Graph, blocks: &Blocks, block: BlockId) -> u64 {
    let member = |&id: &NodeId| {
        let (node, mut hasher) = (&graph.nodes[id as usize], rustc_hash::FxHasher::default());
        graph.opcode(module, id).hash(&mut hasher);
        node.rule.to_string().hash(&mut hasher);
        node.results.iter().for_each(|&result| graph.tensors[result as usize].dtype.hash(&mut hasher));
        hasher.finish()
    };
    let mut members: Vec<u64> = blocks.members[block as usize].iter().map(member).collect();
    members.sort_unstable();
    let mut hasher = rustc_hash::FxHasher::default();
    members.hash(&mut hasher);
    hasher.finish()
}
