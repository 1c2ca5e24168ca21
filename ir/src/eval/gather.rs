//! `gather` and `scatter`: slices of arrays at many computed places.

use super::combine::Combiner;
use super::movement::transposed;
use super::reduce::one_or_tuple;
use super::source::indices;
use super::value::{Array, Buf, Data, Element, Sizes, Value, each};
use super::{Call, convert};
use crate::attr::Key;
use crate::diag::Result;
use crate::module::Payload;
use crate::opcode::Opcode;
use crate::ops::gather::Lookup;
use crate::ops::{gather, scatter};
use crate::view::View;
use ndarray::{ArrayD, IxDyn};

/// Where every look-up's window starts, and where the elements of a window lie behind its start.
struct Places {
    /// Per look-up the flat index of its window's first element; `None` if the window sticks out.
    starts: Vec<Option<usize>>,
    /// Flat offsets of a window's elements, in order.
    offsets: Vec<usize>,
    /// Sizes of the dimensions that count look-ups.
    counts: Sizes,
    /// Sizes of the window's dimensions, without those that are picked.
    window: Sizes,
}

impl Places {
    /// `window`: the window's size in every dimension of the array. Starts are clamped, or outside is `None`.
    fn of(lookup: &Lookup, dims: &[usize], window: &[usize], indices: &Buf<i64>, clamps: bool) -> Places {
        let strides = strides(dims);
        let kept: Sizes = lookup.windowed(dims.len()).into_iter().collect();
        let counting: Sizes = lookup.counting(indices.ndim()).into_iter().collect();
        let counts: Sizes = counting.iter().map(|&dim| indices.shape()[dim]).collect();
        let mut at = vec![0; indices.ndim()];
        let start = |count: Sizes| {
            counting.iter().zip(&count).for_each(|(&dim, &index)| at[dim] = index);
            start(lookup, dims, window, indices, &mut at, clamps)
                .map(|start| start.iter().zip(&strides).map(|(index, stride)| index * stride).sum())
        };
        let starts = positions(&counts).map(start).collect();
        let sizes: Sizes = kept.iter().map(|&dim| window[dim]).collect();
        let offset = |at: Sizes| at.iter().zip(&kept).map(|(index, &dim)| index * strides[dim]).sum();
        let offsets = positions(&sizes).map(offset).collect();
        Places { starts, offsets, counts, window: sizes }
    }
}

/// The first element of one look-up's window.
fn start(
    lookup: &Lookup,
    dims: &[usize],
    window: &[usize],
    indices: &Buf<i64>,
    at: &mut [usize],
    clamps: bool,
) -> Option<Vec<usize>> {
    let mut start = vec![0; dims.len()];
    for (&dim, &index_dim) in lookup.batching.iter().zip(&lookup.indices_batching) {
        start[dim] = at[index_dim];
    }
    for (component, &dim) in lookup.indexed.iter().enumerate() {
        if lookup.vector < indices.ndim() {
            at[lookup.vector] = component;
        }
        let (index, last) = (indices[IxDyn(at)], dims[dim].checked_sub(window[dim]));
        start[dim] = match usize::try_from(index).ok().filter(|index| last.is_some_and(|last| *index <= last))
        {
            Some(index) => index,
            None if clamps => {
                if index < 0 {
                    0
                } else {
                    last.unwrap_or(0)
                }
            }
            None => return None,
        };
    }
    Some(start)
}

fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim];
    }
    strides
}

/// Every index of an array of these sizes, in row-major order.
pub(crate) fn positions(dims: &[usize]) -> impl Iterator<Item = Sizes> + use<> {
    let dims: Sizes = dims.into();
    let mut next: Option<Sizes> = dims.iter().all(|&size| size > 0).then(|| dims.iter().map(|_| 0).collect());
    std::iter::from_fn(move || {
        let found = next.clone()?;
        let mut at = found.clone();
        let carried = (0..dims.len()).rev().find(|&dim| {
            at[dim] = (at[dim] + 1) % dims[dim];
            at[dim] != 0
        });
        next = carried.map(|_| at);
        Some(found)
    })
}

