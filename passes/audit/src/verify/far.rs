//! Inputs whose floats are large: beyond every bound that a program clips or clamps to.

use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Inputs, Options, Value};
use phzc_ir::{DType, Result};

/// Times as large as usual; products of two that often again.
pub const FAR: f64 = 256.0;

/// They are those of another seed.
const FAR_SEED: u64 = 0x000f_a500;
/// How often an input that is what it was, such as a small counter, is drawn again.
const MAX_REDRAWS: u64 = 6;

/// Large inputs, each unlike what was given in a first step and, where another seed draws that again, what is
/// given in the second.
///
/// # Errors
/// A parameter without a fixed size.
pub fn inputs(
    inputs: &Inputs,
    (given, next): (&[Value], &[Value]),
    seed: u64,
    options: &Options,
) -> Result<Vec<Value>> {
    let draw = |number: u64| inputs.draw(seed.wrapping_add(FAR_SEED + number), options);
    let unlike = |far: &mut Vec<Value>, others: &[Value]| {
        for ((far, given), other) in far.iter_mut().zip(given).zip(others) {
            if is_old((far, given)) {
                far.clone_from(other);
            }
        }
    };
    let mut far = draw(0)?;
    unlike(&mut far, next);
    for number in 1..MAX_REDRAWS {
        if !far.iter().zip(given).any(is_old) {
            break;
        }
        unlike(&mut far, &draw(number)?);
    }
    Ok(scaled(far, FAR))
}

fn is_old((far, given): (&Value, &Value)) -> bool {
    far.digest() == given.digest()
}

/// Arrays with floats so many times as large.
pub fn scaled(given: Vec<Value>, by: f64) -> Vec<Value> {
    mapped(given, |x| x * by)
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
    with_floats(array, array.to_f64_vec().into_iter().map(of))
}

/// An array like this one with other floats; none of an array of something else.
pub fn with_floats(array: &Array, elements: impl Iterator<Item = f64>) -> Option<Array> {
    let (dtype, dims) = (array.dtype(), array.dims());
    match (dtype.class(), dtype) {
        (Class::Float, DType::F64) => Array::from_vec(dtype, dims, elements.collect::<Vec<f64>>()),
        (Class::Float, _) => Array::from_vec(dtype, dims, elements.map(|x| x as f32).collect()),
        _ => None,
    }
}
