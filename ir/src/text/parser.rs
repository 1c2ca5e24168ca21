//! The parser: one pass over the text, straight into the arenas.

use super::cursor::{Cursor, clip};
use super::literal::parse_literal;
use super::shape::{MAX_DEPTH, parse_shape, starts_shape};
use crate::diag::{Diagnostic, Result, Span};
use crate::module::{CompId, Computation, HeaderAttr, Instr, InstrId, Module, Payload};
use crate::nearest;
use crate::opcode::Opcode;
use crate::shape::Shape;
use crate::view::View;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

type ByName<'a, Id> = IndexMap<&'a str, Id, FxBuildHasher>;

/// Reads a module. The first syntax error stops it; [`crate::verify()`] finds what the grammar cannot.
///
/// # Errors
/// One diagnostic with the place, what was expected there and what was found.
pub fn parse(text: &str) -> Result<Module> {
    if u32::try_from(text.len()).is_err() {
        return Err(Diagnostic::error("the program is larger than 4 GiB"));
    }
    let parser =
        Parser { cursor: Cursor::new(text), comps: Vec::new(), names: ByName::default(), entry: None };
    parser.module()
}

pub(super) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    comps: Vec<Computation>,
    names: ByName<'a, CompId>,
    entry: Option<CompId>,
}

/// A computation while it is being read.
#[derive(Default)]
struct Body<'a> {
    instrs: Vec<Instr>,
    names: ByName<'a, InstrId>,
    root: Option<InstrId>,
    /// Operands that are written where they are read: they have no names in the text.
    unnamed: Vec<InstrId>,
}

impl<'a> Parser<'a> {
    fn module(mut self) -> Result<Module> {
        let (name, attrs) = self.header()?;
        let tables = self.tables();
        loop {
            self.cursor.skip_space();
            if self.cursor.at_end() {
                break;
            }
            self.computation()?;
        }
        if self.comps.is_empty() {
            return Err(self.cursor.expected("a computation such as `ENTRY main { … }`"));
        }
        let entry = self.entry.unwrap_or(CompId::new(self.comps.len() - 1));
        let name =
            name.map_or_else(|| format!("module_{}", self.comps[entry.index()].name).into(), Box::from);
        Ok(Module { name, attrs, tables, comps: self.comps, entry })
    }

    fn header(&mut self) -> Result<(Option<&'a str>, Vec<HeaderAttr>)> {
        let mut attrs = Vec::new();
        if !self.cursor.eat_word("HloModule") {
            return Ok((None, attrs));
        }
        let name = self.cursor.name("the module's name")?;
        while self.cursor.eat(b',') {
            let key = self.cursor.name("a module attribute")?;
            self.cursor.expect(b'=')?;
            attrs.push(HeaderAttr { key: key.into(), value: self.cursor.balanced()?.into() });
        }
        Ok((Some(name), attrs))
    }

    /// `FileNames`, `FunctionNames`, `FileLocations`, `StackFrames` and their numbered lines.
    fn tables(&mut self) -> Box<str> {
        const TITLES: [&str; 4] = ["FileNames", "FunctionNames", "FileLocations", "StackFrames"];
        self.cursor.skip_space();
        let start = self.cursor.at;
        let mut rest = &self.cursor.text[start..];
        while let Some(line) = rest.split_inclusive('\n').next() {
            let text = line.trim();
            let in_table = rest.len() < self.cursor.text.len() - start;
            let numbered = in_table && text.starts_with(|c: char| c.is_ascii_digit());
            let blank = in_table && text.is_empty();
            if !(TITLES.contains(&text) || numbered || blank) {
                break;
            }
            rest = &rest[line.len()..];
        }
        self.cursor.at = self.cursor.text.len() - rest.len();
        self.cursor.text[start..self.cursor.at].trim_end().into()
    }

