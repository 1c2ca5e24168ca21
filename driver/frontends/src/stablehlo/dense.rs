//! Literals: `dense<[1.0, 2.0]>`, `dense<"0x0000803F">`, `dense<0.0>` as HLO's text.

use super::ast::{Dense, Ints};
use crate::element::{from_bytes, nest};
use phzc_ir::dtype::Class;
use phzc_ir::text::cursor::clip;
use phzc_ir::text::number::number;
use phzc_ir::{ArrayShape, DType, Diagnostic, Result};

/// Elements of a literal that is written out; more are a mistake or an attack.
const MAX_ELEMENTS: f64 = (1u64 << 28) as f64;

/// A literal in HLO's spelling.
pub(super) enum Literal {
    /// One element, of which all of the array consists.
    Splat(String),
    /// All elements, in braces.
    All(String),
    /// Left out of the text: `{...}`.
    Elided,
}

impl Dense<'_> {
    /// The integers of a small literal; one that all elements are equal to is repeated.
    pub fn ints(&self) -> Option<Ints> {
        let n = self.shape.as_array()?.n_elements();
        let found: Option<Ints> = tokens(self.text).map(|token| token.parse().ok()).collect();
        let found = found?;
        match found.as_slice() {
            [one] if n <= 4096.0 => Some(Ints::from_elem(*one, n as usize)),
            _ => Some(found),
        }
    }

    /// The literal; `blob` is what the file's resources hold under its name.
    pub fn literal(&self, blob: Option<&str>) -> Result<Literal> {
        let Some(array) = self.shape.as_array() else {
            return Err(self.error("a literal must be of a tensor"));
        };
        if array.n_elements() > MAX_ELEMENTS && !self.is_resource {
            return self.splat(array);
        }
        // A blob starts with four bytes that say its alignment.
        let hex = match (self.is_resource, blob) {
            (true, None) => return Ok(Literal::Elided),
            (true, Some(blob)) => blob.get(8..),
            (false, _) => self.text.trim().strip_prefix("\"0x").and_then(|rest| rest.strip_suffix('"')),
        };
        let text = self.text.trim();
        let is_list = text.starts_with('[') || text.is_empty() || text == "\"\"";
        match hex {
            Some(hex) => self.bytes(hex, array),
            None if is_list => self.list(array),
            None => self.splat(array),
        }
    }

    fn splat(&self, array: &ArrayShape) -> Result<Literal> {
        match tokens(self.text).next() {
            Some(token) if array.n_elements() > 0.0 => self.element(token, array.dtype).map(Literal::Splat),
            _ => self.list(array),
        }
    }

    fn list(&self, array: &ArrayShape) -> Result<Literal> {
        let elements = if self.text.trim() == "\"\"" { "" } else { self.text };
        let elements = tokens(elements).map(|token| self.element(token, array.dtype));
        self.assembled(array, elements.collect::<Result<Vec<_>>>()?)
    }

    /// Bytes of the elements, least significant first; one element stands for all.
    fn bytes(&self, hex: &str, array: &ArrayShape) -> Result<Literal> {
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(hex_byte).collect();
        let bytes =
            bytes.ok_or_else(|| self.error("a literal has a character that is no hexadecimal digit"))?;
        let n = array.n_elements() as usize;
        if array.dtype == DType::Pred && bytes.len() == n.div_ceil(8) && n > 1 {
            let bit = |index: usize| (bytes[index / 8] >> (index % 8) & 1 == 1).to_string();
            return self.assembled(array, (0..n).map(bit).collect());
        }
        let width = (array.dtype.bits() as usize).div_ceil(8);
        let elements: Vec<String> = bytes.chunks(width).map(|chunk| from_bytes(array.dtype, chunk)).collect();
        match (elements.len(), n) {
            (1, 2..) => Ok(Literal::Splat(elements.into_iter().next().unwrap_or_default())),
            _ => self.assembled(array, elements),
        }
    }

    /// The elements in nested braces.
    fn assembled(&self, array: &ArrayShape, elements: Vec<String>) -> Result<Literal> {
        if elements.len() as f64 != array.n_elements() {
            let message = format!("a literal of {} elements has {}", array.n_elements(), elements.len());
            return Err(self.error(&message));
        }
        if array.dims.is_empty() {
            return Ok(Literal::Splat(elements.into_iter().next().unwrap_or_default()));
        }
        let mut out = String::with_capacity(elements.len() * 8);
        nest(&array.dims, &mut elements.into_iter(), &mut out);
        Ok(Literal::All(out))
    }

    /// `1.0`, `0x7F800000`, `true`, `(1.0,2.0)`.
    fn element(&self, token: &str, dtype: DType) -> Result<String> {
        if let Some((re, im)) =
            token.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')?.split_once(','))
        {
            let part = if dtype == DType::C128 { DType::F64 } else { DType::F32 };
            return Ok(format!("({}, {})", self.element(re.trim(), part)?, self.element(im.trim(), part)?));
        }
        let found = match (dtype.class(), token.strip_prefix("0x")) {
            (Class::Bool, _) => matches!(token, "true" | "false").then(|| token.to_owned()),
            (Class::Float, Some(hex)) => {
                u64::from_str_radix(hex, 16).ok().map(|bits| from_bytes(dtype, &bits.to_le_bytes()))
            }
            (Class::Float, None) => token.parse().ok().map(|value| number(dtype, rounded(dtype, value))),
            (Class::Signed | Class::Unsigned, _) => {
                token.parse::<i128>().ok().filter(|&value| fits(dtype, value)).map(|value| value.to_string())
            }
            (Class::Complex, _) => None,
        };
        found.ok_or_else(|| self.error(&format!("`{}` is no `{}` literal", clip(token), dtype.as_str())))
    }

    fn error(&self, message: &str) -> Diagnostic {
        Diagnostic::error(message).at(self.span)
    }
}

/// Numbers, words and pairs in parentheses, whatever brackets and commas stand between them.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ','));
        let length = if rest.starts_with('(') {
            rest.find(')').map_or(rest.len(), |at| at + 1)
        } else {
            rest.find(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ',')).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        (!token.is_empty()).then_some(token)
    })
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    match digits {
        [high, low] => {
            let value = |digit: u8| char::from(digit).to_digit(16);
            Some((value(*high)? * 16 + value(*low)?) as u8)
        }
        _ => None,
    }
}

fn fits(dtype: DType, value: i128) -> bool {
    let bits = dtype.bits();
    match dtype.class() {
        Class::Signed => (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&value),
        _ => (0..1i128 << bits).contains(&value),
    }
}

/// The nearest value of the type: texts have fewer digits than `f64`.
fn rounded(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::Bf16 => half::bf16::from_f64(value).to_f64(),
        DType::F16 => half::f16::from_f64(value).to_f64(),
        _ => f64::from(value as f32),
    }
}
