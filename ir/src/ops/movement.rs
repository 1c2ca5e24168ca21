//! Ops that move elements: reshape, broadcast, transpose, slices, padding, concatenation.

use super::linear;
use super::maps::{alike, dim, equal_dims, fallback, operand_dims, resized, result_dims};
use super::read::{
    Inferred, array, describe_array, dim_list, dims_of, expect_size, like, mixed_dtype, n_elements, one_dim,
    sized, stated,
};
use super::reshape::factorize;
use crate::attr::{Key, PadDim, SliceDim, Value};
use crate::eval::movement as eval;
use crate::fusion::{FusionKind, Touch};
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims};
use crate::view::View;
use crate::work::Work;
use smallvec::SmallVec;

/// An op without arithmetic.
const fn movement(
    n_operands: usize,
    infer: fn(&View) -> Inferred,
    rule: fn(&View) -> Rule,
    fusion: FusionKind,
) -> OpDef {
    OpDef::new(Arity::Exactly(n_operands), infer, rule, |_| Work::default(), fusion)
}

/// `reshape`: common factors pass, stretches whose boundaries do not meet are replicated.
pub const RESHAPE: OpDef = movement(1, infer_reshape, rule_reshape, FusionKind::View)
    .linear_in(linear::first)
    .evaluated(eval::reshape);
/// `bitcast`: a reshape of the physical order.
pub const BITCAST: OpDef = movement(1, infer_bitcast, rule_bitcast, FusionKind::View)
    .reading_bits()
    .linear_in(linear::moved)
    .evaluated(eval::bitcast);
/// `dynamic-reshape`: nothing is known before it runs.
pub const DYNAMIC_RESHAPE: OpDef =
    OpDef::new(Arity::AtLeast(1), |_| Ok(None), fallback, |_| Work::default(), FusionKind::Opaque);
/// `broadcast`: new dimensions are free.
pub const BROADCAST: OpDef = movement(1, infer_broadcast, rule_broadcast, FusionKind::Free)
    .linear_in(linear::first)
    .evaluated(eval::broadcast);
/// `transpose`: `dimensions[d]` is the operand's dimension at result position `d`.
pub const TRANSPOSE: OpDef = movement(1, infer_transpose, rule_transpose, FusionKind::View)
    .linear_in(linear::first)
    .evaluated(eval::transpose);
/// `reverse`: a reversed dimension permutes.
pub const REVERSE: OpDef = movement(1, infer_reverse, rule_reverse, FusionKind::Loop)
    .linear_in(linear::first)
    .evaluated(eval::reverse);
/// `slice`: a dimension taken in full passes.
pub const SLICE: OpDef =
    movement(1, infer_slice, |view| equal_dims(view, FactorKind::Permute), FusionKind::Loop)
        .touching(Touch::Part)
        .linear_in(linear::first)
        .evaluated(eval::slice);
/// `pad`: an unpadded dimension passes.
pub const PAD: OpDef =
    movement(2, infer_pad, rule_pad, FusionKind::Loop).linear_in(linear::padding).evaluated(eval::pad);
/// `concatenate`: every dimension but one passes.
pub const CONCATENATE: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_concatenate, rule_concatenate, |_| Work::default(), FusionKind::Loop)
        .linear_in(linear::all)
        .evaluated(eval::concatenate);

fn infer_reshape(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let Some(shape) = stated(view)? else { return Ok(None) };
    if operand.dtype != shape.dtype || n_elements(&operand.dims)? != n_elements(&shape.dims)? {
        let (from, to) = (describe_array(operand), describe_array(shape));
        return Err(format!("`reshape` keeps element type and count, got {from} to {to}"));
    }
    Ok(None)
}

fn rule_reshape(view: &View) -> Rule {
    let (input, output) = (operand_dims(view, 0), result_dims(view));
    let identity = |n: usize| (0..n).collect::<Order>();
    reordered(input, &identity(input.len()), output, &identity(output.len()))
}

type Order = SmallVec<[usize; 8]>;

/// The rule of a reshape of dimensions read in these orders, major to minor.
fn reordered(input: &[i64], input_order: &[usize], output: &[i64], output_order: &[usize]) -> Rule {
    let read = |dims: &[i64], order: &[usize]| order.iter().map(|&dim| dims[dim]).collect::<Dims>();
    let empty = |dims: &[i64]| dims.iter().map(|_| SmallVec::new()).collect::<TensorMap>();
    let mut rule = Rule::default();
    let (mut from, mut to) = (empty(input), empty(output));
    for piece in factorize(&read(input, input_order), &read(output, output_order)) {
        let is_shared = piece.size == 1 || (piece.input.is_some() && piece.output.is_some());
        let kind = if is_shared { FactorKind::Pass } else { FactorKind::Replicate };
        let factor = rule.factor(piece.size, kind);
        if let Some(at) = piece.input {
            from[input_order[at]].push(factor);
        }
        if let Some(at) = piece.output {
            to[output_order[at]].push(factor);
        }
    }
    rule.operands.push(from);
    rule.results.push(to);
    rule
}

