//! Writes a part of a computation anew: some of its instructions, reading what stands for values of the
//! others.

use phzc_ir::edit::Names;
use phzc_ir::{Attr, Computation, Instr, InstrId, Key, Opcode, Payload, Shape, Span, Value};
use phzc_plan::derive::origin;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A leaf of an instruction's value.
pub type Leaf = (InstrId, usize);

/// A computation in the making.
pub struct Rebuilder<'a> {
    entry: &'a Computation,
    /// Names that are free.
    pub names: Names,
    /// What there is so far.
    pub instrs: Vec<Instr>,
    /// What holds a leaf here.
    pub leaves: BTreeMap<Leaf, InstrId>,
    /// What an instruction has become.
    pub made: BTreeMap<InstrId, InstrId>,
}

impl<'a> Rebuilder<'a> {
    /// Nothing of `entry` yet.
    pub fn new(entry: &'a Computation) -> Rebuilder<'a> {
        let names = Names::of(entry);
        Rebuilder { entry, names, instrs: Vec::new(), leaves: BTreeMap::new(), made: BTreeMap::new() }
    }

    /// Adds an instruction as it is.
    pub fn push(&mut self, instr: Instr) -> InstrId {
        self.instrs.push(instr);
        InstrId::new(self.instrs.len() - 1)
    }

    /// Adds an instruction of the computation.
    pub fn instr(&mut self, id: InstrId, instr: &Instr) {
        let mut own = instr.clone();
        own.operands = instr.operands.iter().map(|&operand| self.operand(operand)).collect();
        // What it had to wait for may be elsewhere.
        own.attrs.retain(|attr| attr.key != Key::ControlPredecessors);
        let made = self.push(own);
        self.made.insert(id, made);
    }

    /// An operand's value; tuples are put together from their leaves.
    pub fn operand(&mut self, operand: InstrId) -> InstrId {
        let entry = self.entry;
        if let Some(&made) = self.made.get(&operand) {
            return made;
        }
        let shape = &entry.instr(operand).shape;
        let leaves = (0..shape.n_leaves()).map(|leaf| origin(entry, operand, leaf));
        let leaves: Vec<InstrId> = leaves.map(|leaf| self.leaf(leaf)).collect();
        let name = entry.instr(operand).name.clone();
        self.nested(shape, &mut leaves.into_iter(), &name)
    }

    /// A value of this shape, put together from these leaves.
    pub fn nested(
        &mut self,
        shape: &Shape,
        leaves: &mut impl Iterator<Item = InstrId>,
        name: &str,
    ) -> InstrId {
        match shape {
            Shape::Tuple(parts) => {
                let parts = parts.iter().map(|part| self.nested(part, leaves, name)).collect();
                self.tuple(parts, name)
            }
            _ => leaves.next().expect("a leaf of the shape"),
        }
    }

    /// A tuple, named like `base`.
    pub fn tuple(&mut self, parts: Vec<InstrId>, base: &str) -> InstrId {
        let shapes = parts.iter().map(|id| self.instrs[id.index()].shape.clone()).collect();
        let name = self.names.derive(base, "all");
        self.push(Instr { operands: parts.into(), ..plain(name, Opcode::Tuple, Shape::Tuple(shapes)) })
    }

    /// The instruction that holds a leaf: a parameter, its maker, or an element of its maker's tuple.
    pub fn leaf(&mut self, leaf: Leaf) -> InstrId {
        if let Some(&held) = self.leaves.get(&leaf) {
            return held;
        }
        let mut held = self.made[&leaf.0];
        let mut place = leaf.1;
        while let Shape::Tuple(parts) = self.instrs[held.index()].shape.clone() {
            let (mut index, mut before) = (0, place);
            while before >= parts[index].n_leaves() {
                before -= parts[index].n_leaves();
                index += 1;
            }
            place = before;
            held = self.element(held, index, &parts[index]);
        }
        self.leaves.insert(leaf, held);
        held
    }

    /// An element of a tuple.
    pub fn element(&mut self, tuple: InstrId, index: usize, shape: &Shape) -> InstrId {
        let base = self.instrs[tuple.index()].name.clone();
        let name = self.names.derive(&base, &index.to_string());
        let attrs = vec![Attr { key: Key::Index, value: Value::Int(index as i64) }];
        let operands = SmallVec::from_slice(&[tuple]);
        self.push(Instr { operands, attrs, ..plain(name, Opcode::GetTupleElement, shape.clone()) })
    }
}

/// An instruction without operands and attributes.
pub fn plain(name: Box<str>, op: Opcode, shape: Shape) -> Instr {
    let (operands, attrs) = (SmallVec::new(), Vec::new());
    Instr { name, op, operands, shape, payload: Payload::None, attrs, span: Span::default() }
}
