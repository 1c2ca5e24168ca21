//! Constants' literals as values, and values as literals.

use super::draw::Stream;
use super::round::narrow;
use super::value::{Array, Data, Element, Value, sizes};
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use crate::module::{Module, Payload};
use crate::shape::{ArrayShape, Shape};
use ndarray::{ArrayD, ArrayViewD, IxDyn};
use num_complex::Complex;
use std::fmt::Debug;

/// How many constants have elements that were left out of the text.
pub fn n_elided(module: &Module) -> usize {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    instrs.filter(|instr| matches!(&instr.payload, Payload::Literal(text) if text.contains("{...}"))).count()
}

/// The value of a literal of this shape; what is elided is filled from the seed.
pub(crate) fn parse(text: &str, shape: &Shape, fill: Option<u64>) -> Result<Value> {
    let mut rest = text;
    value(&mut rest, shape, fill)
}

fn value(rest: &mut &str, shape: &Shape, fill: Option<u64>) -> Result<Value> {
    match shape {
        Shape::Tuple(parts) => {
            skip(rest, &[',', ' ', '(']);
            let parts = parts.iter().map(|part| value(rest, part, fill)).collect::<Result<_>>()?;
            skip(rest, &[')']);
            Ok(Value::Tuple(parts))
        }
        Shape::Buffer(inner) => value(rest, inner, fill),
        Shape::Array(shape) => Ok(array(rest, shape, fill)?.into()),
        Shape::Token | Shape::Opaque => Err(Diagnostic::error("a constant must be an array or a tuple")),
    }
}

fn skip(rest: &mut &str, what: &[char]) {
    *rest = rest.trim_start_matches(what);
}

fn array(rest: &mut &str, shape: &ArrayShape, fill: Option<u64>) -> Result<Array> {
    skip(rest, &[',', ' ']);
    let dims = sizes(&shape.dims)?;
    if let Some(after) = rest.strip_prefix("{...}") {
        *rest = after;
        let seed = fill.ok_or_else(|| {
            Diagnostic::error("the elements of this constant were left out of the text")
                .help("have them printed, or let `--fill-elided` make some up")
        })?;
        return Ok(Stream::new(seed).plain(shape.dtype, &dims));
    }
    let n: usize = dims.iter().product();
    let bad = || Diagnostic::error("the literal cannot be read");
    let dtype = shape.dtype;
    let made = match Data::zeros(dtype, &[]) {
        Data::Pred(_) => elements(rest, n, &dims, |text| match text {
            "true" => Some(true),
            "false" => Some(false),
            number => number.parse::<i64>().ok().map(|number| number != 0),
        }),
        Data::Int(_) => elements(rest, n, &dims, |text| text.parse::<i128>().ok().map(|x| x as i64)),
        Data::F32(_) => elements(rest, n, &dims, |text| single(text, dtype)),
        Data::F64(_) => elements(rest, n, &dims, float),
        Data::C64(_) => pairs(rest, n, &dims, |text| single(text, DType::F32)),
        Data::C128(_) => pairs(rest, n, &dims, float),
    };
    let made = made.ok_or_else(bad)?;
    skip(rest, &['}', ' ']);
    Ok(Array::new(dtype, made))
}

fn shaped<T: Element>(dims: &[usize], values: Vec<T>) -> Option<Data> {
    Some(T::wrap(ArrayD::from_shape_vec(IxDyn(dims), values).ok()?.into_shared()))
}

fn elements<T: Element>(
    rest: &mut &str,
    n: usize,
    dims: &[usize],
    read: impl Fn(&str) -> Option<T>,
) -> Option<Data> {
    shaped(dims, (0..n).map(|_| read(token(rest))).collect::<Option<_>>()?)
}

/// Complex elements: `(re, im)`, or a real part alone.
fn pairs<T: num_traits::Float>(
    rest: &mut &str,
    n: usize,
    dims: &[usize],
    read: impl Fn(&str) -> Option<T>,
) -> Option<Data>
where
    Complex<T>: Element,
{
    let pair = |_| {
        skip(rest, &['{', '}', ',', ' ']);
        let Some(inner) = rest.strip_prefix('(') else { return Some(Complex::from(read(token(rest))?)) };
        *rest = inner;
        let made = Complex::new(read(token(rest))?, read(token(rest))?);
        *rest = rest.strip_prefix(')')?;
        Some(made)
    };
    shaped(dims, (0..n).map(pair).collect::<Option<_>>()?)
}

