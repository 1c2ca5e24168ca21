//! The reader of MLIR text: modules, functions, regions and operations, in short and in generic form.

use super::ast::{Arg, Attr, Loc, Op, Region, Use};
use indexmap::IndexMap;
use phzc_ir::text::cursor::Cursor;
use phzc_ir::{Diagnostic, Result, Span};
use rustc_hash::FxBuildHasher;

/// Regions, types and attributes nest at most this deep.
pub(super) const MAX_DEPTH: usize = 64;

/// Names with what they stand for.
pub(super) type Names<'a, T> = IndexMap<&'a str, T, FxBuildHasher>;

/// The file: the module's operation, and what stands beside it.
pub(super) struct File<'a> {
    pub module: Op<'a>,
    /// Named locations, without `#`.
    pub locs: Names<'a, Loc<'a>>,
    /// Literals that are kept apart (`dialect_resources`): their bytes in hexadecimal.
    pub blobs: Names<'a, &'a str>,
}

pub(super) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    pub depth: usize,
    pub aliases: Names<'a, Attr<'a>>,
    locs: Names<'a, Loc<'a>>,
    blobs: Names<'a, &'a str>,
}

/// Reads a file; the first syntax error stops it.
pub(super) fn parse(text: &str) -> Result<File<'_>> {
    if u32::try_from(text.len()).is_err() {
        return Err(Diagnostic::error("the program is larger than 4 GiB"));
    }
    let mut parser = Parser {
        cursor: Cursor::new(text),
        depth: 0,
        aliases: Names::default(),
        locs: Names::default(),
        blobs: Names::default(),
    };
    let module = parser.file()?;
    Ok(File { module, locs: parser.locs, blobs: parser.blobs })
}

