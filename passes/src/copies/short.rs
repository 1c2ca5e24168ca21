//! A program with fewer of its equal layers: the first, two inner ones that stand for all inner ones, and the last.
//!
//! A plan of it in which both inner layers are laid out alike is a plan of the whole program. It costs what the whole
//! plan costs where each instruction counts as often as there are instructions like it, and each value as often as there
//! are values that are read like it ([`Weigh::Plan`]).
//!
//! No plan of the whole program, layers laid out alike or not, costs less than two choices together. Take two neighbouring
//! inner layers of a plan at random: as often as there are such pairs ([`Weigh::Pairs`]), they cost on average what all inner
//! layers do, but for half of the first and half of the last; one layer alone ([`Weigh::Alone`]) costs no more than these.

mod cut;
mod ends;
mod stands;

use super::Copies;
use crate::blocks::{BlockId, Blocks};
use crate::classes::{ClassId, ClassMap};
use crate::graph::{Graph, Node, NodeId, TensorId};
use crate::phase::{Phase, phases};
use crate::shard::unique::loops;
use cut::cut;
use ends::Ends;
use phzc_ir::{InstrId, Module};

/// Programs with fewer layers, what is before and after the equal ones counted as one each, are planned as they are.
pub const MIN_LAYERS: usize = 16;

/// How often the ends of layers are moved.
const MAX_ROUNDS: usize = 4;

/// The layers that are left: first, inner, inner, last, and what is like the beginning of one more.
const FIRST_INNER: usize = 1;
const LAST_INNER: usize = 2;

/// A program with fewer layers.
pub struct Short {
    /// The program.
    pub module: Module,
    /// Layers of the whole program.
    pub n_layers: usize,
    /// Per instruction of the whole entry: its layer.
    pub layer_of: Vec<Option<usize>>,
    /// Per instruction of the whole entry: those of the short one's that stand for it, the one in the first of both inner
    /// layers and the one in the last; the same where it is in no inner layer.
    pub stands: Vec<[InstrId; 2]>,
    /// Per instruction of the short entry: itself in the whole.
    pub whole_of: Vec<InstrId>,
    /// Per instruction of the short entry: its place among the layers that are left.
    place: Vec<Option<usize>>,
    /// Per instruction of the short entry: its counterparts in the layers before and after, where these are left.
    pub neighbours: Vec<[Option<InstrId>; 2]>,
    /// Per instruction of the short entry that is in the last inner layer: its counterpart in the first.
    twin: Vec<Option<InstrId>>,
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
    /// The module with fewer layers, with its graph and blocks; `None` where it has few, or something reads all of them.
    ///
    /// Where a layer ends is chosen so that blocks do not lie in two of them.
    pub fn of(module: &Module) -> Option<(Short, Graph, Blocks)> {
        Short::counted(module, Copies::find(module)?)
    }

