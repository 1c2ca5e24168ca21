//! Elementwise ops: the result at an index depends on the operands at that index.
//!
//! FLOPs follow XLA: one per result element, or one transcendental call. (XLA counts `asin`, `acos`,
//! `asinh`, `atanh`, `sinh` and `cosh` as FLOPs, by omission; here they are transcendental.)

use super::linear;
use super::maps::{dim, identity, pointwise, result_dims};
use super::read::{Inferred, array, callee, describe_array, like, mixed_dtype, plain, same_dims, stated};
use super::reducer::{self, applied};
use crate::attr::Key;
use crate::dtype::{Class, DType};
use crate::eval::{binary, control, convert, select, unary};
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef, Opcode};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use crate::work::Work;

const fn elementwise(n_operands: usize, infer: fn(&View) -> Inferred, work: fn(&View) -> Work) -> OpDef {
    OpDef::new(Arity::Exactly(n_operands), infer, pointwise, work, FusionKind::Loop)
}

/// `negate`, `floor`, …: one FLOP per element.
pub const UNARY: OpDef =
    elementwise(1, infer_unary, flops).linear_in(linear::unary).evaluated_by_element(unary::unary);
/// `exponential`, `tanh`, …: one transcendental per element.
pub const TRANSCENDENTAL: OpDef =
    elementwise(1, infer_unary, transcendentals).evaluated_by_element(unary::unary);
/// `add`, `maximum`, …: one FLOP per element.
pub const BINARY: OpDef =
    elementwise(2, infer_binary, flops).linear_in(linear::binary).evaluated_by_element(binary::binary);
/// `power`, `atan2`: one transcendental per element.
pub const TRANSCENDENTAL_BINARY: OpDef =
    elementwise(2, infer_binary, transcendentals).evaluated_by_element(binary::binary);
/// `compare`: truth values.
pub const COMPARE: OpDef = elementwise(2, infer_compare, flops).evaluated_by_element(binary::compare);
/// `select`: the predicate may be a scalar.
pub const SELECT: OpDef =
    elementwise(3, infer_select, flops).linear_in(linear::choices).evaluated_by_element(select::select);
/// `clamp`: the bounds may be scalars.
pub const CLAMP: OpDef = elementwise(3, infer_clamp, flops).evaluated_by_element(select::clamp);
/// `convert`: the element type is as written.
pub const CONVERT: OpDef = elementwise(1, infer_convert, flops)
    .linear_in(linear::widening)
    .evaluated_by_element(convert::convert_op);
/// `stochastic-convert`: rounded by the random bits of operand 1.
pub const STOCHASTIC_CONVERT: OpDef = elementwise(2, infer_stochastic_convert, flops);
/// `is-finite`: truth values.
pub const IS_FINITE: OpDef = elementwise(1, infer_is_finite, flops).evaluated_by_element(unary::is_finite);
/// `real`, `imag`: half of a complex number.
pub const REAL_PART: OpDef = elementwise(1, infer_real_part, flops).evaluated_by_element(unary::real_part);
/// `complex`: both halves.
pub const COMPLEX: OpDef = elementwise(2, infer_complex, flops).evaluated_by_element(binary::complex_of);
/// `copy`: any value, unchanged.
pub const COPY: OpDef =
    OpDef::new(Arity::Exactly(1), infer_copy, identity, |_| Work::default(), FusionKind::Loop)
        .linear_in(linear::first)
        .evaluated_by_element(control::pass);
/// `bitcast-convert`: may split an element into several of a minor dimension, or join them.
pub const BITCAST_CONVERT: OpDef =
    OpDef::new(Arity::Exactly(1), infer_bitcast_convert, rule_bitcast_convert, flops, FusionKind::Loop)
        .reading_bits()
        .evaluated_by_element(convert::bitcast_convert);
/// `map`: a computation per element.
pub const MAP: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_map, pointwise, work_map, FusionKind::Loop).evaluated(control::map);

fn flops(view: &View) -> Work {
    Work::flops(view.instr.shape.as_array().map_or(0.0, ArrayShape::n_elements))
}

fn transcendentals(view: &View) -> Work {
    Work::transcendentals(view.instr.shape.as_array().map_or(0.0, ArrayShape::n_elements))
}

fn infer_unary(view: &View) -> Inferred {
    let operand = view.array(0)?;
    if view.instr.op == Opcode::Abs {
        return array(real_of(operand.dtype), operand.dims.iter().copied());
    }
    Ok(Some(like(operand)))
}

fn infer_binary(view: &View) -> Inferred {
    let (a, b) = (view.array(0)?, view.array(1)?);
    same_dims(view, a, b)?;
    let dtype = mixed_dtype(view, a.dtype, b.dtype)?;
    Ok(Some(plain(dtype, a.dims.clone())))
}

