//! Which blocks of the last inner layer are laid out as the first one's.

use super::{LAST_INNER, Short};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::classes::{ClassId, ClassMap};
use phzc_analysis::graph::{Graph, NodeId};

impl Short {
    /// Per block: the one that it must be laid out as, which is itself but for the last inner layer's.
    ///
    /// A block that other layers share is laid out as it is best for them. `None` where one layer's values
    /// would then be read by the next as they do not lie.
    pub fn tied(&self, graph: &Graph, blocks: &Blocks) -> Option<Vec<BlockId>> {
        let nodes = self.nodes(graph);
        let loops: Vec<Vec<ClassId>> = blocks.members.iter().map(|members| blocks.loops(members)).collect();
        let mut tied: Vec<Option<BlockId>> = vec![None; blocks.members.len()];
        let mut is_apart = vec![false; blocks.members.len()];
        let mut pairs = Vec::new();
        for (own, twin) in nodes.iter().zip(&self.twin) {
            let (Some(own), Some(twin)) = (*own, twin.and_then(|twin| nodes[twin.index()])) else { continue };
            let block = |node: NodeId| blocks.block_of[node as usize];
            let (from, to) = match (block(own), block(twin)) {
                (Some(from), Some(to)) => (from, to),
                (None, None) => continue,
                _ => return None,
            };
            let is_like = lie_alike(graph, blocks, &loops, (own, from), (twin, to));
            is_apart[from as usize] |= !is_like || tied[from as usize].is_some_and(|known| known != to);
            tied[from as usize] = Some(to);
            pairs.push((own, from, to));
        }
        // What is in no layer and in one block with one inner layer only makes that another block than the
        // other's.
        let n_common = |block: BlockId| {
            let place = |node: &&NodeId| self.place(&graph.nodes[**node as usize]).is_none();
            blocks.members[block as usize].iter().filter(place).count()
        };
        let n_loops = |block: BlockId| loops[block as usize].len();
        for &(_, from, to) in pairs.iter().filter(|(_, from, to)| from != to) {
            is_apart[from as usize] |= n_common(from) != n_common(to) || n_loops(from) != n_loops(to);
        }
        for (block, members) in blocks.members.iter().enumerate() {
            let is_inner = |&node: &NodeId| self.place(&graph.nodes[node as usize]) == Some(LAST_INNER);
            is_apart[block] |= !members.iter().all(is_inner);
        }
        let is_alike = |from: BlockId, to: BlockId| from == to || !is_apart[from as usize];
        let crosses = |node: NodeId| self.crosses(graph, node);
        if pairs.iter().any(|&(own, from, to)| !is_alike(from, to) && crosses(own)) {
            return None;
        }
        let to = |(block, to): (BlockId, Option<BlockId>)| {
            to.filter(|_| !is_apart[block as usize]).unwrap_or(block)
        };
        let found: Vec<BlockId> = (0..).zip(tied).map(to).collect();
        found.iter().all(|&to| found[to as usize] == to).then_some(found)
    }

    /// Whether another layer reads what a node makes.
    fn crosses(&self, graph: &Graph, node: NodeId) -> bool {
        let own = self.place(&graph.nodes[node as usize]);
        let results = graph.nodes[node as usize].results.iter();
        let readers = results.flat_map(|&result| &graph.tensors[result as usize].uses);
        let mut places = readers.filter_map(|&(reader, _)| self.place(&graph.nodes[reader as usize]));
        places.any(|place| Some(place) != own)
    }
}

/// Whether the loops of two blocks, by their order, are at the same places of what two nodes read and make.
fn lie_alike(
    graph: &Graph,
    blocks: &Blocks,
    loops: &[Vec<ClassId>],
    (a, a_block): (NodeId, BlockId),
    (b, b_block): (NodeId, BlockId),
) -> bool {
    let places = |map: &ClassMap, block: BlockId| -> Vec<Vec<Option<usize>>> {
        let place = |class: &ClassId| loops[block as usize].binary_search(class).ok();
        map.iter().map(|dim| dim.iter().map(place).collect()).collect()
    };
    let all = |node: NodeId, block: BlockId| -> Vec<Vec<Vec<Option<usize>>>> {
        let it = &graph.nodes[node as usize];
        let read = (0..it.operands.len()).map(|slot| blocks.use_map(node, slot));
        let made = it.results.iter().map(|&result| blocks.def_map(result));
        read.chain(made).map(|map| places(map, block)).collect()
    };
    all(a, a_block) == all(b, b_block)
}
