//! Programs with several rows of equal layers: an encoder's and a decoder's, stages of a vision model.

use super::{Layer, Short, has_guests};
use crate::layer_repeats::Copies;
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::Graph;
use phzc_ir::InstrId;

impl Short {
    /// The same program with fewer layers of one more row; `None` where what is left has few, or one row's
    /// layers are not alike without the other's.
    pub(super) fn shorter(&self) -> Option<(Short, Graph, Blocks)> {
        let (other, graph, blocks) = Short::counted(&self.module, Copies::find(&self.module)?)?;
        let both = self.and(other)?;
        let is_right =
            both.is_chain() && both.divides(&graph, &blocks) && !has_guests(&both, &graph, &blocks);
        is_right.then_some((both, graph, blocks))
    }

    /// What is left of this program where another one stands for its own; `None` where something that layers
    /// stand for is in layers of both. What is at the ends of both stays in this one's.
    fn and(&self, other: Short) -> Option<Short> {
        let first_row = self.n_layers.len();
        let in_row = |layer: Layer| Layer { row: first_row + layer.row, ..layer };
        let is_open = |layer: Layer, of: &Short| layer.at > 0 && layer.at + 1 < of.n_layers[layer.row];
        let mut both = self.whole_of.iter().zip(&other.layer_of);
        let is_apart = both.all(|(id, theirs)| {
            let both = self.layer_of[id.index()].zip(*theirs);
            both.is_none_or(|(own, theirs)| !is_open(own, self) && !is_open(theirs, &other))
        });
        // What is in none of the other's layers is there as it is.
        let left = |id: InstrId| other.stands[id.index()][0];
        let layer = |(own, stands): (&Option<Layer>, &[InstrId; 2])| {
            own.or_else(|| other.layer_of[stands[0].index()].map(in_row))
        };
        let stands = |[first, last]: &[InstrId; 2]| [left(*first), other.stands[last.index()][1]];
        let kept = || other.whole_of.iter().map(|id| id.index()).enumerate();
        let beside = |(at, own): (usize, usize)| match self.place[own] {
            Some(_) => self.neighbours[own].map(|beside| beside.map(left)),
            None => other.neighbours[at],
        };
        let twin = |(at, own): (usize, usize)| self.twin[own].map(left).or(other.twin[at]);
        is_apart.then(|| Short {
            n_layers: [&self.n_layers[..], &other.n_layers].concat(),
            layer_of: self.layer_of.iter().zip(&self.stands).map(layer).collect(),
            stands: self.stands.iter().map(stands).collect(),
            whole_of: kept().map(|(_, own)| self.whole_of[own]).collect(),
            place: kept().map(|(at, own)| self.place[own].or(other.place[at].map(in_row))).collect(),
            neighbours: kept().map(beside).collect(),
            twin: kept().map(twin).collect(),
            module: other.module,
        })
    }

    /// Whether no block is in both inner layers of a row and nowhere else.
    fn divides(&self, graph: &Graph, blocks: &Blocks) -> bool {
        let place = |&node: &u32| self.place(&graph.nodes[node as usize]).filter(|place| place.is_inner());
        blocks.members.iter().all(|members| {
            let first = members.first().and_then(place);
            members.iter().any(|node| place(node).is_none())
                || members.iter().all(|node| place(node) == first)
        })
    }
}