/// Where the dimensions of (look-ups, windows) are in an array with windows at `offsets`.
fn order(rank: usize, offsets: &[i64]) -> Sizes {
    let n_counts = rank - offsets.len();
    let (mut count, mut window) = (0..n_counts, n_counts..rank);
    (0..rank)
        .map(|dim| if offsets.contains(&(dim as i64)) { window.next() } else { count.next() })
        .map(|dim| dim.expect("as many offsets as windowed dimensions"))
        .collect()
}

/// `gather`: starts are clamped so that windows lie inside.
pub(crate) fn gather(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let places = indices(args.swap_remove(1).array()?)?;
    let array = args.swap_remove(0).array()?;
    let lookup = Lookup::verified(&call.view, gather::KEYS);
    let window: Vec<usize> =
        call.view.instr.ints(Key::SliceSizes).iter().map(|&size| size as usize).collect();
    let places = Places::of(&lookup, array.dims(), &window, &places, true);
    let dims: Vec<usize> = places.counts.iter().chain(&places.window).copied().collect();
    let dtype = array.dtype();
    let data = each!(array.dense(), buf => {
        let made = taken(&buf, &places);
        ArrayD::from_shape_vec(IxDyn(&dims), made).expect("a window per look-up").into_shared()
    });
    let made = Array::exact(dtype, data);
    Ok(transposed(made, &order(dims.len(), call.view.instr.ints(Key::OffsetDims))).into())
}

fn taken<T: Element>(buf: &Buf<T>, places: &Places) -> Vec<T> {
    let flat = buf.as_standard_layout();
    let flat = flat.as_slice().expect("in order");
    let mut made = Vec::with_capacity(places.starts.len() * places.offsets.len());
    let run = places.offsets.iter().enumerate().all(|(at, &offset)| at == offset);
    for start in places.starts.iter().flatten() {
        match run {
            true => made.extend_from_slice(&flat[*start..start + places.offsets.len()]),
            false => made.extend(places.offsets.iter().map(|offset| flat[start + offset])),
        }
    }
    made
}

/// `scatter`: updates whose window sticks out are skipped, others are combined in order.
pub(crate) fn scatter(call: &Call, args: Vec<Value>) -> Result<Value> {
    let n = args.len() / 2;
    let mut arrays = args.into_iter().map(Value::array).collect::<Result<Vec<_>>>()?;
    let updates = arrays.split_off(n + 1);
    let at = indices(arrays.swap_remove(n))?;
    let lookup = Lookup::verified(&call.view, scatter::KEYS);
    let (dims, positions) = (arrays[0].dims().to_vec(), call.view.instr.ints(Key::UpdateWindowDims));
    let window = windows(&lookup, dims.len(), positions, updates[0].dims());
    let places = Places::of(&lookup, &dims, &window, &at, false);
    // Updates in the order of look-ups and windows.
    let mut by_lookup = vec![0; updates[0].rank()];
    order(updates[0].rank(), positions).iter().enumerate().for_each(|(dim, &from)| by_lookup[from] = dim);
    let targets: Vec<Option<usize>> = places
        .starts
        .iter()
        .flat_map(|start| places.offsets.iter().map(move |offset| start.map(|start| start + offset)))
        .collect();
    let flat = |array: Array, dtype| {
        let array = transposed(convert::convert(array, dtype), &by_lookup);
        array.reshaped(&[targets.len()])
    };
    let updates =
        updates.into_iter().zip(&arrays).map(|(update, array)| flat(update, array.dtype())).collect();
    let total: usize = dims.iter().product();
    let arrays = arrays.into_iter().map(|array| array.reshaped(&[total])).collect();
    let made = put(call, &Update::of(call, n)?, arrays, &targets, updates)?;
    Ok(one_or_tuple(made.into_iter().map(|array| array.reshaped(&dims)).collect()))
}

