//! Reading constants' literals without turning them into arrays.

use crate::module::{Instr, Payload};
use crate::opcode::Opcode;
use crate::shape::Shape;

/// The element that an array constant consists of, if all its elements are written alike.
///
/// `None` for anything else: other ops, tuples, empty arrays, elided literals, differing elements.
pub fn splat(instr: &Instr) -> Option<&str> {
    let Payload::Literal(text) = &instr.payload else { return None };
    if !matches!(instr.shape, Shape::Array(_)) {
        return None;
    }
    let mut elements = Elements { text, at: 0 };
    let first = elements.next().filter(|&first| first != "...")?;
    elements.all(|element| element == first).then_some(first)
}

/// The elements of a constant array, row-major, as written; none for other ops, `...` for elided ones.
pub fn elements(instr: &Instr) -> impl Iterator<Item = &str> {
    let text = match &instr.payload {
        Payload::Literal(text) => text,
        _ => "",
    };
    Elements { text, at: 0 }
}

/// The value of an integer (or truth-value) scalar constant.
pub fn scalar_int(instr: &Instr) -> Option<i64> {
    let Payload::Literal(text) = &instr.payload else { return None };
    match (&**text, instr.shape.as_array()?.rank()) {
        ("true", 0) => Some(1),
        ("false", 0) => Some(0),
        (number, 0) => number.parse().ok(),
        _ => None,
    }
}

/// Whether this is a constant that consists of the number `wanted` (0 or 1) only.
pub(crate) fn is_all(instr: &Instr, wanted: f64) -> bool {
    instr.op == Opcode::Constant
        && splat(instr).is_some_and(|element| match element {
            "true" => wanted == 1.0,
            "false" => wanted == 0.0,
            _ => match element.strip_prefix('(').and_then(|pair| pair.strip_suffix(')')?.split_once(',')) {
                Some((re, im)) => is_number(re, wanted) && is_number(im, 0.0),
                None => is_number(element, wanted),
            },
        })
}

fn is_number(text: &str, wanted: f64) -> bool {
    text.trim().parse::<f64>().is_ok_and(|value| value == wanted)
}

/// The elements of an array literal, as written.
struct Elements<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b'{' | b'}' | b',' | b' ')) {
            self.at += 1;
        }
        let start = self.at;
        let is_end: fn(u8) -> bool = match bytes.get(start)? {
            b'(' => |byte| byte == b')',
            _ => |byte| matches!(byte, b',' | b'}' | b' '),
        };
        while bytes.get(self.at).is_some_and(|&byte| !is_end(byte)) {
            self.at += 1;
        }
        if bytes[start] == b'(' {
            self.at = (self.at + 1).min(bytes.len());
        }
        self.text.get(start..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shape: &str, literal: &str) -> Option<String> {
        let text = format!("e {{ ROOT c = {shape} constant({literal}) }}");
        let module = crate::parse(&text).unwrap();
        splat(module.entry().root()).map(str::to_owned)
    }

    #[test]
    fn finds_the_common_element() {
        assert_eq!(of("f32[]", "1e-06").as_deref(), Some("1e-06"));
        assert_eq!(of("f32[2,2]", "{{0, 0}, {0, 0}}").as_deref(), Some("0"));
        assert_eq!(of("c64[2]", "{(1, 2), (1, 2)}").as_deref(), Some("(1, 2)"));
        assert_eq!(of("pred[1]", "{true}").as_deref(), Some("true"));
    }

    #[test]
    fn finds_none_where_there_is_none() {
        assert_eq!(of("f32[2]", "{1, 2}"), None);
        assert_eq!(of("f32[64]", "{...}"), None);
        assert_eq!(of("f32[0]", "{}"), None);
        assert_eq!(of("(f32[], f32[])", "(1, 1)"), None);
    }

    fn constant(shape: &str, literal: &str) -> Instr {
        let module = crate::parse(&format!("e {{ ROOT c = {shape} constant({literal}) }}")).expect("legal");
        module.entry().root().clone()
    }

    #[test]
    fn elements_are_read_as_they_are_written() {
        let of = |shape: &str, literal: &str| {
            elements(&constant(shape, literal)).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("f32[2,2]", "{{1, 2.5}, {-3, nan}}"), ["1", "2.5", "-3", "nan"]);
        assert_eq!(of("c64[2]", "{(1, 2), (3, 4)}"), ["(1, 2)", "(3, 4)"]);
        assert_eq!(of("f32[0]", "{}"), Vec::<String>::new());
    }

    #[test]
    fn scalars_are_integers_or_truth_values() {
        let of = |shape: &str, literal: &str| scalar_int(&constant(shape, literal));
        assert_eq!(
            [of("s32[]", "-7"), of("pred[]", "true"), of("pred[]", "false")],
            [Some(-7), Some(1), Some(0)]
        );
        assert_eq!([of("s32[1]", "{7}"), of("f32[]", "0.5"), of("pred[1]", "{true}")], [None; 3]);
    }

    #[test]
    fn all_elements_are_zero_or_one() {
        let of =
            |shape: &str, literal: &str| [0.0, 1.0].map(|wanted| is_all(&constant(shape, literal), wanted));
        assert_eq!(
            [of("f32[2]", "{0, 0}"), of("s32[]", "1"), of("f32[2]", "{0, 1}")],
            [[true, false], [false, true], [false, false]]
        );
        assert_eq!([of("pred[]", "false"), of("pred[2]", "{true, true}")], [[true, false], [false, true]]);
        assert_eq!(
            [of("c64[]", "(1, 0)"), of("c64[]", "(0, 1)"), of("c64[]", "(0, 0)")],
            [[false, true], [false, false], [true, false]]
        );
        let parameter = crate::parse("e { ROOT p = f32[] parameter(0) }").expect("legal");
        assert!(!is_all(parameter.entry().root(), 0.0));
    }
}
