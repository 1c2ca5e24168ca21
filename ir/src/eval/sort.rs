//! `sort` and `topk`.

use super::combine::on_arrays;
use super::movement::{joined, transposed};
use super::reduce::one_or_tuple;
use super::select::choose;
use super::value::{Array, Data, Sizes, Value, each};
use super::{Call, binary};
use crate::attr::{Key, Value as Attr};
use crate::diag::{Diagnostic, Result};
use crate::dtype::{Class, DType};
use crate::module::CompId;
use crate::opcode::Opcode;
use ndarray::{ArrayD, Axis, IxDyn};

/// `sort` along one dimension, by a computation, equal elements in their old order.
///
/// Batcher's odd-even merge sort: its comparisons do not depend on the data, so that each of its steps is
/// one run of the computation on arrays. Old positions, compared last, make it stable.
pub(crate) fn sort(call: &Call, args: Vec<Value>) -> Result<Value> {
    let comp =
        call.view.instr.comp(Key::ToApply).ok_or_else(|| Diagnostic::error("no computation is named"))?;
    let along = call.view.instr.ints(Key::Dimensions).first().map_or(0, |&dim| dim as usize);
    let arrays = args.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    let rank = arrays[0].rank();
    if arrays[0].is_empty() {
        return Ok(one_or_tuple(arrays));
    }
    // The sorted dimension first.
    let order: Sizes = std::iter::once(along).chain((0..rank).filter(|&dim| dim != along)).collect();
    let mut back: Sizes = order.clone();
    order.iter().enumerate().for_each(|(at, &dim)| back[dim] = at);
    let mut arrays: Vec<Array> = arrays.into_iter().map(|array| transposed(array, &order)).collect();
    let n = arrays[0].dims()[0];
    arrays.push(numbered(arrays[0].dims()));
    for pairs in network(n) {
        arrays = exchanged(call, comp, arrays, &pairs)?;
    }
    arrays.pop();
    Ok(one_or_tuple(arrays.into_iter().map(|array| transposed(array, &back)).collect()))
}

/// Steps of disjoint pairs (lower, higher) that sort `n` elements.
fn network(n: usize) -> Vec<Vec<(usize, usize)>> {
    let mut steps = Vec::new();
    let mut width = 1;
    while width < n {
        let mut gap = width;
        while gap > 0 {
            let mut step = Vec::new();
            let mut from = gap % width;
            while from + gap < n {
                for low in from..(from + gap).min(n - gap) {
                    if low / (width * 2) == (low + gap) / (width * 2) {
                        step.push((low, low + gap));
                    }
                }
                from += gap * 2;
            }
            steps.push(step);
            gap /= 2;
        }
        width *= 2;
    }
    steps
}

/// Compares and, where out of order, exchanges rows of all arrays.
fn exchanged(call: &Call, comp: CompId, arrays: Vec<Array>, pairs: &[(usize, usize)]) -> Result<Vec<Array>> {
    let (low, high): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
    let side = |rows: &[usize]| -> Vec<Array> { arrays.iter().map(|array| picked(array, rows)).collect() };
    let (a, b) = (side(&low), side(&high));
    let swaps = out_of_order(call, comp, &a, &b)?;
    let mut made = Vec::with_capacity(arrays.len());
    for ((array, a), b) in arrays.iter().zip(a).zip(b) {
        let first = choose(swaps.clone(), b.clone(), a.clone())?;
        let second = choose(swaps.clone(), a, b)?;
        made.push(replaced(array, &low, first, &high, second)?);
    }
    Ok(made)
}

