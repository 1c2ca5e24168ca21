//! Reading an instruction's operands and attributes: every answer is checked, every error says what was
//! found.

use crate::attr::{Key, Value};
use crate::dtype::{Class, DType};
use crate::module::Computation;
use crate::shape::{ArrayShape, Dims, Shape, UNBOUNDED};
use crate::view::View;
use smallvec::SmallVec;

/// What shape inference answers: `Ok(None)` when the result shape has to be written.
pub(crate) type Inferred = Result<Option<Shape>, String>;

/// Dimension indices.
pub(crate) type DimList = SmallVec<[usize; 4]>;

/// An array of `dtype` and `dims` as an answer.
pub(crate) fn array(dtype: DType, dims: impl IntoIterator<Item = i64>) -> Inferred {
    Ok(Some(plain(dtype, dims.into_iter().collect())))
}

/// An array shape without physical layout.
pub(crate) fn plain(dtype: DType, dims: Dims) -> Shape {
    Shape::Array(ArrayShape { dtype, dims, dynamic: 0, layout: None })
}

/// An array like `shape`, without its physical layout.
pub(crate) fn like(shape: &ArrayShape) -> Shape {
    plain(shape.dtype, shape.dims.clone())
}

/// One part alone, several as a tuple.
pub(crate) fn one_or_tuple(mut parts: Vec<Shape>) -> Shape {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => Shape::Tuple(parts),
    }
}

/// The result shape as written. The parser, to ask for inference, leaves an empty tuple there: `None`.
pub(crate) fn stated<'a>(view: &View<'a>) -> Result<Option<&'a ArrayShape>, String> {
    match &view.instr.shape {
        Shape::Tuple(parts) if parts.is_empty() => Ok(None),
        shape => shape
            .as_array()
            .map(Some)
            .ok_or_else(|| format!("`{}` makes an array, got {}", view.instr.op.as_str(), describe(shape))),
    }
}

/// The element type as written if that is as inexact as `natural` (accumulation in another width), else
/// `natural`.
pub(crate) fn stated_dtype(view: &View, natural: DType) -> DType {
    match view.instr.shape.as_array() {
        Some(shape) if shape.dtype.class() == natural.class() && natural.is_inexact() => shape.dtype,
        Some(shape) if is_integer(shape.dtype) && is_integer(natural) => shape.dtype,
        _ => natural,
    }
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype.class(), Class::Signed | Class::Unsigned)
}

/// The element type of values that `a` and `b` are mixed to: equal, or the wider of two floats.
pub(crate) fn mixed_dtype(view: &View, a: DType, b: DType) -> Result<DType, String> {
    if a == b {
        return Ok(a);
    }
    if a.class() == Class::Float && b.class() == Class::Float {
        return Ok(if a.bits() >= b.bits() { a } else { b });
    }
    let op = view.instr.op.as_str();
    Err(format!("`{op}` needs operands of one element type, got {} and {}", a.as_str(), b.as_str()))
}

/// Errors unless both have the same sizes.
pub(crate) fn same_dims(view: &View, a: &ArrayShape, b: &ArrayShape) -> Result<(), String> {
    if a.dims == b.dims {
        return Ok(());
    }
    let op = view.instr.op.as_str();
    Err(format!("`{op}` needs operands of equal sizes, got {} and {}", describe_array(a), describe_array(b)))
}

/// Errors unless `found` is `wanted`; `what` names the quantity.
pub(crate) fn expect_size(what: &str, wanted: i64, found: i64) -> Result<(), String> {
    if wanted == found { Ok(()) } else { Err(format!("{what} must be {wanted}, got {found}")) }
}

/// Errors unless the operand is a scalar.
pub(crate) fn expect_scalar(view: &View, index: usize) -> Result<DType, String> {
    let shape = view.array(index)?;
    if shape.rank() == 0 {
        return Ok(shape.dtype);
    }
    let op = view.instr.op.as_str();
    Err(format!("operand {index} of `{op}` must be a scalar, got {}", describe_array(shape)))
}

/// The distinct dimensions that a list attribute names, each below `rank`; absent means none.
pub(crate) fn dim_list(view: &View, key: Key, rank: usize) -> Result<DimList, String> {
    check_dims(view.instr.ints(key.clone()), rank).map_err(|problem| format!("`{}` {problem}", key.as_str()))
}

