//! Rules as text: `(b s h), (h o), ... -> (b s o)`, matched with the sizes of a call.
//!
//! A side lists tensors. A tensor lists its dimensions: a name, `(k g)` for several loops in one dimension,
//! major first, a number for a dimension of that size, `_` for one of any size; `...` stands for any number
//! of leading dimensions. `*` is a tensor of any shape, and `...` at the end any number of these. `b?` of an
//! operand is `b` or a dimension of size 1. Names have one size throughout; what has no name is whole.

use crate::rule::{FactorId, FactorKind, Rule, TensorMap};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The largest number of dimensions that a pattern names.
const MAX_DIMS: usize = 32;

/// A rule's text, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// The tensors that are read.
    pub operands: Side,
    /// The tensors that are made.
    pub results: Side,
}

/// The tensors of one side of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Those that are described.
    pub tensors: Vec<Tensor>,
    /// Whether any number may follow.
    pub is_open: bool,
}

/// A tensor of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// Any shape.
    Any,
    /// Dimensions, after any number of leading ones if there is an ellipsis.
    Dims {
        /// Whether other dimensions come first.
        has_batch: bool,
        /// The last dimensions.
        dims: Vec<Dim>,
    },
}

/// A dimension of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Any size.
    Any,
    /// This size.
    Size(i64),
    /// These loops, major to minor.
    Loops(Vec<Box<str>>),
    /// These loops, or size 1 where one element serves all of their iterations.
    LoopsOrOne(Vec<Box<str>>),
}

/// Sizes by name; those of leading dimensions are called `...0`, `...1` and so on.
pub type Sizes = BTreeMap<Box<str>, i64>;

impl Pattern {
    /// Reads a rule's text.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let (operands, results) =
            text.split_once("->").ok_or("a rule needs `->` between what it reads and what it makes")?;
        let pattern = Pattern { operands: side(operands)?, results: side(results)? };
        let has_one = |dim: &Dim| matches!(dim, Dim::LoopsOrOne(_));
        match pattern.results.tensors.iter().flat_map(Tensor::dims).any(has_one) {
            // A result of size 1 is made of all parts, so the loop is not split.
            true => Err("`?` is for operands: write `1`, and the loop in `whole`".to_owned()),
            false => Ok(pattern),
        }
    }

    /// The names of a side's loops.
    fn names(side: &Side) -> impl Iterator<Item = &str> {
        side.tensors.iter().flat_map(Tensor::names)
    }

    /// Whether an operand or a result has this loop.
    pub fn has(&self, name: &str) -> bool {
        Pattern::names(&self.operands).chain(Pattern::names(&self.results)).any(|it| it == name)
    }

    /// Whether it says nothing about any tensor.
    pub fn is_silent(&self) -> bool {
        self.operands.tensors.is_empty() && self.results.tensors.is_empty()
    }

    /// The loops that no result has.
    pub fn unmade(&self) -> Vec<&str> {
        let made: Vec<&str> = Pattern::names(&self.results).collect();
        Pattern::names(&self.operands).filter(|name| !made.contains(name)).collect()
    }

    /// The loops that two dimensions of one tensor have: they cannot be split in both.
    pub fn repeated(&self) -> Vec<&str> {
        let mut all = Vec::new();
        for tensor in self.operands.tensors.iter().chain(&self.results.tensors) {
            let names: Vec<&str> = tensor.names().collect();
            all.extend(
                names.iter().enumerate().filter(|(at, name)| names[..*at].contains(name)).map(|it| it.1),
            );
        }
        all
    }

    /// Whether one side only has leading dimensions.
    pub fn has_lone_batch(&self) -> bool {
        let has_batch = |tensor: &Tensor| matches!(tensor, Tensor::Dims { has_batch: true, .. });
        self.operands.tensors.iter().any(has_batch) != self.results.tensors.iter().any(has_batch)
    }

    /// The loops that no operand has.
    pub fn unread(&self) -> Vec<&str> {
        let read: Vec<&str> = Pattern::names(&self.operands).collect();
        Pattern::names(&self.results).filter(|name| !read.contains(name)).collect()
    }

    /// The sizes of the loops where the tensors have these, if they fit.
    pub fn sizes(&self, operands: &[&[i64]], results: &[&[i64]]) -> Option<Sizes> {
        let mut known = Sizes::new();
        // A size may follow from a dimension that comes later: `(k g)` from `k`.
        loop {
            let n_known = known.len();
            let is_solved =
                self.operands.learn(operands, &mut known)? & self.results.learn(results, &mut known)?;
            match is_solved {
                true => return Some(known),
                false if known.len() == n_known => return None,
                false => {}
            }
        }
    }

    /// The rule where the tensors have these sizes; `kind` says what splitting a loop takes.
    pub fn rule(
        &self,
        (operands, results): (&[&[i64]], &[&[i64]]),
        sizes: &Sizes,
        kind: impl Fn(&str) -> FactorKind,
    ) -> Rule {
        let mut rule = Rule::default();
        let mut ids: BTreeMap<&str, FactorId> = BTreeMap::new();
        // "..." is the number of leading dimensions, not one of them.
        for (name, &size) in sizes.iter().filter(|(name, _)| ***name != *"...") {
            ids.insert(name, rule.factor(size, kind(name)));
        }
        let read = self.operands.maps(operands, &ids, &mut rule);
        let made = self.results.maps(results, &ids, &mut rule);
        (rule.operands, rule.results) = (read, made);
        rule
    }
}

