//! What a StableHLO text says, before any of it is given a meaning.

use phzc_ir::attr::SliceDim;
use phzc_ir::{Diagnostic, Result, Shape, Span};
use smallvec::SmallVec;

/// Integers of an attribute.
pub(super) type Ints = SmallVec<[i64; 4]>;

/// One operation, a function and the module itself included.
pub(super) struct Op<'a> {
    /// Dialect and name: `stablehlo.add`.
    pub name: &'a str,
    /// Names of the results, without `%`, each with the number of values that it stands for.
    pub results: SmallVec<[(&'a str, u32); 1]>,
    /// Values that are read.
    pub operands: SmallVec<[Use<'a>; 3]>,
    /// Bare words between the operands: `LT`, `FLOAT`.
    pub words: SmallVec<[&'a str; 2]>,
    /// The function that is called, or the symbol that is defined, without `@`.
    pub symbol: Option<&'a str>,
    /// Attributes under the names that they have in this form of the text.
    pub attrs: Vec<(&'a str, Attr<'a>)>,
    /// Nested regions of one block each.
    pub regions: Vec<Region<'a>>,
    /// Types of the results.
    pub types: SmallVec<[Shape; 1]>,
    /// Where the operation comes from.
    pub loc: Option<Loc<'a>>,
    /// The name and operands in the text.
    pub span: Span,
}

/// A value that is read: `%6#1`.
#[derive(Clone, Copy)]
pub(super) struct Use<'a> {
    pub name: &'a str,
    pub index: u32,
    pub span: Span,
}

/// A block with its arguments.
#[derive(Default)]
pub(super) struct Region<'a> {
    pub args: Vec<Arg<'a>>,
    pub ops: Vec<Op<'a>>,
}

/// An argument of a block.
pub(super) struct Arg<'a> {
    pub name: &'a str,
    pub shape: Shape,
    pub loc: Option<Loc<'a>>,
}

/// A source location: only names are of use.
#[derive(Clone, Copy)]
pub(super) enum Loc<'a> {
    /// `loc("jit(f)/sin"(…))`: escapes as written.
    Name(&'a str),
    /// `loc(#loc3)`.
    Alias(&'a str),
}

/// An attribute's value.
#[derive(Clone)]
pub(super) enum Attr<'a> {
    /// A key without a value.
    Unit,
    Bool(bool),
    Int(i64),
    /// Text between quotes, escapes as written.
    Str(&'a str),
    /// A number that is no integer, an enumerator, an alias.
    Word(&'a str),
    /// `@name`, without the `@`.
    Symbol(&'a str),
    /// `[1, 0]`, `array<i64: 1, 0>`.
    Ints(Ints),
    /// Any other list.
    List(Vec<Attr<'a>>),
    /// `[0] x [1]`, `[b, f]x[i, o]->[b, f]`: the lists.
    Product(Vec<Attr<'a>>),
    /// `{key = value}`, `#name<key = value>`.
    Fields(Vec<(&'a str, Attr<'a>)>),
    /// `dense<…>` with its type.
    Dense(Dense<'a>),
    /// `[0:4:2]`.
    Slices(Vec<SliceDim>),
    /// A type.
    Type(Shape),
    /// `(T) -> U`.
    Function,
    /// Kept as text: `#sdy.sharding<…>` is what stands between the angle brackets.
    Text(&'a str),
}

/// A literal: what stands between the angle brackets, and of which type it is.
#[derive(Clone)]
pub(super) struct Dense<'a> {
    pub text: &'a str,
    pub shape: Shape,
    /// Whether the text is the name of a blob in the file's resources.
    pub is_resource: bool,
    pub span: Span,
}

impl<'a> Attr<'a> {
    /// The integers of a list.
    pub fn ints(&self) -> Option<Ints> {
        match self {
            Attr::Ints(ints) => Some(ints.clone()),
            Attr::List(items) => items.iter().map(Attr::int).collect(),
            Attr::Dense(dense) => dense.ints(),
            _ => None,
        }
    }

    /// One integer; truth values count.
    pub fn int(&self) -> Option<i64> {
        match self {
            Attr::Int(int) => Some(*int),
            Attr::Bool(flag) => Some(i64::from(*flag)),
            _ => None,
        }
    }

    /// An enumerator or a text.
    pub fn word(&self) -> Option<&'a str> {
        match self {
            Attr::Word(word) | Attr::Str(word) | Attr::Symbol(word) => Some(word),
            _ => None,
        }
    }

    /// The parts of a list.
    pub fn items(&self) -> &[Attr<'a>] {
        match self {
            Attr::List(items) | Attr::Product(items) => items,
            _ => &[],
        }
    }

    /// The value of a field.
    pub fn field(&self, key: &str) -> Option<&Attr<'a>> {
        let Attr::Fields(fields) = self else { return None };
        fields.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

impl<'a> Op<'a> {
    /// An operation that is still to be read.
    pub fn new(name: &'a str, span: Span) -> Op<'a> {
        Op {
            name,
            results: SmallVec::new(),
            operands: SmallVec::new(),
            words: SmallVec::new(),
            symbol: None,
            attrs: Vec::new(),
            regions: Vec::new(),
            types: SmallVec::new(),
            loc: None,
            span,
        }
    }

    /// The attribute under the first of these names that is there: texts have a short and a generic form.
    pub fn attr(&self, keys: &[&str]) -> Option<&Attr<'a>> {
        self.attrs.iter().find(|(name, _)| keys.contains(name)).map(|(_, value)| value)
    }

    /// A list of integers; empty when it is absent.
    pub fn ints(&self, keys: &[&str]) -> Result<Ints> {
        match self.attr(keys) {
            None => Ok(Ints::new()),
            Some(attr) => {
                attr.ints().ok_or_else(|| self.error(format!("`{}` must be a list of integers", keys[0])))
            }
        }
    }

    /// An integer or truth value.
    pub fn int(&self, keys: &[&str]) -> Option<i64> {
        self.attr(keys)?.int()
    }

    /// An integer that must be there.
    pub fn need_int(&self, keys: &[&str]) -> Result<i64> {
        self.int(keys).ok_or_else(|| self.error(format!("`{}` needs the integer `{}`", self.name, keys[0])))
    }

    /// An enumerator: the attribute, or the bare word at this place.
    pub fn word(&self, keys: &[&str], place: usize) -> Option<&'a str> {
        self.attr(keys).and_then(Attr::word).or_else(|| self.words.get(place).copied())
    }

    /// The type of a result: the last types of a list without an arrow are those of the results.
    pub fn shape(&self, index: usize) -> Result<Shape> {
        let n_results: u32 = self.results.iter().map(|(_, count)| count).sum();
        let n_before = if n_results == 0 { 0 } else { self.types.len().saturating_sub(n_results as usize) };
        let shape = self.types.get(n_before + index).cloned();
        shape.ok_or_else(|| self.error(format!("the type of `{}` is missing", self.name)))
    }

    /// A nested region.
    pub fn region(&self, index: usize) -> Result<&Region<'a>> {
        let region = self.regions.get(index);
        region.ok_or_else(|| self.error(format!("`{}` lacks region {index}", self.name)))
    }

    /// An error about this operation.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(message).at(self.span)
    }
}