    /// The same from layers whose ends may be anywhere.
    pub(super) fn counted(module: &Module, copies: Copies) -> Option<(Short, Graph, Blocks)> {
        (copies.n() >= MIN_LAYERS).then_some(())?;
        let mut ends = Ends::new(module.entry(), copies);
        for _ in 0..MAX_ROUNDS {
            let copies = ends.copies()?;
            (copies.n() >= MIN_LAYERS).then_some(())?;
            let short = cut(module, &copies)?;
            let graph = Graph::build(&short.module);
            let blocks = Blocks::build(&short.module, &graph, &vec![false; graph.tensors.len()]);
            if !short.join(&graph, &blocks, &mut ends) {
                return short.has_forward(&graph).then_some((short, graph, blocks));
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
        self.twins().filter_map(|(own, _)| nodes[own.index()]).any(is_forward)
    }

    /// Asks for every block of the inner layers to be in one of them; whether some are in both.
    fn join(&self, graph: &Graph, blocks: &Blocks, ends: &mut Ends) -> bool {
        let mut is_any = false;
        for members in &blocks.members {
            let nodes = || members.iter().map(|&node| &graph.nodes[node as usize]);
            let place =
                |node: &Node| self.place(node).filter(|place| (FIRST_INNER..=LAST_INNER).contains(place));
            if !nodes().all(|node| place(node).is_some()) {
                continue;
            }
            let parts =
                nodes().filter_map(|node| Some((self.whole_of[node.instr.index()], place(node)? as i32)));
            let parts: Vec<(InstrId, i32)> = parts.collect();
            is_any |= parts.iter().any(|part| part.1 != parts[0].1);
            ends.join(&parts);
        }
        is_any
    }

    /// Instructions of the last inner layer with their counterparts in the first, in the short entry.
    pub fn twins(&self) -> impl Iterator<Item = (InstrId, InstrId)> + '_ {
        let twin = |(own, twin): (usize, &Option<InstrId>)| Some((InstrId::new(own), (*twin)?));
        self.twin.iter().enumerate().filter_map(twin)
    }

    /// Whether an instruction of the whole entry is not in the short one.
    pub fn is_dropped(&self, id: InstrId) -> bool {
        self.layer_of[id.index()].is_some_and(|layer| layer >= 2 && layer + 2 < self.n_layers)
    }

    /// Makes nodes and tensors of the short program's graph count as often as there are such in the whole.
    pub fn weigh(&self, graph: &mut Graph, purpose: Weigh) {
        let place: Vec<Option<usize>> = graph.nodes.iter().map(|node| self.place(node)).collect();
        for (node, place) in graph.nodes.iter_mut().zip(&place) {
            node.weight = place.map_or(common(purpose), |place| self.layers_at(place, purpose));
        }
        for at in 0..graph.tensors.len() {
            graph.tensors[at].weight = self.tensor_weight(graph, at as TensorId, &place, purpose);
        }
    }

    fn place(&self, node: &Node) -> Option<usize> {
        (node.comp == self.module.entry).then(|| self.place[node.instr.index()]).flatten()
    }

    /// How often a layer counts.
    fn layers_at(&self, place: usize, purpose: Weigh) -> f64 {
        let n_pairs = self.n_layers as f64 - 3.0;
        match (place, purpose) {
            (FIRST_INNER | LAST_INNER, Weigh::Pairs) => 0.5 * n_pairs,
            (LAST_INNER, Weigh::Plan) => n_pairs,
            (FIRST_INNER, Weigh::Alone) => 1.0,
            (_, Weigh::Alone) => 0.0,
            _ => 1.0,
        }
    }

    /// How often what goes from one layer to another counts.
    fn pairs_at(&self, a: usize, b: usize, purpose: Weigh) -> f64 {
        match (a.min(b), purpose) {
            (_, Weigh::Alone) => 0.0,
            (FIRST_INNER, _) => self.n_layers as f64 - 3.0,
            (0 | LAST_INNER, Weigh::Pairs) => 0.0,
            _ => 1.0,
        }
    }

    fn tensor_weight(&self, graph: &Graph, tensor: TensorId, place: &[Option<usize>], purpose: Weigh) -> f64 {
        let it = &graph.tensors[tensor as usize];
        let Some(own) = place[it.def as usize] else { return common(purpose) };
        let others = it.uses.iter().filter_map(|&(reader, _)| place[reader as usize]);
        let mut others: Vec<usize> = others.filter(|&other| other != own).collect();
        others.sort_unstable();
        others.dedup();
        match (others[..].first(), others.len(), purpose) {
            (None, ..) => self.layers_at(own, purpose),
            (Some(&other), 1, _) => self.pairs_at(own, other, purpose),
            (_, _, Weigh::Pairs | Weigh::Alone) => 0.0,
            // Read on both sides: each inner layer stands for half of them.
            _ if matches!(own, FIRST_INNER | LAST_INNER) => 0.5 * (self.n_layers as f64 - 2.0),
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

    /// Per block: the one that it must be laid out as, which is itself but for the last inner layer's.
    ///
    /// A block that other layers share is laid out as it is best for them. `None` where one layer's values would then be
    /// read by the next as they do not lie.
    pub fn tied(&self, graph: &Graph, blocks: &Blocks) -> Option<Vec<BlockId>> {
        let nodes = self.nodes(graph);
        let loops: Vec<Vec<ClassId>> = blocks.members.iter().map(|members| loops(blocks, members)).collect();
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
        // What is in no layer and in one block with one inner layer only makes that another block than the other's.
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

/// How often what is in no layer counts.
fn common(purpose: Weigh) -> f64 {
    if purpose == Weigh::Alone { 0.0 } else { 1.0 }
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