impl Tensor {
    fn dims(&self) -> &[Dim] {
        match self {
            Tensor::Dims { dims, .. } => dims,
            Tensor::Any => &[],
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let loops = self.dims().iter().flat_map(|dim| match dim {
            Dim::Loops(names) | Dim::LoopsOrOne(names) => &names[..],
            Dim::Any | Dim::Size(_) => &[],
        });
        loops.map(|name| &**name)
    }
}

impl Side {
    /// Adds the sizes that follow from the shapes; `None` if these do not fit, `false` if some do not follow
    /// yet.
    fn learn(&self, shapes: &[&[i64]], known: &mut Sizes) -> Option<bool> {
        let n = self.tensors.len();
        if shapes.len() < n || (shapes.len() > n && !self.is_open) {
            return None;
        }
        let mut is_solved = true;
        for (tensor, shape) in self.tensors.iter().zip(shapes) {
            let Tensor::Dims { has_batch, dims } = tensor else { continue };
            let n_batch = shape.len().checked_sub(dims.len()).filter(|&n| n == 0 || *has_batch)?;
            if *has_batch {
                bind("...", n_batch as i64, known)?;
            }
            for (at, &size) in shape[..n_batch].iter().enumerate() {
                bind(&format!("...{at}"), size, known)?;
            }
            for (dim, &size) in dims.iter().zip(&shape[n_batch..]) {
                is_solved &= dim.learn(size, known)?;
            }
        }
        Some(is_solved)
    }

    fn maps(&self, shapes: &[&[i64]], ids: &BTreeMap<&str, FactorId>, rule: &mut Rule) -> Vec<TensorMap> {
        let map = |(at, shape): (usize, &&[i64])| match self.tensors.get(at) {
            Some(Tensor::Dims { dims, .. }) => {
                let n_batch = shape.len() - dims.len();
                let batch = (0..n_batch).map(|at| SmallVec::from_slice(&[ids[&*format!("...{at}")]]));
                let mut map: TensorMap = batch.collect();
                let own = dims.iter().zip(&shape[n_batch..]);
                map.extend(own.map(|(dim, &size)| dim.factors(size, ids, rule)));
                map
            }
            Some(Tensor::Any) | None => rule.fresh(shape, FactorKind::Replicate),
        };
        shapes.iter().enumerate().map(map).collect()
    }
}

impl Dim {
    fn learn(&self, size: i64, known: &mut Sizes) -> Option<bool> {
        let names = match self {
            Dim::Any => return Some(true),
            Dim::Size(wanted) => return (*wanted == size).then_some(true),
            Dim::LoopsOrOne(_) if size == 1 => return Some(true),
            Dim::Loops(names) | Dim::LoopsOrOne(names) => names,
        };
        let unknown: Vec<&Box<str>> = names.iter().filter(|name| !known.contains_key(*name)).collect();
        let rest: i64 = names.iter().filter_map(|name| known.get(name)).product();
        match unknown[..] {
            [] => (rest == size).then_some(true),
            [name] if rest > 0 && size % rest == 0 => bind(name, size / rest, known).map(|()| true),
            [_] => None,
            _ => Some(false),
        }
    }

