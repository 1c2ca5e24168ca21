//! Reading constants' literals: checked against their shape, kept as canonical text.
//!
//! A literal is one string in the module: 7 MB tables of constants exist, and only the evaluator
//! ever needs their numbers.

use super::cursor::{Cursor, clip};
use super::shape::MAX_DEPTH;
use crate::diag::{Diagnostic, Result, Span, counted};
use crate::dtype::{Class, DType};
use crate::shape::{ArrayShape, Shape};

/// Elements of an array that a number may stand for: the literal is kept as text.
const MAX_FROM_NUMBER: i64 = 1 << 20;

/// Reads the literal of a value of `shape`.
pub(super) fn parse_literal(cursor: &mut Cursor, shape: &Shape, depth: usize) -> Result<Box<str>> {
    cursor.skip_space();
    let mut out = String::new();
    write_literal(cursor, shape, depth, &mut out)?;
    Ok(out.into_boxed_str())
}

fn write_literal(cursor: &mut Cursor, shape: &Shape, depth: usize, out: &mut String) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(cursor.expected(&format!("a literal nested at most {MAX_DEPTH} deep")));
    }
    match shape {
        Shape::Tuple(parts) => write_tuple(cursor, parts, depth, out),
        Shape::Array(array) => write_array(cursor, array, out),
        Shape::Buffer(inner) => write_literal(cursor, inner, depth + 1, out),
        Shape::Token | Shape::Opaque => Err(cursor.expected("an array or tuple literal")),
    }
}

fn write_tuple(cursor: &mut Cursor, parts: &[Shape], depth: usize, out: &mut String) -> Result<()> {
    cursor.expect(b'(')?;
    out.push('(');
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            cursor.expect(b',')?;
            out.push_str(", ");
        }
        cursor.skip_space();
        write_literal(cursor, part, depth + 1, out)?;
    }
    out.push(')');
    cursor.expect(b')')
}

fn write_array(cursor: &mut Cursor, array: &ArrayShape, out: &mut String) -> Result<()> {
    if cursor.text[cursor.at..].starts_with("{...}") {
        cursor.at += 5;
        out.push_str("{...}");
        return Ok(());
    }
    if array.dims.is_empty() {
        return write_element(cursor, array.dtype, out);
    }
    if cursor.peek() != b'{' && is_written_out(array) {
        return write_first(cursor, array, out);
    }
    write_dims(cursor, array, out)
}

/// Whether a number can stand for an array: it has elements, and not more than a text would have.
fn is_written_out(array: &ArrayShape) -> bool {
    let n_elements = array.dims.iter().try_fold(1i64, |n, &size| n.checked_mul(size));
    array.dtype.class() != Class::Complex && n_elements.is_some_and(|n| (1..=MAX_FROM_NUMBER).contains(&n))
}

/// A number in place of an array is the first element: XLA leaves all others at zero.
fn write_first(cursor: &mut Cursor, array: &ArrayShape, out: &mut String) -> Result<()> {
    let mut first = String::new();
    write_element(cursor, array.dtype, &mut first)?;
    let zero = if array.dtype.class() == Class::Bool { "false" } else { "0" };
    write_zeros(&array.dims, &first, zero, out);
    Ok(())
}

/// An array whose first element is this, all others zero.
fn write_zeros(dims: &[i64], first: &str, zero: &str, out: &mut String) {
    let Some((&size, inner)) = dims.split_first() else { return out.push_str(first) };
    out.push('{');
    for at in 0..size {
        out.push_str(if at > 0 { ", " } else { "" });
        write_zeros(inner, if at > 0 { zero } else { first }, zero, out);
    }
    out.push('}');
}

/// The nested braces of an array, one counter per open dimension.
fn write_dims(cursor: &mut Cursor, array: &ArrayShape, out: &mut String) -> Result<()> {
    let rank = array.dims.len();
    let mut counts = [0i64; 33];
    let mut open = 0;
    cursor.expect(b'{')?;
    out.push('{');
    loop {
        cursor.skip_space();
        if cursor.peek() == b'}' {
            check_count(cursor, counts[open], array.dims[open])?;
            cursor.at += 1;
            out.push('}');
            if open == 0 {
                return Ok(());
            }
            open -= 1;
            continue;
        }
        if counts[open] > 0 {
            // XLA reads `{1 2}` and `{1, 2,}` too.
            while cursor.eat(b',') {}
            cursor.skip_space();
            if cursor.peek() == b'}' {
                continue;
            }
            out.push_str(", ");
        }
        counts[open] += 1;
        if open + 1 < rank {
            cursor.expect(b'{')?;
            out.push('{');
            open += 1;
            counts[open] = 0;
        } else {
            write_element(cursor, array.dtype, out)?;
        }
    }
}

