//! A program with fewer of its equal layers: of every row of such, an encoder's and a decoder's, the first,
//! two inner ones that stand for all inner ones, and the last.
//!
//! A plan of it in which both inner layers are laid out alike is a plan of the whole program. It costs what
//! the whole plan costs where each instruction counts as often as there are instructions like it, and each
//! value as often as there are values that are read like it ([`Weigh::Plan`]).
//!
//! No plan of the whole program, layers laid out alike or not, costs less than two choices together. Take two
//! neighbouring inner layers of a plan at random: as often as there are such pairs ([`Weigh::Pairs`]), they
//! cost on average what all inner layers do, but for half of the first and half of the last; one layer alone
//! ([`Weigh::Alone`]) costs no more than these. Where there are several rows, pairs are taken in each.

mod cut;
mod ends;
mod guests;
mod rows;
mod stands;
mod tied;

use super::Copies;
use cut::cut;
use ends::Ends;
use guests::has_guests;
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::{Graph, Node, NodeId, Tensor, TensorId};
use phzc_analysis::phase::{Phase, phases};
use phzc_ir::{InstrId, Module};

/// Programs with fewer layers, what is before and after the equal ones counted as one each, are planned as
/// they are.
pub const MIN_LAYERS: usize = 8;

/// How often the ends of layers are moved.
const MAX_ROUNDS: usize = 4;

/// The layers that are left: first, inner, inner, last, and what is like the beginning of one more.
const FIRST: usize = 0;
const FIRST_INNER: usize = 1;
const LAST_INNER: usize = 2;
const LAST: usize = 3;

/// A program with fewer layers.
pub struct Short {
    /// The program.
    pub module: Module,
    /// Per row of equal layers: how many the whole program has.
    pub n_layers: Vec<usize>,
    /// Per instruction of the whole entry: its layer.
    pub layer_of: Vec<Option<Layer>>,
    /// Per instruction of the whole entry: those of the short one's that stand for it, the one in the first
    /// of both inner layers and the one in the last; the same where it is in no inner layer.
    pub stands: Vec<[InstrId; 2]>,
    /// Per instruction of the short entry: itself in the whole.
    pub whole_of: Vec<InstrId>,
    /// Per instruction of the short entry: its place among the layers that are left.
    place: Vec<Option<Layer>>,
    /// Per instruction of the short entry: its counterparts in the layers before and after, where these are
    /// left.
    pub neighbours: Vec<[Option<InstrId>; 2]>,
    /// Per instruction of the short entry that is in the last inner layer: its counterpart in the first.
    twin: Vec<Option<InstrId>>,
}

/// A layer, or what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layer {
    /// The row of equal layers that it is in.
    pub row: usize,
    /// Its place in the row.
    pub at: usize,
}

impl Layer {
    /// Whether two layers stand for the inner ones of the row, this being one of them.
    fn is_inner(self) -> bool {
        (FIRST_INNER..=LAST_INNER).contains(&self.at)
    }
}

/// How often layers are to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weigh {
    /// As often as they are there.
    Plan,
    /// Inner layers as often as two of them are neighbours; what goes between them and others not at all.
    Pairs,
    /// One inner layer once, nothing else.
    Alone,
}

impl Short {
    /// The module with fewer layers, with its graph and blocks: of all rows of layers, then of one row less,
    /// and so on. None where it has few, or something that is in none reads what inner ones make.
    ///
    /// Where a layer ends is chosen so that blocks do not lie in two of them.
    pub fn each(module: &Module) -> Vec<(Short, Graph, Blocks)> {
        let first = Copies::find(module).and_then(|copies| Short::counted(module, copies));
        let mut all: Vec<_> = std::iter::successors(first, |(short, ..)| short.shorter()).collect();
        all.reverse();
        all
    }

