//! The short forms of operations: one reader for all but the few that have blocks or signatures of their own.

use super::ast::{Arg, Attr, Op, Region};
use super::parse::Parser;
use phzc_ir::{Result, Shape};
use smallvec::SmallVec;

impl<'a> Parser<'a> {
    /// What follows the name.
    pub(super) fn pretty(&mut self, op: &mut Op<'a>) -> Result<()> {
        match op.name {
            "module" | "builtin.module" => self.module(op),
            "func.func" => self.function(op),
            "sdy.mesh" => self.mesh(op),
            "sdy.manual_computation" => self.manual_computation(op),
            "stablehlo.while" => self.while_op(op),
            "stablehlo.reduce" => self.reduce(op),
            _ => self.clauses(op),
        }
    }

    /// `@name attributes {…} { functions }`.
    fn module(&mut self, op: &mut Op<'a>) -> Result<()> {
        op.name = "builtin.module";
        self.cursor.skip_space();
        if self.cursor.peek() == b'@' {
            op.symbol = Some(self.symbol()?);
        }
        self.attributes(op)?;
        op.regions.push(self.region()?);
        op.loc = self.loc()?;
        Ok(())
    }

    fn attributes(&mut self, op: &mut Op<'a>) -> Result<()> {
        if self.cursor.eat_word("attributes") {
            op.attrs.extend(self.fields(b'{', b'}')?);
        }
        Ok(())
    }

    /// `public @main(%arg0: T {…}) -> (T {…}) { operations }`.
    fn function(&mut self, op: &mut Op<'a>) -> Result<()> {
        let is_private = self.cursor.eat_word("private");
        let is_public = !is_private && self.cursor.eat_word("public");
        if is_private || is_public {
            op.attrs.push(("sym_visibility", Attr::Str(if is_private { "private" } else { "public" })));
        }
        self.cursor.skip_space();
        op.symbol = Some(self.symbol()?);
        op.span.end = self.cursor.at as u32;
        let (args, notes) = self.signature()?;
        op.attrs.push(("arg_attrs", Attr::List(notes)));
        if self.cursor.eat(b'-') {
            self.cursor.expect(b'>')?;
            self.results(op)?;
        }
        self.attributes(op)?;
        self.cursor.skip_space();
        if self.cursor.peek() != b'{' {
            return Err(op.error("a function needs a body"));
        }
        let region = self.region()?;
        op.regions.push(Region { args, ops: region.ops });
        op.loc = self.loc()?;
        Ok(())
    }

    fn signature(&mut self) -> Result<(Vec<Arg<'a>>, Vec<Attr<'a>>)> {
        self.cursor.expect(b'(')?;
        let (mut args, mut notes) = (Vec::new(), Vec::new());
        while !self.cursor.eat(b')') {
            if !args.is_empty() {
                self.cursor.expect(b',')?;
            }
            let name = self.value_name()?;
            self.cursor.expect(b':')?;
            let shape = self.shape()?;
            notes.push(self.notes()?);
            args.push(Arg { name, shape, loc: self.loc()? });
        }
        Ok((args, notes))
    }

