//! The values that an attention's scores become, and what is made for them alone.

use super::axes::{Axes, back_through, has_keys, is_by_element, loops_from, loops_to, scores, through};
use indexmap::IndexMap;
use phzc_ir::{AttentionLoop, Computation, FusionKind, Instr, InstrId, Opcode, Shape};
use rustc_hash::FxBuildHasher;
use std::collections::BTreeSet;

/// An instruction, as far as it has to do with an attention.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// What its dimensions run over, if it is a value per row or per score.
    pub axes: Option<Axes>,
    /// Whether it is part of the attention, not only made of it.
    pub is_member: bool,
    /// Whether it is made of scores; others are made for what reads scores.
    pub is_derived: bool,
    /// Whether it is made of an exponential of scores.
    pub is_late: bool,
    /// What the loops of a product run over.
    pub loops: Option<[AttentionLoop; 3]>,
}

impl Node {
    /// Whether it has a value per query and key.
    pub fn is_scores(&self) -> bool {
        self.axes.as_ref().is_some_and(has_keys)
    }
}

/// The flow from one product.
pub struct Flow<'a> {
    comp: &'a Computation,
    readers: &'a [Vec<InstrId>],
    is_taken: &'a [bool],
    key_sizes: Vec<i64>,
    /// What has been met.
    pub nodes: IndexMap<InstrId, Node, FxBuildHasher>,
    /// An instruction that reads scores and is no part of an attention.
    pub stranger: Option<InstrId>,
}

impl<'a> Flow<'a> {
    /// The flow from a product of queries and keys, the latter being its operand `keys`.
    pub fn from(
        (comp, readers, is_taken): (&'a Computation, &'a [Vec<InstrId>], &'a [bool]),
        product: InstrId,
        keys: usize,
    ) -> Option<Flow<'a>> {
        let (axes, key_sizes) = scores(comp, comp.instr(product), keys)?;
        let loops = loops_to(comp, comp.instr(product), &axes);
        let node = Node { axes: Some(axes), is_member: true, is_derived: true, is_late: false, loops };
        let nodes = [(product, node)].into_iter().collect();
        let mut flow = Flow { comp, readers, is_taken, key_sizes, nodes, stranger: None };
        flow.down(product);
        flow.up();
        Some(flow)
    }

    /// Whether an instruction is part of the attention.
    pub fn is_member(&self, id: InstrId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.is_member)
    }

    /// Follows the values to who reads them, in program order.
    fn down(&mut self, product: InstrId) {
        let mut todo: BTreeSet<InstrId> = self.readers[product.index()].iter().copied().collect();
        self.stranger = (self.comp.root == product).then_some(product);
        while let Some(id) = todo.pop_first() {
            let Some(node) = self.reader(id) else { continue };
            if node.axes.is_some() {
                todo.extend(&self.readers[id.index()]);
            }
            if node.is_scores() && self.comp.root == id {
                self.stranger.get_or_insert(id);
            }
            self.nodes.insert(id, node);
        }
    }

    /// What reads values that have been met.
    fn reader(&mut self, id: InstrId) -> Option<Node> {
        let (comp, instr) = (self.comp, self.comp.instr(id));
        let known = |slot: &usize| self.nodes.get(&instr.operands[*slot]).filter(|node| node.axes.is_some());
        let slots: Vec<usize> = (0..instr.operands.len()).filter(|slot| known(slot).is_some()).collect();
        let scores: Vec<usize> =
            slots.iter().copied().filter(|slot| known(slot).is_some_and(Node::is_scores)).collect();
        let is_late = slots.iter().any(|slot| known(slot).is_some_and(|node| node.is_late));
        let is_late = is_late || (instr.op == Opcode::Exponential && !scores.is_empty());
        let node = Node { is_derived: true, is_late, ..Node::default() };
        let found = match (instr.op, &scores[..]) {
            _ if self.is_taken[id.index()] => None,
            (Opcode::Dot, [slot]) => {
                let axes = known(slot).and_then(|node| node.axes.as_ref());
                let loops = axes.and_then(|axes| loops_from(comp, instr, *slot, axes));
                loops.map(|loops| Node { is_member: true, loops: Some(loops), ..node })
            }
            (Opcode::Dot, _) => None,
            _ if !is_array(instr) || !operands_fit(comp, instr) => None,
            _ => {
                // What scores and rows become together lies as the scores.
                let of =
                    |slot: &usize| through(comp, instr, *slot, known(slot)?.axes.as_ref()?, &self.key_sizes);
                let axes = scores.iter().chain(&slots).find_map(of);
                let is_reduced = instr.op == Opcode::Reduce && !scores.is_empty();
                let is_member = is_reduced || axes.as_ref().is_some_and(has_keys);
                (is_reduced || axes.is_some()).then_some(Node { axes, is_member, ..node })
            }
        };
        if found.is_none() && !scores.is_empty() {
            self.stranger.get_or_insert(id);
        }
        found
    }

    /// Takes in what is made for members alone, readers first.
    fn up(&mut self) {
        let members = self.nodes.iter().filter(|(_, node)| node.is_member).map(|(id, _)| *id);
        let mut todo: BTreeSet<InstrId> =
            members.flat_map(|id| self.comp.instr(id).operands.iter().copied()).collect();
        while let Some(id) = todo.pop_last() {
            if self.is_member(id) {
                continue;
            }
            let is_taken_in = match self.nodes.get_mut(&id) {
                Some(row) => {
                    row.is_member = true;
                    true
                }
                None => self.take_in(id),
            };
            if is_taken_in {
                todo.extend(&self.comp.instr(id).operands);
            }
        }
    }

    /// Takes in an instruction that makes as many values as there are scores, all for members.
    fn take_in(&mut self, id: InstrId) -> bool {
        let (instr, readers) = (self.comp.instr(id), &self.readers[id.index()]);
        let fuses = matches!(instr.op.def().fusion, FusionKind::Loop | FusionKind::View);
        let moves = matches!(instr.op, Opcode::Transpose | Opcode::Reshape | Opcode::Bitcast);
        let fits = instr.op == Opcode::Dot || fuses && (is_by_element(instr) || moves);
        let is_inner = id != self.comp.root && readers.iter().all(|&reader| self.is_member(reader));
        if !fits || !is_inner || self.is_taken[id.index()] || !is_array(instr) {
            return false;
        }
        let wanted = |&reader: &InstrId| {
            let axes = self.nodes.get(&reader)?.axes.as_ref()?;
            let slot = self.comp.instr(reader).operands.iter().position(|&operand| operand == id)?;
            back_through(self.comp, self.comp.instr(reader), slot, axes)
        };
        let Some(axes) = readers.iter().find_map(wanted).filter(has_keys) else { return false };
        let is_product = instr.op == Opcode::Dot;
        let loops = if is_product { loops_to(self.comp, instr, &axes) } else { None };
        self.nodes.insert(id, Node { axes: Some(axes), is_member: true, loops, ..Node::default() });
        true
    }
}

fn is_array(instr: &Instr) -> bool {
    !matches!(instr.shape, Shape::Tuple(_))
}

/// Whether the operands of an elementwise instruction have its sizes, or none.
fn operands_fit(comp: &Computation, instr: &Instr) -> bool {
    let dims = |instr: &Instr| instr.shape.as_array().map(|array| array.dims.clone());
    let fits = |operand: &InstrId| {
        let of = dims(comp.instr(*operand));
        of == dims(instr) || of.is_some_and(|dims| dims.is_empty())
    };
    !is_by_element(instr) || instr.operands.iter().all(fits)
}
