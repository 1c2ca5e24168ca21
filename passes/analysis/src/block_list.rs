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

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "HloModule m
ENTRY e {
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  v = f32[8,8] parameter(2)
  a = f32[8,8] tanh(x)
  y = f32[8,8] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] tanh(y)
  z = f32[8,8] dot(b, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[8,8] exponential(z)
}";

    fn analysed() -> (Module, Graph, Blocks) {
        let module = phzc_ir::parse(PROGRAM).expect("legal");
        let graph = Graph::build(&module);
        let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
        (module, graph, blocks)
    }

    #[test]
    fn blocks_with_products_are_read_first() {
        let (_, graph, blocks) = analysed();
        let order = reading_order(&graph, &blocks);
        let has_product: Vec<bool> =
            order.iter().map(|&block| has_contraction(&graph, &blocks, block)).collect();
        assert_eq!(has_product.iter().filter(|it| **it).count(), 2);
        assert!(has_product[..2].iter().all(|it| *it), "{has_product:?}");
    }

    #[test]
    fn blocks_are_alike_that_do_the_same_on_the_same_shapes() {
        let (module, graph, blocks) = analysed();
        let prints: Vec<u64> = (0..blocks.members.len() as BlockId)
            .map(|block| fingerprint(&module, &graph, &blocks, block))
            .collect();
        let of = |name: &str| {
            let node =
                graph.nodes.iter().position(|node| &*module.comp(node.comp).instr(node.instr).name == name);
            prints[blocks.block_of[node.expect("it is there")].expect("it has a block") as usize]
        };
        assert_eq!(of("y"), of("z"));
        assert_eq!(of("w"), of("v"));
        assert_ne!(of("b"), of("c"));
        assert_ne!(of("y"), of("b"));
    }

    #[test]
    fn products_in_a_row_are_one_segment() {
        let (module, graph, blocks) = analysed();
        let found = repeated_segment(&module, &graph, &blocks);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    }
}