/// The window's size in every dimension of the array.
fn windows(lookup: &Lookup, rank: usize, positions: &[i64], update: &[usize]) -> Vec<usize> {
    let mut window = vec![1; rank];
    for (&dim, &position) in lookup.windowed(rank).iter().zip(positions) {
        window[dim] = update[position as usize];
    }
    window
}

/// What an update does to an element.
pub(crate) enum Update {
    /// It takes its place.
    Replace,
    /// Both are combined.
    Combine(Combiner),
}

impl Update {
    fn of(call: &Call, n_arrays: usize) -> Result<Update> {
        match replaces(&call.view) && n_arrays == 1 {
            true => Ok(Update::Replace),
            false => Ok(Update::Combine(Combiner::of(call, Key::ToApply, n_arrays)?)),
        }
    }
}

/// Whether the computation returns the update.
fn replaces(view: &View) -> bool {
    let comp = view.instr.comp(Key::ToApply).map(|comp| view.comp(comp));
    comp.is_some_and(|comp| matches!(comp.root().payload, Payload::Parameter(1)))
}

/// Flat arrays with updates at flat places, in order; `None` is no place.
pub(crate) fn put(
    call: &Call,
    update: &Update,
    mut arrays: Vec<Array>,
    targets: &[Option<usize>],
    mut updates: Vec<Array>,
) -> Result<Vec<Array>> {
    let combiner = match update {
        Update::Replace => {
            return Ok(vec![replaced(arrays.swap_remove(0), targets, updates.swap_remove(0))?]);
        }
        Update::Combine(combiner) => combiner,
    };
    if combiner.single() == Some(Opcode::Add) && matches!(arrays[0].clone().stored(), Data::F32(_)) {
        let dtype = arrays[0].dtype();
        let add = |x: f32, y: f32| super::round::narrow(dtype, f64::from(x + y));
        return Ok(vec![placed(arrays.swap_remove(0), targets, updates.swap_remove(0), add)?]);
    }
    rounds(call, combiner, arrays, targets, &updates)
}

fn placed<T: Element>(
    array: Array,
    targets: &[Option<usize>],
    updates: Array,
    f: impl Fn(T, T) -> T,
) -> Result<Array> {
    let dtype = array.dtype();
    let (mut own, updates) = (array.buf::<T>()?.into_owned(), updates.buf::<T>()?);
    for (target, &update) in targets.iter().zip(updates.iter()) {
        if let Some(target) = *target {
            own[target] = f(own[target], update);
        }
    }
    Ok(Array::exact(dtype, T::wrap(own.into_shared())))
}

/// Updates of different places at once; those that meet in one place one after the other.
fn rounds(
    call: &Call,
    combiner: &Combiner,
    mut arrays: Vec<Array>,
    targets: &[Option<usize>],
    updates: &[Array],
) -> Result<Vec<Array>> {
    let total = arrays[0].len();
    let mut pending: Vec<usize> = (0..targets.len()).filter(|&at| targets[at].is_some()).collect();
    let mut round = vec![0usize; total];
    let mut current = 0;
    while !pending.is_empty() {
        current += 1;
        let mut fresh = |at: &usize| {
            targets[*at].is_some_and(|target| std::mem::replace(&mut round[target], current) != current)
        };
        let (now, later): (Vec<usize>, Vec<usize>) = pending.into_iter().partition(|at| fresh(at));
        let places: Vec<usize> = now.iter().filter_map(|&at| targets[at]).collect();
        let old = arrays.iter().map(|array| picked(array, &places)).collect();
        let new = updates.iter().map(|update| picked(update, &now)).collect();
        let made = combiner.combine(call, old, new)?;
        let all: Vec<Option<usize>> = places.into_iter().map(Some).collect();
        arrays = arrays
            .into_iter()
            .zip(made)
            .map(|(array, made)| replaced(array, &all, made))
            .collect::<Result<_>>()?;
        pending = later;
    }
    Ok(arrays)
}