fn infer_compare(view: &View) -> Inferred {
    let (a, b) = (view.array(0)?, view.array(1)?);
    same_dims(view, a, b)?;
    mixed_dtype(view, a.dtype, b.dtype)?;
    match view.instr.word(Key::Direction) {
        Some("EQ" | "NE" | "GE" | "GT" | "LE" | "LT") => array(DType::Pred, a.dims.iter().copied()),
        Some(other) => Err(format!("`direction` must be EQ, NE, GE, GT, LE or LT, got `{other}`")),
        None => Err("`compare` needs `direction`".to_owned()),
    }
}

fn infer_select(view: &View) -> Inferred {
    let (predicate, a, b) = (view.array(0)?, view.array(1)?, view.array(2)?);
    same_dims(view, a, b)?;
    if predicate.dtype != DType::Pred {
        return Err(format!("`select` needs a pred to select by, got {}", describe_array(predicate)));
    }
    if predicate.rank() > 0 {
        same_dims(view, predicate, a)?;
    }
    Ok(Some(plain(mixed_dtype(view, a.dtype, b.dtype)?, a.dims.clone())))
}

fn infer_clamp(view: &View) -> Inferred {
    let (low, value, high) = (view.array(0)?, view.array(1)?, view.array(2)?);
    for bound in [low, high] {
        mixed_dtype(view, bound.dtype, value.dtype)?;
        if bound.rank() > 0 {
            same_dims(view, bound, value)?;
        }
    }
    Ok(Some(like(value)))
}

/// The operand's sizes with the element type that is written.
fn infer_convert(view: &View) -> Inferred {
    let operand = view.array(0)?;
    Ok(stated(view)?.map(|shape| plain(shape.dtype, operand.dims.clone())))
}

fn infer_stochastic_convert(view: &View) -> Inferred {
    same_dims(view, view.array(0)?, view.array(1)?)?;
    infer_convert(view)
}

fn infer_is_finite(view: &View) -> Inferred {
    array(DType::Pred, view.array(0)?.dims.iter().copied())
}

fn infer_real_part(view: &View) -> Inferred {
    let operand = view.array(0)?;
    array(real_of(operand.dtype), operand.dims.iter().copied())
}

fn infer_complex(view: &View) -> Inferred {
    let (a, b) = (view.array(0)?, view.array(1)?);
    same_dims(view, a, b)?;
    match mixed_dtype(view, a.dtype, b.dtype)? {
        DType::F32 => array(DType::C64, a.dims.iter().copied()),
        DType::F64 => array(DType::C128, a.dims.iter().copied()),
        other => Err(format!("`complex` needs operands of f32 or f64, got {}", other.as_str())),
    }
}

fn real_of(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        real => real,
    }
}

fn infer_copy(view: &View) -> Inferred {
    Ok(view.operand_shape(0).cloned())
}

fn infer_bitcast_convert(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let Some(shape) = stated(view)? else { return Ok(None) };
    let (from, to) = (operand.dtype.bits(), shape.dtype.bits());
    let mut dims = operand.dims.clone();
    if from > to {
        dims.push(i64::from(from / to));
    } else if from < to && dims.pop() != Some(i64::from(to / from)) {
        let need = to / from;
        return Err(format!(
            "`bitcast-convert` to {} joins a last dimension of size {need}",
            shape.dtype.as_str()
        ));
    }
    let complex = [operand, shape].iter().filter(|shape| shape.dtype.class() == Class::Complex).count();
    if complex == 1 {
        return Err("`bitcast-convert` cannot make complex numbers of others or others of them".to_owned());
    }
    Ok(Some(plain(shape.dtype, dims)))
}

/// The dimensions that both have pass; the one that splits an element stays whole.
fn rule_bitcast_convert(view: &View) -> Rule {
    let (input, output) = (super::maps::operand_dims(view, 0), result_dims(view));
    let longer = if input.len() > output.len() { input } else { output };
    let common = input.len().min(output.len());
    let mut rule = Rule::default();
    let kind = |index: usize| if index < common { FactorKind::Pass } else { FactorKind::Replicate };
    let map: TensorMap =
        longer.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    rule.operands.push(map[..input.len()].into());
    rule.results.push(map[..output.len()].into());
    rule
}

fn infer_map(view: &View) -> Inferred {
    let first = view.array(0)?;
    for index in 1..view.n_operands() {
        same_dims(view, first, view.array(index)?)?;
    }
    let mapped = callee(view, Key::ToApply)?;
    let params = (0..view.n_operands()).map(|index| view.array(index).map(|shape| shape.dtype));
    reducer::check_params(mapped, &params.collect::<Result<Vec<_>, _>>()?)?;
    match &mapped.root().shape {
        Shape::Array(scalar) if scalar.rank() == 0 => array(scalar.dtype, first.dims.iter().copied()),
        other => {
            Err(format!("`map` applies a computation of a scalar, got {}", super::read::describe(other)))
        }
    }
}

