//! ONNX's arrays as the evaluator's.

use super::proto::Tensor;
use phzc_io::files;
use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Data};
use phzc_ir::{DType, Diagnostic, Result};
use std::path::{Component, Path};

/// No array has more elements: what has is a mistake.
const MAX_ELEMENTS: i64 = 1 << 44;

/// Sizes and places are computed in this type.
pub(super) const INDEX: DType = DType::S64;

/// The element type of a number in `TensorProto.DataType`.
pub(super) fn dtype(code: i32) -> Result<DType> {
    Ok(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::S8,
        4 => DType::U16,
        5 => DType::S16,
        6 => DType::S32,
        7 => DType::S64,
        9 => DType::Pred,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::Bf16,
        8 => return Err(Diagnostic::error("strings are not supported")),
        other => return Err(Diagnostic::error(format!("element type {other} is not supported"))),
    })
}

/// Sizes as they may be.
pub(crate) fn checked(dims: &[i64]) -> Result<()> {
    let product = dims.iter().try_fold(1i64, |product, &size| product.checked_mul(size.max(1)));
    match dims.iter().all(|&size| size >= 0) && product.is_some_and(|n| n <= MAX_ELEMENTS) {
        true => Ok(()),
        false => Err(Diagnostic::error(format!("{dims:?} are no sizes of an array"))),
    }
}

/// The array; the elements of one in a file of its own are read from beside `model`.
pub(super) fn array(tensor: &Tensor, model: &Path) -> Result<Array> {
    let named = |error: Diagnostic| {
        let message = format!("tensor `{}`: {}", tensor.name, error.message);
        Diagnostic { message, ..error }
    };
    read(tensor, model).map_err(named)
}

fn read(tensor: &Tensor, model: &Path) -> Result<Array> {
    checked(&tensor.dims)?;
    let dtype = dtype(tensor.data_type)?;
    let dims: Vec<usize> = tensor.dims.iter().map(|&size| size as usize).collect();
    let n: usize = dims.iter().product();
    let made = if tensor.data_location == 1 {
        from_bytes(dtype, &dims, &external(tensor, model)?)
    } else if !tensor.raw_data.is_empty() {
        from_bytes(dtype, &dims, &tensor.raw_data)
    } else {
        from_fields(dtype, &dims, tensor)
    };
    made.ok_or_else(|| Diagnostic::error(format!("its data are not {n} elements of type {}", dtype.as_str())))
}

/// The bytes of a part of a file beside the model.
fn external(tensor: &Tensor, model: &Path) -> Result<Vec<u8>> {
    let entry = |key: &str| Some(&tensor.external_data.iter().find(|entry| entry.key == key)?.value);
    let number = |key: &str| entry(key)?.parse::<u64>().ok();
    let location = entry("location").map(Path::new);
    // A model must not make us read files elsewhere.
    let beside = location.filter(|path| path.components().all(|part| matches!(part, Component::Normal(_))));
    let location = beside.ok_or_else(|| {
        Diagnostic::error("its data must be in a file beside the model or in a directory below it")
    })?;
    files::read_part(&model.with_file_name(location), number("offset").unwrap_or(0), number("length"))
}

/// Elements as they lie in memory, little-endian.
pub(crate) fn from_bytes(dtype: DType, dims: &[usize], bytes: &[u8]) -> Option<Array> {
    let n: usize = dims.iter().product();
    if bytes.len() != n * (dtype.bits() as usize).div_ceil(8) {
        return None;
    }
    macro_rules! each {
        ($ty:ty, $of:expr) => {{
            let (chunks, _) = bytes.as_chunks::<{ size_of::<$ty>() }>();
            let values = chunks.iter().map(|chunk| $of(<$ty>::from_le_bytes(*chunk)));
            Array::from_vec(dtype, dims, values.collect())
        }};
    }
    match dtype {
        DType::F32 => each!(f32, |x| x),
        DType::F64 => each!(f64, |x| x),
        DType::F16 => each!(u16, |x| half::f16::from_bits(x).to_f32()),
        DType::Bf16 => each!(u16, |x| half::bf16::from_bits(x).to_f32()),
        DType::Pred => each!(u8, |x| x != 0),
        DType::U8 => each!(u8, i64::from),
        DType::S8 => each!(i8, i64::from),
        DType::U16 => each!(u16, i64::from),
        DType::S16 => each!(i16, i64::from),
        DType::U32 => each!(u32, i64::from),
        DType::S32 => each!(i32, i64::from),
        DType::U64 => each!(u64, |x| x as i64),
        _ => each!(i64, |x| x),
    }
}

/// Elements in the field for their type; 16-bit floats are bit patterns among the integers.
fn from_fields(dtype: DType, dims: &[usize], tensor: &Tensor) -> Option<Array> {
    let ints = &tensor.int32_data;
    let floats =
        |of: fn(u16) -> f32| Array::from_vec(dtype, dims, ints.iter().map(|&x| of(x as u16)).collect());
    match dtype {
        DType::F32 => Array::from_vec(dtype, dims, tensor.float_data.clone()),
        DType::F64 => Array::from_vec(dtype, dims, tensor.double_data.clone()),
        DType::F16 => floats(|bits| half::f16::from_bits(bits).to_f32()),
        DType::Bf16 => floats(|bits| half::bf16::from_bits(bits).to_f32()),
        DType::Pred => Array::from_vec(dtype, dims, ints.iter().map(|&x| x != 0).collect()),
        DType::S64 => Array::from_vec(dtype, dims, tensor.int64_data.clone()),
        DType::U32 | DType::U64 => {
            Array::from_vec(dtype, dims, tensor.uint64_data.iter().map(|&x| x as i64).collect())
        }
        _ => Array::from_vec(dtype, dims, ints.iter().map(|&x| i64::from(x)).collect()),
    }
}

/// The integers of an array of integers or truth values.
pub(super) fn ints(array: &Array) -> Option<Vec<i64>> {
    match array.clone().dense() {
        Data::Int(buf) => Some(buf.iter().copied().collect()),
        Data::Pred(buf) => Some(buf.iter().map(|&x| i64::from(x)).collect()),
        _ => None,
    }
}

/// The array as HLO text writes it.
pub(super) fn literal(array: &Array) -> String {
    let elements: Vec<String> = match (array.clone().dense(), array.dtype().class()) {
        (Data::Int(buf), Class::Unsigned) => buf.iter().map(|&x| (x as u64).to_string()).collect(),
        (Data::Int(buf), _) => buf.iter().map(i64::to_string).collect(),
        (Data::Pred(buf), _) => buf.iter().map(bool::to_string).collect(),
        (Data::F32(buf), _) => buf.iter().map(|&x| float(f64::from(x), format!("{x:?}"))).collect(),
        _ => array.to_f64_vec().into_iter().map(|x| float(x, format!("{x:?}"))).collect(),
    };
    nested(array.dims(), &elements)
}

/// A float as HLO text writes it; Rust's words for what is not finite differ.
fn float(x: f64, text: String) -> String {
    match x {
        _ if x.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        _ => text,
    }
}

fn nested(dims: &[usize], elements: &[String]) -> String {
    match dims {
        [] => elements.first().cloned().unwrap_or_default(),
        [_] => format!("{{{}}}", elements.join(", ")),
        [n, rest @ ..] => {
            let size: usize = rest.iter().product();
            let parts = (0..*n).map(|at| nested(rest, &elements[at * size..(at + 1) * size]));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}