/// The elements of a flat array at these places.
fn picked(array: &Array, places: &[usize]) -> Array {
    let dtype = array.dtype();
    let data = each!(array.clone().dense(), buf => {
        let values: Vec<_> = places.iter().map(|&at| buf[at]).collect();
        ArrayD::from_shape_vec(IxDyn(&[places.len()]), values).expect("one per place").into_shared()
    });
    Array::exact(dtype, data)
}

fn replaced(array: Array, targets: &[Option<usize>], made: Array) -> Result<Array> {
    match Data::zeros(array.dtype(), &[]) {
        Data::Pred(_) => placed::<bool>(array, targets, made, |_, y| y),
        Data::Int(_) => placed::<i64>(array, targets, made, |_, y| y),
        Data::F32(_) => placed::<f32>(array, targets, made, |_, y| y),
        Data::F64(_) => placed::<f64>(array, targets, made, |_, y| y),
        Data::C64(_) => placed::<num_complex::Complex<f32>>(array, targets, made, |_, y| y),
        Data::C128(_) => placed::<num_complex::Complex<f64>>(array, targets, made, |_, y| y),
    }
}

#[cfg(test)]
mod tests {
    use crate::eval::check::{check, result};

    const MATRIX: &str = "{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}";

    #[test]
    fn rows_are_looked_up_and_clamped() {
        let body = "x: f32[3,3]; i: s32[2,1]; ROOT y = f32[2,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}";
        check(body, &[MATRIX, "{{2}, {0}}"], "{{7, 8, 9}, {1, 2, 3}}");
        check(body, &[MATRIX, "{{99}, {-1}}"], "{{7, 8, 9}, {1, 2, 3}}");
    }

    #[test]
    fn windows_may_come_first_and_batches_go_along() {
        let columns = "x: f32[3,3]; i: s32[2]; ROOT y = f32[3,2] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={3,1}";
        check(columns, &[MATRIX, "{2, 0}"], "{{3, 1}, {6, 4}, {9, 7}}");
        let diagonal = "x: f32[3,3]; i: s32[3,1]; ROOT y = f32[3] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={1,1}";
        check(diagonal, &[MATRIX, "{{2}, {1}, {0}}"], "{3, 5, 7}");
    }

    #[test]
    fn a_gather_of_one_window_is_a_dynamic_slice() {
        let gather = "x: f32[3,3]; i: s32[2]; ROOT y = f32[2,2] gather(x, i), offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={2,2}";
        let slice =
            "x: f32[3,3]; i: s32[2]; ROOT y = f32[2,2] dynamic-slice(x, i), dynamic_slice_sizes={2,2}";
        for start in ["{0, 1}", "{1, 0}", "{2, 2}", "{-5, 1}"] {
            assert_eq!(result(gather, &[MATRIX, start]), result(slice, &[MATRIX, start]));
        }
    }

    #[test]
    fn updates_are_combined_in_order_or_skipped_outside() {
        let scatter = |comp: &str| {
            format!(
                "x: f32[3]; i: s32[4,1]; u: f32[4]; ROOT y = f32[3] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={comp}"
            )
        };
        let inputs = ["{1, 2, 3}", "{{0}, {2}, {0}, {9}}", "{10, 20, 30, 40}"];
        check(&scatter("add"), &inputs, "{41, 2, 23}");
        check(&scatter("set"), &inputs, "{30, 2, 20}");
        check(&scatter("max"), &inputs, "{30, 2, 20}");
        check(&scatter("halve"), &inputs, "{17.75, 2, 11.5}");
    }

    #[test]
    fn windows_of_updates_lie_where_the_index_says() {
        let body = "x: f32[3,3]; i: s32[1,1]; u: f32[3,1]; ROOT y = f32[3,3] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add";
        check(body, &[MATRIX, "{{1}}", "{{10}, {20}, {30}}"], "{{1, 12, 3}, {4, 25, 6}, {7, 38, 9}}");
    }
}
