//! Inputs whose floats are large: beyond every bound that a program clips or clamps to.

use phzc_ir::DType;
use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Value};

/// Times as large as usual; products of two that often again.
pub const FAR: f64 = 256.0;

/// Arrays with floats so many times as large.
pub fn scaled(given: Vec<Value>, by: f64) -> Vec<Value> {
    mapped(given, |x| x * by)
}

/// Values, each of which differs from what was given: another is taken in the place of one that does not, such as a small counter.
pub fn unlike(fresh: Vec<Value>, given: &[Value], others: &[Value]) -> Vec<Value> {
    let one = |((fresh, given), other): ((Value, &Value), &Value)| match fresh.digest() == given.digest() {
        true => other.clone(),
        false => fresh,
    };
    fresh.into_iter().zip(given).zip(others).map(one).collect()
}

/// Arrays without negative floats.
pub fn positive(given: Vec<Value>) -> Vec<Value> {
    mapped(given, f64::abs)
}

fn mapped(given: Vec<Value>, of: impl Fn(f64) -> f64 + Copy) -> Vec<Value> {
    let one = |value: Value| match value {
        Value::Array(array) => Value::Array(floats(&array, of).unwrap_or(array)),
        Value::Tuple(parts) => Value::Tuple(mapped(parts, of)),
        other => other,
    };
    given.into_iter().map(one).collect()
}

fn floats(array: &Array, of: impl Fn(f64) -> f64) -> Option<Array> {
    let elements = || array.to_f64_vec().into_iter().map(&of);
    let (dtype, dims) = (array.dtype(), array.dims());
    match (dtype.class(), dtype) {
        (Class::Float, DType::F64) => Array::from_vec(dtype, dims, elements().collect::<Vec<f64>>()),
        (Class::Float, _) => Array::from_vec(dtype, dims, elements().map(|x| x as f32).collect()),
        _ => None,
    }
}
