//! Operations become instructions: names, scopes, functions and what a region needs from outside.

use super::ast::{Arg, Attr, Loc, Op, Region, Use};
use super::capture;
use super::ops;
use super::parse::{File, Names};
use phzc_ir::build::Builder;
use phzc_ir::text::cursor::clip;
use phzc_ir::{ArrayShape, Attr as HloAttr, CompId, Diagnostic, InstrId, Key, Opcode, Result, Shape, Value};
use smallvec::SmallVec;

/// Functions and regions are lowered at most this deep.
const MAX_NESTING: usize = 100;

/// Operands of an instruction.
pub(super) type Ids = SmallVec<[InstrId; 3]>;

/// What an operation makes.
pub(super) enum Made {
    /// One value.
    One(InstrId),
    /// Several values, as a tuple.
    Tuple(InstrId),
    /// Several values.
    Many(Ids),
}

/// A value's instruction, or the tuple that it is still to be taken from.
#[derive(Clone, Copy)]
enum Known {
    Instr(InstrId),
    Element(InstrId, usize),
}

/// The values of a computation in the making.
#[derive(Default)]
struct Scope<'a> {
    values: Names<'a, SmallVec<[Known; 1]>>,
    /// What `return` was given.
    returned: Option<Ids>,
}

/// A function's state.
enum Function {
    /// Being lowered: a call is a recursion.
    Open,
    Done(CompId),
}

pub(super) struct Lowerer<'a, 'f> {
    pub b: Builder,
    pub file: &'f File<'a>,
    functions: Names<'a, &'f Op<'a>>,
    done: Names<'a, Function>,
    scopes: Vec<Scope<'a>>,
    n_regions: usize,
}

impl<'a, 'f> Lowerer<'a, 'f> {
    pub fn new(name: &str, file: &'f File<'a>, functions: Names<'a, &'f Op<'a>>) -> Lowerer<'a, 'f> {
        let b = Builder::new(name);
        Lowerer { b, file, functions, done: Names::default(), scopes: vec![Scope::default()], n_regions: 0 }
    }

    /// Lowers the operations of the entry; what they return.
    pub fn entry(&mut self, function: &'f Op<'a>, params: &[InstrId]) -> Result<Ids> {
        if let Some(name) = function.symbol {
            self.done.insert(name, Function::Open);
        }
        let region = function.region(0)?;
        for (arg, &param) in region.args.iter().zip(params) {
            self.bind(arg, Known::Instr(param))?;
        }
        self.ops(region)
    }

    /// A function's computation; it is lowered when it is first called.
    pub fn function(&mut self, op: &Op<'a>) -> Result<CompId> {
        let name = op.symbol.ok_or_else(|| op.error("a call needs the name of a function"))?;
        match self.done.get(name) {
            Some(Function::Done(comp)) => return Ok(*comp),
            Some(Function::Open) => return Err(op.error(format!("`@{}` calls itself", clip(name)))),
            None => {}
        }
        let Some(&function) = self.functions.get(name) else {
            return Err(op.error(format!("the function `@{}` is not defined", clip(name))));
        };
        self.done.insert(name, Function::Open);
        let body = function.region(0)?;
        if let Some(used) = capture::free(&[body]).first() {
            return Err(undefined(used));
        }
        let comp = self.computation(body, &identifier(name), Vec::new(), op)?;
        self.done.insert(name, Function::Done(comp));
        Ok(comp)
    }

    /// A computation with a parameter per argument; constants from outside are repeated in it.
    pub fn region(&mut self, region: &Region<'a>, name: &str, op: &Op<'a>) -> Result<CompId> {
        let constants = capture::constants(self, region, op)?;
        self.computation(region, name, constants, op)
    }