/// A bitcast reads the same bytes, so only their number is fixed.
fn infer_bitcast(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let Some(shape) = stated(view)? else { return Ok(None) };
    let bits = |shape: &ArrayShape| -> Result<i64, String> {
        sized(n_elements(&shape.dims)?.checked_mul(i64::from(shape.dtype.bits())))
    };
    if bits(operand)? != bits(shape)? {
        let (from, to) = (describe_array(operand), describe_array(shape));
        return Err(format!("`bitcast` keeps the number of bytes, got {from} to {to}"));
    }
    Ok(None)
}

fn rule_bitcast(view: &View) -> Rule {
    let (Ok(from), Some(to)) = (view.array(0), view.instr.shape.as_array()) else { return fallback(view) };
    if from.dtype.bits() != to.dtype.bits() {
        return super::maps::all_replicated(view);
    }
    reordered(&from.dims, &physical_order(from), &to.dims, &physical_order(to))
}

/// Dimensions from the slowest to the fastest varying; row-major when nothing is written.
fn physical_order(shape: &ArrayShape) -> Order {
    match &shape.layout {
        Some(layout) if layout.minor_to_major.len() == shape.rank() => {
            layout.minor_to_major.iter().rev().map(|&dim| dim as usize).collect()
        }
        _ => (0..shape.rank()).collect(),
    }
}

fn infer_broadcast(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let Some(shape) = stated(view)? else { return Ok(None) };
    let mapped = dim_list(view, Key::Dimensions, shape.rank())?;
    expect_size("the number of `dimensions` of `broadcast`", operand.rank() as i64, mapped.len() as i64)?;
    for (&size, &at) in operand.dims.iter().zip(&mapped) {
        if size != shape.dims[at] && size != 1 {
            let (from, to) = (describe_array(operand), describe_array(shape));
            return Err(format!("`broadcast` cannot put {from} into dimension {at} of {to}"));
        }
    }
    array(operand.dtype, shape.dims.iter().copied())
}

fn rule_broadcast(view: &View) -> Rule {
    let (input, output) = (operand_dims(view, 0), result_dims(view));
    let mut rule = Rule::default();
    let result = rule.fresh(output, FactorKind::Pass);
    let mapped = dims_of(view, Key::Dimensions);
    let operand = input.iter().zip(&mapped).map(|(&size, &at)| {
        if size == output[at] { result[at].clone() } else { dim(rule.factor(size, FactorKind::Pass)) }
    });
    let operand = operand.collect();
    rule.operands.push(operand);
    rule.results.push(result);
    rule
}

fn infer_transpose(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let order = dim_list(view, Key::Dimensions, operand.rank())?;
    expect_size("the number of `dimensions` of `transpose`", operand.rank() as i64, order.len() as i64)?;
    array(operand.dtype, order.iter().map(|&dim| operand.dims[dim]))
}

fn rule_transpose(view: &View) -> Rule {
    let mut rule = Rule::default();
    let operand = rule.fresh(operand_dims(view, 0), FactorKind::Pass);
    let order = dims_of(view, Key::Dimensions);
    rule.results.push(order.iter().map(|&from| operand[from].clone()).collect());
    rule.operands.push(operand);
    rule
}

fn infer_reverse(view: &View) -> Inferred {
    let operand = view.array(0)?;
    dim_list(view, Key::Dimensions, operand.rank())?;
    Ok(Some(like(operand)))
}

fn rule_reverse(view: &View) -> Rule {
    let reversed = dims_of(view, Key::Dimensions);
    alike(view, |dim| if reversed.contains(&dim) { FactorKind::Permute } else { FactorKind::Pass })
}

fn infer_slice(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let Some(Value::Slices(slices)) = view.instr.attr(Key::Slice) else {
        return Err("`slice` needs `slice`".to_owned());
    };
    expect_size("the number of ranges of `slice`", operand.rank() as i64, slices.len() as i64)?;
    let mut dims = Dims::new();
    for (range, &size) in slices.iter().zip(&operand.dims) {
        let SliceDim { start, limit, stride } = *range;
        if !(0 <= start && start <= limit && limit <= size && stride >= 1) {
            return Err(format!(
                "`slice` of [{start}:{limit}:{stride}] does not fit a dimension of size {size}"
            ));
        }
        dims.push((limit - start) / stride + i64::from((limit - start) % stride != 0));
    }
    array(operand.dtype, dims)
}

