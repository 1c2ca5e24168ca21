//! Readers of inner layers that are in no layer, and make the one that they read unlike the others.

use super::{FIRST_INNER, LAST_INNER, Short};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::graph::{Graph, NodeId, Tensor};

/// Whether something in no layer reads what an inner layer makes, but not as the next layer does: then what
/// it costs would count as often as there are layers.
pub fn has_guests(short: &Short, graph: &Graph, blocks: &Blocks) -> bool {
    let nodes = short.nodes(graph);
    let pairs = short.twins().filter_map(|(own, twin)| nodes[own.index()].zip(nodes[twin.index()]));
    let results = |node: NodeId| graph.nodes[node as usize].results.iter();
    let pairs = pairs.flat_map(|(own, twin)| results(own).zip(results(twin)));
    let guests = Guests { short, graph, blocks };
    let tensor = |&id: &u32| &graph.tensors[id as usize];
    pairs.map(|(own, twin)| (tensor(own), tensor(twin))).any(|(own, twin)| {
        guests.are_in(own, guests.is_read_at(twin, LAST_INNER))
            || guests.are_in(twin, guests.is_read_at(own, FIRST_INNER))
    })
}

struct Guests<'a> {
    short: &'a Short,
    graph: &'a Graph,
    blocks: &'a Blocks,
}

impl Guests<'_> {
    fn place(&self, node: NodeId) -> Option<usize> {
        self.short.place(&self.graph.nodes[node as usize])
    }

    fn is_read_at(&self, tensor: &Tensor, place: usize) -> bool {
        tensor.uses.iter().any(|&(reader, _)| self.place(reader) == Some(place))
    }

    /// Whether a value has such a reader, where `is_chained` says that the next layer reads the other inner
    /// layer's.
    fn are_in(&self, tensor: &Tensor, is_chained: bool) -> bool {
        let mut readers = tensor.uses.iter().filter(|&&(reader, _)| self.place(reader).is_none());
        readers.any(|&(reader, _)| self.is_guest(tensor.def, reader, is_chained))
    }

    fn is_guest(&self, def: NodeId, reader: NodeId, is_chained: bool) -> bool {
        match self.blocks.block_of[def as usize] {
            Some(own) if Some(own) == self.blocks.block_of[reader as usize] => !self.is_shared(own),
            _ => !is_chained,
        }
    }

    /// Whether both inner layers are in one block, whose other members cost nothing of their own.
    fn is_shared(&self, block: BlockId) -> bool {
        let members = &self.blocks.members[block as usize];
        let is_at = |at: usize| members.iter().any(|&node| self.place(node) == Some(at));
        is_at(FIRST_INNER) && is_at(LAST_INNER)
    }
}
