//! Sizes that follow from symbols, as the exporter writes them: `2*s0 + 1` up to PyTorch 2.8, and since then
//! `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))`.

use phzc_ir::{Diagnostic, Result};

/// No expression is nested more deeply.
const MAX_DEPTH: usize = 64;

/// What an expression is, by what its symbols are.
pub(super) fn value(text: &str, symbol: &mut dyn FnMut(&str) -> Result<i64>) -> Result<i64> {
    let mut parser = Parser { rest: text, symbol, depth: 0 };
    let made = parser.sum()?;
    match (made, parser.rest.trim()) {
        (Some(value), "") => Ok(value),
        _ => Err(Diagnostic::error(format!("the size `{text}` is not understood"))),
    }
}

/// The name of the only symbol, if the expression is nothing else.
pub(super) fn only_symbol(text: &str) -> Option<String> {
    let mut seen = Vec::new();
    let mut note = |name: &str| {
        seen.push(name.to_owned());
        Ok(0)
    };
    value(text, &mut note).ok()?;
    let is_alone = seen.len() == 1 && (text.trim() == seen[0] || text.trim().starts_with("Symbol("));
    if is_alone { seen.pop() } else { None }
}

struct Parser<'a, 'b> {
    rest: &'a str,
    symbol: &'b mut dyn FnMut(&str) -> Result<i64>,
    depth: usize,
}

impl<'a> Parser<'a, '_> {
    /// Takes a piece of punctuation that comes next.
    fn take(&mut self, piece: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(piece);
        rest.map(|rest| self.rest = rest).is_some()
    }

    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        self.rest = &text[end..];
        &text[..end]
    }

    /// Products that are added; `None` is what is not understood.
    fn sum(&mut self) -> Result<Option<i64>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Ok(None);
        }
        let mut sum = self.product()?;
        loop {
            let term = match (self.take("+"), self.rest.trim_start().starts_with('-')) {
                (true, _) => self.product()?,
                (_, true) => {
                    self.take("-");
                    self.product()?.and_then(i64::checked_neg)
                }
                _ => break,
            };
            sum = sum.zip(term).and_then(|(a, b)| a.checked_add(b));
        }
        self.depth -= 1;
        Ok(sum)
    }

    fn product(&mut self) -> Result<Option<i64>> {
        let mut product = self.factor()?;
        loop {
            let of: fn(i64, i64) -> Option<i64> = match () {
                () if self.take("//") => floor_divided,
                () if self.take("*") => i64::checked_mul,
                () => return Ok(product),
            };
            let factor = self.factor()?;
            product = product.zip(factor).and_then(|(a, b)| of(a, b));
        }
    }

    fn factor(&mut self) -> Result<Option<i64>> {
        if self.take("-") {
            return Ok(self.factor()?.and_then(i64::checked_neg));
        }
        if self.take("(") {
            let inner = self.sum()?;
            return Ok(inner.filter(|_| self.take(")")));
        }
        let word = self.word();
        if let Ok(number) = word.parse() {
            return Ok(Some(number));
        }
        match (word, self.take("(")) {
            ("", _) => Ok(None),
            (name, false) => (self.symbol)(name).map(Some),
            ("Symbol", true) => self.named(),
            (function, true) => self.call(function),
        }
    }

    /// The rest of `Symbol('s0', positive=True)`.
    fn named(&mut self) -> Result<Option<i64>> {
        let inner = self.rest.split_once(')').map(|(inner, rest)| {
            self.rest = rest;
            inner
        });
        let name = inner.and_then(|inner| inner.split(['\'', '"']).nth(1));
        name.map(|name| (self.symbol)(name)).transpose()
    }

    /// The rest of `Add(…, …)`.
    fn call(&mut self, function: &str) -> Result<Option<i64>> {
        let mut values = Vec::new();
        while !self.take(")") {
            let Some(value) = self.sum()? else { return Ok(None) };
            values.push(value);
            self.take(",");
        }
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return Ok(None) };
        Ok(values.try_fold(first, |made, next| match function {
            "Add" => made.checked_add(next),
            "Mul" => made.checked_mul(next),
            "FloorDiv" | "CleanDiv" => floor_divided(made, next),
            "Max" => Some(made.max(next)),
            "Min" => Some(made.min(next)),
            "Pow" => made.checked_pow(u32::try_from(next).ok()?),
            _ => None,
        }))
    }
}

/// Rounded down, as Python divides.
pub(super) fn floor_divided(a: i64, b: i64) -> Option<i64> {
    let (whole, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
    Some(if rest != 0 && (rest < 0) != (b < 0) { whole - 1 } else { whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: Option<i64>) {
        let made = value(text, &mut |name| Ok(if name == "s0" { 7 } else { 100 })).ok();
        assert_eq!(made, wanted, "{text}");
    }

    #[test]
    fn both_spellings_are_read() {
        check("s0", Some(7));
        check("2*s0 + s1 - 1", Some(113));
        check("(s0 - 1)//4", Some(1));
        check("Symbol('s0', positive=True, integer=True)", Some(7));
        check("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))", Some(13));
        check("FloorDiv(Symbol('s0'), Integer(2))", Some(3));
    }

    #[test]
    fn what_is_not_understood_is_no_size() {
        for text in ["", "s0 +", "Foo(Integer(1), Integer(2))", "s0 s1", "Add(", "Symbol(", &"(".repeat(99)] {
            check(text, None);
        }
    }

    #[test]
    fn a_symbol_alone_is_told_from_an_expression() {
        assert_eq!(only_symbol("Symbol('s77', integer=True)").as_deref(), Some("s77"));
        assert_eq!(only_symbol("s0").as_deref(), Some("s0"));
        assert_eq!(only_symbol("2*s0"), None);
    }
}