    /// The attributes of an argument or result; an empty list if there are none.
    fn notes(&mut self) -> Result<Attr<'a>> {
        self.cursor.skip_space();
        let fields = if self.cursor.peek() == b'{' { self.fields(b'{', b'}')? } else { Vec::new() };
        Ok(Attr::Fields(fields))
    }

    /// The results of a signature: a type, or `(T {…}, T {…})`.
    fn results(&mut self, op: &mut Op<'a>) -> Result<()> {
        let mut notes = Vec::new();
        if self.cursor.eat(b'(') {
            while !self.cursor.eat(b')') {
                if !notes.is_empty() {
                    self.cursor.expect(b',')?;
                }
                op.types.push(self.shape()?);
                notes.push(self.notes()?);
            }
        } else {
            op.types.push(self.shape()?);
        }
        op.attrs.push(("res_attrs", Attr::List(notes)));
        Ok(())
    }

    /// `@mesh = <["x"=2, "y"=4]> {…}`.
    fn mesh(&mut self, op: &mut Op<'a>) -> Result<()> {
        self.cursor.skip_space();
        op.symbol = Some(self.symbol()?);
        self.cursor.expect(b'=')?;
        self.cursor.skip_space();
        op.attrs.push(("mesh", Attr::Text(self.angle_text()?)));
        self.notes()?;
        op.loc = self.loc()?;
        Ok(())
    }

    /// `(%x) in_shardings=[<…>] out_shardings=[<…>] manual_axes={"x"} (%a: T) {…} : (T) -> T`.
    fn manual_computation(&mut self, op: &mut Op<'a>) -> Result<()> {
        self.cursor.expect(b'(')?;
        while !self.cursor.eat(b')') {
            op.operands.push(self.operand()?);
            self.cursor.eat(b',');
        }
        op.span.end = self.cursor.at as u32;
        for name in ["in_shardings", "out_shardings"] {
            self.named(name)?;
            self.cursor.expect(b'[')?;
            let mut items = Vec::new();
            while !self.cursor.eat(b']') {
                self.cursor.skip_space();
                items.push(Attr::Text(self.angle_text()?));
                self.cursor.eat(b',');
            }
            op.attrs.push((name, Attr::List(items)));
        }
        self.named("manual_axes")?;
        self.cursor.skip_space();
        self.cursor.balanced()?;
        let mut args = Vec::new();
        self.cursor.expect(b'(')?;
        self.args(&mut args)?;
        self.cursor.skip_space();
        let region = self.region()?;
        op.regions.push(Region { args, ops: region.ops });
        self.cursor.expect(b':')?;
        op.types = self.op_types()?;
        op.loc = self.loc()?;
        Ok(())
    }

    /// `name=`.
    fn named(&mut self, name: &str) -> Result<()> {
        match self.cursor.eat_word(name) {
            true => self.cursor.expect(b'='),
            false => Err(self.cursor.expected(&format!("`{name}=`"))),
        }
    }

    /// `(%a = %x, %b = %y) : T, T attributes {…} cond {…} do {…}`.
    fn while_op(&mut self, op: &mut Op<'a>) -> Result<()> {
        let mut names = Vec::new();
        self.cursor.expect(b'(')?;
        while !self.cursor.eat(b')') {
            if !names.is_empty() {
                self.cursor.expect(b',')?;
            }
            names.push(self.value_name()?);
            self.cursor.expect(b'=')?;
            op.operands.push(self.operand()?);
        }
        op.span.end = self.cursor.at as u32;
        if self.cursor.eat(b':') {
            op.types = self.type_list()?;
        }
        self.attributes(op)?;
        for word in ["cond", "do"] {
            if !self.cursor.eat_word(word) {
                return Err(self.cursor.expected(&format!("`{word}`")));
            }
            let region = self.region()?;
            let typed = names.iter().zip(&op.types);
            let args = typed.map(|(name, shape)| Arg { name, shape: shape.clone(), loc: None }).collect();
            op.regions.push(Region { args, ops: region.ops });
        }
        op.loc = self.loc()?;
        Ok(())
    }

    /// `(%x init: %i), (%y init: %j) applies stablehlo.add across dimensions = [1] : types`, or with
    /// `reducer(%a: T, %b: T) (%c: U, %d: U) {…}` at the end.
    fn reduce(&mut self, op: &mut Op<'a>) -> Result<()> {
        let mut inits = SmallVec::<[_; 2]>::new();
        while self.cursor.eat(b'(') {
            op.operands.push(self.operand()?);
            if !self.cursor.eat_word("init") {
                return Err(self.cursor.expected("`init:`"));
            }
            self.cursor.expect(b':')?;
            inits.push(self.operand()?);
            self.cursor.expect(b')')?;
            self.cursor.eat(b',');
        }
        op.operands.extend(inits);
        op.span.end = self.cursor.at as u32;
        if self.cursor.eat_word("applies") {
            op.attrs.push(("applies", Attr::Word(self.cursor.name("an operation")?)));
        }
        self.clauses(op)?;
        if self.cursor.eat_word("reducer") {
            let mut args = Vec::new();
            while self.cursor.eat(b'(') {
                self.args(&mut args)?;
            }
            // Written as pairs of accumulator and element, taken as all accumulators and then all elements.
            let (mut first, mut second) = (Vec::new(), Vec::new());
            for (index, arg) in args.into_iter().enumerate() {
                if index % 2 == 0 { first.push(arg) } else { second.push(arg) }
            }
            first.append(&mut second);
            let region = self.region()?;
            op.regions.push(Region { args: first, ops: region.ops });
            op.loc = self.loc()?;
        }
        Ok(())
    }

    /// Operands, words, `key = value` and attributes in any order, up to the types.
    fn clauses(&mut self, op: &mut Op<'a>) -> Result<()> {
        loop {
            self.cursor.skip_space();
            match self.cursor.peek() {
                b',' | b'(' | b')' => self.cursor.at += 1,
                b'%' => op.operands.push(self.operand()?),
                b'@' => op.symbol = Some(self.symbol()?),
                b'[' => op.attrs.push(("brackets", self.list()?)),
                b'<' => op.attrs.push(("sharding", Attr::Text(self.angle_text()?))),
                b'"' => op.attrs.push(("name", Attr::Str(self.cursor.string()?))),
                b'{' => op.attrs.extend(self.fields(b'{', b'}')?),
                b':' => {
                    op.span.end = op.span.end.max(self.cursor.at as u32);
                    self.cursor.at += 1;
                    op.types = self.op_types()?;
                    break;
                }
                b'a'..=b'z' | b'A'..=b'Z' => {
                    if !self.clause(op)? {
                        break;
                    }
                }
                b'}' if !op.name.is_empty() => break,
                _ => return Err(self.cursor.expected("the rest of the operation")),
            }
        }
        op.loc = self.loc()?;
        Ok(())
    }

    /// A literal, a word or `key = value`; false where the operation has ended.
    fn clause(&mut self, op: &mut Op<'a>) -> Result<bool> {
        let start = self.cursor.at;
        let word = self.cursor.word();
        if word == "loc" || word == "reducer" {
            self.cursor.at = start;
            return Ok(false);
        }
        if matches!(word, "dense" | "dense_resource") && self.cursor.peek() == b'<' {
            op.span.end = self.cursor.at as u32;
            let dense = self.dense(word == "dense_resource", start)?;
            op.types.push(dense.shape.clone());
            op.attrs.push(("value", Attr::Dense(dense)));
            return Ok(false);
        }
        if self.cursor.eat(b'=') {
            op.attrs.push((word, self.attr(false)?));
        } else {
            op.words.push(word);
        }
        Ok(true)
    }

    /// The types at the end: `(T, T) -> U`, `T, T -> U`, or those of the results.
    fn op_types(&mut self) -> Result<SmallVec<[Shape; 1]>> {
        self.cursor.skip_space();
        if self.cursor.peek() == b'(' {
            return self.function_type();
        }
        let types = self.type_list()?;
        if self.cursor.eat(b'-') {
            self.cursor.expect(b'>')?;
            return self.result_types();
        }
        Ok(types)
    }

    fn type_list(&mut self) -> Result<SmallVec<[Shape; 1]>> {
        let mut types = SmallVec::new();
        loop {
            types.push(self.shape()?);
            if !self.cursor.eat(b',') {
                return Ok(types);
            }
        }
    }
}
