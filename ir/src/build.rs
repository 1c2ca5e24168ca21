//! Writing programs: a builder that names instructions and infers their shapes.
//!
//! ```
//! use phzc_ir::{DType, Shape, build::Builder};
//!
//! let mut b = Builder::new("layer");
//! let x = b.parameter("x", Shape::array(DType::F32, &[8, 64]));
//! let w = b.parameter("w", Shape::array(DType::F32, &[64, 16]));
//! let y = b.einsum("bi,io->bo", x, w);
//! let module = b.finish(y);
//! assert!(phzc_ir::verify(&module).is_empty());
//! ```
//!
//! Operands are instructions of the computation in the making. Methods panic on operands that do not fit, as
//! indexing does; code whose operands a user chose calls [`Builder::try_op`] and [`Builder::try_shaped`].

mod constant;
mod contract;
mod control;
mod elementwise;
mod indexing;
mod movement;
mod reduce;

pub use control::Loop;

use crate::attr::{Attr, Key, Value};
use crate::diag::{Diagnostic, Result, Span};
use crate::dtype::DType;
use crate::module::{CompId, Computation, Instr, InstrId, Module, Payload};
use crate::opcode::{Arity, Opcode};
use crate::shape::{ArrayShape, Dims, Shape};
use crate::view::View;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

/// A module in the making.
#[derive(Clone, Debug)]
pub struct Builder {
    module: Module,
    /// Computations in the making, the innermost last.
    frames: Vec<Frame>,
    /// Computations of two scalars, for `reduce` and `scatter`.
    reducers: IndexMap<(Opcode, DType), CompId, FxBuildHasher>,
    /// Where new instructions come from, in the source of a program that is being extended.
    pub span: Span,
}

/// A computation in the making; [`Builder::leave`] hands it out, [`Builder::enter`] goes on with it.
#[derive(Clone, Debug)]
pub struct Frame {
    name: Box<str>,
    instrs: Vec<Instr>,
    /// The number in the next instruction's name.
    next: usize,
    n_params: u32,
    /// Constants so far, by type and literal.
    constants: IndexMap<(DType, Box<str>), InstrId, FxBuildHasher>,
}

impl Frame {
    /// The instructions so far.
    pub fn instrs(&self) -> &[Instr] {
        &self.instrs
    }

    /// A computation without name and instructions.
    pub fn empty() -> Frame {
        Frame::new("")
    }

    fn new(name: &str) -> Frame {
        Frame { name: name.into(), instrs: Vec::new(), next: 0, n_params: 0, constants: IndexMap::default() }
    }

    fn resume(comp: Computation) -> Frame {
        let number = |instr: &Instr| instr.name.rsplit('.').next()?.parse::<usize>().ok();
        let next = comp.instrs.iter().filter_map(number).max().map_or(0, |last| last + 1);
        let n_params = comp.params().len() as u32;
        Frame { name: comp.name, instrs: comp.instrs, next, n_params, constants: IndexMap::default() }
    }
}

impl Builder {
    /// A module without instructions; its entry is called `main`.
    pub fn new(name: &str) -> Builder {
        Builder::with(Module { name: name.into(), ..Module::empty() }, Frame::new("main"))
    }

    /// Goes on with the entry of a module, which must be its last computation. Ids stay.
    pub fn resume(mut module: Module) -> Builder {
        assert_eq!(module.entry.index() + 1, module.comps.len(), "the entry is the last computation");
        let entry = module.comps.pop().expect("a module has an entry");
        Builder::with(module, Frame::resume(entry))
    }

    /// A new entry, called `main`, for a module whose own becomes a computation to call.
    pub fn around(module: Module) -> (Builder, CompId) {
        let callee = module.entry;
        (Builder::with(module, Frame::new("main")), callee)
    }

    fn with(module: Module, entry: Frame) -> Builder {
        let reducers = module.comps.iter().enumerate().filter_map(|(index, comp)| {
            let (op, dtype) = reducer(comp)?;
            Some(((op, dtype), CompId::new(index)))
        });
        let reducers = reducers.collect();
        Builder { module, frames: vec![entry], reducers, span: Span::default() }
    }

    /// The module whose entry returns this value.
    pub fn finish(mut self, root: InstrId) -> Module {
        assert_eq!(self.frames.len(), 1, "a nested computation was not ended");
        self.module.entry = self.end(root);
        self.module.comps[self.module.entry.index()].put_definitions_first();
        self.module
    }

    /// The module so far, for its header and finished computations.
    pub fn module(&mut self) -> &mut Module {
        &mut self.module
    }

