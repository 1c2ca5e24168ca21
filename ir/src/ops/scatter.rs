//! `scatter`: updates combined into an array at many computed places.

use super::gather::{Lookup, LookupKeys};
use super::maps::{dim, operand_dims};
use super::read::{
    DimList, Inferred, describe_array, dim_list, dims_of, expect_size, one_or_tuple, plain, same_dims,
};
use super::reducer::{DTypes, applied, check_reducer, common_reducer, is_neutral};
use crate::attr::Key;
use crate::eval::gather as eval;
use crate::fusion::{FusionKind, Touch};
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Reducer, Rule, TensorMap};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use crate::work::Work;

/// `scatter`: N arrays, indices, N updates, a computation that combines.
///
/// A device that holds a part of an indexed dimension drops the updates that fall outside; look-ups
/// that are split over devices combine partial results, which must not count the array's own values twice.
pub const SCATTER: OpDef = OpDef::new(Arity::AtLeast(3), infer, rule, work, FusionKind::Root)
    .touching(Touch::Scatter)
    .evaluated(eval::scatter);

pub(crate) const KEYS: LookupKeys = LookupKeys {
    picked: Key::InsertedWindowDims,
    batching: Key::InputBatchingDims,
    indices_batching: Key::ScatterIndicesBatchingDims,
    indexed: Key::ScatterDimsToOperandDims,
};

fn infer(view: &View) -> Inferred {
    let n_arrays = view.n_operands() / 2;
    expect_size(
        "the number of operands of `scatter`",
        2 * n_arrays.max(1) as i64 + 1,
        view.n_operands() as i64,
    )?;
    let (first, indices, update) = (view.array(0)?, view.array(n_arrays)?, view.array(n_arrays + 1)?);
    let lookup = Lookup::read(view, KEYS, first, indices)?;
    let mut dtypes = DTypes::new();
    for index in 0..n_arrays {
        same_dims(view, first, view.array(index)?)?;
        same_dims(view, update, view.array(n_arrays + 1 + index)?)?;
        super::read::mixed_dtype(view, view.array(index)?.dtype, view.array(n_arrays + 1 + index)?.dtype)?;
        dtypes.push(view.array(index)?.dtype);
    }
    check_reducer(view, Key::ToApply, &dtypes)?;
    check_update(view, &lookup, first, indices, update)?;
    let parts: Vec<Shape> = dtypes.into_iter().map(|dtype| plain(dtype, first.dims.clone())).collect();
    Ok(Some(one_or_tuple(parts)))
}

/// An update has the look-ups' dimensions and, at `update_window_dims`, the windows'.
fn check_update(
    view: &View,
    lookup: &Lookup,
    operand: &ArrayShape,
    indices: &ArrayShape,
    update: &ArrayShape,
) -> Result<(), String> {
    let (windows, counts) = (lookup.windowed(operand.rank()), lookup.counting(indices.rank()));
    let positions = dim_list(view, Key::UpdateWindowDims, update.rank())?;
    expect_size("the number of `update_window_dims`", windows.len() as i64, positions.len() as i64)?;
    expect_size("the rank of the update", (windows.len() + counts.len()) as i64, update.rank() as i64)?;
    if !positions.is_sorted() {
        return Err("`update_window_dims` must be sorted".to_owned());
    }
    let (mut windows, mut counts) = (windows.into_iter(), counts.into_iter());
    for (index, &size) in update.dims.iter().enumerate() {
        let fits = match positions.contains(&index) {
            true => windows.next().is_some_and(|dim| size <= operand.dims[dim]),
            false => counts.next().is_some_and(|dim| size == indices.dims[dim]),
        };
        if !fits {
            let (a, b, c) = (describe_array(update), describe_array(indices), describe_array(operand));
            return Err(format!("dimension {index} of update {a} fits neither indices {b} nor operand {c}"));
        }
    }
    Ok(())
}