fn check_count(cursor: &Cursor, found: i64, size: i64) -> Result<()> {
    if found == size {
        return Ok(());
    }
    let wanted = counted(size as usize, "element");
    let error = Diagnostic::error(format!("expected {wanted} in this dimension, found {found}"));
    Err(error.at(Span::new(cursor.at, cursor.at + 1)))
}

fn write_element(cursor: &mut Cursor, dtype: DType, out: &mut String) -> Result<()> {
    if dtype.class() == Class::Complex && cursor.peek() == b'(' {
        cursor.at += 1;
        out.push('(');
        cursor.skip_space();
        write_scalar(cursor, Class::Float, dtype, out)?;
        cursor.expect(b',')?;
        out.push_str(", ");
        cursor.skip_space();
        write_scalar(cursor, Class::Float, dtype, out)?;
        out.push(')');
        return cursor.expect(b')');
    }
    write_scalar(cursor, dtype.class(), dtype, out)
}

fn write_scalar(cursor: &mut Cursor, class: Class, dtype: DType, out: &mut String) -> Result<()> {
    let start = cursor.at;
    let text = scalar_text(cursor);
    let legal = match class {
        Class::Bool if matches!(text, "true" | "false" | "0" | "1") => true,
        // Every other number is true.
        Class::Bool if is_integer(text, DType::S64) => {
            out.push_str("true");
            return Ok(());
        }
        Class::Bool => false,
        Class::Signed | Class::Unsigned => is_integer(text, dtype),
        Class::Float | Class::Complex => is_float(text),
    };
    if legal {
        out.push_str(text);
        return Ok(());
    }
    if text.is_empty() {
        return Err(cursor.expected(&format!("a `{}` literal", dtype.as_str())));
    }
    let error = Diagnostic::error(format!("`{}` is no `{}` literal", clip(text), dtype.as_str()));
    Err(error.at(Span::new(start, cursor.at)))
}

/// The run of bytes that can belong to a number, with `nan(0x…)` as one piece.
fn scalar_text<'a>(cursor: &mut Cursor<'a>) -> &'a str {
    let (bytes, start) = (cursor.text.as_bytes(), cursor.at);
    let mut at = start;
    while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'+' | b'-' | b'.')) {
        at += 1;
    }
    if cursor.text[start..at].ends_with("nan") && bytes.get(at) == Some(&b'(') {
        at = cursor.text[at..].find(')').map_or(at, |close| at + close + 1);
    }
    cursor.at = at;
    &cursor.text[start..at]
}

fn is_integer(text: &str, dtype: DType) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let bits = dtype.bits();
    let (low, high) = match dtype.class() {
        Class::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    };
    text.parse::<i128>().is_ok_and(|value| (low..=high).contains(&value))
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.as_bytes().first() {
        Some(b'0'..=b'9') => is_decimal(unsigned.as_bytes()),
        Some(b'n') => unsigned == "nan" || is_nan_payload(unsigned),
        _ => unsigned == "inf",
    }
}