fn check_dims(dims: &[i64], rank: usize) -> Result<DimList, String> {
    let (mut list, mut seen) = (DimList::new(), 0u64);
    for &dim in dims {
        let index = usize::try_from(dim).ok().filter(|&index| index < rank.min(64));
        let index = index.ok_or_else(|| format!("names dimension {dim} of a rank-{rank} array"))?;
        if seen >> index & 1 == 1 {
            return Err(format!("names dimension {dim} twice"));
        }
        seen |= 1 << index;
        list.push(index);
    }
    Ok(list)
}

/// The one dimension below `rank` that an attribute names.
pub(crate) fn one_dim(view: &View, key: Key, rank: usize) -> Result<usize, String> {
    match *dim_list(view, key.clone(), rank)? {
        [dim] => Ok(dim),
        [] => Err(format!("`{}` needs `{}`", view.instr.op.as_str(), key.as_str())),
        _ => Err(format!("`{}` of `{}` must name one dimension", key.as_str(), view.instr.op.as_str())),
    }
}

/// The dimensions that a list attribute of a verified instruction names.
pub(crate) fn dims_of(view: &View, key: Key) -> DimList {
    view.instr.ints(key).iter().filter_map(|&dim| usize::try_from(dim).ok()).collect()
}

/// The dimension that an attribute of a verified instruction names; 0 if there is none.
pub(crate) fn dim_of(view: &View, key: Key) -> usize {
    dims_of(view, key).first().copied().unwrap_or(0)
}

/// A positive integer attribute, or 1.
pub(crate) fn count(view: &View, key: Key) -> Result<i64, String> {
    match view.instr.int(key.clone()) {
        None => Ok(1),
        Some(count) if count >= 1 => Ok(count),
        Some(count) => Err(format!("`{}` must be at least 1, got {count}", key.as_str())),
    }
}

/// The computation that an attribute names.
pub(crate) fn callee<'a>(view: &View<'a>, key: Key) -> Result<&'a Computation, String> {
    let id = view.instr.comp(key.clone());
    let id = id.ok_or_else(|| format!("`{}` needs `{}`", view.instr.op.as_str(), key.as_str()))?;
    view.comps
        .get(id.index())
        .ok_or_else(|| format!("`{}` names a computation that comes later", key.as_str()))
}

/// Number of elements; an error when it overflows or a size is unknown.
pub(crate) fn n_elements(dims: &[i64]) -> Result<i64, String> {
    let total =
        dims.iter().try_fold(1i64, |total, &size| total.checked_mul(size).filter(|&total| total >= 0));
    total.ok_or_else(|| format!("an array of sizes [{}] is too large", join(dims)))
}

/// A sum or product that must not overflow.
pub(crate) fn sized(size: Option<i64>) -> Result<i64, String> {
    size.filter(|&size| size >= 0).ok_or_else(|| "the result's size is negative or overflows".to_owned())
}

/// `f32[2,3]`, `(f32[2], …)`.
pub(crate) fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Array(array) => describe_array(array),
        Shape::Tuple(parts) => {
            let shown: Vec<String> = parts.iter().take(4).map(describe).collect();
            let more = if parts.len() > 4 { format!(", … ({} parts)", parts.len()) } else { String::new() };
            format!("({}{more})", shown.join(", "))
        }
        Shape::Token => "token[]".to_owned(),
        Shape::Opaque => "opaque[]".to_owned(),
        Shape::Buffer(inner) => format!("b({})", describe(inner)),
    }
}

/// `f32[2,3]`.
pub(crate) fn describe_array(array: &ArrayShape) -> String {
    format!("{}[{}]", array.dtype.as_str(), join(&array.dims))
}

/// Sizes as the text has them: `?` where one is unknown.
fn join(dims: &[i64]) -> String {
    let size = |&size: &i64| if size == UNBOUNDED { "?".to_owned() } else { size.to_string() };
    dims.iter().map(size).collect::<Vec<_>>().join(",")
}

/// Whether an attribute is there, whatever its value.
pub(crate) fn has(view: &View, key: Key) -> bool {
    matches!(view.instr.attr(key), Some(value) if !matches!(value, Value::Bool(false)))
}
