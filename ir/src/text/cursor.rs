//! A position in the source text: skipping, matching, and saying what was expected.
//!
//! Frontends for other texts read with it too.

use crate::diag::{Diagnostic, Result, Span};

/// A reading position.
#[derive(Clone)]
pub struct Cursor<'a> {
    /// The whole text.
    pub text: &'a str,
    /// The next byte's offset.
    pub at: usize,
}

/// Bytes of names and words: letters, digits, `_`, `.`, `-`.
static NAME_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
        byte += 1;
    }
    table
};

impl<'a> Cursor<'a> {
    /// The text's start.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// The byte here; 0 at the end (a NUL in the text is no legal byte either).
    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// The byte `offset` bytes on; 0 past the end.
    #[inline]
    pub fn peek_at(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    /// Skips white space and both kinds of comments.
    #[inline]
    pub fn skip_space(&mut self) {
        loop {
            match self.peek() {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                b'/' if matches!(self.peek_at(1), b'/' | b'*') => {
                    if !self.skip_comment() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips one comment; false (and nothing skipped) when it never ends.
    fn skip_comment(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let end =
            if rest.starts_with("//") { rest.find('\n').or(Some(rest.len())) } else { find_close(rest) };
        self.at += end.unwrap_or(0);
        end.is_some()
    }

    /// Whether nothing is left.
    pub fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips space, then `byte` if it is next.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == byte && !self.at_end();
        self.at += usize::from(found);
        found
    }

    /// As [`Cursor::eat`], where nothing else can follow.
    ///
    /// # Errors
    /// Another byte is next.
    pub fn expect(&mut self, byte: u8) -> Result<()> {
        if self.eat(byte) { Ok(()) } else { Err(self.expected(&format!("`{}`", char::from(byte)))) }
    }

    /// Skips space, then `word` if it is next as a whole word.
    pub fn eat_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.text[self.at..].starts_with(word) && !NAME_BYTE[self.peek_at(word.len()) as usize];
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// The run of name bytes here, possibly empty.
    #[inline]
    pub fn word(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        while self.at < bytes.len() && NAME_BYTE[bytes[self.at] as usize] {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// A name: a letter or `_`, then name bytes; a leading `%` is dropped.
    ///
    /// # Errors
    /// Something else is next.
    pub fn name(&mut self, what: &str) -> Result<&'a str> {
        self.skip_space();
        let start = self.at;
        self.at += usize::from(self.peek() == b'%');
        if !(self.peek().is_ascii_alphabetic() || self.peek() == b'_') {
            self.at = start;
            return Err(self.expected(what));
        }
        Ok(self.word())
    }

    /// A decimal integer.
    ///
    /// # Errors
    /// Something else is next, or it does not fit in 64 bits.
    pub fn int(&mut self) -> Result<i64> {
        self.skip_space();
        let start = self.at;
        self.at += usize::from(self.peek() == b'-');
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        match digits.parse() {
            Ok(value) => Ok(value),
            Err(_) if digits.is_empty() || digits == "-" => Err(self.expected("an integer")),
            Err(_) => Err(Diagnostic::error(format!("`{}` does not fit in 64 bits", clip(digits)))
                .at(Span::new(start, self.at))),
        }
    }

    /// `"text"`: what is between the quotes, escapes as written.
    ///
    /// # Errors
    /// Something else is next, or the string is never closed.
    pub fn string(&mut self) -> Result<&'a str> {
        self.skip_space();
        let start = self.at;
        if self.peek() != b'"' {
            return Err(self.expected("a string"));
        }
        self.skip_string()?;
        Ok(&self.text[start + 1..self.at - 1])
    }

    fn skip_string(&mut self) -> Result<()> {
        let (bytes, start) = (self.text.as_bytes(), self.at);
        self.at += 1;
        while self.at < bytes.len() && bytes[self.at] != b'"' {
            self.at += if bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        if self.at >= bytes.len() {
            self.at = bytes.len();
            return Err(Diagnostic::error("the string is never closed").at(Span::new(start, start + 1)));
        }
        self.at += 1;
        Ok(())
    }

    /// Text with balanced brackets, up to a space, comma or closing bracket outside of all brackets.
    ///
    /// # Errors
    /// Nothing is there, or a bracket is never closed.
    pub fn balanced(&mut self) -> Result<&'a str> {
        self.skip_space();
        let (bytes, start, mut depth) = (self.text.as_bytes(), self.at, 0usize);
        while self.at < bytes.len() {
            match bytes[self.at] {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'(' | b'{' | b'[' => depth += 1,
                b')' | b'}' | b']' if depth == 0 => break,
                b')' | b'}' | b']' => depth -= 1,
                b',' | b' ' | b'\n' | b'\t' | b'\r' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        if depth > 0 {
            let error = Diagnostic::error("this value's brackets are never closed");
            return Err(error.at(Span::new(start, start + 1)));
        }
        if self.at == start { Err(self.expected("a value")) } else { Ok(&self.text[start..self.at]) }
    }

    /// The error "expected `what`, found …" at this place.
    pub fn expected(&self, what: &str) -> Diagnostic {
        let mut ahead = self.clone();
        ahead.skip_space();
        let start = ahead.at;
        let found = match ahead.word() {
            "" if ahead.at_end() => "the end of the file".to_string(),
            "" => {
                let next = ahead.text[ahead.at..].chars().next().unwrap_or(' ');
                ahead.at += next.len_utf8();
                format!("`{}`", next.escape_debug())
            }
            word => format!("`{}`", clip(word)),
        };
        Diagnostic::error(format!("expected {what}, found {found}")).at(Span::new(start, ahead.at))
    }
}

/// Offset just past the `*/` of a comment that opens `text`.
fn find_close(text: &str) -> Option<usize> {
    text[2..].find("*/").map(|at| at + 4)
}

/// At most 60 characters of `text`.
pub fn clip(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(60).collect();
    if chars.next().is_some() { format!("{head}…") } else { head }
}

#[cfg(test)]
mod tests;
