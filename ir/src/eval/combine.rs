//! Computations of scalars that an op applies to many elements.

use super::value::{Array, Value, each, owned};
use super::{Call, binary, convert, movement};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::module::CompId;
use crate::opcode::Opcode;
use crate::ops::reducer::reducer;
use crate::rule::Reducer;
use ndarray::Axis;

/// What a reduction combines pairs of elements with.
pub(crate) enum Combiner {
    /// One op per array.
    Known(Vec<Opcode>),
    /// A computation of all arrays together.
    Comp(CompId),
}

impl Combiner {
    /// The computation that `key` names, which combines `n_pairs` pairs.
    pub fn of(call: &Call, key: Key, n_pairs: usize) -> Result<Combiner> {
        let comp = call.view.instr.comp(key.clone());
        let comp = comp.ok_or_else(|| Diagnostic::error("no computation is named"))?;
        let known: Option<Vec<Opcode>> =
            (0..n_pairs).map(|index| reducer(&call.view, key.clone(), index).map(Reducer::opcode)).collect();
        Ok(known.map_or(Combiner::Comp(comp), Combiner::Known))
    }

    /// The op, if there is one array and one op.
    pub fn single(&self) -> Option<Opcode> {
        match self {
            Combiner::Known(ops) if ops.len() == 1 => Some(ops[0]),
            _ => None,
        }
    }

    /// Accumulators with elements, pair by pair.
    pub fn combine(&self, call: &Call, left: Vec<Array>, right: Vec<Array>) -> Result<Vec<Array>> {
        match self {
            Combiner::Known(ops) => {
                let pairs = ops.iter().zip(left.into_iter().zip(right));
                pairs.map(|(&op, (a, b))| binary::apply(op, a, b)).collect()
            }
            Combiner::Comp(comp) => {
                let dtypes: Vec<_> = left.iter().map(Array::dtype).collect();
                let dims = left[0].dims().to_vec();
                let made = on_arrays(call, *comp, left.into_iter().chain(right).collect(), &dims)?;
                Ok(made
                    .into_iter()
                    .zip(dtypes)
                    .map(|(array, dtype)| convert::convert(array, dtype))
                    .collect())
            }
        }
    }
}

/// A computation of scalars applied to every element of arrays of equal sizes.
pub(crate) fn on_arrays(call: &Call, comp: CompId, args: Vec<Array>, dims: &[usize]) -> Result<Vec<Array>> {
    if call.is_elementwise(comp) {
        let made = parts(call.apply(comp, args.into_iter().map(Value::from).collect())?)?;
        return Ok(made.into_iter().map(|array| fill(array, dims)).collect());
    }
    one_by_one(call, comp, &args, dims)
}

/// The array, or a scalar that does not depend on the elements as often as needed.
fn fill(array: Array, dims: &[usize]) -> Array {
    if array.rank() == 0 && !dims.is_empty() { array.spread(dims) } else { array }
}

fn parts(value: Value) -> Result<Vec<Array>> {
    match value {
        Value::Tuple(parts) => parts.into_iter().map(Value::array).collect(),
        value => Ok(vec![value.array()?]),
    }
}

fn one_by_one(call: &Call, comp: CompId, args: &[Array], dims: &[usize]) -> Result<Vec<Array>> {
    let n: usize = dims.iter().product();
    let flat: Vec<Array> = args.iter().map(|array| fill(array.clone(), dims).reshaped(&[n])).collect();
    let at = |index: usize| -> Result<Vec<Array>> {
        let scalars = flat.iter().map(|array| Ok(array.slice(&[index], &[index + 1])?.reshaped(&[]).into()));
        parts(call.apply(comp, scalars.collect::<Result<_>>()?)?)
    };
    let made = (0..n).map(at).collect::<Result<Vec<Vec<Array>>>>()?;
    let Some(first) = made.first() else {
        // Nothing was computed: what the results would be is in the text alone.
        let shapes =
            call.view.comp(comp).root().shape.leaves().into_iter().filter_map(|leaf| leaf.as_array());
        return Ok(shapes.map(|shape| Array::zeros(shape.dtype, dims)).collect());
    };
    let column = |part: usize| -> Result<Array> {
        let elements: Vec<Array> = made.iter().map(|own| own[part].clone().reshaped(&[1])).collect();
        Ok(movement::joined(&elements, 0)?.reshaped(dims))
    };
    (0..first.len()).map(column).collect()
}

/// The arrays' last dimension combined to nothing, neighbours first, in a tree that keeps their order.
pub(crate) fn tree(call: &Call, combiner: &Combiner, mut arrays: Vec<Array>) -> Result<Vec<Array>> {
    loop {
        let along = arrays[0].rank() - 1;
        let n = arrays[0].dims()[along];
        if n == 1 {
            let dims = arrays[0].dims()[..along].to_vec();
            return Ok(arrays.into_iter().map(|array| array.reshaped(&dims)).collect());
        }
        let every_second = |from: usize| -> Vec<Array> {
            arrays.iter().map(|array| every(array, along, from, n - n % 2)).collect()
        };
        let combined = combiner.combine(call, every_second(0), every_second(1))?;
        arrays = match n % 2 {
            0 => combined,
            _ => {
                let with_last = |(array, all): (Array, &Array)| {
                    movement::joined(&[array, every(all, along, n - 1, n)], along)
                };
                combined.into_iter().zip(&arrays).map(with_last).collect::<Result<_>>()?
            }
        };
    }
}

/// Every second element of `from..to`.
fn every(array: &Array, along: usize, from: usize, to: usize) -> Array {
    if array.is_spread() {
        let mut dims = array.dims().to_vec();
        dims[along] = (to - from).div_ceil(2);
        return array.clone().reshaped(&dims);
    }
    let part = ndarray::Slice::new(from as isize, Some(to as isize), 2);
    let data = each!(array.clone().stored(), buf => owned(buf.slice_axis(Axis(along), part)));
    Array::exact(array.dtype(), data)
}
