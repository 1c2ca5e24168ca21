//! Reductions, running sums, and the largest elements.

use super::movement::Parts;
use super::node::{Cx, known};
use crate::onnx::Attribute;
use phzc_ir::dtype::Class;
use phzc_ir::{DType, Diagnostic, InstrId, Opcode, Result};

/// What is made of the elements along some dimensions.
type Along = fn(&mut Cx, InstrId, &[usize]) -> Result<InstrId>;

/// A reduction of the dimensions named `dim`, or of all, in the type of the result.
pub(super) fn reduce(cx: &mut Cx, along: Along) -> Result<InstrId> {
    let x = cx.like_out("self")?;
    let dims = cx.dims("dim", cx.b.rank(x))?;
    let made = along(cx, x, &dims)?;
    kept(cx, x, made, &dims)
}

/// With the dimensions that were reduced in size 1, if `keepdim` says so.
pub(super) fn kept(cx: &mut Cx, x: InstrId, made: InstrId, dims: &[usize]) -> Result<InstrId> {
    if !cx.flag("keepdim", false) {
        return Ok(made);
    }
    let mut sizes = cx.b.dims(x);
    dims.iter().for_each(|&dim| sizes[dim] = 1);
    cx.plain().reshape(made, &sizes)
}

/// One of ONNX's reductions, which keep no dimensions.
pub(super) fn named(cx: &mut Cx, op: &str, x: InstrId, dims: &[usize]) -> Result<InstrId> {
    if dims.is_empty() {
        return Ok(x);
    }
    let axes: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
    cx.onnx(op, &[x.into(), known(&axes)], vec![Attribute::int("keepdims", 0)])
}

/// `any` and `all`.
pub(super) fn truth(cx: &mut Cx, op: Opcode) -> Result<InstrId> {
    let x = cx.operand("self", DType::Pred)?;
    let dims = cx.dims("dim", cx.b.rank(x))?;
    let made = cx.b.reduce(x, f64::from(u8::from(op == Opcode::And)), op, &dims);
    kept(cx, x, made, &dims)
}

/// `max` and `min`: of two arrays, of one, or along a dimension with the places.
pub(super) fn extreme(cx: &mut Cx, is_max: bool) -> Parts {
    let (op, reduction) =
        if is_max { (Opcode::Maximum, "ReduceMax") } else { (Opcode::Minimum, "ReduceMin") };
    if cx.has("other") {
        return super::elementwise::combine(cx, op).map(|made| vec![Some(made)]);
    }
    let x = cx.tensor("self")?;
    let dims = cx.dims("dim", cx.b.rank(x))?;
    let made = named(cx, reduction, x, &dims)?;
    let made = kept(cx, x, made, &dims)?;
    let places = if cx.is_read(1) { Some(place(cx, is_max)?) } else { None };
    Ok(vec![Some(made), places])
}

/// `argmax` and `argmin`.
pub(super) fn place(cx: &mut Cx, is_max: bool) -> Result<InstrId> {
    let mut x = cx.tensor("self")?;
    if !cx.has("dim") {
        let n = cx.b.dims(x).iter().product();
        x = cx.plain().reshape(x, &[n])?;
    }
    let attributes = vec![
        Attribute::int("axis", cx.int("dim", 0)?),
        Attribute::int("keepdims", i64::from(cx.flag("keepdim", false))),
    ];
    cx.onnx(if is_max { "ArgMax" } else { "ArgMin" }, &[x.into()], attributes)
}

/// The variance along some dimensions, and the mean.
fn moments(cx: &mut Cx) -> Result<[InstrId; 2]> {
    let x = cx.like_out("self")?;
    cx.expect_floats(x)?;
    let dims = cx.dims("dim", cx.b.rank(x))?;
    let unbiased = f64::from(u8::from(cx.flag("unbiased", true)));
    let correction = cx.float("correction", unbiased)?;
    let n: i64 = dims.iter().map(|&dim| cx.b.dims(x)[dim]).product();
    let mean = cx.b.mean(x, &dims);
    let spread = cx.plain().spread(mean, x, &dims);
    let centred = cx.b.sub(x, spread);
    let square = cx.b.square(centred);
    let sum = cx.b.sum(square, &dims);
    let divisor = cx.b.full_like(sum, (n as f64 - correction).max(0.0));
    let variance = cx.b.div(sum, divisor);
    Ok([kept(cx, x, variance, &dims)?, kept(cx, x, mean, &dims)?])
}

/// `var`.
pub(super) fn variance(cx: &mut Cx) -> Result<InstrId> {
    moments(cx).map(|[variance, _]| variance)
}

/// `std`.
pub(super) fn deviation(cx: &mut Cx) -> Result<InstrId> {
    let variance = variance(cx)?;
    Ok(cx.b.sqrt(variance))
}

/// `var_mean`.
pub(super) fn variance_and_mean(cx: &mut Cx) -> Parts {
    moments(cx).map(|both| both.map(Some).to_vec())
}

/// `linalg_vector_norm`: of order 1, 2 or infinity.
pub(super) fn norm(cx: &mut Cx) -> Result<InstrId> {
    let order = cx.float("ord", 2.0)?;
    reduce(
        cx,
        match order {
            1.0 => |cx, x, dims| named(cx, "ReduceL1", x, dims),
            2.0 => |cx, x, dims| named(cx, "ReduceL2", x, dims),
            f64::INFINITY => |cx, x, dims| {
                let size = cx.op(Opcode::Abs, &[x])?;
                named(cx, "ReduceMax", size, dims)
            },
            other => return Err(Diagnostic::error(format!("a norm of order {other} is not supported"))),
        },
    )
}

/// `cumsum`.
pub(super) fn cumsum(cx: &mut Cx) -> Result<InstrId> {
    let (x, dim) = (cx.like_out("self")?, cx.int("dim", 0)?);
    if cx.b.rank(x) == 0 {
        return Ok(x);
    }
    cx.onnx("CumSum", &[x.into(), known(&[dim])], Vec::new())
}

/// `topk`, with the places.
pub(super) fn top_k(cx: &mut Cx) -> Parts {
    let (k, is_largest) = (cx.int("k", 0)?, cx.flag("largest", true));
    largest(cx, k, is_largest)
}

/// `sort`, with the places: the largest or smallest, as many as there are.
pub(super) fn sort(cx: &mut Cx) -> Parts {
    let x = cx.tensor("self")?;
    let dim = cx.dim("dim", -1, cx.b.rank(x))?;
    let (k, is_descending) = (cx.b.dims(x)[dim], cx.flag("descending", false));
    largest(cx, k, is_descending)
}

fn largest(cx: &mut Cx, k: i64, is_largest: bool) -> Parts {
    let (x, dim) = (cx.tensor("self")?, cx.int("dim", -1)?);
    if cx.b.dtype(x).class() == Class::Bool || cx.b.rank(x) == 0 {
        return Err(Diagnostic::error("the operand must be an array of numbers"));
    }
    let attributes = vec![Attribute::int("axis", dim), Attribute::int("largest", i64::from(is_largest))];
    let made = cx.onnx_many("TopK", &[x.into(), known(&[k])], attributes, 2)?;
    Ok(made.into_iter().map(Some).collect())
}