impl<'a> Parser<'a> {
    /// Aliases, one module, aliases and resources; functions without a module around them are one.
    fn file(&mut self) -> Result<Op<'a>> {
        let (mut loose, mut module) = (Region::default(), None);
        loop {
            self.cursor.skip_space();
            match self.cursor.peek() {
                _ if self.cursor.at_end() => break,
                b'#' | b'!' => self.alias()?,
                b'{' => self.resources()?,
                _ => match self.op()? {
                    op if op.name == "builtin.module" && module.is_none() => module = Some(op),
                    op if op.name == "builtin.module" => return Err(op.error("a file has one module")),
                    op => loose.ops.push(op),
                },
            }
        }
        if module.is_none() && loose.ops.is_empty() {
            return Err(self.cursor.expected("`module`"));
        }
        let mut module = module.unwrap_or_else(|| Op::new("builtin.module", Span::default()));
        match module.regions.first_mut() {
            Some(region) => region.ops.append(&mut loose.ops),
            None => module.regions.push(loose),
        }
        Ok(module)
    }

    /// `#loc1 = loc("x")`, `#name = value`.
    fn alias(&mut self) -> Result<()> {
        self.cursor.at += 1;
        let name = self.cursor.word();
        self.cursor.expect(b'=')?;
        if let Some(loc) = self.loc()? {
            self.locs.insert(name, loc);
        } else if name.starts_with("loc") {
            // A location without a name: already skipped.
        } else {
            let value = self.attr(true)?;
            self.aliases.insert(name, value);
        }
        Ok(())
    }

    /// `{-# dialect_resources: { builtin: { key: "0x…" } } #-}`.
    fn resources(&mut self) -> Result<()> {
        let start = self.cursor.at;
        if !self.cursor.text[start..].starts_with("{-#") {
            return Err(self.cursor.expected("an operation"));
        }
        let length = self.cursor.text[start..].find("#-}");
        let Some(length) = length else { return Err(self.cursor.expected("`{-# … #-}`")) };
        for entry in self.cursor.text[start..start + length].split(['{', '}', ',', '\n']) {
            if let Some((key, value)) = entry.split_once(':') {
                let hex = value.trim().strip_prefix("\"0x").and_then(|rest| rest.strip_suffix('"'));
                self.blobs.extend(hex.map(|hex| (key.trim(), hex)));
            }
        }
        self.cursor.at = start + length + 3;
        Ok(())
    }

    /// An operation of either form.
    pub(super) fn op(&mut self) -> Result<Op<'a>> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        let mut op = Op::new("", Span::default());
        while self.cursor.peek() == b'%' {
            let name = self.value_name()?;
            let count = if self.cursor.eat(b':') { self.cursor.int()? } else { 1 };
            let count = u32::try_from(count).ok().filter(|&count| count <= 1 << 20);
            op.results.push((name, count.ok_or_else(|| self.cursor.expected("a number of results"))?));
            if self.cursor.eat(b',') {
                self.cursor.skip_space();
            } else {
                self.cursor.expect(b'=')?;
                self.cursor.skip_space();
                break;
            }
        }
        let at = self.cursor.at;
        let is_generic = self.cursor.peek() == b'"';
        op.name = if is_generic { self.cursor.string()? } else { self.cursor.name("an operation")? };
        op.span = Span::new(at, self.cursor.at);
        if is_generic {
            self.generic(&mut op)?
        } else {
            self.pretty(&mut op)?
        }
        let end = op.span.end.max(at as u32);
        op.span = Span { start: Span::new(start, start).start, end };
        Ok(op)
    }

    /// `"name"(operands) <{…}> ({regions}) {…} : types`.
    fn generic(&mut self, op: &mut Op<'a>) -> Result<()> {
        self.cursor.expect(b'(')?;
        while !self.cursor.eat(b')') {
            if !op.operands.is_empty() {
                self.cursor.expect(b',')?;
            }
            op.operands.push(self.operand()?);
        }
        op.span.end = self.cursor.at as u32;
        if self.cursor.eat(b'<') {
            op.attrs = self.fields(b'{', b'}')?;
            self.cursor.expect(b'>')?;
        }
        if self.cursor.eat(b'(') {
            loop {
                op.regions.push(self.region()?);
                if self.cursor.eat(b')') {
                    break;
                }
                self.cursor.expect(b',')?;
            }
        }
        self.cursor.skip_space();
        if self.cursor.peek() == b'{' {
            op.attrs.extend(self.fields(b'{', b'}')?);
        }
        self.cursor.expect(b':')?;
        op.types = self.function_type()?;
        op.loc = self.loc()?;
        op.symbol = op.attr(&["sym_name", "callee", "call_target_name"]).and_then(Attr::word);
        Ok(())
    }

    /// `{ ^bb0(%a: T): operations }`.
    pub(super) fn region(&mut self) -> Result<Region<'a>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep("regions"));
        }
        self.cursor.expect(b'{')?;
        let mut region = Region::default();
        self.cursor.skip_space();
        if self.cursor.peek() == b'^' {
            self.cursor.at += 1;
            self.cursor.word();
            if self.cursor.eat(b'(') {
                self.args(&mut region.args)?;
            }
            self.cursor.expect(b':')?;
        }
        while !self.cursor.eat(b'}') {
            if self.cursor.peek() == b'^' {
                return Err(self.cursor.expected("a region of one block"));
            }
            region.ops.push(self.op()?);
        }
        self.depth -= 1;
        Ok(region)
    }

    /// `%a: T loc(…), %b: T)`.
    pub(super) fn args(&mut self, args: &mut Vec<Arg<'a>>) -> Result<()> {
        let mut first = true;
        while !self.cursor.eat(b')') {
            if !first {
                self.cursor.expect(b',')?;
            }
            first = false;
            let name = self.value_name()?;
            self.cursor.expect(b':')?;
            let shape = self.shape()?;
            args.push(Arg { name, shape, loc: self.loc()? });
        }
        Ok(())
    }

    /// `%name`, without the `%`.
    pub(super) fn value_name(&mut self) -> Result<&'a str> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        if self.cursor.peek() != b'%' {
            return Err(self.cursor.expected("a value such as `%0`"));
        }
        self.cursor.at += 1;
        let name = self.cursor.word();
        if name.is_empty() {
            self.cursor.at = start;
            return Err(self.cursor.expected("a value such as `%0`"));
        }
        Ok(name)
    }

    /// `%name#1`.
    pub(super) fn operand(&mut self) -> Result<Use<'a>> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        let name = self.value_name()?;
        let mut index = 0;
        if self.cursor.peek() == b'#' {
            self.cursor.at += 1;
            let number = self.cursor.int()?;
            index = u32::try_from(number).map_err(|_| self.cursor.expected("the number of a result"))?;
        }
        Ok(Use { name, index, span: Span::new(start, self.cursor.at) })
    }

    /// `@name` or `@"name"`, the last of `@a::@b`.
    pub(super) fn symbol(&mut self) -> Result<&'a str> {
        self.cursor.expect(b'@')?;
        let name = if self.cursor.peek() == b'"' { self.cursor.string()? } else { self.cursor.word() };
        if self.cursor.text[self.cursor.at..].starts_with("::@") {
            self.cursor.at += 2;
            return self.symbol();
        }
        Ok(name)
    }

    /// `loc(…)` if it is next: its name, if it has one.
    pub(super) fn loc(&mut self) -> Result<Option<Loc<'a>>> {
        if !self.cursor.eat_word("loc") {
            return Ok(None);
        }
        let mut inside = self.cursor.clone();
        self.cursor.skip_space();
        if self.cursor.peek() != b'(' {
            return Err(self.cursor.expected("`(`"));
        }
        self.cursor.balanced()?;
        inside.expect(b'(')?;
        inside.skip_space();
        match inside.peek() {
            b'#' => {
                inside.at += 1;
                Ok(Some(Loc::Alias(inside.word())))
            }
            b'"' => {
                let name = inside.string()?;
                Ok((inside.peek() != b':').then_some(Loc::Name(name)))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn too_deep(&self, what: &str) -> Diagnostic {
        let at = self.cursor.at;
        Diagnostic::error(format!("{what} may nest {MAX_DEPTH} deep")).at(Span::new(at, at + 1))
    }
}
