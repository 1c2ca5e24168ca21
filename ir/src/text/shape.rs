//! Reading shapes.

use super::cursor::Cursor;
use crate::diag::{Diagnostic, Result, Span, counted};
use crate::dtype::DType;
use crate::shape::{ArrayShape, Dims, PhysicalLayout, Shape, UNBOUNDED};
use smallvec::SmallVec;

/// Deeper nesting than this is refused: no program has it, and it would exhaust the stack.
pub(super) const MAX_DEPTH: usize = 64;

/// Whether a shape (and not an opcode or a name) starts here.
pub(super) fn starts_shape(cursor: &Cursor) -> bool {
    let mut ahead = cursor.clone();
    ahead.skip_space();
    if ahead.peek() == b'(' {
        return true;
    }
    let word = ahead.word();
    if word == "b" && ahead.peek() == b'(' {
        return true;
    }
    ahead.skip_space();
    !word.is_empty() && ahead.peek() == b'['
}

pub(super) fn parse_shape(cursor: &mut Cursor, depth: usize) -> Result<Shape> {
    if depth > MAX_DEPTH {
        let error = Diagnostic::error(format!("shapes may nest {MAX_DEPTH} deep"));
        return Err(error.at(Span::new(cursor.at, cursor.at + 1)));
    }
    cursor.skip_space();
    if cursor.peek() == b'(' {
        return parse_tuple(cursor, depth);
    }
    let start = cursor.at;
    let word = cursor.word();
    match word {
        "b" if cursor.peek() == b'(' => {
            cursor.at += 1;
            let inner = parse_shape(cursor, depth + 1)?;
            cursor.expect(b')')?;
            Ok(Shape::Buffer(Box::new(inner)))
        }
        "token" => parse_empty_brackets(cursor).map(|()| Shape::Token),
        "opaque" => parse_empty_brackets(cursor).map(|()| Shape::Opaque),
        _ => match DType::parse(word) {
            Some(dtype) => parse_array(cursor, dtype).map(Shape::Array),
            None => {
                cursor.at = start;
                Err(cursor.expected("a shape such as `f32[2,3]`"))
            }
        },
    }
}

fn parse_empty_brackets(cursor: &mut Cursor) -> Result<()> {
    cursor.expect(b'[')?;
    cursor.expect(b']')
}

fn parse_tuple(cursor: &mut Cursor, depth: usize) -> Result<Shape> {
    cursor.expect(b'(')?;
    let mut parts = Vec::new();
    if !cursor.eat(b')') {
        loop {
            parts.push(parse_shape(cursor, depth + 1)?);
            if cursor.eat(b')') {
                break;
            }
            cursor.expect(b',')?;
        }
    }
    Ok(Shape::Tuple(parts))
}

fn parse_array(cursor: &mut Cursor, dtype: DType) -> Result<ArrayShape> {
    cursor.expect(b'[')?;
    let (mut dims, mut dynamic) = (Dims::new(), 0u32);
    if !cursor.eat(b']') {
        loop {
            let (size, is_dynamic) = parse_dim(cursor)?;
            if dims.len() == 32 {
                return Err(cursor.expected("at most 32 dimensions"));
            }
            dynamic |= u32::from(is_dynamic) << dims.len();
            dims.push(size);
            if cursor.eat(b']') {
                break;
            }
            cursor.expect(b',')?;
        }
    }
    let layout = parse_layout(cursor, dims.len())?;
    Ok(ArrayShape { dtype, dims, dynamic, layout })
}

fn parse_dim(cursor: &mut Cursor) -> Result<(i64, bool)> {
    cursor.skip_space();
    if cursor.peek() == b'?' {
        cursor.at += 1;
        return Ok((UNBOUNDED, true));
    }
    let is_dynamic = cursor.peek() == b'<' && cursor.peek_at(1) == b'=';
    cursor.at += if is_dynamic { 2 } else { 0 };
    cursor.skip_space();
    if !cursor.peek().is_ascii_digit() {
        return Err(cursor.expected("a dimension size"));
    }
    Ok((cursor.int()?, is_dynamic))
}

