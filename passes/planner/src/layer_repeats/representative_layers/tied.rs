//! Which blocks of the last inner layer are laid out as the first one's.

use super::{LAST_INNER, Layer, Short};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::classes::{ClassId, ClassMap};
use phzc_analysis::graph::{Graph, NodeId};

/// A node of the last inner layer, its twin in the first one, and the blocks of both.
struct Pair {
    own: NodeId,
    twin: NodeId,
    from: BlockId,
    to: BlockId,
}

impl Short {
    /// Per block: the one that it must be laid out as, which is itself but for the last inner layer's.
    ///
    /// A block that other layers share is laid out as it is best for them. `None` where one layer's values
    /// would then be read by the next as they do not lie.
    pub fn tied(&self, graph: &Graph, blocks: &Blocks) -> Option<Vec<BlockId>> {
        let pairs = self.pairs(graph, blocks)?;
        let is_apart = self.is_apart(graph, blocks, &pairs);
        let mut torn = pairs.iter().filter(|it| it.from != it.to && is_apart[it.from as usize]);
        if torn.any(|it| self.crosses(graph, it.own)) {
            return None;
        }
        let mut tied: Vec<BlockId> = (0..blocks.members.len() as BlockId).collect();
        for it in pairs.iter().filter(|it| !is_apart[it.from as usize]) {
            tied[it.from as usize] = it.to;
        }
        tied.iter().all(|&to| tied[to as usize] == to).then_some(tied)
    }

    /// The nodes in blocks that have twins. `None` where only one of both is in a block.
    fn pairs(&self, graph: &Graph, blocks: &Blocks) -> Option<Vec<Pair>> {
        let nodes = self.nodes(graph);
        let mut pairs = Vec::new();
        for (own, twin) in nodes.iter().zip(&self.twin) {
            let (Some(own), Some(twin)) = (*own, twin.and_then(|twin| nodes[twin.index()])) else { continue };
            match (blocks.block_of[own as usize], blocks.block_of[twin as usize]) {
                (Some(from), Some(to)) => pairs.push(Pair { own, twin, from, to }),
                (None, None) => {}
                _ => return None,
            }
        }
        Some(pairs)
    }

    /// Per block: whether it cannot be laid out as its twin.
    fn is_apart(&self, graph: &Graph, blocks: &Blocks, pairs: &[Pair]) -> Vec<bool> {
        let loops: Vec<Vec<ClassId>> = blocks.members.iter().map(|members| blocks.loops(members)).collect();
        let place: Vec<Option<Layer>> = graph.nodes.iter().map(|node| self.place(node)).collect();
        let is_last = |node: &NodeId| place[*node as usize].is_some_and(|place| place.at == LAST_INNER);
        let mut is_apart: Vec<bool> = blocks.members.iter().map(|it| !it.iter().all(is_last)).collect();
        let rows: Vec<Option<usize>> = place.iter().map(|place| place.map(|place| place.row)).collect();
        // What is in no layer of the row and in one block with one inner layer only makes that another block
        // than the other's.
        let size = |block: BlockId, own: NodeId| {
            let others =
                blocks.members[block as usize].iter().filter(|&&at| rows[at as usize] != rows[own as usize]);
            (others.count(), loops[block as usize].len())
        };
        let mut known: Vec<Option<BlockId>> = vec![None; blocks.members.len()];
        for it in pairs {
            let is_other = known[it.from as usize].replace(it.to).is_some_and(|known| known != it.to);
            is_apart[it.from as usize] |= is_other
                || !lie_alike(graph, blocks, &loops, it)
                || it.from != it.to && size(it.from, it.own) != size(it.to, it.own);
        }
        is_apart
    }

    /// Whether another layer reads what a node makes.
    fn crosses(&self, graph: &Graph, node: NodeId) -> bool {
        let own = self.place(&graph.nodes[node as usize]);
        let results = graph.nodes[node as usize].results.iter();
        let readers = results.flat_map(|&result| &graph.tensors[result as usize].uses);
        let places = readers.filter_map(|&(reader, _)| self.place(&graph.nodes[reader as usize]).zip(own));
        places.into_iter().any(|(place, own)| place.row == own.row && place.at != own.at)
    }
}

/// Whether the loops of two blocks, by their order, are at the same places of what two nodes read and make.
fn lie_alike(graph: &Graph, blocks: &Blocks, loops: &[Vec<ClassId>], pair: &Pair) -> bool {
    let places = |map: &ClassMap, block: BlockId| -> Vec<Vec<Option<usize>>> {
        let loops = &loops[block as usize];
        map.iter().map(|dim| dim.iter().map(|class| loops.binary_search(class).ok()).collect()).collect()
    };
    let all = |node: NodeId, block: BlockId| -> Vec<Vec<Vec<Option<usize>>>> {
        let it = &graph.nodes[node as usize];
        let read = (0..it.operands.len()).map(|slot| blocks.use_map(node, slot));
        let made = it.results.iter().map(|&result| blocks.def_map(result));
        read.chain(made).map(|map| places(map, block)).collect()
    };
    all(pair.own, pair.from) == all(pair.twin, pair.to)
}