/// Where the second of a pair comes before the first; the last arrays are old positions.
fn out_of_order(call: &Call, comp: CompId, a: &[Array], b: &[Array]) -> Result<Array> {
    let n = a.len() - 1;
    let before = |x: &[Array], y: &[Array]| -> Result<Array> {
        let args = x[..n].iter().zip(&y[..n]).flat_map(|(x, y)| [x.clone(), y.clone()]).collect();
        let made = on_arrays(call, comp, args, a[0].dims())?;
        made.into_iter().next().ok_or_else(|| Diagnostic::error("a comparison made nothing"))
    };
    let (back, forth) = (before(b, a)?, before(a, b)?);
    let later =
        super::map::zip(b[n].clone().buf::<i64>()?.view(), a[n].clone().buf::<i64>()?.view(), |b, a| b < a);
    let later = Array::exact(DType::Pred, Data::Pred(later));
    let tied = binary::apply(Opcode::And, later, negated(forth)?)?;
    binary::apply(Opcode::Or, back, tied)
}

fn negated(array: Array) -> Result<Array> {
    let made = super::map::map_in_place(array.buf::<bool>()?, |x| !x);
    Ok(Array::exact(DType::Pred, Data::Pred(made)))
}

fn picked(array: &Array, rows: &[usize]) -> Array {
    let data = each!(array.clone().dense(), buf => buf.select(Axis(0), rows).into_shared());
    Array::exact(array.dtype(), data)
}

/// The array with new rows at `low` and `high`.
fn replaced(array: &Array, low: &[usize], first: Array, high: &[usize], second: Array) -> Result<Array> {
    let rows = array.dims()[0];
    // Where each row of the result is in (old rows, first, second).
    let mut from: Vec<usize> = (0..rows).collect();
    low.iter().enumerate().for_each(|(at, &row)| from[row] = rows + at);
    high.iter().enumerate().for_each(|(at, &row)| from[row] = rows + low.len() + at);
    Ok(picked(&joined(&[array.clone(), first, second], 0)?, &from))
}

/// The index along the first dimension.
fn numbered(dims: &[usize]) -> Array {
    let mut counts = ArrayD::<i64>::zeros(IxDyn(dims));
    counts.axis_iter_mut(Axis(0)).enumerate().for_each(|(index, mut row)| row.fill(index as i64));
    Array::exact(DType::S64, Data::Int(counts.into_shared()))
}

/// `topk`: the largest (or smallest) of the last dimension in order, and where they were.
pub(crate) fn topk(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let array = args.swap_remove(0).array()?;
    let largest = !matches!(call.view.instr.attr(Key::Largest), Some(Attr::Bool(false)));
    let k = call.view.instr.int(Key::K).map_or(1, |k| k as usize);
    let mut dims = array.dims().to_vec();
    let n = dims.pop().ok_or_else(|| Diagnostic::error("`topk` needs a dimension"))?;
    let rows: usize = dims.iter().product();
    if array.dtype().class() == Class::Complex {
        return Err(super::undefined(call.view.instr.op, array.dtype()));
    }
    let keys = sort_keys(&array);
    let mut places = Vec::with_capacity(rows * k);
    for row in 0..rows {
        let own = &keys[row * n..(row + 1) * n];
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| if largest { own[b].cmp(&own[a]) } else { own[a].cmp(&own[b]) });
        places.extend(order.iter().take(k).map(|&at| row * n + at));
    }
    let flat = array.reshaped(&[rows * n]);
    dims.push(k);
    let values = picked(&flat, &places).reshaped(&dims);
    let indices = places.into_iter().map(|place| (place % n.max(1)) as i64).collect();
    let indices = Array::from_vec(DType::S32, &dims, indices);
    let indices = indices.ok_or_else(|| Diagnostic::error("as many places as values"))?;
    Ok(Value::Tuple(vec![values.into(), indices.into()]))
}

/// Integers in the elements' order; floats in IEEE 754's total order.
fn sort_keys(array: &Array) -> Vec<i128> {
    let unsigned = array.dtype() == DType::U64;
    match array.clone().dense() {
        Data::Int(buf) => {
            buf.iter().map(|&x| if unsigned { i128::from(x as u64) } else { i128::from(x) }).collect()
        }
        Data::Pred(buf) => buf.iter().map(|&x| i128::from(x)).collect(),
        _ => array.to_f64_vec().into_iter().map(total).collect(),
    }
}

