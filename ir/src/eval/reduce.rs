//! `reduce`: whole dimensions combined.

use super::binary::{self, maximum, minimum};
use super::combine::{Combiner, tree};
use super::map::PARALLEL_FROM;
use super::movement::transposed;
use super::number::Real;
use super::value::{Array, Buf, Data, Element, Sizes, Value};
use super::{Call, convert};
use crate::attr::Key;
use crate::diag::Result;
use crate::opcode::Opcode;
use ndarray::{Array1, ArrayView1, ArrayView2, Axis, IxDyn};

/// Elements that are added up one after the other; longer sums are trees of such.
const LEAF: usize = 128;
/// Partial sums of a leaf.
const LANES: usize = 16;

/// `reduce`.
pub(crate) fn reduce(call: &Call, args: Vec<Value>) -> Result<Value> {
    let mut arrays = args.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    let initial = arrays.split_off(arrays.len() / 2);
    let combiner = Combiner::of(call, Key::ToApply, arrays.len())?;
    let dims: Sizes = call.view.instr.ints(Key::Dimensions).iter().map(|&dim| dim as usize).collect();
    let arrays: Vec<Array> = arrays.into_iter().map(|array| last(array, &dims)).collect();
    let made = last_reduced(call, &combiner, arrays, initial)?;
    let shapes = call.view.instr.shape.leaves();
    let typed = made.into_iter().zip(shapes).map(|(array, shape)| match shape.as_array() {
        Some(shape) => convert::convert(array, shape.dtype),
        None => array,
    });
    Ok(one_or_tuple(typed.collect()))
}

/// One array alone, several as a tuple.
pub(crate) fn one_or_tuple(mut arrays: Vec<Array>) -> Value {
    match arrays.len() {
        1 => arrays.swap_remove(0).into(),
        _ => Value::Tuple(arrays.into_iter().map(Value::from).collect()),
    }
}

/// The reduced dimensions as one, the last.
fn last(array: Array, reduced: &[usize]) -> Array {
    let kept: Sizes = (0..array.rank()).filter(|dim| !reduced.contains(dim)).collect();
    let order: Sizes =
        kept.iter().copied().chain((0..array.rank()).filter(|dim| reduced.contains(dim))).collect();
    let n: usize = reduced.iter().map(|&dim| array.dims()[dim]).product();
    let mut dims: Sizes = kept.iter().map(|&dim| array.dims()[dim]).collect();
    dims.push(n);
    merged(transposed(array, &order), &dims)
}

/// A reshape that moves elements only where strides do not allow it.
fn merged(array: Array, dims: &[usize]) -> Array {
    if array.is_spread() || array.is_empty() {
        return array.reshaped(dims);
    }
    let dtype = array.dtype();
    fn view<T: Element>(buf: Buf<T>, dims: &[usize]) -> Buf<T> {
        let (strides, sizes) = (buf.strides().to_vec(), buf.shape().to_vec());
        let n_kept = dims.len() - 1;
        // Reduced dimensions that follow each other in memory are one without moving.
        let follows =
            (n_kept + 1..sizes.len()).all(|dim| strides[dim - 1] == strides[dim] * sizes[dim] as isize);
        if !follows || sizes.len() <= n_kept + 1 {
            let buf = if buf.is_standard_layout() || sizes.len() == dims.len() {
                buf
            } else {
                super::value::owned(buf.view())
            };
            return if buf.shape() == dims {
                buf
            } else {
                buf.into_shape_with_order(IxDyn(dims)).expect("the same count")
            };
        }
        buf.to_shape(IxDyn(dims)).expect("the same count").into_owned().into_shared()
    }
    Array::exact(dtype, super::value::each!(array.stored(), buf => view(buf, dims)))
}

/// Each array's last dimension and its initial value combined.
pub(crate) fn last_reduced(
    call: &Call,
    combiner: &Combiner,
    arrays: Vec<Array>,
    initial: Vec<Array>,
) -> Result<Vec<Array>> {
    let along = arrays[0].rank() - 1;
    let (n, kept) = (arrays[0].dims()[along], arrays[0].dims()[..along].to_vec());
    let spread = |array: Array| if kept.is_empty() { array } else { array.spread(&kept) };
    if n == 0 {
        return Ok(initial.into_iter().map(spread).collect());
    }
    let made = match (combiner, combiner.single()) {
        (_, Some(op)) => vec![known(op, arrays.into_iter().next().expect("one array"))?],
        (Combiner::Known(ops), _) => {
            ops.iter().zip(arrays).map(|(&op, array)| known(op, array)).collect::<Result<_>>()?
        }
        (Combiner::Comp(_), _) => tree(call, combiner, arrays)?,
    };
    combiner.combine(call, initial.into_iter().map(spread).collect(), made)
}

