//! The syntax of pipelines: names, braces, keys and values, before anybody asks what they mean.

use phzc_ir::{Diagnostic, Result, Span};

/// `name{…}` as written.
pub struct RawStep {
    /// The pass, or the named pipeline.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// What its braces hold.
    pub options: Vec<RawOption>,
}

/// `key=value` as written, the value without its braces or quotes.
pub struct RawOption {
    /// Before the equals sign.
    pub key: String,
    /// Where that stands.
    pub key_span: Span,
    /// Behind it.
    pub value: String,
    /// Where that stands, braces or quotes included.
    pub value_span: Span,
}

/// Splits a pipeline; an empty text is an empty pipeline.
pub fn parse(text: &str) -> Result<Vec<RawStep>> {
    let mut reader = Reader { text, at: 0 };
    let mut steps = Vec::new();
    reader.skip_space();
    while reader.peek().is_some() {
        if !steps.is_empty() {
            reader.expect(b',', "`,` between two passes")?;
        }
        steps.push(reader.step()?);
        reader.skip_space();
    }
    Ok(steps)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<()> {
        if self.eat(byte) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let next = self.text[self.at..].chars().next();
        let found = next.map_or("the end".to_owned(), |next| format!("`{}`", next.escape_debug()));
        let end = self.at + next.map_or(0, char::len_utf8);
        Diagnostic::error(format!("expected {what}, found {found}")).at(Span::new(self.at, end))
    }

    fn step(&mut self) -> Result<RawStep> {
        let (name, span) = self.name("the name of a pass")?;
        let mut options = Vec::new();
        if self.eat(b'{') {
            while !self.eat(b'}') {
                if !options.is_empty() {
                    self.expect(b',', "`,` or `}` after an option")?;
                }
                options.push(self.option()?);
            }
        }
        Ok(RawStep { name: name.to_owned(), span, options })
    }

    fn option(&mut self) -> Result<RawOption> {
        let (key, key_span) = self.name("an option such as `key=value`")?;
        self.expect(b'=', "`=` after an option's name")?;
        self.skip_space();
        let start = self.at;
        let value = match self.peek() {
            Some(b'"') => self.quoted()?,
            Some(b'{') => self.braced()?.to_owned(),
            _ => self.bare().to_owned(),
        };
        let value_span = Span::new(start, self.at);
        Ok(RawOption { key: key.to_owned(), key_span, value, value_span })
    }

    /// Letters, digits, `-` and `_`.
    fn name(&mut self, what: &str) -> Result<(&'a str, Span)> {
        self.skip_space();
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected(what));
        }
        Ok((&self.text[start..self.at], Span::new(start, self.at)))
    }

    fn bare(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|byte| !is_special(byte)) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// `{…}` with balanced braces inside: what is between the outer two.
    fn braced(&mut self) -> Result<&'a str> {
        let (start, mut depth) = (self.at, 0usize);
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return Ok(&self.text[start + 1..self.at - 1]),
                b'}' => depth -= 1,
                _ => {}
            }
        }
        Err(Diagnostic::error("this brace is never closed").at(Span::new(start, start + 1)))
    }

    /// `"…"` with its escapes taken away.
    fn quoted(&mut self) -> Result<String> {
        let start = self.at;
        let (mut value, mut chars) = (String::new(), self.text[start + 1..].char_indices());
        while let Some((offset, next)) = chars.next() {
            match next {
                '"' => {
                    self.at = start + 1 + offset + 1;
                    return Ok(value);
                }
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                other => value.push(other),
            }
        }
        Err(Diagnostic::error("this string is never closed").at(Span::new(start, start + 1)))
    }
}

fn is_special(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b'{' | b'}' | b'"')
}

/// `value` in the plainest spelling that reads back as itself.
pub fn quoted(value: &str) -> String {
    if !value.bytes().any(is_special) {
        value.to_owned()
    } else if is_balanced(value) {
        format!("{{{value}}}")
    } else {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

fn is_balanced(value: &str) -> bool {
    let mut depth = 0i64;
    let step = |byte: u8| {
        depth += i64::from(byte == b'{') - i64::from(byte == b'}');
        depth >= 0
    };
    value.bytes().all(step) && value.matches('{').count() == value.matches('}').count()
}