fn total(x: f64) -> i128 {
    let bits = x.to_bits() as i64;
    i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::network;
    use crate::eval::check::{check, result};

    #[test]
    fn the_network_sorts_all_sequences_of_zeros_and_ones() {
        for n in 0..=10 {
            let steps = network(n);
            for code in 0..1u32 << n {
                let mut bits: Vec<bool> = (0..n).map(|at| code >> at & 1 == 1).collect();
                for &(low, high) in steps.iter().flatten() {
                    if bits[low] & !bits[high] {
                        bits.swap(low, high);
                    }
                }
                assert!(bits.is_sorted(), "{n} {code:b}");
            }
        }
    }

    #[test]
    fn sorts_rows_columns_and_pairs() {
        check(
            "x: f32[5]; ROOT y = f32[5] sort(x), dimensions={0}, to_apply=less",
            &["{3, 1, 2, 5, 4}"],
            "{1, 2, 3, 4, 5}",
        );
        let columns = "x: f32[3,2]; ROOT y = f32[3,2] sort(x), dimensions={0}, to_apply=less";
        check(columns, &["{{3, 1}, {1, 2}, {2, 0}}"], "{{1, 0}, {2, 1}, {3, 2}}");
        let rows = "x: f32[2,3]; ROOT y = f32[2,3] sort(x), dimensions={1}, to_apply=less";
        check(rows, &["{{3, 1, 2}, {6, 5, 4}}"], "{{1, 2, 3}, {4, 5, 6}}");
    }

    #[test]
    fn equal_elements_keep_their_order() {
        let body = "x: f32[6]; i = s32[6] iota(), iota_dimension=0; ROOT y = (f32[6], s32[6]) sort(x, i), dimensions={0}, is_stable=true, to_apply=less_first";
        check(body, &["{2, 1, 2, 1, 2, 1}"], "({1, 1, 1, 2, 2, 2}, {1, 3, 5, 0, 2, 4})");
    }

    #[test]
    fn topk_takes_the_largest() {
        let body = "x: f32[2,4]; ROOT y = (f32[2,2], s32[2,2]) topk(x), k=2, largest=true";
        check(body, &["{{1, 4, 2, 4}, {-1, -2, -3, -4}}"], "({{4, 4}, {-1, -2}}, {{1, 3}, {0, 1}})");
    }

    #[test]
    fn topk_orders_every_type_either_way() {
        let topk = |dtype: &str, largest: bool, x: &str| {
            let n = x.split(',').count();
            result(
                &format!("x: {dtype}[{n}]; ROOT y = ({dtype}[2], s32[2]) topk(x), k=2, largest={largest}"),
                &[x],
            )
        };
        assert_eq!(topk("f32", false, "{3, 1, 2}"), "({1, 2}, {1, 2})");
        assert_eq!(topk("f64", true, "{-1, -3, -0, 0}"), "({0, -0}, {3, 2})");
        assert_eq!(topk("s32", true, "{-5, 7, 6}"), "({7, 6}, {1, 2})");
        assert_eq!(topk("u64", true, "{1, 18446744073709551615, 2}"), "({18446744073709551615, 2}, {1, 2})");
        assert_eq!(topk("s64", true, "{1, -1, 2}"), "({2, 1}, {2, 0})");
        assert_eq!(topk("pred", true, "{false, true, false}"), "({true, false}, {1, 0})");
        assert!(topk("c64", true, "{(1, 0), (2, 0)}").starts_with("error"));
    }

    #[test]
    fn the_middle_dimension_is_sorted_and_nothing_is_sorted_to_nothing() {
        let middle = "x: f32[2,3,1]; ROOT y = f32[2,3,1] sort(x), dimensions={1}, to_apply=less";
        check(middle, &["{{{3}, {1}, {2}}, {{6}, {5}, {4}}}"], "{{{1}, {2}, {3}}, {{4}, {5}, {6}}}");
        check("x: f32[0]; ROOT y = f32[0] sort(x), dimensions={0}, to_apply=less", &["{}"], "{}");
    }
}