    /// The same from layers whose ends may be anywhere.
    pub(super) fn counted(module: &Module, copies: Copies) -> Option<(Short, Graph, Blocks)> {
        (copies.n() >= MIN_LAYERS).then_some(())?;
        let mut ends = Ends::new(module, copies);
        for _ in 0..MAX_ROUNDS {
            let copies = ends.copies()?;
            (copies.n() >= MIN_LAYERS).then_some(())?;
            let short = cut(module, &copies).filter(Short::is_chain)?;
            let graph = Graph::build(&short.module);
            let blocks = Blocks::build(&short.module, &graph, &vec![false; graph.tensors.len()]);
            if !short.join(&graph, &blocks, &mut ends) {
                let is_right = short.has_forward(&graph) && !has_guests(&short, &graph, &blocks);
                return is_right.then_some((short, graph, blocks));
            }
        }
        None
    }

    /// Whether a layer has a product of the forward part: that is where a pipeline cuts.
    fn has_forward(&self, graph: &Graph) -> bool {
        let (phases, nodes) = (phases(&self.module, graph), self.nodes(graph));
        let is_forward = |node: NodeId| {
            graph.nodes[node as usize].is_contraction && phases[node as usize] == Phase::Forward
        };
        self.all_twins().filter_map(|(own, _)| nodes[own.index()]).any(is_forward)
    }

    /// Whether layers read only themselves and those beside them, as all layers do for which these stand.
    fn is_chain(&self) -> bool {
        let place = |id: InstrId| self.place[id.index()];
        self.module.entry().iter().all(|(id, instr)| {
            let mut both = instr.operands.iter().filter_map(|&operand| place(id).zip(place(operand)));
            both.all(|(own, read)| own.row != read.row || own.at.abs_diff(read.at) <= 1)
        })
    }

    /// Asks for every block of the inner layers to be in one of them; whether some are in both.
    fn join(&self, graph: &Graph, blocks: &Blocks, ends: &mut Ends) -> bool {
        let mut is_any = false;
        for members in &blocks.members {
            let nodes = || members.iter().map(|&node| &graph.nodes[node as usize]);
            let place = |node: &Node| self.place(node).filter(|place| place.is_inner());
            if !nodes().all(|node| place(node).is_some()) {
                continue;
            }
            let parts =
                nodes().filter_map(|node| Some((self.whole_of[node.instr.index()], place(node)?.at as i32)));
            let parts: Vec<(InstrId, i32)> = parts.collect();
            is_any |= parts.iter().any(|part| part.1 != parts[0].1);
            ends.join(&parts);
        }
        is_any
    }

