//! A computation being differentiated: the cotangents of its values, and where its values are in the backward
//! part.

use super::activity::Activity;
use super::pieces::join;
use super::residuals::Residuals;
use super::table;
use super::trips::Loops;
use phzc_ir::attr::SliceDim;
use phzc_ir::build::{Builder, Frame};
use phzc_ir::dtype::Class;
use phzc_ir::{ArrayShape, CompId, Diagnostic, Instr, InstrId, Key, Opcode, Result, Shape};
use smallvec::SmallVec;
use std::rc::Rc;

/// Reads the cotangents of an instruction's results and gives cotangents to its operands.
pub(super) type Rule = fn(&mut Cx) -> Result<()>;

/// A computation and the cotangents of its values so far. Backward instructions go to the builder's innermost
/// computation.
pub(super) struct Scope {
    /// The forward part's computation.
    pub comp: CompId,
    /// Its instructions are the first ones.
    pub n_forward: usize,
    /// The body of a loop has a backward part in a computation of its own.
    pub body: Option<Body>,
    /// Which values depend on what is differentiated by.
    pub active: Activity,
    /// How often the program's loops run.
    pub loops: Rc<Loops>,
    cts: Vec<SmallVec<[Slot; 1]>>,
}

/// The body of a loop.
pub(super) struct Body {
    /// The forward part.
    pub frame: Frame,
    /// What the backward part reads of it.
    pub residuals: Residuals,
}

/// The cotangent of an array.
#[derive(Clone, Debug, Default)]
struct Slot {
    dense: Option<InstrId>,
    /// Cotangents of slices.
    pieces: Vec<(Vec<SliceDim>, InstrId)>,
}

impl Scope {
    pub fn new(
        comp: CompId,
        n_forward: usize,
        body: Option<Body>,
        active: Activity,
        loops: Rc<Loops>,
    ) -> Scope {
        Scope { comp, n_forward, body, active, loops, cts: vec![SmallVec::new(); n_forward] }
    }

    /// What a loop is listed under.
    pub fn key(&self, id: InstrId) -> (CompId, InstrId) {
        (self.comp, id)
    }

    /// Instructions of the forward part.
    pub fn instrs<'a>(&'a self, b: &'a Builder) -> &'a [Instr] {
        match &self.body {
            Some(body) => body.frame.instrs(),
            None => b.instrs(),
        }
    }

    pub fn instr<'a>(&'a self, b: &'a Builder, id: InstrId) -> &'a Instr {
        &self.instrs(b)[id.index()]
    }

    /// Adds instructions to the forward part; they may be defined after their uses.
    pub fn extend_forward<T>(&mut self, b: &mut Builder, add: impl FnOnce(&mut Builder) -> T) -> T {
        let Some(body) = &mut self.body else { return add(b) };
        b.enter(std::mem::replace(&mut body.frame, Frame::empty()));
        let added = add(b);
        body.frame = b.leave();
        added
    }

    /// A value of the forward part in the backward part.
    pub fn primal(&mut self, b: &mut Builder, id: InstrId) -> InstrId {
        match &mut self.body {
            Some(body) => body.residuals.read(b, body.frame.instrs(), id),
            None => id,
        }
    }

    /// The instruction and leaf that a leaf of a value is, through tuples and their elements.
    pub fn home(&self, b: &Builder, id: InstrId, leaf: usize) -> (InstrId, usize) {
        home(self.instrs(b), id, leaf)
    }

    /// Adds a cotangent to those of an array of the forward part.
    pub fn give(&mut self, b: &mut Builder, at: (InstrId, usize), ct: InstrId) {
        let (id, leaf) = self.home(b, at.0, at.1);
        let dtype = leaf_shape(&self.instr(b, id).shape, leaf).dtype;
        let ct = b.convert(ct, dtype);
        let slot = self.slot(id, leaf);
        let sum = match slot.dense {
            Some(known) => b.add(known, ct),
            None => ct,
        };
        self.slot(id, leaf).dense = Some(sum);
    }

