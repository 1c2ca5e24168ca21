//! A program with fewer of its equal layers: the first, two inner ones that stand for all inner ones, and the last.
//!
//! A plan of it in which both inner layers are laid out alike is a plan of the whole program. It costs what the whole
//! plan costs where each instruction counts as often as there are instructions like it, and each value as often as there
//! are values that are read like it ([`Weigh::Plan`]).
//!
//! No plan of the whole program, layers laid out alike or not, costs less than two choices together. Take two neighbouring
//! inner layers of a plan at random: as often as there are such pairs ([`Weigh::Pairs`]), they cost on average what all inner
//! layers do, but for half of the first and half of the last; one layer alone ([`Weigh::Alone`]) costs no more than these.

mod stands;

use super::Copies;
use crate::blocks::{BlockId, Blocks};
use crate::classes::{ClassId, ClassMap};
use crate::graph::{Graph, Node, NodeId, TensorId, alias_pairs};
use crate::shard::unique::loops;
use phzc_ir::{Computation, Instr, InstrId, Module, Opcode, Payload, Shape};

/// Programs with fewer equal layers are planned as they are.
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
        let mut copies = Copies::find(module)?;
        let mut short = Short::new(module, &copies)?;
        for _ in 0..MAX_ROUNDS {
            let graph = Graph::build(&short.module);
            let blocks = Blocks::build(&short.module, &graph, &vec![false; graph.tensors.len()]);
            let [lower, upper] = short.straddling(&graph, &blocks);
            if lower.is_empty() {
                return Some((short, graph, blocks));
            }
            let mut ways = [(lower, 1), (upper, -1)];
            ways.sort_by_key(|(some, _)| some.len());
            // A layer may begin with either part, unless what a layer reads would then be made after it.
            (copies, short) = ways.iter().find_map(|(some, by)| {
                let copies = copies.moved(module.entry(), some, *by)?;
                let short = Short::new(module, &copies)?;
                Some((copies, short))
            })?;
        }
        None
    }

    fn new(module: &Module, copies: &Copies) -> Option<Short> {
        (copies.n() >= MIN_LAYERS).then_some(())?;
        Cutter { comp: module.entry(), copies }.cut(module)
    }

    /// Instructions of the whole program in the first and in the last inner layer that are in one block, no other layers in it.
    fn straddling(&self, graph: &Graph, blocks: &Blocks) -> [Vec<InstrId>; 2] {
        let mut found = [Vec::new(), Vec::new()];
        for members in &blocks.members {
            let nodes = || members.iter().map(|&node| &graph.nodes[node as usize]);
            let [has_first, has_last] =
                [FIRST_INNER, LAST_INNER].map(|inner| nodes().any(|node| self.place(node) == Some(inner)));
            let is_inner = |node| matches!(self.place(node), Some(FIRST_INNER | LAST_INNER));
            if !has_first || !has_last || !nodes().all(is_inner) {
                continue;
            }
            for node in nodes() {
                let part = usize::from(self.place(node) == Some(LAST_INNER));
                found[part].push(self.whole_of[node.instr.index()]);
            }
        }
        found
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

struct Cutter<'a> {
    comp: &'a Computation,
    copies: &'a Copies,
}

