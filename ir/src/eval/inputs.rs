//! Inputs that follow from a seed.

use super::machine::check_size;
use super::value::{Array, Data, Sizes, Value, sizes};
use super::{Evaluation, Options};
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::module::{CompId, Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use crate::ops::control::callee;
use crate::shape::Shape;
use ndarray::{ArrayD, IxDyn};
use num_complex::Complex;
use std::collections::BTreeSet;

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
        let n: usize = dims.iter().product();
        let dims = IxDyn(dims);
        let data = match Data::zeros(dtype, &[]) {
            Data::Pred(_) => Data::Pred(shaped(dims, n, || self.next() >> 63 == 1)),
            Data::Int(_) => {
                let below = 8i64.min(1 << (dtype.bits().min(8) - 1));
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
/// so that products keep their scale. Integers are below 8, small enough to index anything (scalars: 1 to 3, for they count steps), truth
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
            let array = stream.array(shape.dtype, &dims, 1.0 / (rows as f64).sqrt());
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

/// What a parameter is for.
#[derive(Clone, Copy)]
enum Role {
    /// An optimizer's state that nothing takes the root of.
    Moment,
    /// An optimizer's state that reaches a root.
    Variance,
    /// Anything else.
    Plain,
}

/// Who reads what, in all computations.
struct State<'a> {
    module: &'a Module,
    readers: Vec<Vec<Vec<InstrId>>>,
}

impl<'a> State<'a> {
    fn of(module: &'a Module) -> State<'a> {
        State { module, readers: module.comps.iter().map(readers).collect() }
    }

    fn role(&self, comp: CompId, id: InstrId) -> Role {
        match (self.is_state(comp, id), self.reaches_root(comp, id)) {
            (true, true) => Role::Variance,
            (true, false) => Role::Moment,
            _ => Role::Plain,
        }
    }

    /// Whether arithmetic on single elements leads to a square root.
    fn reaches_root(&self, comp: CompId, id: InstrId) -> bool {
        let (mut seen, mut work) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = work.pop() {
            for &reader in &self.readers[comp.index()][id.index()] {
                let instr = self.module.comp(comp).instr(reader);
                let inside =
                    || self.param_of(instr, id).is_some_and(|(comp, id)| self.reaches_root(comp, id));
                if matches!(instr.op, Opcode::Sqrt | Opcode::Rsqrt) || inside() {
                    return true;
                }
                if goes_on(instr) && seen.insert(reader) {
                    work.push(reader);
                }
            }
        }
        false
    }

    /// Whether a value is an optimizer's state: it is read once, to be multiplied by a scalar.
    ///
    /// `m = b1*m + (1-b1)*g` reads the old `m` just so. Random first moments would drown the gradients,
    /// and random second moments have no square root.
    fn is_state(&self, comp: CompId, id: InstrId) -> bool {
        let [reader] = self.readers[comp.index()][id.index()][..] else { return false };
        let body = self.module.comp(comp);
        let instr = body.instr(reader);
        let is_array = body.instr(id).shape.as_array().is_some_and(|shape| shape.rank() > 0);
        match instr.op {
            Opcode::Multiply => {
                is_array && instr.operands.iter().any(|&other| other != id && is_scalar(body, other))
            }
            Opcode::Copy | Opcode::Reshape | Opcode::Convert | Opcode::Transpose | Opcode::CustomCall => {
                self.is_state(comp, reader)
            }
            Opcode::Call | Opcode::Fusion => {
                self.param_of(instr, id).is_some_and(|(comp, param)| self.is_state(comp, param))
            }
            _ => false,
        }
    }

    /// The parameter that a call hands an operand to.
    fn param_of(&self, call: &Instr, id: InstrId) -> Option<(CompId, InstrId)> {
        let comp = callee(call)?;
        let number = call.operands.iter().position(|&operand| operand == id)?;
        Some((comp, *self.module.comp(comp).params().get(number)?))
    }
}

/// Whether elements of the result are made of the operand's elements at the same place, or moved.
fn goes_on(instr: &Instr) -> bool {
    use Opcode::{Broadcast, CustomCall, GetTupleElement, Reshape, Transpose, Tuple};
    let is_elementwise = matches!(instr.op.def().evaluation, Evaluation::Elementwise(_));
    is_elementwise
        || matches!(instr.op, Broadcast | CustomCall | GetTupleElement | Reshape | Transpose | Tuple)
}

fn readers(comp: &Computation) -> Vec<Vec<InstrId>> {
    let mut readers = vec![Vec::new(); comp.instrs.len()];
    for (id, instr) in comp.iter() {
        instr.operands.iter().for_each(|operand| readers[operand.index()].push(id));
    }
    readers
}

/// A scalar, or one that is broadcast.
fn is_scalar(comp: &Computation, id: InstrId) -> bool {
    let instr = comp.instr(id);
    let rank = instr.shape.as_array().map_or(1, |shape| shape.rank());
    match instr.op {
        _ if rank == 0 => true,
        Opcode::Broadcast | Opcode::Convert | Opcode::Copy | Opcode::Reshape => {
            instr.operands.first().is_some_and(|&operand| is_scalar(comp, operand))
        }
        Opcode::Constant => crate::ops::literal::splat(instr).is_some(),
        _ => false,
    }
}
