//! The module: computations of instructions in arenas with typed ids.

use crate::attr::{Attr, Key, Value};
use crate::diag::Span;
use crate::opcode::Opcode;
use crate::shape::Shape;
use crate::sharding::Sharding;
use smallvec::SmallVec;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of arena position `index`.
            pub fn new(index: usize) -> $name {
                $name(u32::try_from(index).expect("an arena holds fewer than 2^32 items"))
            }

            /// The arena position.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// An instruction's position in its computation (program order: operands come first).
    InstrId
}
id! {
    /// A computation's position in its module (callees come first).
    CompId
}

/// One HLO module.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The name after `HloModule`.
    pub name: Box<str>,
    /// Header attributes in source order.
    pub attrs: Vec<HeaderAttr>,
    /// Frame tables between header and first computation, kept as text.
    pub tables: Box<str>,
    /// Computations, callees first.
    pub comps: Vec<Computation>,
    /// The computation that a run starts in.
    pub entry: CompId,
}

/// A `key=value` of the module header; the value is kept as text.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderAttr {
    /// Name before the equals sign.
    pub key: Box<str>,
    /// Text after it, brackets included.
    pub value: Box<str>,
}

/// A list of instructions with one root.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// Name, unique in the module.
    pub name: Box<str>,
    /// Instructions in program order.
    pub instrs: Vec<Instr>,
    /// The instruction whose value the computation returns.
    pub root: InstrId,
    /// `execution_thread="…"`, if written.
    pub thread: Option<Box<str>>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instr {
    /// Name, unique in the computation.
    pub name: Box<str>,
    /// What it does.
    pub op: Opcode,
    /// Values it reads, all defined earlier.
    pub operands: SmallVec<[InstrId; 3]>,
    /// Shape of its value.
    pub shape: Shape,
    /// A parameter's number, a constant's literal, an asynchronous op's kind.
    pub payload: Payload,
    /// Attributes in source order.
    pub attrs: Vec<Attr>,
    /// Where it was written.
    pub span: Span,
}

/// What an instruction is besides opcode, operands and attributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Payload {
    /// Operands only.
    #[default]
    None,
    /// `parameter(3)`.
    Parameter(u32),
    /// `constant({1, 2})`: the literal in canonical spelling; `{...}` when elided.
    Literal(Box<str>),
    /// `custom-call-start(x)`: the op that an `async-start`, `-update` or `-done` is about.
    Wrapped(Opcode),
}

impl Module {
    /// A module without computations: not legal, but what to leave behind where one is taken.
    pub fn empty() -> Module {
        Module { name: "".into(), attrs: Vec::new(), tables: "".into(), comps: Vec::new(), entry: CompId(0) }
    }

    /// The computation with this id.
    pub fn comp(&self, id: CompId) -> &Computation {
        &self.comps[id.index()]
    }

    /// The entry computation.
    pub fn entry(&self) -> &Computation {
        self.comp(self.entry)
    }

    /// A header attribute's text.
    pub fn attr(&self, key: &str) -> Option<&str> {
        self.attrs.iter().find(|attr| &*attr.key == key).map(|attr| &*attr.value)
    }

    /// Sets a header attribute, in place if it is there, else at the end.
    pub fn set_attr(&mut self, key: &str, value: impl Into<Box<str>>) {
        let value = value.into();
        match self.attrs.iter_mut().find(|attr| &*attr.key == key) {
            Some(attr) => attr.value = value,
            None => self.attrs.push(HeaderAttr { key: key.into(), value }),
        }
    }

    /// A copy without the instructions of the entry, for one who writes others.
    pub fn without_entry(&self) -> Module {
        let bare = |(at, comp): (usize, &Computation)| match at == self.entry.index() {
            true => Computation {
                name: comp.name.clone(),
                instrs: Vec::new(),
                root: comp.root,
                thread: comp.thread.clone(),
            },
            false => comp.clone(),
        };
        Module {
            name: self.name.clone(),
            attrs: self.attrs.clone(),
            tables: self.tables.clone(),
            comps: self.comps.iter().enumerate().map(bare).collect(),
            entry: self.entry,
        }
    }

    /// Number of instructions in all computations.
    pub fn n_instrs(&self) -> usize {
        self.comps.iter().map(|comp| comp.instrs.len()).sum()
    }
}

impl Computation {
    /// The instruction with this id.
    pub fn instr(&self, id: InstrId) -> &Instr {
        &self.instrs[id.index()]
    }