impl Cutter<'_> {
    /// Layers `2..n - 2` go.
    fn is_kept(&self, id: InstrId) -> bool {
        self.copies.of(id).is_none_or(|layer| layer < 2 || layer + 2 >= self.copies.n())
    }

    fn cut(&self, module: &Module) -> Option<Short> {
        let mut short = module.without_entry();
        let entry = &mut short.comps[module.entry.index()];
        let kept = |(id, instr): (InstrId, &Instr)| {
            if self.is_kept(id) { instr.clone() } else { Instr::nothing(instr.span) }
        };
        entry.instrs = self.comp.iter().map(kept).collect();
        for (id, instr) in self.comp.iter().filter(|(id, _)| self.is_kept(*id)) {
            let operands = instr.operands.iter().map(|&operand| self.read_by(id, operand));
            let read: Vec<Option<InstrId>> = operands.collect::<Option<_>>()?;
            entry.instrs[id.index()].operands = read.into_iter().flatten().collect();
        }
        let keep: Vec<bool> = self.comp.iter().map(|(id, _)| self.is_kept(id)).collect();
        self.cut_root(entry);
        entry.retain(&keep);
        renumber_params(entry);
        let is_in_order = |(id, instr): (InstrId, &Instr)| instr.operands.iter().all(|&operand| operand < id);
        if !entry.iter().all(is_in_order) {
            return None;
        }
        if let Some(text) = module.attr("input_output_alias") {
            short.set_attr("input_output_alias", self.aliases(text)?);
        }
        short.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
        Some(self.stand(module, short, &keep))
    }

    /// What a kept instruction reads in the short program: `Some(None)` where that went with its layer, `None` where it needs
    /// what went.
    fn read_by(&self, reader: InstrId, operand: InstrId) -> Option<Option<InstrId>> {
        if self.is_kept(operand) {
            return Some(Some(operand));
        }
        match self.copies.of(reader) {
            Some(layer) if layer < 2 => self.after(operand, self.copies.n() - 4).map(Some),
            Some(_) => self.before(operand, self.copies.n() - 4).map(Some),
            None if reader == self.comp.root && self.comp.root().op == Opcode::Tuple => Some(None),
            None => None,
        }
    }

    fn after(&self, id: InstrId, n_layers: usize) -> Option<InstrId> {
        (0..n_layers).try_fold(id, |id, _| self.copies.next[id.index()]).filter(|&id| self.is_kept(id))
    }

    fn before(&self, id: InstrId, n_layers: usize) -> Option<InstrId> {
        (0..n_layers).try_fold(id, |id, _| self.copies.prev[id.index()]).filter(|&id| self.is_kept(id))
    }

    /// Leaves out of the root's shape what is no longer among its operands.
    fn cut_root(&self, entry: &mut Computation) {
        let root = self.comp.root();
        if let (Opcode::Tuple, Shape::Tuple(parts)) = (root.op, &root.shape) {
            let kept = parts.iter().zip(&root.operands).filter(|(_, operand)| self.is_kept(**operand));
            entry.instrs[self.comp.root.index()].shape =
                Shape::Tuple(kept.map(|(part, _)| part.clone()).collect());
        }
    }

    /// The header's aliases among what is left: a kept result has the buffer of that parameter which it would read.
    fn aliases(&self, text: &str) -> Option<String> {
        let (root, params) = (self.comp.root(), self.comp.params());
        let kept = |ids: &[InstrId]| -> Vec<InstrId> {
            ids.iter().copied().filter(|&id| self.is_kept(id)).collect()
        };
        let (kept_outputs, kept_params) = (kept(&root.operands), kept(&params));
        let list = |index: &[u32]| index.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let mut out = Vec::new();
        for (mut output, param, index) in alias_pairs(text) {
            let mut param = *params.get(param as usize)?;
            if let (Opcode::Tuple, Some(first)) = (root.op, output.first_mut()) {
                let made = *root.operands.get(*first as usize)?;
                if !self.is_kept(made) {
                    continue;
                }
                param = self.read_by(made, param)??;
                *first = kept_outputs.iter().position(|&kept| kept == made)? as u32;
            }
            let param = kept_params.iter().position(|&kept| kept == param)?;
            out.push(format!("{{{}}}: ({param}, {{{}}}, may-alias)", list(&output), list(&index)));
        }
        Some(format!("{{ {} }}", out.join(", ")))
    }

    /// Which instruction stands for which.
    fn stand(&self, module: &Module, short: Module, keep: &[bool]) -> Short {
        let n = self.copies.n();
        let of: Vec<Option<usize>> = (0..keep.len()).map(|at| self.copies.of(InstrId::new(at))).collect();
        let mut ids = keep.iter().scan(0, |next, &is_kept| {
            *next += usize::from(is_kept);
            Some(InstrId::new(*next - usize::from(is_kept)))
        });
        let own: Vec<InstrId> = ids.by_ref().collect();
        let mut order: Vec<usize> = (0..keep.len()).collect();
        order.sort_by_key(|&at| of[at]);
        let inner = |at: usize| of[at].is_some_and(|layer| (1..n - 1).contains(&layer));
        let mut stands: Vec<[InstrId; 2]> = own.iter().map(|&id| [id; 2]).collect();
        for &at in order.iter().filter(|&&at| inner(at) && of[at] > Some(1)) {
            stands[at][0] = self.copies.prev[at].map_or(own[at], |before| stands[before.index()][0]);
        }
        for &at in order.iter().rev().filter(|&&at| inner(at) && of[at] < Some(n - 2)) {
            stands[at][1] = self.copies.next[at].map_or(own[at], |after| stands[after.index()][1]);
        }
        let kept = || (0..keep.len()).filter(|&at| keep[at]);
        let place = |layer: usize| if layer < 2 { layer } else { layer + 4 - n };
        let left = |other: Option<InstrId>| other.filter(|&id| keep[id.index()]).map(|id| own[id.index()]);
        let beside = |at: usize| [left(self.copies.prev[at]), left(self.copies.next[at])];
        let twin = |at: usize| (of[at] == Some(n - 2)).then(|| stands[at][0]);
        let (places, twins) = (kept().map(|at| of[at].map(place)).collect(), kept().map(twin).collect());
        Short {
            place: places,
            twin: twins,
            n_layers: n,
            neighbours: kept().map(beside).collect(),
            whole_of: kept().map(InstrId::new).collect(),
            layer_of: of,
            stands,
            module: Module { entry: module.entry, ..short },
        }
    }
}

fn renumber_params(entry: &mut Computation) {
    for (number, id) in entry.params().into_iter().enumerate() {
        entry.instrs[id.index()].payload = Payload::Parameter(number as u32);
    }
}
