//! Element types and sizes, those among them that the exported program leaves open.

use super::expr;
use super::schema::{Expr, Hint, Range, Size};
use indexmap::IndexSet;
use phzc_ir::{DType, Diagnostic, Result};
use std::collections::BTreeMap;

/// The element type of a `ScalarType`.
pub(super) fn dtype(code: i32) -> Result<DType> {
    Ok(match code {
        1 => DType::U8,
        2 => DType::S8,
        3 => DType::S16,
        4 => DType::S32,
        5 => DType::S64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::Pred,
        13 => DType::Bf16,
        28 => DType::U16,
        9..=11 => return Err(Diagnostic::error("complex numbers are not supported")),
        other => return Err(Diagnostic::error(format!("element type {other} is not supported"))),
    })
}

/// A size of what cannot depend on symbols.
pub(super) fn fixed(size: &Size) -> Result<i64> {
    match size {
        Size::AsInt(size) => Ok(*size),
        Size::AsExpr(expr) => Err(Diagnostic::error(format!("the size `{}` is not fixed", expr.expr_str))),
    }
}

/// Sizes by symbol, as the command line gives them.
pub(super) struct Symbols<'a> {
    given: &'a [(String, i64)],
    pub ranges: &'a BTreeMap<String, Range>,
    /// Those that were asked for.
    seen: IndexSet<String>,
}

impl<'a> Symbols<'a> {
    pub fn new(given: &'a [(String, i64)], ranges: &'a BTreeMap<String, Range>) -> Symbols<'a> {
        Symbols { given, ranges, seen: IndexSet::new() }
    }

    /// A size; of a symbol without one, an error that says what it may be.
    pub fn size(&mut self, size: &Size) -> Result<i64> {
        match size {
            Size::AsInt(size) => Ok(*size),
            Size::AsExpr(expr) => self.value(expr),
        }
    }

    fn value(&mut self, expr: &Expr) -> Result<i64> {
        // The example is the symbol's own only where the size is nothing else.
        let example = match expr.hint {
            Some(Hint::AsInt(size)) => expr::only_symbol(&expr.expr_str).map(|_| size),
            _ => None,
        };
        expr::value(&expr.expr_str, &mut |name| self.symbol(name, example))
    }

    fn symbol(&mut self, name: &str, example: Option<i64>) -> Result<i64> {
        self.seen.insert(name.to_owned());
        let may_be = self.may_be(name);
        let given = self.given.iter().rev().find(|(given, _)| given == name).map(|(_, size)| *size);
        let Some(size) = given else {
            let when = example.map_or(String::new(), |size| format!(", {size} when the model was exported"));
            let error =
                Diagnostic::error(format!("dimension `{name}` has no fixed size; it may be {may_be}{when}"));
            return Err(error.help(format!("say it: `--dim {name}={}`", example.unwrap_or(8))));
        };
        let range = self.ranges.get(name);
        let is_enough = range.and_then(|range| range.min_val).is_none_or(|min| min <= size);
        let is_little = range.and_then(|range| range.max_val).is_none_or(|max| size <= max);
        match is_enough && is_little {
            true => Ok(size),
            false => Err(Diagnostic::error(format!("`--dim {name}={size}`: the dimension may be {may_be}"))),
        }
    }

    /// The range of a symbol in a sentence.
    fn may_be(&self, name: &str) -> String {
        let range = self.ranges.get(name);
        let low = range.and_then(|range| range.min_val).unwrap_or(0).max(0);
        // The exporter's word for no bound.
        let high = range.and_then(|range| range.max_val).filter(|&max| max < i64::MAX - 1);
        high.map_or_else(|| format!("{low} or more"), |high| format!("{low} to {high}"))
    }

    /// An error if the command line names what the model does not have.
    pub fn all_used(&self) -> Result<()> {
        let Some((name, _)) = self.given.iter().find(|(name, _)| !self.seen.contains(name)) else {
            return Ok(());
        };
        let known: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let error = Diagnostic::error(format!("`--dim {name}`: the model has no dimension of this name"));
        Err(error.help(format!("dimensions without a fixed size: {known}")))
    }
}