fn infer_pad(view: &View) -> Inferred {
    let (operand, value) = (view.array(0)?, super::read::expect_scalar(view, 1)?);
    mixed_dtype(view, operand.dtype, value)?;
    let Some(Value::Padding(padding)) = view.instr.attr(Key::Padding) else {
        return padding_of_scalar(view, operand);
    };
    expect_size("the number of dimensions of `padding`", operand.rank() as i64, padding.len() as i64)?;
    let dims: Result<Dims, String> =
        operand.dims.iter().zip(padding).map(|(&size, padding)| padded(size, padding)).collect();
    array(operand.dtype, dims?)
}

/// A scalar has nothing to pad, so its padding is not written.
fn padding_of_scalar(view: &View, operand: &ArrayShape) -> Inferred {
    if operand.rank() == 0 && view.instr.attr(Key::Padding).is_none() {
        return Ok(Some(like(operand)));
    }
    Err("`pad` needs `padding`".to_owned())
}

fn padded(size: i64, padding: &PadDim) -> Result<i64, String> {
    let PadDim { low, high, interior } = *padding;
    if interior < 0 {
        return Err(format!("`padding` between elements must not be negative, got {interior}"));
    }
    let inner = (size - 1).max(0).checked_mul(interior).and_then(|inner| inner.checked_add(size));
    sized(inner.and_then(|inner| inner.checked_add(low)?.checked_add(high)))
}

/// A dimension that is cropped as much as it is padded keeps its size but not its elements.
fn rule_pad(view: &View) -> Rule {
    let (input, output) = (operand_dims(view, 0), result_dims(view));
    let untouched = |dim: usize| match view.instr.attr(Key::Padding) {
        Some(Value::Padding(padding)) => padding.get(dim) == Some(&PadDim::default()),
        _ => true,
    };
    let mut rule = Rule::default();
    let kind = |dim| if untouched(dim) { FactorKind::Pass } else { FactorKind::Permute };
    let map: TensorMap =
        input.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    let result = resized(&mut rule, &map, input, output, FactorKind::Permute);
    rule.operands.extend([map, TensorMap::new()]);
    rule.results.push(result);
    rule
}

fn infer_concatenate(view: &View) -> Inferred {
    let first = view.array(0)?;
    let along = one_dim(view, Key::Dimensions, first.rank())?;
    let (mut dims, mut dtype) = (first.dims.clone(), first.dtype);
    for index in 1..view.n_operands() {
        let next = view.array(index)?;
        dtype = mixed_dtype(view, dtype, next.dtype)?;
        let fits = next.rank() == first.rank()
            && first.dims.iter().zip(&next.dims).enumerate().all(|(dim, (a, b))| dim == along || a == b);
        if !fits {
            let (a, b) = (describe_array(first), describe_array(next));
            return Err(format!(
                "`concatenate` along dimension {along} needs equal other sizes, got {a} and {b}"
            ));
        }
        dims[along] = sized(dims[along].checked_add(next.dims[along]))?;
    }
    array(dtype, dims)
}

