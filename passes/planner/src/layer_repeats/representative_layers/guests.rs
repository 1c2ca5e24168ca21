//! Readers of inner layers that are in no layer of their row, and make the one that they read unlike the
//! others.

use super::{FIRST_INNER, LAST_INNER, Layer, Short};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::graph::{Graph, NodeId, Tensor};

/// Whether something in no layer of a row reads what an inner layer makes, but not as the next layer does:
/// then what it costs would count as often as there are layers.
pub fn has_guests(short: &Short, graph: &Graph, blocks: &Blocks) -> bool {
    let nodes = short.nodes(graph);
    let pairs = short.all_twins().filter_map(|(own, twin)| nodes[own.index()].zip(nodes[twin.index()]));
    let results = |node: NodeId| graph.nodes[node as usize].results.iter();
    let pairs = pairs.flat_map(|(own, twin)| results(own).zip(results(twin)));
    let guests = Guests { short, graph, blocks };
    pairs.into_iter().any(|(&own, &twin)| {
        let [own, twin] = [own, twin].map(|id| &graph.tensors[id as usize]);
        let layer = guests.place(own.def).expect("a layer's");
        guests.are_in(own, guests.is_read_at(twin, Layer { at: LAST_INNER, ..layer }))
            || guests.are_in(twin, guests.is_read_at(own, Layer { at: FIRST_INNER, ..layer }))
    })
}

struct Guests<'a> {
    short: &'a Short,
    graph: &'a Graph,
    blocks: &'a Blocks,
}

impl Guests<'_> {
    fn place(&self, node: NodeId) -> Option<Layer> {
        self.short.place(&self.graph.nodes[node as usize])
    }

    fn row(&self, node: NodeId) -> Option<usize> {
        self.place(node).map(|place| place.row)
    }

    fn is_read_at(&self, tensor: &Tensor, place: Layer) -> bool {
        tensor.uses.iter().any(|&(reader, _)| self.place(reader) == Some(place))
    }

    /// Whether a value has such a reader, where `is_chained` says that the next layer reads the other inner
    /// layer's.
    fn are_in(&self, tensor: &Tensor, is_chained: bool) -> bool {
        let row = self.row(tensor.def);
        let mut readers = tensor.uses.iter().filter(|&&(reader, _)| self.row(reader) != row);
        readers.any(|&(reader, _)| self.is_guest(tensor.def, reader, is_chained))
    }

    fn is_guest(&self, def: NodeId, reader: NodeId, is_chained: bool) -> bool {
        match self.blocks.block_of[def as usize] {
            Some(own) if Some(own) == self.blocks.block_of[reader as usize] => !self.is_shared(own, def),
            _ => !is_chained,
        }
    }

    /// Whether both inner layers of the row that `def` is in are in one block, whose other members cost
    /// nothing of their own.
    fn is_shared(&self, block: BlockId, def: NodeId) -> bool {
        let (members, own) = (&self.blocks.members[block as usize], self.place(def));
        let is_at = |at: usize| {
            let place = own.map(|own| Layer { at, ..own });
            members.iter().any(|&node| self.place(node) == place)
        };
        is_at(FIRST_INNER) && is_at(LAST_INNER)
    }
}