    fn computation(&mut self) -> Result<()> {
        let is_entry = self.cursor.eat_word("ENTRY");
        self.cursor.skip_space();
        let start = self.cursor.at;
        let name = self.cursor.name("a computation such as `ENTRY main { … }`")?;
        let span = Span::new(start, self.cursor.at);
        if self.cursor.eat(b'(') {
            self.signature()?;
        }
        let id = self.body(name, span, 0)?;
        if is_entry && self.entry.replace(id).is_some() {
            return Err(Diagnostic::error("a module has one `ENTRY` computation").at(span));
        }
        if self.cursor.eat(b',') {
            let key = self.cursor.name("`execution_thread=\"…\"`")?;
            self.cursor.expect(b'=')?;
            if key != "execution_thread" {
                return Err(
                    Diagnostic::error(format!("`{}` is no attribute of a computation", clip(key))).at(span)
                );
            }
            self.comps[id.index()].thread = Some(self.cursor.string()?.into());
        }
        Ok(())
    }

    /// `p: f32[4], …) -> f32[4]`: redundant, read and dropped.
    fn signature(&mut self) -> Result<()> {
        while !self.cursor.eat(b')') {
            self.cursor.name("a parameter's name")?;
            self.cursor.expect(b':')?;
            parse_shape(&mut self.cursor, 0)?;
            self.cursor.eat(b',');
        }
        self.cursor.expect(b'-')?;
        self.cursor.expect(b'>')?;
        parse_shape(&mut self.cursor, 0).map(drop)
    }

    fn body(&mut self, name: &'a str, span: Span, depth: usize) -> Result<CompId> {
        if depth > MAX_DEPTH {
            return Err(Diagnostic::error(format!("computations may nest {MAX_DEPTH} deep")).at(span));
        }
        let mut body = Body::default();
        self.cursor.expect(b'{')?;
        while !self.cursor.eat(b'}') {
            self.instruction(&mut body, depth)?;
        }
        let Some(last) = body.instrs.len().checked_sub(1) else {
            return Err(
                Diagnostic::error(format!("computation `{}` has no instructions", clip(name))).at(span)
            );
        };
        name_unnamed(&mut body);
        let id = CompId::new(self.comps.len());
        if self.names.insert(name, id).is_some() {
            let error = Diagnostic::error(format!("computation `{}` is defined twice", clip(name)));
            return Err(error.at(span));
        }
        let root = body.root.unwrap_or(InstrId::new(last));
        self.comps.push(Computation { name: name.into(), instrs: body.instrs, root, thread: None });
        Ok(id)
    }

    fn instruction(&mut self, body: &mut Body<'a>, depth: usize) -> Result<()> {
        let is_root = self.cursor.eat_word("ROOT");
        self.cursor.skip_space();
        let start = self.cursor.at;
        let name = self.cursor.name("an instruction such as `x = f32[2] negate(y)`")?;
        let name_span = Span::new(start, self.cursor.at);
        self.cursor.expect(b'=')?;
        let shape = if starts_shape(&self.cursor) { Some(parse_shape(&mut self.cursor, 0)?) } else { None };
        let (op, wrapped) = self.opcode()?;
        self.cursor.expect(b'(')?;
        let (operands, payload) = self.arguments(op, shape.as_ref(), body, depth)?;
        let payload = wrapped.map_or(payload, Payload::Wrapped);
        let mut attrs = Vec::new();
        while self.cursor.eat(b',') {
            attrs.push(self.attr(depth)?);
        }
        let span = Span::new(start, self.cursor.at);
        let is_inferred = shape.is_none();
        let shape = shape.unwrap_or(Shape::Tuple(Vec::new()));
        let mut instr = Instr { name: name.into(), op, operands, shape, payload, attrs, span };
        if is_inferred {
            instr.shape = self.infer(&instr, body)?;
        }
        let id = InstrId::new(body.instrs.len());
        if body.names.insert(name, id).is_some() {
            return Err(Diagnostic::error(format!("`{}` is defined twice", clip(name))).at(name_span));
        }
        body.root = if is_root { Some(id) } else { body.root };
        body.instrs.push(instr);
        Ok(())
    }