    /// Adds the cotangent of a slice to those of an array.
    pub fn give_piece(&mut self, b: &Builder, at: (InstrId, usize), piece: Vec<SliceDim>, ct: InstrId) {
        let (id, leaf) = self.home(b, at.0, at.1);
        self.slot(id, leaf).pieces.push((piece, ct));
    }

    /// Takes the cotangent of an array so far, to give back a larger one.
    pub fn take_dense(&mut self, b: &Builder, at: (InstrId, usize)) -> Option<InstrId> {
        let (id, leaf) = self.home(b, at.0, at.1);
        self.slot(id, leaf).dense.take()
    }

    /// Whether an array depends on what is differentiated by.
    pub fn wants(&self, b: &Builder, id: InstrId) -> bool {
        let (id, leaf) = self.home(b, id, 0);
        self.active.leaves(id).get(leaf).copied().unwrap_or(false)
    }

    /// The whole cotangent of an array; it is no longer kept.
    pub fn take(&mut self, b: &mut Builder, at: (InstrId, usize)) -> Option<InstrId> {
        let (id, leaf) = self.home(b, at.0, at.1);
        let slot = std::mem::take(self.slot(id, leaf));
        if slot.pieces.is_empty() {
            return slot.dense;
        }
        let shape = leaf_shape(&self.instr(b, id).shape, leaf).clone();
        let joined = join(b, &shape, slot.pieces);
        Some(slot.dense.map_or(joined, |dense| b.add(dense, joined)))
    }

    fn slot(&mut self, id: InstrId, leaf: usize) -> &mut Slot {
        let slots = &mut self.cts[id.index()];
        if slots.len() <= leaf {
            slots.resize(leaf + 1, Slot::default());
        }
        &mut slots[leaf]
    }

    /// Goes through the forward part from its end to its beginning. Cotangents of parameters stay.
    pub fn sweep(&mut self, b: &mut Builder) -> Result<()> {
        for index in (0..self.n_forward).rev() {
            let id = InstrId::new(index);
            let is_given = self.cts[index].iter().any(|slot| slot.dense.is_some() || !slot.pieces.is_empty());
            if is_given && self.instr(b, id).op != Opcode::Parameter {
                self.step(b, id)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, b: &mut Builder, id: InstrId) -> Result<()> {
        let n_leaves = self.cts[id.index()].len();
        let cts = (0..n_leaves).map(|leaf| self.take(b, (id, leaf))).collect();
        let instr = self.instr(b, id).clone();
        b.span = instr.span;
        if instr
            .shape
            .leaves()
            .iter()
            .any(|leaf| leaf.as_array().is_some_and(|it| it.dtype.class() == Class::Complex))
        {
            return Err(refusal(&instr, "complex numbers are not differentiated"));
        }
        let rule = table::rule(&instr).ok_or_else(|| refusal(&instr, "its derivative is not known"))?;
        rule(&mut Cx { b, scope: self, id, instr, cts })
    }
}

/// The instruction and leaf that a leaf of a value is, through tuples and their elements.
pub(super) fn home(instrs: &[Instr], mut id: InstrId, mut leaf: usize) -> (InstrId, usize) {
    loop {
        let instr = &instrs[id.index()];
        match instr.op {
            Opcode::GetTupleElement => {
                id = instr.operands[0];
                leaf += first_leaf(&instrs[id.index()].shape, instr.int(Key::Index).unwrap_or(0) as usize);
            }
            Opcode::Tuple => {
                let (index, inner) = part_of(&instr.shape, leaf);
                (id, leaf) = (instr.operands[index], inner);
            }
            Opcode::OptBarrier => id = instr.operands[0],
            _ => return (id, leaf),
        }
    }
}

/// The number of leaves before a part of a tuple.
pub(super) fn first_leaf(shape: &Shape, part: usize) -> usize {
    shape.parts().iter().take(part).map(Shape::n_leaves).sum()
}

/// The part of a tuple that a leaf is in, and its number there.
fn part_of(shape: &Shape, leaf: usize) -> (usize, usize) {
    let mut rest = leaf;
    for (index, part) in shape.parts().iter().enumerate() {
        match part.n_leaves() {
            n if rest < n => return (index, rest),
            n => rest -= n,
        }
    }
    unreachable!("a tuple has the leaf that is asked for")
}

/// A leaf that is an array.
pub(super) fn leaf_shape(shape: &Shape, leaf: usize) -> &ArrayShape {
    shape.leaves()[leaf].as_array().expect("only arrays have cotangents")
}

/// An instruction whose cotangents are being passed on.
pub(super) struct Cx<'a> {
    /// Where backward instructions go.
    pub b: &'a mut Builder,
    /// The computation being differentiated.
    pub scope: &'a mut Scope,
    /// The instruction of the forward part.
    pub id: InstrId,
    /// A copy of it.
    pub instr: Instr,
    /// The cotangents of its leaves.
    pub cts: SmallVec<[Option<InstrId>; 1]>,
}

impl Cx<'_> {
    /// The cotangent of the result, an array.
    pub fn ct(&self) -> InstrId {
        self.cts[0].expect("a rule is called when there is a cotangent")
    }