/// `{1,0:T(8,128)}`. A brace that opens no layout (a computation's body) is left alone.
fn parse_layout(cursor: &mut Cursor, rank: usize) -> Result<Option<PhysicalLayout>> {
    let mut ahead = cursor.clone();
    ahead.skip_space();
    let start = ahead.at;
    let is_braced = ahead.eat(b'{');
    ahead.skip_space();
    if !is_braced || !(ahead.peek().is_ascii_digit() || ahead.peek() == b':') {
        return Ok(None);
    }
    *cursor = ahead;
    let mut minor_to_major = SmallVec::new();
    while cursor.peek().is_ascii_digit() {
        let dim = cursor.int()?;
        let fresh = dim < rank as i64 && !minor_to_major.contains(&(dim as u8));
        if !fresh {
            let error = Diagnostic::error(format!("the layout names dimension {dim} of a rank-{rank} array"));
            return Err(error.at(Span::new(start, cursor.at)).help("name each dimension once"));
        }
        minor_to_major.push(dim as u8);
        if !cursor.eat(b',') {
            break;
        }
        cursor.skip_space();
        if !cursor.peek().is_ascii_digit() {
            return Err(cursor.expected("a dimension"));
        }
    }
    let tail = if cursor.eat(b':') { Some(parse_tail(cursor)?) } else { None };
    cursor.expect(b'}')?;
    if minor_to_major.len() != rank {
        let wanted = counted(rank, "dimension");
        let error = Diagnostic::error(format!("the layout of a rank-{rank} array must name {wanted}"));
        return Err(error.at(Span::new(start, cursor.at)));
    }
    Ok(Some(PhysicalLayout { minor_to_major, tail }))
}

/// What follows the colon of a layout, up to its closing brace.
fn parse_tail(cursor: &mut Cursor) -> Result<Box<str>> {
    let rest = &cursor.text[cursor.at..];
    let Some(length) = rest.find('}') else { return Err(cursor.expected("`}`")) };
    cursor.at += length;
    Ok(rest[..length].into())
}

#[cfg(test)]
mod tests {
    /// What is said of a shape, and where.
    fn error(shape: &str) -> String {
        let text = format!("e {{ ROOT x = {shape} parameter(0) }}");
        let error = crate::parse(&text).expect_err("an error");
        let place = error.span.map_or("", |span| &text[span.start as usize..span.end as usize]);
        format!("{} @ {place}", error.message)
    }

    #[test]
    fn every_shape_is_printed_as_it_was_read() {
        let shapes =
            ["f32[]", "s8[2,3]", "f32[2,<=3,?]", "bf16[2,3]{0,1}", "f32[2,3]{1,0:T(8,128)}", "f32[]{:S(1)}"];
        let nested =
            ["token[]", "opaque[]", "b(f32[2])", "()", "(f32[2], (pred[], token[]))", "(f32[2]{0}, ())"];
        for shape in shapes.into_iter().chain(nested) {
            let module = crate::parse(&format!("e {{ ROOT x = {shape} parameter(0) }}")).expect(shape);
            assert!(
                crate::print(&module).contains(&format!("x = {shape} parameter")),
                "{}",
                crate::print(&module)
            );
        }
    }

    #[test]
    fn what_is_no_shape_is_said() {
        assert_eq!(error("f33[2]"), "expected a shape such as `f32[2,3]`, found `f33` @ f33");
        assert_eq!(error("f32[-1]"), "expected a dimension size, found `-1` @ -1");
        assert_eq!(error("f32[2;3]"), "expected `,`, found `;` @ ;");
        assert_eq!(error("token[2]"), "expected `]`, found `2` @ 2");
        assert_eq!(error("b(f32[2]"), "expected `)`, found `parameter` @ parameter");
        assert_eq!(error("f32[2,3]{0,0}"), "the layout names dimension 0 of a rank-2 array @ {0,0");
        assert_eq!(error("f32[2,3]{2,0}"), "the layout names dimension 2 of a rank-2 array @ {2");
        assert_eq!(error("f32[2,3]{0}"), "the layout of a rank-2 array must name 2 dimensions @ {0}");
        assert!(error(&format!("f32[{}1]", "1,".repeat(32))).starts_with("expected at most 32 dimensions"));
        assert!(
            error(&format!("{}f32[]{}", "(".repeat(65), ")".repeat(65)))
                .starts_with("shapes may nest 64 deep")
        );
    }
}
