//! Types: `tensor<2x3xf32>`, `tuple<…>`, `!stablehlo.token`.

use super::parse::{MAX_DEPTH, Parser};
use phzc_ir::text::cursor::clip;
use phzc_ir::{ArrayShape, DType, Diagnostic, Result, Shape, Span};
use smallvec::SmallVec;

impl<'a> Parser<'a> {
    /// A type; elements outside of a tensor count as scalars.
    pub(super) fn shape(&mut self) -> Result<Shape> {
        self.cursor.skip_space();
        let start = self.cursor.at;
        if self.cursor.peek() == b'!' {
            return self.dialect_type(start);
        }
        match self.cursor.word() {
            "tensor" => self.tensor(),
            "tuple" => self.tuple(),
            "token" => Ok(Shape::Token),
            word => {
                let dtype = self.dtype(word, start)?;
                Ok(Shape::array(dtype, &[]))
            }
        }
    }

    fn dialect_type(&mut self, start: usize) -> Result<Shape> {
        self.cursor.at += 1;
        match self.cursor.word() {
            "stablehlo.token" | "mhlo.token" => Ok(Shape::Token),
            word => {
                let error =
                    Diagnostic::error(format!("the type `!{}` has no counterpart in HLO", clip(word)));
                Err(error.at(Span::new(start, self.cursor.at)))
            }
        }
    }

    fn tuple(&mut self) -> Result<Shape> {
        self.cursor.expect(b'<')?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep("types"));
        }
        let mut parts = Vec::new();
        while !self.cursor.eat(b'>') {
            if !parts.is_empty() {
                self.cursor.expect(b',')?;
            }
            parts.push(self.shape()?);
        }
        self.depth -= 1;
        Ok(Shape::Tuple(parts))
    }

    /// `<2x3xf32>`, an encoding is skipped.
    fn tensor(&mut self) -> Result<Shape> {
        let start = self.cursor.at;
        self.cursor.expect(b'<')?;
        let mut dims: SmallVec<[i64; 5]> = SmallVec::new();
        loop {
            match self.cursor.peek() {
                b'0'..=b'9' => dims.push(self.cursor.int()?),
                b'?' | b'*' => {
                    let error = Diagnostic::error("dynamic shapes are not read");
                    let error = error.at(Span::new(start, self.cursor.at + 1));
                    return Err(error.help("lower the program for inputs of fixed sizes"));
                }
                _ => break,
            }
            if self.cursor.peek() != b'x' || dims.len() > 32 {
                return Err(self.cursor.expected("`x` and an element type, after at most 32 dimensions"));
            }
            self.cursor.at += 1;
        }
        let at = self.cursor.at;
        let word = self.cursor.word();
        let dtype = self.dtype(word, at)?;
        if self.cursor.eat(b',') {
            while !matches!(self.cursor.peek(), b'>' | 0) {
                self.attr(false)?;
            }
        }
        self.cursor.expect(b'>')?;
        Ok(Shape::Array(ArrayShape { dtype, dims, dynamic: 0, layout: None }))
    }

    /// An element type whose first word was read: `complex` goes on.
    fn dtype(&mut self, word: &str, start: usize) -> Result<DType> {
        let found = match word {
            "f32" => Some(DType::F32),
            "i1" => Some(DType::Pred),
            "i32" => Some(DType::S32),
            "bf16" => Some(DType::Bf16),
            "index" => Some(DType::S64),
            "complex" => {
                self.cursor.expect(b'<')?;
                let part = self.cursor.word();
                self.cursor.expect(b'>')?;
                [("f32", DType::C64), ("f64", DType::C128)].into_iter().find(|(n, _)| *n == part).map(|p| p.1)
            }
            _ => element(word),
        };
        found.ok_or_else(|| {
            self.cursor.at = start;
            self.cursor.expected("a type such as `tensor<2x3xf32>`")
        })
    }
}

/// `ui8`, `f8E4M3FN`, `i64`.
fn element(word: &str) -> Option<DType> {
    if let Some(width) = word.strip_prefix("ui") {
        return DType::parse(&format!("u{width}"));
    }
    match word.strip_prefix('i') {
        Some(width) => DType::parse(&format!("s{width}")),
        None => Some(word.to_ascii_lowercase())
            .filter(|_| word.starts_with(['f', 'b']))
            .and_then(|w| DType::parse(&w)),
    }
}