fn is_nan_payload(text: &str) -> bool {
    let Some(hex) = text.strip_prefix("nan(0x").and_then(|rest| rest.strip_suffix(')')) else { return false };
    !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `digits[.digits][e[sign]digits]` with at least one digit before the exponent.
fn is_decimal(bytes: &[u8]) -> bool {
    let mut at = 0;
    let digits = |at: &mut usize| {
        let start = *at;
        while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
            *at += 1;
        }
        *at - start
    };
    let mut n_digits = digits(&mut at);
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        n_digits += digits(&mut at);
    }
    if n_digits > 0 && matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        return digits(&mut at) > 0 && at == bytes.len();
    }
    n_digits > 0 && at == bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_fit_their_types() {
        let legal = |dtype: DType, texts: &[&str]| texts.iter().all(|text| is_integer(text, dtype));
        let illegal = |dtype: DType, texts: &[&str]| !texts.iter().any(|text| is_integer(text, dtype));
        assert!(legal(DType::S8, &["127", "-128", "0", "-0"]) && illegal(DType::S8, &["128", "-129"]));
        assert!(legal(DType::U8, &["255", "0"]) && illegal(DType::U8, &["256", "-1"]));
        assert!(
            legal(DType::U64, &["18446744073709551615"]) && illegal(DType::U64, &["18446744073709551616"])
        );
        assert!(
            legal(DType::S64, &["-9223372036854775808"]) && illegal(DType::S64, &["9223372036854775808"])
        );
        assert!(illegal(DType::S32, &["", "-", "1x", "1.0", "--1", "+1"]));
    }

    #[test]
    fn floats_are_decimal_numbers_infinities_and_nans() {
        for text in
            ["1", "1.", "-1.5", "1e5", "1e+5", "1E-05", "2.5e10", "inf", "-inf", "nan", "-nan", "nan(0x7fC0)"]
        {
            assert!(is_float(text), "{text}");
        }
        for text in [
            "", ".", ".5", "+2", "-", "e5", "1e", "1e+", "1.5.2", "1ex", "1e5.0", "1x", "infx", "nanx",
            "nan(7)", "nan(0x)", "nan(0xg)", "--1", ".e5",
        ] {
            assert!(!is_float(text), "{text}");
        }
    }

    /// The constant of this literal as it is kept, or what is said of it and where.
    fn kept(shape: &str, literal: &str) -> String {
        let text = format!("e {{ ROOT c = {shape} constant({literal}) }}");
        match crate::parse(&text) {
            Ok(module) => match &module.entry().root().payload {
                crate::module::Payload::Literal(text) => text.to_string(),
                other => panic!("{other:?}"),
            },
            Err(error) => {
                let place = error.span.map_or("", |span| &text[span.start as usize..span.end as usize]);
                format!("{} @ {place}", error.message)
            }
        }
    }

    #[test]
    fn literals_are_kept_in_one_form() {
        assert_eq!(kept("f32[2,2]", "{ {1,2} ,{3, 4}}"), "{{1, 2}, {3, 4}}");
        assert_eq!(kept("(f32[], (s8[2], pred[]))", "( 1,({2,3}, true) )"), "(1, ({2, 3}, true))");
        assert_eq!(
            [kept("c64[2]", "{( 1,2), (nan,inf)}"), kept("c64[]", "3")],
            ["{(1, 2), (nan, inf)}", "3"]
        );
        assert_eq!(
            [kept("f32[9]", "{...}"), kept("f32[0,2]", "{}"), kept("f32[2,0]", "{{},{}}")],
            ["{...}", "{}", "{{}, {}}"]
        );
        assert_eq!([kept("pred[2]", "{0, true}"), kept("f32[]", "-nan(0x7f)")], ["{0, true}", "-nan(0x7f)"]);
        assert_eq!(kept("b(f32[])", "1"), "1");
        assert_eq!([kept("f32[2]", "{1 2}"), kept("f32[2]", "{1, 2,}")], ["{1, 2}", "{1, 2}"]);
        assert_eq!(kept("pred[3]", "{2, -1, 0}"), "{true, true, 0}");
    }

    #[test]
    fn a_number_is_the_first_element_of_an_array_of_zeros() {
        assert_eq!(kept("f32[2,3]", "7.5"), "{{7.5, 0, 0}, {0, 0, 0}}");
        assert_eq!(kept("pred[2]", "true"), "{true, false}");
        assert_eq!(kept("(s8[2], f32[1,1])", "(-1, 2)"), "({-1, 0}, {{2}})");
        assert!(kept("f32[0]", "1").starts_with("expected `{`, found `1`"));
        assert!(kept("f32[2097152]", "1").starts_with("expected `{`, found `1`"));
        assert!(kept("c64[2]", "(1, 2)").starts_with("expected `{`, found `(`"));
    }

    #[test]
    fn literals_fit_their_shapes() {
        assert_eq!(kept("f32[2]", "{1}"), "expected 2 elements in this dimension, found 1 @ }");
        assert_eq!(kept("f32[1]", "{1, 2}"), "expected 1 element in this dimension, found 2 @ }");
        assert_eq!(kept("f32[2,1]", "{{1}, {}}"), "expected 1 element in this dimension, found 0 @ }");
        assert_eq!(kept("f32[1]", "{1 2}"), "expected 1 element in this dimension, found 2 @ }");
        assert_eq!(kept("f32[1,1]", "{1}"), "expected `{`, found `1` @ 1");
        assert_eq!(kept("s8[]", "300"), "`300` is no `s8` literal @ 300");
        assert_eq!(kept("pred[]", "yes"), "`yes` is no `pred` literal @ yes");
        assert_eq!(kept("f32[]", "(1, 2)"), "expected a `f32` literal, found `(` @ (");
        assert_eq!(kept("token[]", "1"), "expected an array or tuple literal, found `1` @ 1");
        assert_eq!(kept("(f32[], f32[])", "(1 2)"), "expected `,`, found `2` @ 2");
    }
}
