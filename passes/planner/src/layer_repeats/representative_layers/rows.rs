//! Programs with several rows of equal layers: an encoder's and a decoder's.

use super::{Layer, Short, has_guests};
use crate::layer_repeats::Copies;
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::{Graph, NodeId};
use phzc_ir::InstrId;

impl Short {
    /// The same program with fewer layers of one more row; `None` where what is left has few, or one row's
    /// layers are not alike without the other's.
    pub(super) fn shorter(&self) -> Option<(Short, Graph, Blocks)> {
        let (other, graph, blocks) = Short::counted(&self.module, Copies::find(&self.module)?)?;
        let both = Both { own: self, other: &other };
        let short = both.are_apart().then(|| both.joined())?;
        let is_right =
            short.is_chain() && short.divides(&graph, &blocks) && !has_guests(&short, &graph, &blocks);
        is_right.then_some((short, graph, blocks))
    }

    /// Whether no block is in both inner layers of a row and nowhere else.
    fn divides(&self, graph: &Graph, blocks: &Blocks) -> bool {
        let place = |&node: &NodeId| self.place(&graph.nodes[node as usize]).filter(|place| place.is_inner());
        blocks.members.iter().all(|members| {
            let first = members.first().and_then(place);
            members.iter().any(|node| place(node).is_none())
                || members.iter().all(|node| place(node) == first)
        })
    }

    /// Whether other layers stand for one, or it for others.
    fn is_between(&self, layer: Layer) -> bool {
        layer.at > 0 && layer.at + 1 < self.n_layers[layer.row]
    }
}

/// A short program, and what stands for it with fewer layers of another row.
struct Both<'a> {
    own: &'a Short,
    other: &'a Short,
}

impl Both<'_> {
    /// Whether no instruction is in layers of both, but at the ends of both rows.
    fn are_apart(&self) -> bool {
        self.own.whole_of.iter().zip(&self.other.layer_of).all(|(id, theirs)| {
            let both = self.own.layer_of[id.index()].zip(*theirs);
            both.is_none_or(|(own, theirs)| !self.own.is_between(own) && !self.other.is_between(theirs))
        })
    }

    /// The other program, as what stands for the whole one. What is at the ends of both rows stays in the
    /// first.
    fn joined(&self) -> Short {
        let Both { own, other } = *self;
        let kept = || (0..other.whole_of.len()).map(|at| (at, other.whole_of[at].index()));
        let n_rows = own.n_layers.len();
        let of_row = |(own, theirs): (Option<Layer>, Option<Layer>)| {
            own.or(theirs.map(|it| Layer { row: n_rows + it.row, ..it }))
        };
        let whole = own.layer_of.iter().zip(&own.stands);
        Short {
            n_layers: [&own.n_layers[..], &other.n_layers].concat(),
            layer_of: whole
                .map(|(layer, stands)| of_row((*layer, other.layer_of[stands[0].index()])))
                .collect(),
            stands: own.stands.iter().map(|&stands| self.stands(stands)).collect(),
            whole_of: kept().map(|(_, at)| own.whole_of[at]).collect(),
            place: kept().map(|(left, at)| of_row((own.place[at], other.place[left]))).collect(),
            neighbours: kept().map(|(left, at)| self.neighbours(left, at)).collect(),
            twin: kept()
                .map(|(left, at)| own.twin[at].map(|twin| self.left(twin)).or(other.twin[left]))
                .collect(),
            module: other.module.clone(),
        }
    }

    /// An instruction that is in none of the other's layers, where it is left.
    fn left(&self, id: InstrId) -> InstrId {
        self.other.stands[id.index()][0]
    }

    fn stands(&self, [first, last]: [InstrId; 2]) -> [InstrId; 2] {
        [self.left(first), self.other.stands[last.index()][1]]
    }

    fn neighbours(&self, left: usize, at: usize) -> [Option<InstrId>; 2] {
        match self.own.place[at] {
            Some(_) => self.own.neighbours[at].map(|beside| beside.map(|id| self.left(id))),
            None => self.other.neighbours[left],
        }
    }
}