    /// The shape of an operand, an array.
    pub fn shape(&self, operand: usize) -> ArrayShape {
        let shape = &self.scope.instr(self.b, self.instr.operands[operand]).shape;
        leaf_shape(shape, 0).clone()
    }

    /// The shape of the result, an array.
    pub fn result(&self) -> &ArrayShape {
        leaf_shape(&self.instr.shape, 0)
    }

    /// Whether an operand depends on what is differentiated by.
    pub fn wants(&self, operand: usize) -> bool {
        self.scope.wants(self.b, self.instr.operands[operand])
    }

    /// An operand's value.
    pub fn x(&mut self, operand: usize) -> InstrId {
        let id = self.instr.operands[operand];
        self.scope.primal(self.b, id)
    }

    /// The result's value.
    pub fn y(&mut self) -> InstrId {
        self.scope.primal(self.b, self.id)
    }

    /// The value of an array of the result, a tuple.
    pub fn y_part(&mut self, part: usize) -> InstrId {
        let id = self.id;
        let element = self.scope.extend_forward(self.b, |b| b.element(id, part));
        self.scope.primal(self.b, element)
    }

    /// Adds a cotangent to an operand's.
    pub fn give(&mut self, operand: usize, ct: InstrId) {
        let id = self.instr.operands[operand];
        self.scope.give(self.b, (id, 0), ct);
    }

    /// Adds what `make` makes to an operand's cotangent, if it needs one.
    pub fn give_with(&mut self, operand: usize, make: impl FnOnce(&mut Self) -> InstrId) {
        if self.wants(operand) {
            let ct = make(self);
            self.give(operand, ct);
        }
    }

    /// The operand's cotangent so far, or zeros: to be enlarged and given back.
    pub fn accumulator(&mut self, operand: usize) -> InstrId {
        self.known_accumulator(operand).unwrap_or_else(|| {
            let shape = self.shape(operand);
            self.b.full(shape.dtype, &shape.dims, 0.0)
        })
    }

    /// The operand's cotangent so far: to be enlarged and given back.
    pub fn known_accumulator(&mut self, operand: usize) -> Option<InstrId> {
        self.scope.take_dense(self.b, (self.instr.operands[operand], 0))
    }

    /// The error for an instruction that cannot be differentiated.
    pub fn refuse(&self, why: &str) -> Diagnostic {
        refusal(&self.instr, why)
    }
}

/// The error for an instruction that cannot be differentiated.
pub(super) fn refusal(instr: &Instr, why: &str) -> Diagnostic {
    let (name, op) = (&instr.name, instr.op.as_str());
    Diagnostic::error(format!("a gradient reaches `{name}`, but `{op}` cannot be differentiated: {why}"))
        .at(instr.span)
        .help(
            "leave out of `wrt` what it depends on, or stop the gradient with the note `phzc.grad=\"stop\"`",
        )
}