    fn computation(
        &mut self,
        region: &Region<'a>,
        name: &str,
        constants: Vec<(&'a str, u32, phzc_ir::Instr)>,
        op: &Op<'a>,
    ) -> Result<CompId> {
        self.begin(name, op)?;
        for (index, arg) in region.args.iter().enumerate() {
            let param = self.b.parameter(&format!("arg{index}"), arg.shape.clone());
            self.bind(arg, Known::Instr(param))?;
        }
        for (name, index, instr) in constants {
            self.repeat(name, index, instr);
        }
        let returned = self.ops(region)?;
        let root = self.packed(&returned);
        Ok(self.end(root))
    }

    /// A computation with one tuple of the region's arguments and captured values; with `keep` it returns
    /// these as they are, after its own results.
    pub fn packed_region(
        &mut self,
        region: &Region<'a>,
        (name, state): (&str, Shape),
        captured: &[Use<'a>],
        keep: bool,
        op: &Op<'a>,
    ) -> Result<CompId> {
        self.begin(name, op)?;
        let n_args = region.args.len();
        let is_packed = matches!(state, Shape::Tuple(_));
        let param = self.b.parameter("state", state);
        let part = |index| if is_packed { Known::Element(param, index) } else { Known::Instr(param) };
        for (index, arg) in region.args.iter().enumerate() {
            self.bind(arg, part(index))?;
        }
        for (index, used) in captured.iter().enumerate() {
            self.define(used.name, used.index, part(n_args + index));
        }
        let mut returned = self.ops(region)?;
        if keep {
            for used in captured {
                returned.push(self.operand(used)?);
            }
        }
        let root = if keep { self.b.tuple(&returned) } else { self.packed(&returned) };
        Ok(self.end(root))
    }

    fn begin(&mut self, name: &str, op: &Op<'a>) -> Result<()> {
        if self.scopes.len() > MAX_NESTING {
            return Err(op.error(format!("functions and regions may nest {MAX_NESTING} deep")));
        }
        self.b.begin(name);
        self.scopes.push(Scope::default());
        Ok(())
    }

    fn end(&mut self, root: InstrId) -> CompId {
        self.scopes.pop();
        self.b.end(root)
    }

    /// A new name for a region's computation.
    pub fn region_name(&mut self) -> String {
        self.n_regions += 1;
        format!("region_{}", self.n_regions - 1)
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn bind(&mut self, arg: &Arg<'a>, known: Known) -> Result<()> {
        let fresh = self.scope().values.insert(arg.name, SmallVec::from_slice(&[known])).is_none();
        let message = || Diagnostic::error(format!("`%{}` is defined twice", clip(arg.name)));
        if fresh { Ok(()) } else { Err(message().at(self.b.span)) }
    }

    fn define(&mut self, name: &'a str, index: u32, known: Known) {
        let values = self.scope().values.entry(name).or_default();
        while values.len() <= index as usize {
            values.push(known);
        }
        values[index as usize] = known;
    }

    /// A constant of an outer computation, once more.
    fn repeat(&mut self, name: &'a str, index: u32, mut instr: phzc_ir::Instr) {
        instr.name = format!("constant_{name}_{index}").into();
        let id = self.b.push(instr);
        self.define(name, index, Known::Instr(id));
    }

    /// Lowers the operations up to the one that returns.
    fn ops(&mut self, region: &Region<'a>) -> Result<Ids> {
        for op in &region.ops {
            self.op(op)?;
        }
        let returned = self.scope().returned.take();
        returned.ok_or_else(|| match region.ops.last() {
            Some(last) => last.error("a block must end in `return`"),
            None => Diagnostic::error("a block without operations").at(self.b.span),
        })
    }

    fn op(&mut self, op: &Op<'a>) -> Result<()> {
        let outer = std::mem::replace(&mut self.b.span, op.span);
        let operands: Ids = op.operands.iter().map(|used| self.operand(used)).collect::<Result<_>>()?;
        if ops::RETURNS.contains(&op.name) {
            self.scope().returned = Some(operands);
            self.b.span = outer;
            return Ok(());
        }
        let n_before = self.b.instrs().len();
        let made = ops::lower(self, op, &operands)?;
        self.annotate(op, n_before);
        self.bind_results(op, made)?;
        self.b.span = outer;
        Ok(())
    }

    /// The name of the source operation, as XLA keeps it.
    fn annotate(&mut self, op: &Op<'a>, from: usize) {
        let Some(name) = op.loc.and_then(|loc| self.loc_name(loc)) else { return };
        for index in from..self.b.instrs().len() {
            let text = format!("{{op_name=\"{name}\"}}");
            self.b.instr_mut(InstrId::new(index)).set_attr(Key::Metadata, Value::Raw(text.into()));
        }
    }

    /// A location's name, escapes as written.
    pub fn loc_name(&self, loc: Loc<'a>) -> Option<&'a str> {
        match loc {
            Loc::Name(name) => Some(name),
            Loc::Alias(alias) => match self.file.locs.get(alias)? {
                Loc::Name(name) => Some(name),
                Loc::Alias(_) => None,
            },
        }
    }

    fn bind_results(&mut self, op: &Op<'a>, made: Made) -> Result<()> {
        let n_results: u32 = op.results.iter().map(|(_, count)| count).sum();
        let all: SmallVec<[Known; 1]> = match made {
            Made::One(id) => SmallVec::from_slice(&[Known::Instr(id)]),
            Made::Tuple(id) => {
                (0..self.b.shape(id).parts().len()).map(|index| Known::Element(id, index)).collect()
            }
            Made::Many(ids) => ids.into_iter().map(Known::Instr).collect(),
        };
        if n_results as usize != all.len() && n_results != 0 {
            return Err(op.error(format!(
                "`{}` makes {} results, {n_results} are named",
                op.name,
                all.len()
            )));
        }
        let mut rest = all.into_iter();
        for &(name, count) in &op.results {
            let values = rest.by_ref().take(count as usize).collect();
            if self.scope().values.insert(name, values).is_some() {
                return Err(op.error(format!("`%{}` is defined twice", clip(name))));
            }
        }
        Ok(())
    }

    /// The instruction of a value that the computation in the making knows.
    pub fn operand(&mut self, used: &Use<'a>) -> Result<InstrId> {
        let known =
            self.scope().values.get(used.name).and_then(|values| values.get(used.index as usize)).copied();
        match known {
            Some(Known::Instr(id)) => Ok(id),
            Some(Known::Element(tuple, index)) => {
                let id = self.b.element(tuple, index);
                self.define(used.name, used.index, Known::Instr(id));
                Ok(id)
            }
            None => Err(undefined(used)),
        }
    }

    /// Whether the computation in the making knows a value.
    pub fn knows(&self, used: &Use<'a>) -> bool {
        let values = self.scopes.last().and_then(|scope| scope.values.get(used.name));
        values.is_some_and(|values| values.len() > used.index as usize)
    }

    /// One value as it is, any other number as a tuple.
    pub fn packed(&mut self, ids: &[InstrId]) -> InstrId {
        match ids {
            [one] => *one,
            several => self.b.tuple(several),
        }
    }

    /// An instruction of the operation's type.
    pub fn emit(
        &mut self,
        op: &Op<'a>,
        opcode: Opcode,
        operands: &[InstrId],
        attrs: Vec<HloAttr>,
    ) -> Result<Made> {
        self.b.try_shaped(opcode, operands, op.shape(0)?, attrs).map(Made::One)
    }

    /// An instruction of several results, a tuple in HLO; one result is no tuple.
    pub fn emit_all(
        &mut self,
        op: &Op<'a>,
        opcode: Opcode,
        operands: &[InstrId],
        attrs: Vec<HloAttr>,
    ) -> Result<Made> {
        let n_results: u32 = op.results.iter().map(|(_, count)| count).sum();
        let n_results = if op.results.is_empty() { op.types.len() } else { n_results as usize };
        if n_results == 1 {
            return self.emit(op, opcode, operands, attrs);
        }
        let parts = (0..n_results).map(|index| op.shape(index)).collect::<Result<_>>()?;
        self.b.try_shaped(opcode, operands, Shape::Tuple(parts), attrs).map(Made::Tuple)
    }

    /// An operand, which must be there.
    pub fn take(&self, op: &Op<'a>, operands: &[InstrId], index: usize) -> Result<InstrId> {
        let id = operands.get(index).copied();
        id.ok_or_else(|| op.error(format!("`{}` lacks operand {index}", op.name)))
    }

    /// The shape of an operand, which must be an array.
    pub fn array(&self, op: &Op<'a>, operands: &[InstrId], index: usize) -> Result<ArrayShape> {
        let id = self.take(op, operands, index)?;
        let array = self.b.shape(id).as_array().cloned();
        array.ok_or_else(|| op.error(format!("operand {index} of `{}` must be a tensor", op.name)))
    }
}

/// The error of a value that nothing has made so far.
pub(super) fn undefined(used: &Use) -> Diagnostic {
    let number = if used.index > 0 { format!("#{}", used.index) } else { String::new() };
    let message = format!("`%{}{number}` is not defined before its use", clip(used.name));
    Diagnostic::error(message).at(used.span)
}

/// The shape of the operation's result, which must be an array.
pub(super) fn result(op: &Op, index: usize) -> Result<ArrayShape> {
    let shape = op.shape(index)?;
    shape.as_array().cloned().ok_or_else(|| op.error(format!("`{}` must make a tensor", op.name)))
}

/// An attribute of integers.
pub(super) fn ints(key: Key, ints: impl IntoIterator<Item = i64>) -> HloAttr {
    phzc_ir::build::ints(key, ints)
}

/// Any attribute.
pub(super) fn attr(key: Key, value: Value) -> HloAttr {
    HloAttr { key, value }
}

/// A flag, written where it is set.
pub(super) fn flag(op: &Op, name: &str, key: Key) -> Option<HloAttr> {
    let is_set = matches!(op.attr(&[name]), Some(Attr::Bool(true) | Attr::Unit));
    is_set.then(|| attr(key, Value::Bool(true)))
}

/// The text with what HLO names cannot have replaced by `_`.
pub(super) fn identifier(text: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = text.chars().map(legal).collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { name } else { format!("_{name}") }
}