    /// Begins a nested computation; instructions go there until [`Builder::end`].
    pub fn begin(&mut self, name: &str) {
        let name = self.free_name(name);
        self.frames.push(Frame::new(&name));
    }

    /// The name, or with `.1`, `.2`, … where another computation has it.
    fn free_name(&self, name: &str) -> String {
        let taken = |name: &str| {
            self.module.comps.iter().any(|comp| &*comp.name == name)
                || self.frames.iter().any(|frame| &*frame.name == name)
        };
        let numbered = |n: usize| if n == 0 { name.to_owned() } else { format!("{name}.{n}") };
        (0..).map(numbered).find(|name| !taken(name)).expect("some number is free")
    }

    /// Ends the innermost computation, which returns this value.
    pub fn end(&mut self, root: InstrId) -> CompId {
        let Frame { name, instrs, .. } = self.frames.pop().expect("a computation was begun");
        self.module.comps.push(Computation { name, instrs, root, thread: None });
        CompId::new(self.module.comps.len() - 1)
    }

    /// Sets the innermost computation aside; instructions go to the one around it.
    pub fn leave(&mut self) -> Frame {
        self.frames.pop().expect("a computation was begun")
    }

    /// Goes on with a computation that was set aside, as the innermost one; it has another name if its own
    /// was given away.
    pub fn enter(&mut self, frame: Frame) {
        let name = self.free_name(&frame.name).into();
        self.frames.push(Frame { name, ..frame });
    }

    /// Goes on with a finished computation until [`Builder::close`]. Ids stay; it must not be asked for
    /// meanwhile.
    pub fn reopen(&mut self, comp: CompId) {
        let Computation { name, instrs, root, thread } = &mut self.module.comps[comp.index()];
        let instrs = std::mem::take(instrs);
        let frame =
            Frame::resume(Computation { name: name.clone(), instrs, root: *root, thread: thread.take() });
        self.frames.push(frame);
    }

    /// Ends the innermost computation, which was reopened; definitions may follow their uses until then.
    pub fn close(&mut self, comp: CompId, root: InstrId) {
        let Frame { instrs, .. } = self.frames.pop().expect("a computation was begun");
        let comp = &mut self.module.comps[comp.index()];
        (comp.instrs, comp.root) = (instrs, root);
        comp.put_definitions_first();
    }

    /// The finished computations.
    pub fn comps(&self) -> &[Computation] {
        &self.module.comps
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the entry is never ended before the module")
    }

    /// The instructions of the computation in the making.
    pub fn instrs(&self) -> &[Instr] {
        &self.frames.last().expect("the entry is never ended before the module").instrs
    }

    /// An instruction of the computation in the making.
    pub fn instr(&self, id: InstrId) -> &Instr {
        &self.instrs()[id.index()]
    }

    /// The same, to be changed: its notes, say.
    pub fn instr_mut(&mut self, id: InstrId) -> &mut Instr {
        &mut self.frame().instrs[id.index()]
    }

    /// A value's shape.
    pub fn shape(&self, id: InstrId) -> &Shape {
        &self.instr(id).shape
    }

    /// An array's sizes.
    pub fn dims(&self, id: InstrId) -> Dims {
        self.shape(id).as_array().expect("an array").dims.clone()
    }

    /// An array's element type.
    pub fn dtype(&self, id: InstrId) -> DType {
        self.shape(id).as_array().expect("an array").dtype
    }

    /// Number of an array's dimensions.
    pub fn rank(&self, id: InstrId) -> usize {
        self.shape(id).as_array().expect("an array").rank()
    }

    /// The next parameter of the computation in the making; no other instruction there has its name.
    pub fn parameter(&mut self, name: &str, shape: Shape) -> InstrId {
        let number = self.frame().n_params;
        self.frame().n_params += 1;
        let instr = self.instruction(name.into(), Opcode::Parameter, &[], shape, Vec::new());
        self.push(Instr { payload: Payload::Parameter(number), ..instr })
    }

    /// An instruction whose shape follows from its operands and attributes.
    ///
    /// # Errors
    /// Operands that do not fit; an opcode whose shape has to be stated.
    pub fn try_op(&mut self, op: Opcode, operands: &[InstrId], attrs: Vec<Attr>) -> Result<InstrId> {
        self.inferred(op, operands, None, attrs)
    }

    /// An instruction whose shape is stated.
    ///
    /// # Errors
    /// Operands or a shape that do not fit.
    pub fn try_shaped(
        &mut self,
        op: Opcode,
        operands: &[InstrId],
        shape: Shape,
        attrs: Vec<Attr>,
    ) -> Result<InstrId> {
        self.inferred(op, operands, Some(shape), attrs)
    }

