//! `reduce-window` and `select-and-scatter`: all positions of a window at once, one element of it after the
//! other.

use super::combine::{Combiner, on_arrays};
use super::gather::{Update, positions, put};
use super::movement::{padded, strided};
use super::reduce::one_or_tuple;
use super::select::choose;
use super::value::{Array, Data, Sizes, Value};
use super::{Call, binary, convert};
use crate::attr::{Key, PadDim, SliceDim, Value as Attr, WindowDim};
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::opcode::Opcode;
use ndarray::{ArrayD, IxDyn};

fn window<'a>(call: &Call<'a>) -> Result<&'a [WindowDim]> {
    match call.view.instr.attr(Key::Window) {
        Some(Attr::Window(window)) => Ok(&window.dims),
        _ => Err(Diagnostic::error("a window is needed")),
    }
}

/// The array as windows see it: padded around and between.
fn widened(call: &Call, array: Array, value: Array, window: &[WindowDim]) -> Result<Array> {
    let sizes = array.dims().iter().zip(window).map(|(&size, dim)| span(size as i64, dim));
    call.check_size(array.dtype(), &sizes.collect::<Vec<_>>())?;
    let pad = |dim: &WindowDim| PadDim { low: dim.pad_low, high: dim.pad_high, interior: dim.lhs_dilate - 1 };
    let padding: Vec<PadDim> = window.iter().map(pad).collect();
    match padding.iter().all(|pad| *pad == PadDim::default()) {
        true => Ok(array),
        false => padded(array, value, &padding),
    }
}

/// Size of a dimension with its padding and holes, as large as can be said.
fn span(size: i64, dim: &WindowDim) -> i64 {
    let inner = size.saturating_sub(1).saturating_mul(dim.lhs_dilate).saturating_add(1);
    inner.saturating_add(dim.pad_low).saturating_add(dim.pad_high).max(0)
}

/// The element at place `at` of the window, at every position of the window.
fn element(array: &Array, window: &[WindowDim], at: &[usize], made: &[usize]) -> Array {
    let bound = |dim: usize| {
        let own = &window[dim];
        let index = if own.reversed { own.size - 1 - at[dim] as i64 } else { at[dim] as i64 };
        let start = index * own.rhs_dilate;
        SliceDim { start, limit: start + (made[dim] as i64 - 1) * own.stride + 1, stride: own.stride }
    };
    let bounds: Vec<SliceDim> = (0..window.len()).map(bound).collect();
    strided(array.clone(), &bounds)
}

fn sizes(window: &[WindowDim]) -> Sizes {
    window.iter().map(|dim| dim.size as usize).collect()
}

/// `reduce-window`.
pub(crate) fn reduce_window(call: &Call, args: Vec<Value>) -> Result<Value> {
    let mut arrays = args.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    let initial = arrays.split_off(arrays.len() / 2);
    let window = window(call)?;
    let combiner = Combiner::of(call, Key::ToApply, arrays.len())?;
    let made = call.view.instr.shape.leaves();
    let made =
        made.first().and_then(|leaf| leaf.as_array()).ok_or_else(|| Diagnostic::error("arrays are made"))?;
    let dims = super::value::sizes(&made.dims)?;
    let spread = |array: &Array| if dims.is_empty() { array.clone() } else { array.clone().spread(&dims) };
    let mut sums: Vec<Array> = initial.iter().map(spread).collect();
    if dims.contains(&0) {
        return Ok(one_or_tuple(sums));
    }
    let wide =
        arrays.into_iter().zip(&initial).map(|(array, value)| widened(call, array, value.clone(), window));
    let wide = wide.collect::<Result<Vec<_>>>()?;
    for at in positions(&sizes(window)) {
        let elements = wide.iter().map(|array| element(array, window, &at, &dims)).collect();
        sums = combiner.combine(call, sums, elements)?;
    }
    Ok(one_or_tuple(sums))
}

/// `select-and-scatter`: each window's selected element gets the source's value at the window's position.
pub(crate) fn select_and_scatter(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let (initial, source) = (args.swap_remove(2).array()?, args.swap_remove(1).array()?);
    let array = args.swap_remove(0).array()?;
    let (window, dims, dtype) = (window(call)?, array.dims().to_vec(), array.dtype());
    let targets = if source.is_empty() { Vec::new() } else { selected(call, &array, window, source.dims())? };
    let combiner = scatter_combiner(call)?;
    let total: usize = dims.iter().product();
    let start = convert::convert(initial, dtype).spread(&[total]);
    let updates = convert::convert(source, dtype);
    let updates = vec![updates.reshaped(&[targets.len()])];
    let made = put(call, &Update::Combine(combiner), vec![start], &targets, updates)?;
    Ok(one_or_tuple(made.into_iter().map(|array| array.reshaped(&dims)).collect()))
}

fn scatter_combiner(call: &Call) -> Result<Combiner> {
    Combiner::of(call, Key::Scatter, 1)
}