fn rule_concatenate(view: &View) -> Rule {
    let along = super::read::dim_of(view, Key::Dimensions);
    let mut rule = Rule::default();
    let kind = |dim| if dim == along { FactorKind::Replicate } else { FactorKind::Pass };
    let sizes = result_dims(view);
    let map: TensorMap =
        sizes.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    for index in 0..view.n_operands() {
        let mut own = map.clone();
        if view.n_operands() > 1 {
            own[along] = dim(rule.factor(operand_dims(view, index)[along], FactorKind::Replicate));
        }
        rule.operands.push(own);
    }
    rule.results.push(map);
    rule
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule};

    #[test]
    fn reshape_shares_common_factors() {
        assert_eq!(rule("x: f32[8,4]; ROOT y = f32[2,16] reshape(x)"), "([ab,c])->([a,bc]) {a=2, b=4, c=4}");
        assert_eq!(
            rule("x: f32[2,3]; ROOT y = f32[3,2] reshape(x)"),
            "([a,c])->([b,d]) {a=2!, b=3!, c=3!, d=2!}"
        );
        assert_eq!(rule("x: f32[]; ROOT y = f32[1,1] reshape(x)"), "([])->([a,b]) {a=1, b=1}");
    }

    #[test]
    fn bitcast_reads_the_physical_order() {
        let transposed = "x: f32[4,6]{0,1}; ROOT y = f32[6,4]{1,0} bitcast(x)";
        assert_eq!(rule(transposed), "([b,a])->([a,b]) {a=6, b=4}");
        assert_eq!(rule("x: f32[4,6]; ROOT y = f32[24] bitcast(x)"), "([a,b])->([ab]) {a=4, b=6}");
        assert_eq!(rule("x: f32[4,6]; ROOT y = u8[96] bitcast(x)"), "([a,b])->([c]) {a=4!, b=6!, c=96!}");
    }

    #[test]
    fn broadcast_makes_free_dimensions() {
        let body = "x: f32[3,1]; ROOT y = f32[2,3,5] broadcast(x), dimensions={1,2}";
        assert_eq!(rule(body), "([b,d])->([a,b,c]) {a=2, b=3, c=5, d=1}");
        assert_eq!(rule("x: f32[]; ROOT y = f32[2] broadcast(x), dimensions={}"), "([])->([a]) {a=2}");
    }

    #[test]
    fn transpose_and_reverse_keep_loops() {
        let body = "x: f32[2,3,4]; ROOT y = f32[4,2,3] transpose(x), dimensions={2,0,1}";
        assert_eq!(rule(body), "([a,b,c])->([c,a,b]) {a=2, b=3, c=4}");
        let body = "x: f32[2,3]; ROOT y = f32[2,3] reverse(x), dimensions={1}";
        assert_eq!(rule(body), "([a,b])->([a,b]) {a=2, b=3~}");
    }

    #[test]
    fn cut_and_padded_dimensions_permute() {
        let body = "x: f32[8,6]; ROOT y = f32[8,2] slice(x), slice={[0:8], [1:5:2]}";
        assert_eq!(rule(body), "([a,b])->([a,c]) {a=8, b=6~, c=2~}");
        let body = "x: f32[8,6]; z: f32[]; ROOT y = f32[8,9] pad(x, z), padding=0_0x1_2";
        assert_eq!(rule(body), "([a,b],[])->([a,c]) {a=8, b=6~, c=9~}");
        let body = "x: f32[8]; z: f32[]; ROOT y = f32[8] pad(x, z), padding=-1_1";
        assert_eq!(rule(body), "([a],[])->([a]) {a=8~}");
    }

    #[test]
    fn concatenated_dimensions_are_whole() {
        let body = "x: f32[8,1]; y: f32[8,2]; ROOT z = f32[8,3] concatenate(x, y), dimensions={1}";
        assert_eq!(rule(body), "([a,c],[a,d])->([a,b]) {a=8, b=3!, c=1!, d=2!}");
    }

    #[test]
    fn says_what_does_not_fit() {
        let check = |op: &str, expected: &str| {
            assert_eq!(error(&format!("x: f32[2,3]; z: f32[]; ROOT y = {op}")), expected)
        };
        check("f32[7] reshape(x)", "`reshape` keeps element type and count, got f32[2,3] to f32[7]");
        check("(f32[6]) reshape(x)", "`reshape` makes an array, got (f32[6])");
        check(
            "f32[2,4] broadcast(x), dimensions={0,1}",
            "`broadcast` cannot put f32[2,3] into dimension 1 of f32[2,4]",
        );
        check(
            "f32[2,3] broadcast(x), dimensions={0}",
            "the number of `dimensions` of `broadcast` must be 2, got 1",
        );
        check("f32[2,3] transpose(x), dimensions={0,0}", "`dimensions` names dimension 0 twice");
        check(
            "f32[2,3] slice(x), slice={[0:2],[0:4]}",
            "`slice` of [0:4:1] does not fit a dimension of size 3",
        );
        check(
            "f32[2,3] slice(x), slice={[0:2],[0:3:0]}",
            "`slice` of [0:3:0] does not fit a dimension of size 3",
        );
        check("f32[2,3] pad(x, z), padding=0_0", "the number of dimensions of `padding` must be 2, got 1");
        check("f32[2,3] pad(x, z), padding=0_0x-4_0", "the result's size is negative or overflows");
        check(
            "f32[2,3] pad(x, z), padding=0_0x9223372036854775807_0",
            "the result's size is negative or overflows",
        );
        check(
            "f32[2,3] pad(x, z), padding=0_0x0_0_-1",
            "`padding` between elements must not be negative, got -1",
        );
        check(
            "f32[4,3] concatenate(x, x), dimensions={2}",
            "`dimensions` names dimension 2 of a rank-2 array",
        );
        check("f32[] bitcast(x)", "`bitcast` keeps the number of bytes, got f32[2,3] to f32[]");
    }
}