    /// As [`Builder::try_op`], for operands that are known to fit.
    pub fn op(&mut self, op: Opcode, operands: &[InstrId], attrs: Vec<Attr>) -> InstrId {
        self.try_op(op, operands, attrs).unwrap_or_else(|error| panic!("{}", error.message))
    }

    /// As [`Builder::try_shaped`], for operands that are known to fit.
    pub fn shaped(&mut self, op: Opcode, operands: &[InstrId], shape: Shape, attrs: Vec<Attr>) -> InstrId {
        self.try_shaped(op, operands, shape, attrs).unwrap_or_else(|error| panic!("{}", error.message))
    }

    fn inferred(
        &mut self,
        op: Opcode,
        operands: &[InstrId],
        stated: Option<Shape>,
        attrs: Vec<Attr>,
    ) -> Result<InstrId> {
        let unknown = Shape::Tuple(Vec::new());
        let name = self.new_name(op.as_str());
        let mut instr = self.instruction(name, op, operands, stated.unwrap_or(unknown), attrs);
        check_arity(op, operands.len())?;
        let view = View { comps: &self.module.comps, instrs: self.instrs(), instr: &instr };
        let inferred = (op.def().infer)(&view).map_err(|message| self.error(message))?;
        match inferred {
            Some(shape) if instr.shape.parts().is_empty() && instr.shape.as_array().is_none() => {
                instr.shape = shape;
            }
            Some(shape) if !shape.same_type(&instr.shape) => {
                let (op, found) = (op.as_str(), crate::text::shape_text(&shape));
                return Err(self.error(format!("`{op}` makes {found}, which is not what was stated")));
            }
            None if instr.shape == Shape::Tuple(Vec::new()) && op != Opcode::Tuple => {
                return Err(self.error(format!("the shape of `{}` has to be stated", op.as_str())));
            }
            _ => {}
        }
        Ok(self.push(instr))
    }

    fn error(&self, message: String) -> Diagnostic {
        Diagnostic::error(message).at(self.span)
    }

    fn new_name(&mut self, base: &str) -> Box<str> {
        let number = self.frame().next;
        self.frame().next += 1;
        format!("{base}.{number}").into_boxed_str()
    }

    fn instruction(
        &self,
        name: Box<str>,
        op: Opcode,
        operands: &[InstrId],
        shape: Shape,
        attrs: Vec<Attr>,
    ) -> Instr {
        let operands = SmallVec::from_slice(operands);
        Instr { name, op, operands, shape, payload: Payload::None, attrs, span: self.span }
    }

    /// Adds an instruction as it is; its name must be new.
    pub fn push(&mut self, instr: Instr) -> InstrId {
        let instrs = &mut self.frame().instrs;
        instrs.push(instr);
        InstrId::new(instrs.len() - 1)
    }
}

/// The opcode that a computation applies to its two parameters, scalars of one type.
fn reducer(comp: &Computation) -> Option<(Opcode, DType)> {
    let root = comp.root();
    let shapes = comp.instrs.iter().map(|instr| instr.shape.as_array());
    let is_scalar = |shape: Option<&ArrayShape>| shape.is_some_and(|array| array.rank() == 0);
    let dtype = root.shape.as_array()?.dtype;
    let is_plain = comp.instrs.len() == 3
        && root.attrs.is_empty()
        && shapes.clone().all(is_scalar)
        && comp.instrs[root.operands.first()?.index()].shape == root.shape
        && *root.operands == *comp.params();
    is_plain.then_some((root.op, dtype))
}

fn check_arity(op: Opcode, n: usize) -> Result<()> {
    match op.def().arity {
        Arity::Exactly(wanted) if wanted != n => {
            Err(Diagnostic::error(format!("`{}` takes {wanted} operands, not {n}", op.as_str())))
        }
        Arity::AtLeast(least) if n < least => {
            Err(Diagnostic::error(format!("`{}` takes at least {least} operands, not {n}", op.as_str())))
        }
        _ => Ok(()),
    }
}

/// A list of integers as an attribute.
pub fn ints(key: Key, items: impl IntoIterator<Item = i64>) -> Attr {
    Attr { key, value: Value::Ints(items.into_iter().collect()) }
}

/// A list of dimensions as an attribute.
pub fn dimensions(key: Key, dims: &[usize]) -> Attr {
    ints(key, dims.iter().map(|&dim| dim as i64))
}

/// A bare word as an attribute.
pub fn word(key: Key, word: &str) -> Attr {
    Attr { key, value: Value::Word(word.into()) }
}

#[cfg(test)]
mod tests;
