//! Arrays in the making, each with its layout.

use super::layouts::set;
use super::parts::Cut;
use crate::rebuild::{Rebuilder, plain};
use crate::spmd::build::ints;
use phzc_ir::{
    Attr, DType, Dims, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload, Shape, Value, notes,
};
use phzc_plan::derive::Leaf;

/// The instructions of a computation in the making.
pub struct Build<'a> {
    /// The step's instructions that it has.
    pub step: Rebuilder<'a>,
    mesh: &'a Mesh,
}

impl<'a> Build<'a> {
    /// Nothing yet of the step of one microbatch.
    pub fn new(local: &'a Module, mesh: &'a Mesh) -> Build<'a> {
        Build { step: Rebuilder::new(local.entry()), mesh }
    }

    /// Adds an instruction that makes a value whose leaves lie like this.
    pub fn add(&mut self, instr: Instr, leaves: &[Leaf]) -> InstrId {
        let mut instr = instr;
        set(&mut instr, leaves, self.mesh);
        self.step.push(instr)
    }

    /// Adds an instruction that makes an array.
    pub fn array(
        &mut self,
        (name, op): (Box<str>, Opcode),
        operands: &[InstrId],
        (dtype, dims): (DType, &[i64]),
        (attrs, layout): (Vec<Attr>, Leaf),
    ) -> InstrId {
        let instr = plain(name, op, Shape::array(dtype, dims));
        self.add(Instr { operands: operands.into(), attrs, ..instr }, &[layout])
    }

    /// A scalar or an array full of one number.
    pub fn full(&mut self, (dtype, dims): (DType, &[i64]), literal: &str, layout: Layout) -> InstrId {
        let name = self.step.names.free("constant");
        let payload = Payload::Literal(literal.into());
        let one = Instr { payload, ..plain(name, Opcode::Constant, Shape::array(dtype, &[])) };
        let one = self.add(one, &[Leaf::default()]);
        if dims.is_empty() {
            return one;
        }
        let attrs = vec![Attr { key: Key::Dimensions, value: ints(std::iter::empty()) }];
        let name = self.step.names.free("broadcast");
        self.array((name, Opcode::Broadcast), &[one], (dtype, dims), (attrs, lies(layout)))
    }

    /// The element of a tuple, which lies like this.
    pub fn element(&mut self, tuple: InstrId, index: usize, layout: Leaf) -> InstrId {
        let shape = self.step.instrs[tuple.index()].shape.parts()[index].clone();
        let id = self.step.element(tuple, index, &shape);
        set(&mut self.step.instrs[id.index()], &[layout], self.mesh);
        id
    }

    /// The tuple of some arrays, each of which lies like this.
    pub fn tuple(&mut self, name: &str, parts: Vec<InstrId>, leaves: &[Leaf]) -> InstrId {
        let id = self.step.tuple(parts, name);
        set(&mut self.step.instrs[id.index()], leaves, self.mesh);
        id
    }

    /// The same elements in other dimensions.
    pub fn reshape(&mut self, id: InstrId, dims: &[i64], layout: Layout) -> InstrId {
        let (dtype, name) = (self.dtype(id), self.named(id, "reshape"));
        self.array((name, Opcode::Reshape), &[id], (dtype, dims), (Vec::new(), lies(layout)))
    }

    /// The same array in another layout.
    pub fn moved(&mut self, id: InstrId, (from, to): (Layout, Layout), kind: &str) -> InstrId {
        if from == to { id } else { self.movement(id, lies(to), kind) }
    }

    /// A sum over devices, done as far as this says.
    pub fn reduced(&mut self, id: InstrId, to: Leaf) -> InstrId {
        self.movement(id, to, "all-reduce")
    }

    fn movement(&mut self, id: InstrId, to: Leaf, kind: &str) -> InstrId {
        let attrs = vec![Attr { key: Key::CustomCallTarget, value: Value::Str("Sharding".into()) }];
        let (dtype, dims, name) = (self.dtype(id), self.dims(id), self.named(id, kind));
        let made = self.array((name, Opcode::CustomCall), &[id], (dtype, &dims), (attrs, to));
        self.step.instrs[made.index()].set_note(notes::MOVE, kind);
        made
    }

    /// Sizes of an array.
    pub fn dims(&self, id: InstrId) -> Dims {
        type_of(&self.step.instrs[id.index()].shape).1
    }

    /// Element type of an array.
    pub fn dtype(&self, id: InstrId) -> DType {
        type_of(&self.step.instrs[id.index()].shape).0
    }

    /// A name for what is made of a value.
    pub fn named(&mut self, id: InstrId, suffix: &str) -> Box<str> {
        let base = self.step.instrs[id.index()].name.clone();
        self.step.names.derive(&base, suffix)
    }
}

/// How the microbatches of a batch lie beside one another: the batch as two dimensions.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Microbatches of a step.
    pub n: i64,
    /// Whether a microbatch is a contiguous part, not every `n`-th sample.
    pub by_place: bool,
}

impl Rows {
    /// The dimension that counts microbatches, where `dim` runs over the batch.
    pub fn counter(self, dim: usize) -> usize {
        if self.by_place { dim } else { dim + 1 }
    }

    /// The layout in which the batch can be taken apart: contiguous parts lie on several devices only where
    /// these hold whole batches.
    pub fn joint(self, cut: &Cut) -> Layout {
        let is_lost = |axis: &usize| self.by_place && cut.dim == cut.layout.dim_of(*axis);
        let axes = (0..phzc_ir::MAX_AXES).filter(|axis| cut.dim.is_some() && is_lost(axis));
        axes.fold(cut.layout, |layout, axis| layout.with(axis, None))
    }

    /// That layout with the dimension that counts microbatches.
    pub fn apart(self, cut: &Cut, dim: usize) -> Layout {
        let (joint, counter) = (self.joint(cut), self.counter(dim));
        let shifted = |layout: Layout, axis: usize| {
            let at = joint.dim_of(axis).map(|at| if at >= counter { at + 1 } else { at });
            layout.with(axis, at)
        };
        (0..phzc_ir::MAX_AXES).fold(Layout::REPLICATED, shifted)
    }

    /// Sizes of the whole batch, taken apart, from those of a microbatch.
    pub fn dims(self, part: &[i64], dim: usize) -> Dims {
        let mut dims: Dims = part.iter().copied().collect();
        dims.insert(self.counter(dim), self.n);
        dims
    }
}

/// A whole value in a layout.
pub fn lies(layout: Layout) -> Leaf {
    Leaf { layout, ..Leaf::default() }
}

/// Element type and sizes of an array.
pub fn type_of(shape: &Shape) -> (DType, Dims) {
    shape.as_array().map_or((DType::Pred, Dims::new()), |array| (array.dtype, array.dims.clone()))
}
