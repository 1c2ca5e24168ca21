//! Inputs that follow from a seed.

use super::Options;
use super::machine::check_size;
use super::role::{Role, State};
use super::value::{Array, Data, Sizes, Value, sizes};
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::module::{InstrId, Module};
use crate::opcode::Opcode;
use crate::shape::Shape;
use ndarray::{ArrayD, IxDyn};
use num_complex::Complex;

/// A reproducible stream of numbers (splitmix64).
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    pub fn new(seed: u64) -> Stream {
        Stream { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in -1..1, with 24 random bits: exact in `f32`.
    fn signed(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    /// Floats uniform in `-scale..scale`, integers below 8 (or what the type holds), mixed truth values.
    pub fn array(&mut self, dtype: DType, dims: &Sizes, scale: f64) -> Array {
        self.array_below(dtype, dims, scale, 8)
    }

    /// As [`Stream::array`], integers below another number.
    fn array_below(&mut self, dtype: DType, dims: &Sizes, scale: f64, below: i64) -> Array {
        let n: usize = dims.iter().product();
        let dims = IxDyn(dims);
        let data = match Data::zeros(dtype, &[]) {
            Data::Pred(_) => Data::Pred(shaped(dims, n, || self.next() >> 63 == 1)),
            Data::Int(_) => {
                let below = below.min(1 << (dtype.bits().min(8) - 1));
                Data::Int(shaped(dims, n, || (self.next() >> 1) as i64 % below))
            }
            Data::F32(_) => Data::F32(shaped(dims, n, || (self.signed() * scale) as f32)),
            Data::F64(_) => Data::F64(shaped(dims, n, || self.signed() * scale)),
            Data::C64(_) => Data::C64(shaped(dims, n, || {
                Complex::new((self.signed() * scale) as f32, (self.signed() * scale) as f32)
            })),
            Data::C128(_) => {
                Data::C128(shaped(dims, n, || Complex::new(self.signed() * scale, self.signed() * scale)))
            }
        };
        Array::new(dtype, data)
    }
}

fn shaped<T: Clone>(dims: IxDyn, n: usize, next: impl FnMut() -> T) -> super::Buf<T> {
    let values: Vec<T> = std::iter::repeat_with(next).take(n).collect();
    ArrayD::from_shape_vec(dims, values).expect("as many as the sizes say").into_shared()
}

/// Values for the parameters of the entry that follow from `seed`.
///
/// Floats are uniform in ±1/2; those of rank 2 or more in ±1/√n for n rows (the last dimension but one),
/// so that products keep their scale. Integers are below 8 and within what they index (scalars: 1 to 3, for they count steps), truth
/// values mixed. An optimizer's state, floats that are read once, to be multiplied by a scalar, is zero, so that
/// first moments come out as the gradients; but not negative where it reaches a square root, as second
/// moments do: with these zero an update would be the sign of its gradient, which no two sums agree on.
///
/// # Errors
/// A parameter without a fixed shape.
pub fn inputs(module: &Module, seed: u64) -> Result<Vec<Value>> {
    inputs_within(module, seed, &Options::default())
}

/// As [`inputs`], with other limits than the usual ones.
///
/// # Errors
/// A parameter without a fixed shape or above the limit.
pub fn inputs_within(module: &Module, seed: u64, options: &Options) -> Result<Vec<Value>> {
    let entry = module.entry();
    let state = State::of(module);
    let of = |(index, &id): (usize, &InstrId)| {
        let mut stream = Stream::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(index as u64));
        let role = state.role(module.entry, id);
        let shape = &entry.instr(id).shape;
        let made = check_size(shape, options).and_then(|()| value(&mut stream, shape, role));
        made.map_err(|error| error.at(entry.instr(id).span))
    };
    entry.params().iter().enumerate().map(of).collect()
}

fn value(stream: &mut Stream, shape: &Shape, role: Role) -> Result<Value> {
    match shape {
        Shape::Tuple(parts) => {
            Ok(Value::Tuple(parts.iter().map(|part| value(stream, part, role)).collect::<Result<_>>()?))
        }
        Shape::Token => Ok(Value::Token),
        Shape::Opaque => Err(Diagnostic::error("an opaque input cannot be made up")),
        Shape::Buffer(inner) => value(stream, inner, role),
        Shape::Array(shape) => {
            let dims = sizes(&shape.dims)?;
            let rows = if dims.len() < 2 { 4 } else { dims[dims.len() - 2].max(4) };
            let below = if let Role::Index(size) = role { size.clamp(1, 8) } else { 8 };
            let array = stream.array_below(shape.dtype, &dims, 1.0 / (rows as f64).sqrt(), below);
            let is_counter = dims.is_empty() && matches!(array.clone().stored(), Data::Int(_));
            Ok(Value::Array(match role {
                Role::Moment if shape.dtype.is_inexact() => Array::zeros(shape.dtype, &dims),
                Role::Variance if shape.dtype.is_inexact() => square(array),
                _ if is_counter => counter(array),
                _ => array,
            }))
        }
    }
}

/// No number is negative.
fn square(array: Array) -> Array {
    super::binary::apply(Opcode::Multiply, array.clone(), array.clone()).unwrap_or(array)
}

/// A scalar integer counts something: 1 to 4 of it, or what the type holds.
fn counter(array: Array) -> Array {
    let four = Array::scalar(array.dtype(), 3i64);
    let one = Array::scalar(array.dtype(), 1i64);
    let low = super::binary::apply(Opcode::And, array.clone(), four);
    low.and_then(|low| super::binary::apply(Opcode::Or, low, one)).unwrap_or(array)
}