fn rule(view: &View) -> Rule {
    let n_arrays = view.n_operands() / 2;
    let lookup = Lookup::verified(view, KEYS);
    let (operand, indices) = (operand_dims(view, 0), operand_dims(view, n_arrays));
    let update = operand_dims(view, n_arrays + 1);
    let windows = lookup.windowed(operand.len());
    let positions = dims_of(view, Key::UpdateWindowDims);
    let mut rule = Rule::default();
    let full = |dim: usize| match windows.iter().position(|&window| window == dim) {
        Some(at) => positions.get(at).is_some_and(|&position| update[position] == operand[dim]),
        None => lookup.batching.contains(&dim) || lookup.indexed.contains(&dim) || operand[dim] == 1,
    };
    let kind = |dim| if full(dim) { FactorKind::Pass } else { FactorKind::Replicate };
    let array: TensorMap =
        operand.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    let places = places(view, &mut rule, &lookup, &array, indices);
    let updates = updates(&mut rule, (&windows, &positions), (operand, &array), &lookup, &places, update);
    rule.operands.extend(std::iter::repeat_n(array.clone(), n_arrays));
    rule.operands.push(places);
    rule.operands.extend(std::iter::repeat_n(updates, n_arrays));
    rule.results.extend(std::iter::repeat_n(array, n_arrays));
    rule
}

/// How the updates of a scatter combine with its array, where splitting the look-ups would count the array's
/// own values several times: all devices but one start from neutral elements then.
pub fn counted_once(view: &View, array: usize) -> Option<Reducer> {
    common_reducer(view, Key::ToApply, view.n_operands() / 2)
        .filter(|&reducer| !is_neutral(view, array, reducer))
}

/// Look-ups reduce if the combination is known.
fn places(view: &View, rule: &mut Rule, lookup: &Lookup, array: &TensorMap, indices: &[i64]) -> TensorMap {
    let reducer = common_reducer(view, Key::ToApply, view.n_operands() / 2);
    let combine = reducer.map_or(FactorKind::Replicate, FactorKind::Reduce);
    let sizes = indices.iter().enumerate();
    sizes
        .map(|(index, &size)| match lookup.indices_batching.iter().position(|&dim| dim == index) {
            Some(at) => array[lookup.batching[at]].clone(),
            None if index == lookup.vector => dim(rule.factor(size, FactorKind::Replicate)),
            None => dim(rule.factor(size, combine)),
        })
        .collect()
}

fn updates(
    rule: &mut Rule,
    (windows, positions): (&DimList, &DimList),
    (operand, array): (&[i64], &TensorMap),
    lookup: &Lookup,
    places: &TensorMap,
    update: &[i64],
) -> TensorMap {
    let (mut windows, mut counts) = (windows.iter(), lookup.counting(places.len()).into_iter());
    let mut map = TensorMap::new();
    for (index, &size) in update.iter().enumerate() {
        let shared = match positions.contains(&index) {
            true => windows.next().filter(|&&dim| operand[dim] == size).map(|&dim| array[dim].clone()),
            false => counts.next().map(|dim| places[dim].clone()),
        };
        map.push(shared.unwrap_or_else(|| dim(rule.factor(size, FactorKind::Replicate))));
    }
    map
}

/// The computation once per update element.
fn work(view: &View) -> Work {
    let n_updates: f64 =
        operand_dims(view, view.n_operands() / 2 + 1).iter().map(|&size| size as f64).product();
    applied(view, Key::ToApply) * n_updates
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule};

    /// Two arrays of 9 elements, the places of two updates each.
    fn scatter(updates: &str) -> String {
        format!(
            "x: f32[9]; y: s32[9]; i: s32[2,1]; u: f32[2]; v: {updates}; ROOT r = (f32[9], s32[9]) scatter(x, y, i, u, v), to_apply=sums, update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1"
        )
    }

    #[test]
    fn every_array_has_an_update_of_its_own() {
        assert_eq!(error(&scatter("s32[2]")), "");
        for wrong in ["s32[3]", "pred[2]", "s32[2,1]"] {
            assert_ne!(error(&scatter(wrong)), "", "{wrong}");
        }
        let text = rule(&scatter("s32[2]"));
        assert!(text.starts_with("([a],[a],[") && text.contains(")->([a],[a]) {a=9"), "{text}");
    }
}