    fn factors(&self, size: i64, ids: &BTreeMap<&str, FactorId>, rule: &mut Rule) -> SmallVec<[FactorId; 2]> {
        match self {
            Dim::LoopsOrOne(names) if size != 1 => names.iter().map(|name| ids[&**name]).collect(),
            Dim::Loops(names) => names.iter().map(|name| ids[&**name]).collect(),
            _ => SmallVec::from_slice(&[rule.factor(size, FactorKind::Replicate)]),
        }
    }
}

/// Gives a name its size; `None` if it has another one.
fn bind(name: &str, size: i64, known: &mut Sizes) -> Option<()> {
    (*known.entry(name.into()).or_insert(size) == size).then_some(())
}

/// The tensors of `(a b), (b c), ...`.
fn side(text: &str) -> Result<Side, String> {
    let mut side = Side::default();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if side.is_open {
            return Err("nothing may follow the `...` that stands for other tensors".to_owned());
        }
        rest = match rest.strip_prefix("...") {
            Some(after) => {
                side.is_open = true;
                after
            }
            None => {
                let (tensor, after) = tensor(rest)?;
                side.tensors.push(tensor);
                after
            }
        };
        rest = separated(rest.trim_start())?;
    }
    Ok(side)
}

/// What comes behind a comma.
fn separated(rest: &str) -> Result<&str, String> {
    match rest.strip_prefix(',') {
        Some(after) if !after.trim().is_empty() => Ok(after.trim_start()),
        None if rest.is_empty() => Ok(rest),
        _ => Err(format!("expected a tensor such as `(a b)` after a comma at `{}`", start(rest))),
    }
}

fn tensor(text: &str) -> Result<(Tensor, &str), String> {
    if let Some(after) = text.strip_prefix('*') {
        return Ok((Tensor::Any, after));
    }
    let inner = text.strip_prefix('(');
    let inner = inner.ok_or_else(|| format!("expected `(`, `*` or `...` at `{}`", start(text)))?;
    let (mut dims, mut has_batch, mut rest) = (Vec::new(), false, inner.trim_start());
    loop {
        if let Some(after) = rest.strip_prefix(')') {
            return Ok((Tensor::Dims { has_batch, dims }, after));
        }
        rest = match rest.strip_prefix("...") {
            Some(after) if dims.is_empty() && !has_batch => {
                has_batch = true;
                after
            }
            Some(_) => return Err("`...` stands for leading dimensions: write it first, and once".to_owned()),
            None => {
                let (dim, after) = dim(rest)?;
                dims.push(dim);
                after
            }
        };
        rest = rest.trim_start();
        if dims.len() > MAX_DIMS {
            return Err(format!("a tensor has at most {MAX_DIMS} dimensions"));
        }
    }
}

fn dim(text: &str) -> Result<(Dim, &str), String> {
    if let Some(inner) = text.strip_prefix('(') {
        let (names, after) = inner.split_once(')').ok_or("a `(` is not closed")?;
        let names: Vec<&str> = names.split_whitespace().collect();
        let wrong = names.iter().find(|name| !is_name(name));
        return match (wrong, names.len()) {
            (None, 1..=MAX_DIMS) => Ok(loops(&names, after)),
            (Some(wrong), _) => Err(format!("expected the name of a loop, found `{}`", start(wrong))),
            (None, _) => Err("a dimension of several loops names one at least".to_owned()),
        };
    }
    let end = text.find([' ', '(', ')', ',', '?']).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    match word {
        "_" => Ok((Dim::Any, after)),
        _ if is_name(word) => Ok(loops(&[word], after)),
        _ => match word.parse() {
            Ok(size) if size >= 0 => Ok((Dim::Size(size), after)),
            _ => Err(format!("expected a name, a size, `_` or `)` at `{}`", start(text))),
        },
    }
}

/// A dimension of these loops, with the `?` that may follow.
fn loops<'t>(names: &[&str], after: &'t str) -> (Dim, &'t str) {
    let names = names.iter().map(|&name| name.into()).collect();
    match after.strip_prefix('?') {
        Some(after) => (Dim::LoopsOrOne(names), after),
        None => (Dim::Loops(names), after),
    }
}

/// Letters, digits and underscores, a letter first.
pub(super) fn is_name(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_alphabetic())
        && word.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// The first few characters, for messages.
pub(super) fn start(text: &str) -> String {
    text.chars().take(12).collect()
}