/// The next number or word.
fn token<'a>(rest: &mut &'a str) -> &'a str {
    skip(rest, &['{', '}', ',', ' ']);
    let is_nan = rest.trim_start_matches(['-', '+']).starts_with("nan(");
    let end = match is_nan {
        true => rest.find(')').map(|at| at + 1),
        false => rest.find(['{', '}', ',', ' ', ')']),
    };
    let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = after;
    word
}

fn single(text: &str, dtype: DType) -> Option<f32> {
    match dtype {
        DType::F32 if !text.contains("nan") => text.parse().ok(),
        _ => Some(narrow(dtype, float(text)?)),
    }
}

/// `1e-06`, `-inf`, `nan`, `-nan(0x7fc00000)`.
fn float(text: &str) -> Option<f64> {
    match text.trim_start_matches(['-', '+']).starts_with("nan") {
        true => Some(if text.starts_with('-') { -f64::NAN } else { f64::NAN }),
        false => text.parse().ok(),
    }
}

/// The array as a literal that reads back as the same elements (of NaNs, as one).
pub fn literal(array: &Array) -> String {
    let unsigned = array.dtype().class() == Class::Unsigned;
    match array.clone().dense() {
        Data::Pred(buf) => nested(buf.view(), &|x| x.to_string()),
        Data::Int(buf) if unsigned => nested(buf.view(), &|&x| (x as u64).to_string()),
        Data::Int(buf) => nested(buf.view(), &|x| x.to_string()),
        Data::F32(buf) => nested(buf.view(), &|x| float_text(x)),
        Data::F64(buf) => nested(buf.view(), &|x| float_text(x)),
        Data::C64(buf) => nested(buf.view(), &|x| format!("({}, {})", float_text(&x.re), float_text(&x.im))),
        Data::C128(buf) => nested(buf.view(), &|x| format!("({}, {})", float_text(&x.re), float_text(&x.im))),
    }
}

fn nested<T>(view: ArrayViewD<T>, show: &dyn Fn(&T) -> String) -> String {
    if view.ndim() == 0 {
        return show(&view[[]]);
    }
    let parts: Vec<String> = view.outer_iter().map(|part| nested(part, show)).collect();
    format!("{{{}}}", parts.join(", "))
}

/// The fewest digits that read back as the same number: `-2.5`, `1`, `1e-6`, `inf`, `nan`.
fn float_text(x: &impl Debug) -> String {
    let text = format!("{x:?}");
    if text == "NaN" { "nan".to_owned() } else { text.trim_end_matches(".0").to_owned() }
}

#[cfg(test)]
mod tests {
    use crate::eval::check::check;

    #[test]
    fn every_form_of_literal_is_read() {
        check("ROOT x = f32[2,2] constant({{1, -2.5}, {1e-06, inf}})", &[], "{{1, -2.5}, {1e-6, inf}}");
        check("ROOT x = s8[3] constant({1, -128, 127})", &[], "{1, -128, 127}");
        check("ROOT x = u64[] constant(18446744073709551615)", &[], "18446744073709551615");
        check("ROOT x = pred[2] constant({true, false})", &[], "{true, false}");
        check("ROOT x = c64[2] constant({(1, -2), (0, nan)})", &[], "{(1, -2), (0, nan)}");
        check("ROOT x = f32[] constant(-nan(0x7fc00000))", &[], "nan");
        check(
            "ROOT x = (f32[2], (s32[], c64[])) constant(({1, 2}, (3, (4, 5))))",
            &[],
            "({1, 2}, (3, (4, 5)))",
        );
        check("ROOT x = f32[0,2] constant({})", &[], "{}");
        check("ROOT x = bf16[] constant(1.003)", &[], "1");
        check(
            "ROOT x = f32[9] constant({...})",
            &[],
            "error: the elements of this constant were left out of the text",
        );
    }

    #[test]
    fn truth_values_may_be_written_as_numbers() {
        crate::eval::check::check(
            "ROOT x = pred[4] constant({0, 1, true, false})",
            &[],
            "{false, true, true, false}",
        );
    }
}