    /// Instructions of the last inner layer of a row with their counterparts in the first, in the short
    /// entry.
    pub fn twins(&self, row: usize) -> impl Iterator<Item = (InstrId, InstrId)> + '_ {
        self.all_twins().filter(move |(own, _)| self.place[own.index()].is_some_and(|place| place.row == row))
    }

    /// Those of all rows.
    fn all_twins(&self) -> impl Iterator<Item = (InstrId, InstrId)> + '_ {
        let twin = |(own, twin): (usize, &Option<InstrId>)| Some((InstrId::new(own), (*twin)?));
        self.twin.iter().enumerate().filter_map(twin)
    }

    /// Whether an instruction of the whole entry is not in the short one.
    pub fn is_dropped(&self, id: InstrId) -> bool {
        self.layer_of[id.index()].is_some_and(|it| it.at >= 2 && it.at + 2 < self.n_layers[it.row])
    }

    /// Makes nodes and tensors of the short program's graph count as often as there are such in the whole.
    pub fn weigh(&self, graph: &mut Graph, purpose: Weigh) {
        let place: Vec<Option<Layer>> = graph.nodes.iter().map(|node| self.place(node)).collect();
        for (node, place) in graph.nodes.iter_mut().zip(&place) {
            node.weight = place.map_or(common(purpose), |place| self.layers_at(place, purpose));
        }
        for at in 0..graph.tensors.len() {
            graph.tensors[at].weight = self.tensor_weight(graph, at as TensorId, &place, purpose);
        }
    }

    /// Per block: the row of layers, if all of it is in inner ones of one.
    pub fn inner_blocks(&self, graph: &Graph, blocks: &Blocks) -> Vec<Option<usize>> {
        let row = |&node: &NodeId| {
            self.place(&graph.nodes[node as usize]).filter(|place| place.is_inner()).map(|place| place.row)
        };
        let row_of = |members: &Vec<NodeId>| {
            let first = members.first().and_then(row);
            first.filter(|_| members.iter().all(|node| row(node) == first))
        };
        blocks.members.iter().map(row_of).collect()
    }

    /// Per row: the layers that both inner ones stand for.
    pub fn n_inner(&self) -> Vec<usize> {
        self.n_layers.iter().map(|n| n - 2).collect()
    }

    fn place(&self, node: &Node) -> Option<Layer> {
        (node.comp == self.module.entry).then(|| self.place[node.instr.index()]).flatten()
    }

    /// How often a layer counts.
    fn layers_at(&self, place: Layer, purpose: Weigh) -> f64 {
        let n_pairs = self.n_layers[place.row] as f64 - 3.0;
        match (place.at, purpose) {
            (FIRST_INNER | LAST_INNER, Weigh::Pairs) => 0.5 * n_pairs,
            (LAST_INNER, Weigh::Plan) => n_pairs,
            (FIRST_INNER, Weigh::Alone) => 1.0,
            (_, Weigh::Alone) => 0.0,
            _ => 1.0,
        }
    }

    /// How often what goes from one layer of a row to another counts.
    fn pairs_at(&self, a: Layer, b: usize, purpose: Weigh) -> f64 {
        match (a.at.min(b), purpose) {
            (_, Weigh::Alone) => 0.0,
            (FIRST_INNER, _) => self.n_layers[a.row] as f64 - 3.0,
            (FIRST | LAST_INNER, Weigh::Pairs) => 0.0,
            _ => 1.0,
        }
    }

    fn tensor_weight(&self, graph: &Graph, tensor: TensorId, place: &[Option<Layer>], purpose: Weigh) -> f64 {
        let it = &graph.tensors[tensor as usize];
        let Some(own) = place[it.def as usize] else { return common(purpose) };
        let others = others(it, own, place);
        match (others[..].first(), others.len(), purpose) {
            (None, ..) => self.layers_at(own, purpose),
            (Some(&other), 1, _) => self.pairs_at(own, other, purpose),
            (_, _, Weigh::Pairs | Weigh::Alone) => 0.0,
            // Read on both sides: each inner layer stands for half of them.
            _ if own.is_inner() => 0.5 * (self.n_layers[own.row] as f64 - 2.0),
            _ => 1.0,
        }
    }

    /// The graph's nodes that are instructions of the entry, by instruction.
    fn nodes(&self, graph: &Graph) -> Vec<Option<NodeId>> {
        let mut found = vec![None; self.place.len()];
        for (id, node) in (0..).zip(&graph.nodes).filter(|(_, node)| node.comp == self.module.entry) {
            found[node.instr.index()] = Some(id);
        }
        found
    }
}

/// How often what is in no layer counts.
fn common(purpose: Weigh) -> f64 {
    if purpose == Weigh::Alone { 0.0 } else { 1.0 }
}

/// The other layers of the row that read a value of layer `own`, in order. What is in none of them and reads
/// what no other layer does is at the end of the row where the next layer would be.
fn others(tensor: &Tensor, own: Layer, place: &[Option<Layer>]) -> Vec<usize> {
    let in_row = |place: Layer| (place.row == own.row).then_some(place.at);
    let readers = || tensor.uses.iter().map(|&(reader, _)| place[reader as usize].and_then(in_row));
    let mut others: Vec<usize> = readers().flatten().filter(|&other| other != own.at).collect();
    others.sort_unstable();
    others.dedup();
    let is_end = others.is_empty() && readers().any(|place| place.is_none());
    match own.at {
        FIRST_INNER if is_end => vec![FIRST],
        LAST_INNER if is_end => vec![LAST],
        _ => others,
    }
}