    /// Instructions with their ids, in program order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (InstrId, &Instr)> {
        self.instrs.iter().enumerate().map(|(index, instr)| (InstrId::new(index), instr))
    }

    /// Ids of the parameters, by parameter number.
    pub fn params(&self) -> Vec<InstrId> {
        let mut params: Vec<(u32, InstrId)> =
            self.iter().filter_map(|(id, instr)| Some((instr.param_number()?, id))).collect();
        params.sort_unstable();
        params.into_iter().map(|(_, id)| id).collect()
    }

    /// The root instruction.
    pub fn root(&self) -> &Instr {
        self.instr(self.root)
    }
}

impl Instr {
    /// The parameter number, if this is a parameter.
    pub fn param_number(&self) -> Option<u32> {
        match self.payload {
            Payload::Parameter(number) => Some(number),
            _ => None,
        }
    }

    /// The empty tuple, without a name: stands where an instruction is about to go.
    pub fn nothing(span: Span) -> Instr {
        Instr {
            name: Box::default(),
            op: Opcode::Tuple,
            operands: SmallVec::new(),
            shape: Shape::Tuple(Vec::new()),
            payload: Payload::None,
            attrs: Vec::new(),
            span,
        }
    }

    /// The value of an attribute.
    pub fn attr(&self, key: Key) -> Option<&Value> {
        self.attrs.iter().find(|attr| attr.key == key).map(|attr| &attr.value)
    }

    /// Sets an attribute, in place if it is there, else at the end.
    pub fn set_attr(&mut self, key: Key, value: Value) {
        match self.attrs.iter_mut().find(|attr| attr.key == key) {
            Some(attr) => attr.value = value,
            None => self.attrs.push(Attr { key, value }),
        }
    }

    /// Integers of a list attribute; empty when it is absent.
    pub fn ints(&self, key: Key) -> &[i64] {
        match self.attr(key) {
            Some(Value::Ints(ints)) => ints,
            Some(Value::Int(int)) => std::slice::from_ref(int),
            _ => &[],
        }
    }

    /// A single integer attribute.
    pub fn int(&self, key: Key) -> Option<i64> {
        match self.attr(key) {
            Some(Value::Int(int)) => Some(*int),
            _ => None,
        }
    }

    /// A bare word or a string attribute's text.
    pub fn word(&self, key: Key) -> Option<&str> {
        match self.attr(key) {
            Some(Value::Word(text) | Value::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// A called computation.
    pub fn comp(&self, key: Key) -> Option<CompId> {
        match self.attr(key) {
            Some(Value::Comp(comp)) => Some(*comp),
            _ => None,
        }
    }

    /// Every computation that the instruction names, in source order.
    pub fn called(&self) -> impl Iterator<Item = CompId> + '_ {
        self.attrs.iter().flat_map(|attr| match &attr.value {
            Value::Comp(comp) => std::slice::from_ref(comp).iter().copied(),
            Value::Comps(comps) => comps.iter().copied(),
            _ => [].iter().copied(),
        })
    }

    /// The `sharding={…}` attribute.
    pub fn sharding(&self) -> Option<&Sharding> {
        match self.attr(Key::Sharding) {
            Some(Value::Sharding(sharding)) => Some(sharding),
            _ => None,
        }
    }

    /// A note from `frontend_attributes`: the text between the quotes.
    pub fn note(&self, key: &str) -> Option<&str> {
        let Some(Value::Notes(notes)) = self.attr(Key::FrontendAttributes) else { return None };
        let (_, value) = notes.iter().find(|(name, _)| &**name == key)?;
        value.strip_prefix('"')?.strip_suffix('"')
    }

    /// Writes a note into `frontend_attributes`; `value` must need no escapes.
    pub fn set_note(&mut self, key: &str, value: &str) {
        if !matches!(self.attr(Key::FrontendAttributes), Some(Value::Notes(_))) {
            self.set_attr(Key::FrontendAttributes, Value::Notes(Vec::new()));
        }
        let notes = self.attrs.iter_mut().find_map(|attr| match &mut attr.value {
            Value::Notes(notes) if attr.key == Key::FrontendAttributes => Some(notes),
            _ => None,
        });
        let (notes, quoted) = (notes.expect("just set"), format!("\"{value}\"").into_boxed_str());
        match notes.iter_mut().find(|(name, _)| &**name == key) {
            Some((_, text)) => *text = quoted,
            None => notes.push((key.into(), quoted)),
        }
    }

    /// Removes a note; an empty `frontend_attributes` goes with it.
    pub fn remove_note(&mut self, key: &str) {
        for attr in &mut self.attrs {
            if let Value::Notes(notes) = &mut attr.value {
                notes.retain(|(name, _)| &**name != key);
            }
        }
        self.attrs.retain(|attr| !matches!(&attr.value, Value::Notes(notes) if notes.is_empty()));
    }
}

#[cfg(test)]
mod tests;
