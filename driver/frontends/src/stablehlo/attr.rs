//! Attributes: a small reader of MLIR's attribute syntax, whatever the dialect.

use super::ast::{Attr, Dense, Ints};
use super::parse::{MAX_DEPTH, Parser};
use phzc_ir::attr::SliceDim;
use phzc_ir::{Diagnostic, Result, Shape, Span};
use smallvec::SmallVec;

impl<'a> Parser<'a> {
    /// A value. After a number, ` : i64` belongs to it where `typed`; elsewhere it is the operation's.
    pub(super) fn attr(&mut self, typed: bool) -> Result<Attr<'a>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep("attributes"));
        }
        self.cursor.skip_space();
        let attr = match self.cursor.peek() {
            b'"' => Attr::Str(self.cursor.string()?),
            b'[' => self.lists()?,
            b'{' => Attr::Fields(self.fields(b'{', b'}')?),
            b'@' => Attr::Symbol(self.symbol()?),
            b'#' => self.dialect_attr()?,
            b'<' => self.angle()?,
            b'(' => {
                self.function_type()?;
                Attr::Function
            }
            b'!' => Attr::Type(self.shape()?),
            b'-' | b'+' | b'0'..=b'9' => self.number(),
            _ => self.word_attr()?,
        };
        let takes_type = typed && !matches!(attr, Attr::Dense(_));
        if takes_type && self.cursor.eat(b':') {
            self.shape()?;
        }
        self.depth -= 1;
        Ok(attr)
    }

    fn number(&mut self) -> Attr<'a> {
        let start = self.cursor.at;
        self.cursor.at += usize::from(matches!(self.cursor.peek(), b'-' | b'+'));
        self.cursor.word();
        // `1.0e+00`: the sign of the exponent.
        if self.cursor.peek() == b'+' && self.cursor.text[..self.cursor.at].ends_with(['e', 'E']) {
            self.cursor.at += 1;
            self.cursor.word();
        }
        let text = &self.cursor.text[start..self.cursor.at];
        text.parse().map_or(Attr::Word(text), Attr::Int)
    }

    /// `[…]`, and lists that `x` or `->` joins to it.
    fn lists(&mut self) -> Result<Attr<'a>> {
        let first = self.list()?;
        let mut all = vec![first];
        loop {
            self.cursor.skip_space();
            match (self.cursor.peek(), self.cursor.peek_at(1)) {
                (b'x', b'[' | b' ') => self.cursor.at += 1,
                (b'-', b'>') => {
                    let mut ahead = self.cursor.clone();
                    ahead.at += 2;
                    ahead.skip_space();
                    if ahead.peek() != b'[' {
                        break;
                    }
                    self.cursor = ahead;
                }
                _ => break,
            }
            all.push(self.list()?);
        }
        Ok(if all.len() > 1 { Attr::Product(all) } else { all.swap_remove(0) })
    }

    /// A list of values: of integers, ranges or anything.
    pub(super) fn list(&mut self) -> Result<Attr<'a>> {
        self.cursor.expect(b'[')?;
        let (mut items, mut slices) = (Vec::new(), Vec::new());
        while !self.cursor.eat(b']') {
            if !items.is_empty() {
                self.cursor.expect(b',')?;
            }
            let item = self.attr(false)?;
            if self.cursor.eat(b':') {
                self.cursor.skip_space();
                match (&item, self.cursor.peek()) {
                    (Attr::Int(start), b'0'..=b'9' | b'-') => slices.push(self.range(*start)?),
                    _ => drop(self.shape()?),
                }
            }
            items.push(item);
        }
        if !slices.is_empty() && slices.len() == items.len() {
            return Ok(Attr::Slices(slices));
        }
        let ints: Option<Ints> = items
            .iter()
            .map(|item| match item {
                Attr::Int(int) => Some(*int),
                _ => None,
            })
            .collect();
        Ok(ints.map_or(Attr::List(items), Attr::Ints))
    }

    /// `4:2` of `0:4:2`; a type in its place (`[0 : i32]`) is no range.
    fn range(&mut self, start: i64) -> Result<SliceDim> {
        let limit = self.cursor.int()?;
        let stride = if self.cursor.eat(b':') { self.cursor.int()? } else { 1 };
        Ok(SliceDim { start, limit, stride })
    }

    /// `{key = value, key}`, or the same between other brackets.
    pub(super) fn fields(&mut self, open: u8, close: u8) -> Result<Vec<(&'a str, Attr<'a>)>> {
        let mut fields = Vec::new();
        self.cursor.expect(open)?;
        while !self.cursor.eat(close) {
            if !fields.is_empty() {
                self.cursor.expect(b',')?;
                self.cursor.skip_space();
            }
            let key = match self.cursor.peek() {
                b'"' => self.cursor.string()?,
                _ => self.cursor.name("an attribute's name")?,
            };
            let value = if self.cursor.eat(b'=') { self.attr(open == b'{')? } else { Attr::Unit };
            fields.push((key, value));
        }
        Ok(fields)
    }

    /// `#stablehlo<precision DEFAULT>`, `#stablehlo.gather<offset_dims = [2]>`, `#alias`.
    fn dialect_attr(&mut self) -> Result<Attr<'a>> {
        self.cursor.at += 1;
        let name = self.cursor.word();
        match self.cursor.peek() {
            b'<' => self.angle(),
            _ => Ok(self.aliases.get(name).cloned().unwrap_or(Attr::Word(name))),
        }
    }

    /// What stands between angle brackets: fields, lists, an enumerator; anything else is kept as text.
    fn angle(&mut self) -> Result<Attr<'a>> {
        let (start, text) = (self.cursor.at, self.angle_text()?);
        let end = self.cursor.at;
        self.cursor.at = start + 1;
        let mut ahead = self.cursor.clone();
        ahead.skip_space();
        let first = ahead.peek();
        let word = ahead.word();
        ahead.skip_space();
        let attr = match (first, ahead.peek()) {
            (b'>', _) => Attr::Fields(Vec::new()),
            (b'[', _) => self.lists()?,
            (_, b'=') if !word.is_empty() => {
                self.cursor.at = start;
                Attr::Fields(self.fields(b'<', b'>')?)
            }
            (b'a'..=b'z', b'A'..=b'Z') => Attr::Word(ahead.word()),
            _ => Attr::Text(text),
        };
        self.cursor.at = end;
        Ok(attr)
    }

    /// The text between `<` and its `>`; arrows and strings are no brackets.
    pub(super) fn angle_text(&mut self) -> Result<&'a str> {
        let start = self.cursor.at;
        self.cursor.expect(b'<')?;
        let (open, bytes, mut depth) = (self.cursor.at, self.cursor.text.as_bytes(), 1);
        while self.cursor.at < bytes.len() {
            match bytes[self.cursor.at] {
                b'"' => drop(self.cursor.string()?),
                byte => {
                    let is_arrow = byte == b'>' && bytes[self.cursor.at - 1] == b'-';
                    depth += i32::from(byte == b'<') - i32::from(byte == b'>' && !is_arrow);
                    self.cursor.at += 1;
                    if depth == 0 {
                        return Ok(&self.cursor.text[open..self.cursor.at - 1]);
                    }
                }
            }
        }
        Err(Diagnostic::error("this bracket is never closed").at(Span::new(start, start + 1)))
    }

    fn word_attr(&mut self) -> Result<Attr<'a>> {
        let start = self.cursor.at;
        let word = self.cursor.word();
        match (word, self.cursor.peek()) {
            ("", _) => Err(self.cursor.expected("an attribute's value")),
            ("true", _) => Ok(Attr::Bool(true)),
            ("false", _) => Ok(Attr::Bool(false)),
            ("unit", _) => Ok(Attr::Unit),
            ("dense" | "dense_resource", b'<') => {
                self.dense(word == "dense_resource", start).map(Attr::Dense)
            }
            ("array", b'<') => self.array(),
            ("tensor" | "tuple", b'<') => {
                self.cursor.at = start;
                self.shape().map(Attr::Type)
            }
            (_, b'<') => self.angle_text().map(Attr::Text),
            ("loc", b'(') => self.cursor.balanced().map(Attr::Text),
            _ => Ok(Attr::Word(word)),
        }
    }

    /// `array<i64: 1, 2>`.
    fn array(&mut self) -> Result<Attr<'a>> {
        self.cursor.expect(b'<')?;
        self.cursor.word();
        let (mut ints, mut first) = (Ints::new(), true);
        self.cursor.eat(b':');
        while !self.cursor.eat(b'>') {
            if !first {
                self.cursor.expect(b',')?;
            }
            first = false;
            let item = self.attr(false)?;
            ints.push(item.int().ok_or_else(|| self.cursor.expected("an integer"))?);
        }
        Ok(Attr::Ints(ints))
    }

    /// `<…> : tensor<2xf32>` of a literal.
    pub(super) fn dense(&mut self, is_resource: bool, start: usize) -> Result<Dense<'a>> {
        let text = self.angle_text()?;
        self.cursor.expect(b':')?;
        let shape = self.shape()?;
        Ok(Dense { text, shape, is_resource, span: Span::new(start, self.cursor.at) })
    }

    /// `(T, T) -> U`: the results.
    pub(super) fn function_type(&mut self) -> Result<SmallVec<[Shape; 1]>> {
        self.cursor.expect(b'(')?;
        let mut first = true;
        while !self.cursor.eat(b')') {
            if !first {
                self.cursor.expect(b',')?;
            }
            first = false;
            self.shape()?;
        }
        self.cursor.expect(b'-')?;
        self.cursor.expect(b'>')?;
        self.result_types()
    }

    /// What follows an arrow: one type or a list in parentheses.
    pub(super) fn result_types(&mut self) -> Result<SmallVec<[Shape; 1]>> {
        let mut types = SmallVec::new();
        if !self.cursor.eat(b'(') {
            types.push(self.shape()?);
            return Ok(types);
        }
        while !self.cursor.eat(b')') {
            if !types.is_empty() {
                self.cursor.expect(b',')?;
            }
            types.push(self.shape()?);
        }
        Ok(types)
    }
}