    /// The opcode; `custom-call-start` and its kin are asynchronous forms of the op they name.
    fn opcode(&mut self) -> Result<(Opcode, Option<Opcode>)> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        let word = self.cursor.word();
        if let Some(op) = Opcode::parse(word) {
            return Ok((op, None));
        }
        let forms =
            [("-start", Opcode::AsyncStart), ("-update", Opcode::AsyncUpdate), ("-done", Opcode::AsyncDone)];
        for (suffix, op) in forms {
            if let Some(wrapped) = word.strip_suffix(suffix).and_then(Opcode::parse) {
                return Ok((op, Some(wrapped)));
            }
        }
        self.cursor.at = start;
        let mut error = self.cursor.expected("an opcode");
        if let Some(near) = nearest(word, Opcode::ALL.iter().map(|op| op.as_str())) {
            error = error.help(format!("did you mean `{near}`?"));
        }
        Err(error)
    }

    fn infer(&self, instr: &Instr, body: &Body) -> Result<Shape> {
        let view = View { comps: &self.comps, instrs: &body.instrs, instr };
        match (instr.op.def().infer)(&view) {
            Ok(Some(shape)) => Ok(shape),
            Ok(None) => {
                let error =
                    Diagnostic::error(format!("`{}` needs its result shape written", instr.op.as_str()));
                Err(error.at(instr.span))
            }
            Err(message) => Err(Diagnostic::error(message).at(instr.span)),
        }
    }

    /// What stands between the parentheses.
    fn arguments(
        &mut self,
        op: Opcode,
        shape: Option<&Shape>,
        body: &mut Body<'a>,
        depth: usize,
    ) -> Result<(SmallVec<[InstrId; 3]>, Payload)> {
        let mut operands = SmallVec::new();
        let payload = match op {
            Opcode::Parameter => {
                let (start, number) = (self.cursor.at, self.cursor.int()?);
                let number = u32::try_from(number).map_err(|_| {
                    let error = Diagnostic::error(format!("`{number}` is no parameter number"));
                    error.at(Span::new(start, self.cursor.at))
                })?;
                Payload::Parameter(number)
            }
            Opcode::Constant => match shape {
                Some(shape) => Payload::Literal(parse_literal(&mut self.cursor, shape, 0)?),
                None => return Err(self.cursor.expected("the constant's shape before `constant`")),
            },
            _ => {
                self.operand_list(body, &mut operands, depth)?;
                return Ok((operands, Payload::None));
            }
        };
        self.cursor.expect(b')')?;
        Ok((operands, payload))
    }

    fn operand_list(
        &mut self,
        body: &mut Body<'a>,
        operands: &mut SmallVec<[InstrId; 3]>,
        depth: usize,
    ) -> Result<()> {
        loop {
            // XLA takes a comma before the first and after the last one too.
            while self.cursor.eat(b',') {}
            if self.cursor.eat(b')') {
                return Ok(());
            }
            operands.push(self.operand(body, depth)?);
            self.cursor.skip_space();
            if !matches!(self.cursor.peek(), b',' | b')') {
                return Err(self.cursor.expected("`,` or `)`"));
            }
        }
    }

    /// A name, its shape before it or not; or an instruction without attributes, written in place.
    fn operand(&mut self, body: &mut Body<'a>, depth: usize) -> Result<InstrId> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        let shape = if starts_shape(&self.cursor) { Some(parse_shape(&mut self.cursor, 0)?) } else { None };
        self.cursor.skip_space();
        let place = self.cursor.at;
        let name = self.cursor.name("an operand's name")?;
        let span = Span::new(start, self.cursor.at);
        let mut ahead = self.cursor.clone();
        if ahead.eat(b'(') {
            self.cursor.at = place;
            return self.unnamed(shape, start, body, depth + 1);
        }
        let Some(&id) = body.names.get(name) else {
            let error = Diagnostic::error(format!("`{}` is not defined before its use", clip(name)));
            return Err(error.at(span));
        };
        let defined = &body.instrs[id.index()];
        if shape.is_some_and(|shape| !shape.same_type(&defined.shape)) {
            let error =
                Diagnostic::error(format!("operand `{}` has another shape than written here", clip(name)));
            return Err(error.at(span).note(Some(defined.span), "defined here"));
        }
        Ok(id)
    }

    /// `s8[4] parameter(0)` where an operand's name could be: XLA takes no attributes there.
    fn unnamed(
        &mut self,
        shape: Option<Shape>,
        start: usize,
        body: &mut Body<'a>,
        depth: usize,
    ) -> Result<InstrId> {
        if depth > MAX_DEPTH {
            let error = Diagnostic::error(format!("operands may nest {MAX_DEPTH} deep"));
            return Err(error.at(Span::new(start, self.cursor.at)));
        }
        let (op, wrapped) = self.opcode()?;
        self.cursor.expect(b'(')?;
        let (operands, payload) = self.arguments(op, shape.as_ref(), body, depth)?;
        let payload = wrapped.map_or(payload, Payload::Wrapped);
        let span = Span::new(start, self.cursor.at);
        let instr = Instr { op, operands, payload, span, ..Instr::nothing(span) };
        let shape = shape.map_or_else(|| self.infer(&instr, body), Ok)?;
        let id = InstrId::new(body.instrs.len());
        body.unnamed.push(id);
        body.instrs.push(Instr { name: "".into(), shape, ..instr });
        Ok(id)
    }

    /// A computation's name, or a body written in place.
    pub(super) fn comp_ref(&mut self, depth: usize) -> Result<CompId> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        if self.cursor.peek() == b'{' {
            return self.inline_body(depth);
        }
        let name = self.cursor.name("a computation's name")?;
        self.names.get(name).copied().ok_or_else(|| {
            let error =
                Diagnostic::error(format!("computation `{}` is not defined before its use", clip(name)));
            error.at(Span::new(start, self.cursor.at))
        })
    }

    /// A body in place gets a name of its own, for it is printed as a computation.
    fn inline_body(&mut self, depth: usize) -> Result<CompId> {
        let span = Span::new(self.cursor.at, self.cursor.at + 1);
        // No name in the text is empty, so this placeholder meets none of them.
        let placeholder: &'static str = "";
        let id = self.body(placeholder, span, depth + 1)?;
        self.names.swap_remove(placeholder);
        let taken = |name: &str| self.comps.iter().any(|comp| &*comp.name == name);
        let number = (id.index()..).find(|n| !taken(&format!("inline.{n}"))).unwrap_or(id.index());
        self.comps[id.index()].name = format!("inline.{number}").into();
        Ok(id)
    }

    pub(super) fn comp_refs(&mut self, depth: usize) -> Result<Vec<CompId>> {
        let mut comps = Vec::new();
        self.cursor.expect(b'{')?;
        while !self.cursor.eat(b'}') {
            if !comps.is_empty() {
                self.cursor.expect(b',')?;
            }
            comps.push(self.comp_ref(depth)?);
        }
        Ok(comps)
    }
}

/// Gives operands that were written in place the names that XLA gives them, as far as they are free.
fn name_unnamed(body: &mut Body) {
    if body.unnamed.is_empty() {
        return;
    }
    let taken: IndexSet<Box<str>> = body.instrs.iter().map(|instr| instr.name.clone()).collect();
    let mut next: IndexMap<Opcode, usize> = IndexMap::new();
    for id in std::mem::take(&mut body.unnamed) {
        let instr = &mut body.instrs[id.index()];
        let number = next.entry(instr.op).or_default();
        while instr.name.is_empty() {
            let suffix = if *number == 0 { String::new() } else { format!(".{number}") };
            let name = format!("{}.anon{suffix}", instr.op.as_str());
            *number += 1;
            instr.name = if taken.contains(name.as_str()) { "".into() } else { name.into() };
        }
    }
}