/// Per window position the flat place of the element that is selected; nothing where padding is all there is.
fn selected(call: &Call, array: &Array, window: &[WindowDim], made: &[usize]) -> Result<Vec<Option<usize>>> {
    let select = call.view.instr.comp(Key::Select);
    let select = select.ok_or_else(|| Diagnostic::error("no computation is named"))?;
    let places = widened(call, numbered(array.dims()), Array::scalar(DType::S64, -1i64), window)?;
    let wide = widened(call, array.clone(), Array::zeros(array.dtype(), &[]), window)?;
    let mut best: Option<(Array, Array)> = None;
    for at in positions(&sizes(window)) {
        let (value, place) = (element(&wide, window, &at, made), element(&places, window, &at, made));
        best = Some(match best {
            None => (value, place),
            Some((old, old_place)) => {
                let keeps = on_arrays(call, select, vec![old.clone(), value.clone()], made)?;
                let keeps =
                    keeps.into_iter().next().ok_or_else(|| Diagnostic::error("nothing is selected"))?;
                let keeps = chosen_before(keeps, &old_place, &place)?;
                (choose(keeps.clone(), old, value)?, choose(keeps, old_place, place)?)
            }
        });
    }
    let places = best.ok_or_else(|| Diagnostic::error("a window without elements"))?.1.buf::<i64>()?;
    Ok(places.iter().map(|&place| usize::try_from(place).ok()).collect())
}

/// Padding is never selected: whether the old element stays.
fn chosen_before(keeps: Array, old: &Array, new: &Array) -> Result<Array> {
    let is_real = |place: &Array| -> Result<Array> {
        let real = super::map::map(place.clone().buf::<i64>()?.view(), |place| place >= 0);
        Ok(Array::exact(DType::Pred, Data::Pred(real)))
    };
    let new_is_padding = {
        let real = is_real(new)?.buf::<bool>()?;
        Array::exact(DType::Pred, Data::Pred(super::map::map_in_place(real, |real| !real)))
    };
    let stays = binary::apply(Opcode::Or, keeps, new_is_padding)?;
    binary::apply(Opcode::And, stays, is_real(old)?)
}

/// 0, 1, 2, … in row-major order.
fn numbered(dims: &[usize]) -> Array {
    let n: usize = dims.iter().product();
    let numbers = ArrayD::from_shape_vec(IxDyn(dims), (0..n as i64).collect()).expect("as many as there are");
    Array::exact(DType::S64, Data::Int(numbers.into_shared()))
}

#[cfg(test)]
mod tests {
    use crate::eval::check::{check, result};

    #[test]
    fn windows_slide_over_padding_and_holes() {
        let sum = |window: &str, size: usize| {
            let body = format!(
                "x: f32[4]; z = f32[] constant(0); ROOT y = f32[{size}] reduce-window(x, z), window={{{window}}}, to_apply=add"
            );
            result(&body, &["{1, 2, 3, 4}"])
        };
        assert_eq!(sum("size=2", 3), "{3, 5, 7}");
        assert_eq!(sum("size=2 stride=2", 2), "{3, 7}");
        assert_eq!(sum("size=4 pad=3_0", 4), "{1, 3, 6, 10}");
        assert_eq!(sum("size=2 lhs_dilate=2", 6), "{1, 2, 2, 3, 3, 4}");
        assert_eq!(sum("size=2 rhs_dilate=2", 2), "{4, 6}");
        assert_eq!(sum("size=2 pad=-1_0", 2), "{5, 7}");
    }

    #[test]
    fn other_computations_see_elements_in_order() {
        let body = "x: f32[4]; i = s32[4] iota(), iota_dimension=0; m = f32[] constant(-inf); z = s32[] constant(9); ROOT y = (f32[2], s32[2]) reduce-window(x, i, m, z), window={size=2 stride=2}, to_apply=argmax";
        check(body, &["{3, 1, 2, 7}"], "({3, 7}, {0, 3})");
    }

    #[test]
    fn gradients_of_a_maximum_go_to_the_maximum() {
        let body = "x: f32[4]; s: f32[2]; z = f32[] constant(0); ROOT y = f32[4] select-and-scatter(x, s, z), window={size=2 stride=2}, select=ge, scatter=add";
        check(body, &["{3, 1, 7, 7}", "{10, 20}"], "{10, 0, 20, 0}");
        let overlapping = "x: f32[3]; s: f32[2]; z = f32[] constant(0); ROOT y = f32[3] select-and-scatter(x, s, z), window={size=2}, select=ge, scatter=add";
        check(overlapping, &["{1, 5, 2}", "{10, 20}"], "{0, 30, 0}");
        let padded = "x: f32[2]; s: f32[2]; z = f32[] constant(0); ROOT y = f32[2] select-and-scatter(x, s, z), window={size=2 pad=1_0}, select=ge, scatter=add";
        check(padded, &["{-5, -6}", "{10, 20}"], "{30, 0}");
        let no_window = "x: f32[1]; s: f32[0]; z = f32[] constant(3); ROOT y = f32[1] select-and-scatter(x, s, z), window={size=3}, select=ge, scatter=add";
        check(no_window, &["{-5}", "{}"], "{3}");
    }

    #[test]
    fn windows_may_be_reversed_and_are_refused_where_their_padding_does_not_fit() {
        let reversed = "x: f32[3]; z = f32[] constant(0); ROOT r = f32[2] reduce-window(x, z), window={size=2 rhs_reversal=1}, to_apply=add";
        check(reversed, &["{1, 2, 3}"], "{3, 5}");
        let wide = "x: f32[2]; z = f32[] constant(0); ROOT r = f32[4] reduce-window(x, z), window={size=2 stride=1000000000 pad=0_3000000000}, to_apply=add";
        check(wide, &["{1, 2}"], "error: an array of 12.0 GB is above the limit of 8.0 GB");
    }
}