fn work_map(view: &View) -> Work {
    applied(view, Key::ToApply) * view.instr.shape.as_array().map_or(0.0, ArrayShape::n_elements)
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};
    use crate::work::Work;

    #[test]
    fn every_dimension_passes() {
        assert_eq!(
            rule("x: f32[2,3]; y: f32[2,3]; ROOT z = f32[2,3] add(x, y)"),
            "([a,b],[a,b])->([a,b]) {a=2, b=3}"
        );
        assert_eq!(rule("x: f32[]; y: f32[]; ROOT z = f32[] add(x, y)"), "([],[])->([]) {}");
        let clamp = "x: f32[2]; l: f32[]; h: f32[2]; ROOT z = f32[2] clamp(l, x, h)";
        assert_eq!(rule(clamp), "([],[a],[a])->([a]) {a=2}");
    }

    #[test]
    fn a_bitcast_splits_elements_into_a_minor_dimension() {
        let split = "x: u32[4,6]; ROOT y = u8[4,6,4] bitcast-convert(x)";
        assert_eq!(rule(split), "([a,b])->([a,b,c]) {a=4, b=6, c=4!}");
        let join = "x: u8[4,6,4]; ROOT y = u32[4,6] bitcast-convert(x)";
        assert_eq!(rule(join), "([a,b,c])->([a,b]) {a=4, b=6, c=4!}");
        assert_eq!(
            error("x: u8[4,6,2]; ROOT y = u32[4,6] bitcast-convert(x)"),
            "`bitcast-convert` to u32 joins a last dimension of size 4"
        );
    }

    #[test]
    fn work_is_counted_as_xla_does() {
        assert_eq!(work("x: f32[2,3]; ROOT z = f32[2,3] negate(x)"), Work::flops(6.0));
        assert_eq!(work("x: f32[2,3]; ROOT z = f32[2,3] tanh(x)"), Work::transcendentals(6.0));
        assert_eq!(work("x: f32[2,3]; ROOT z = bf16[2,3] convert(x)"), Work::flops(6.0));
        assert_eq!(work("x: f32[2,3]; ROOT z = f32[2,3] copy(x)"), Work::default());
        assert_eq!(
            work("x: f32[2]; y: f32[2]; ROOT z = f32[2] map(x, y), dimensions={0}, to_apply=add"),
            Work::flops(2.0)
        );
    }

    #[test]
    fn element_types_follow_from_the_operands() {
        let ok = |body: &str| assert_eq!(error(body), "");
        ok("x: c64[2]; ROOT y = f32[2] abs(x)");
        ok("x: c64[2]; ROOT y = f32[2] imag(x)");
        ok("x: f32[2]; y: f32[2]; ROOT z = c64[2] complex(x, y)");
        ok("x: bf16[2]; y: f32[2]; ROOT z = f32[2] add(x, y)");
        ok("x: f32[2]; ROOT y = pred[2] is-finite(x)");
        assert_eq!(
            error("x: s32[2]; y: f32[2]; ROOT z = f32[2] add(x, y)"),
            "`add` needs operands of one element type, got s32 and f32"
        );
    }

    #[test]
    fn says_what_does_not_fit() {
        assert_eq!(
            error("x: f32[2]; y: f32[3]; ROOT z = f32[2] add(x, y)"),
            "`add` needs operands of equal sizes, got f32[2] and f32[3]"
        );
        assert_eq!(error("x: f32[2]; ROOT z = f32[3] negate(x)"), "`negate` makes f32[2], not f32[3]");
        assert_eq!(error("x: f32[2]; ROOT z = f32[2] add(x)"), "`add` takes 2 operands, got 1");
        assert_eq!(error("x: f32[2]; ROOT z = pred[2] compare(x, x)"), "`compare` needs `direction`");
        assert_eq!(
            error("x: f32[2]; ROOT z = pred[2] compare(x, x), direction=LTE"),
            "`direction` must be EQ, NE, GE, GT, LE or LT, got `LTE`"
        );
        assert_eq!(
            error("x: f32[2]; ROOT z = f32[2] select(x, x, x)"),
            "`select` needs a pred to select by, got f32[2]"
        );
        assert_eq!(error("x: (f32[2]); ROOT z = f32[2] negate(x)"), "operand 0 of `negate` must be an array");
        assert_eq!(
            error("x: f32[2]; ROOT z = f32[2] map(x), to_apply=add"),
            "`add` must take 1 scalar, but has a parameter 1"
        );
    }
}