/// The last dimension combined with one op.
fn known(op: Opcode, array: Array) -> Result<Array> {
    let (dtype, rank) = (array.dtype(), array.rank());
    let kept = array.dims()[..rank - 1].to_vec();
    let data = match array.dense() {
        Data::F32(buf) => Data::F32(fold_real(op, &buf, &kept)?),
        Data::F64(buf) => Data::F64(fold_real(op, &buf, &kept)?),
        Data::Int(buf) => {
            let unsigned = dtype == crate::dtype::DType::U64;
            let less = move |x: i64, y: i64| if unsigned { (x as u64) < (y as u64) } else { x < y };
            Data::Int(match op {
                Opcode::Add => fold(&buf, &kept, i64::wrapping_add),
                Opcode::Multiply => fold(&buf, &kept, i64::wrapping_mul),
                Opcode::Maximum => fold(&buf, &kept, move |x, y| if less(x, y) { y } else { x }),
                Opcode::Minimum => fold(&buf, &kept, move |x, y| if less(x, y) { x } else { y }),
                Opcode::And => fold(&buf, &kept, |x, y| x & y),
                Opcode::Or => fold(&buf, &kept, |x, y| x | y),
                _ => fold(&buf, &kept, |x, y| x ^ y),
            })
        }
        Data::Pred(buf) => Data::Pred(match op {
            Opcode::And | Opcode::Multiply | Opcode::Minimum => fold(&buf, &kept, |x, y| x & y),
            Opcode::Xor => fold(&buf, &kept, |x, y| x ^ y),
            _ => fold(&buf, &kept, |x, y| x | y),
        }),
        Data::C64(buf) if op == Opcode::Add => Data::C64(fold(&buf, &kept, |x, y| x + y)),
        Data::C128(buf) if op == Opcode::Add => Data::C128(fold(&buf, &kept, |x, y| x + y)),
        Data::C64(buf) if op == Opcode::Multiply => Data::C64(fold(&buf, &kept, |x, y| x * y)),
        Data::C128(buf) if op == Opcode::Multiply => Data::C128(fold(&buf, &kept, |x, y| x * y)),
        _ => return Err(super::undefined(op, dtype)),
    };
    Ok(Array::new(dtype, data))
}

fn fold_real<T: Real>(op: Opcode, buf: &Buf<T>, kept: &[usize]) -> Result<Buf<T>> {
    Ok(match op {
        Opcode::Add => fold(buf, kept, |x, y| x + y),
        Opcode::Multiply => fold(buf, kept, |x, y| x * y),
        Opcode::Maximum => fold(buf, kept, maximum),
        Opcode::Minimum => fold(buf, kept, minimum),
        _ => return Err(super::undefined(op, crate::dtype::DType::F32)),
    })
}

fn fold<T: Element>(buf: &Buf<T>, kept: &[usize], op: impl Fn(T, T) -> T + Copy + Sync + Send) -> Buf<T> {
    let rank = kept.len();
    let n = buf.shape()[rank];
    let rows: usize = kept.iter().product();
    if rows == 0 {
        return Buf::from_elem(IxDyn(kept), T::default());
    }
    let flat = buf.to_shape((rows, n)).expect("the sizes are the buffer's");
    let flat = flat.view();
    let made: Array1<T> = match flat.strides()[1] == 1 || rows == 1 {
        true => {
            let zip = ndarray::Zip::from(flat.rows());
            if rows * n >= PARALLEL_FROM {
                zip.par_map_collect(|row| along(row, op))
            } else {
                zip.map_collect(|row| along(row, op))
            }
        }
        false => across(flat, op),
    };
    made.into_shape_with_order(IxDyn(kept)).expect("one per row").into_shared()
}

/// One row: leaves of partial sums, halves joined in a tree.
fn along<T: Element>(row: ArrayView1<T>, op: impl Fn(T, T) -> T + Copy + Sync + Send) -> T {
    let n = row.len();
    if n > LEAF {
        // Leaves are full, so that the tree depends on the length alone.
        let (a, b) = row.split_at(Axis(0), (n / 2).next_multiple_of(LEAF));
        return op(along(a, op), along(b, op));
    }
    match row.as_slice() {
        Some(slice) if n >= 2 * LANES => lanes(slice, op),
        _ => row.iter().skip(1).fold(row[0], |sum, &x| op(sum, x)),
    }
}

fn lanes<T: Element>(slice: &[T], op: impl Fn(T, T) -> T) -> T {
    let mut sums = [T::default(); LANES];
    sums.copy_from_slice(&slice[..LANES]);
    let chunks = slice[LANES..].chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, &x)| *sum = op(*sum, x));
    }
    let sum = sums[1..].iter().fold(sums[0], |sum, &x| op(sum, x));
    rest.iter().fold(sum, |sum, &x| op(sum, x))
}

/// All rows at once, column after column: for columns that lie together in memory.
fn across<T: Element>(flat: ArrayView2<T>, op: impl Fn(T, T) -> T + Copy + Sync + Send) -> Array1<T> {
    let n = flat.ncols();
    if n > LEAF {
        let (a, b) = flat.split_at(Axis(1), (n / 2).next_multiple_of(LEAF));
        let (mut a, b) = match flat.len() >= PARALLEL_FROM {
            true => rayon::join(|| across(a, op), || across(b, op)),
            false => (across(a, op), across(b, op)),
        };
        a.zip_mut_with(&b, |x, &y| *x = op(*x, y));
        return a;
    }
    let mut sums = flat.column(0).to_owned();
    for column in flat.columns().into_iter().skip(1) {
        sums.zip_mut_with(&column, |x, &y| *x = op(*x, y));
    }
    sums
}

/// A reduction's result for one pair of arrays: what collectives and windows combine with.
pub(crate) fn pair(call: &Call, combiner: &Combiner, a: Array, b: Array) -> Result<Array> {
    match combiner.single() {
        Some(op) => binary::apply(op, a, b),
        None => {
            let made = combiner.combine(call, vec![a], vec![b])?;
            Ok(made.into_iter().next().expect("one array gives one"))
        }
    }
}

#[cfg(test)]
mod tests;
