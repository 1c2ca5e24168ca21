//! Ops that slide a window and apply a computation: `reduce-window`, `select-and-scatter`.

use super::maps::{dim, operand_dims, result_dims, scalars};
use super::read::{
    Inferred, describe_array, expect_scalar, expect_size, like, mixed_dtype, one_or_tuple, plain, same_dims,
};
use super::reducer::{DTypes, applied, check_reducer, check_selection};
use super::windowed::window_size;
use crate::attr::{Key, Value, WindowDim};
use crate::eval::window as eval;
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef, Opcode};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims, Shape};
use crate::view::View;
use crate::work::Work;

/// `reduce-window`: a reduction per window position.
pub const REDUCE_WINDOW: OpDef = OpDef::new(
    Arity::AtLeast(2),
    infer_reduce_window,
    rule_reduce_window,
    work_reduce_window,
    FusionKind::Root,
)
.evaluated(eval::reduce_window);
/// `select-and-scatter`: the gradient of a maximum over windows.
pub const SELECT_AND_SCATTER: OpDef = OpDef::new(
    Arity::Exactly(3),
    infer_select_and_scatter,
    rule_select_and_scatter,
    work_select_and_scatter,
    FusionKind::Opaque,
)
.evaluated(eval::select_and_scatter);

/// The window, which must have a dimension for each of the operand's.
fn window<'a>(view: &View<'a>, operand: &ArrayShape) -> Result<&'a [WindowDim], String> {
    let dims = written_window(view);
    expect_size("the number of window dimensions", operand.rank() as i64, dims.len() as i64)?;
    Ok(dims)
}

fn written_window<'a>(view: &View<'a>) -> &'a [WindowDim] {
    match view.instr.attr(Key::Window) {
        Some(Value::Window(window)) => &window.dims,
        _ => &[],
    }
}

fn positions(operand: &ArrayShape, window: &[WindowDim]) -> Result<Dims, String> {
    operand.dims.iter().zip(window).map(|(&size, dim)| window_size(size, dim)).collect()
}

fn infer_reduce_window(view: &View) -> Inferred {
    let n_pairs = view.n_operands() / 2;
    let first = view.array(0)?;
    expect_size(
        "the number of operands of `reduce-window`",
        2 * n_pairs.max(1) as i64,
        view.n_operands() as i64,
    )?;
    let mut dtypes = DTypes::new();
    for index in 0..n_pairs {
        let operand = view.array(index)?;
        same_dims(view, first, operand)?;
        mixed_dtype(view, operand.dtype, expect_scalar(view, n_pairs + index)?)?;
        dtypes.push(operand.dtype);
    }
    let made = check_reducer(view, Key::ToApply, &dtypes)?;
    let dims = positions(first, window(view, first)?)?;
    let parts: Vec<Shape> = made.into_iter().map(|dtype| plain(dtype, dims.clone())).collect();
    Ok(Some(one_or_tuple(parts)))
}

/// A dimension that no window touches passes; others need their neighbours.
fn kind(window: &[WindowDim], dim: usize) -> FactorKind {
    match window.get(dim) {
        Some(dim) if !dim.is_trivial() => FactorKind::Permute,
        _ => FactorKind::Pass,
    }
}

/// Factors of the operand and their use by a tensor of window positions.
fn maps(rule: &mut Rule, window: &[WindowDim], operand: &[i64], windowed: &[i64]) -> (TensorMap, TensorMap) {
    let own = |(index, &size): (usize, &i64)| dim(rule.factor(size, kind(window, index)));
    let map: TensorMap = operand.iter().enumerate().map(own).collect();
    // Equal sizes do not make the same loop when a window moves elements about.
    let other = windowed.iter().enumerate().map(|(index, &size)| match kind(window, index) {
        FactorKind::Permute => dim(rule.factor(size, FactorKind::Permute)),
        _ => map[index].clone(),
    });
    let other = other.collect();
    (map, other)
}

fn rule_reduce_window(view: &View) -> Rule {
    let (n_pairs, mut rule) = (view.n_operands() / 2, Rule::default());
    let (operand, result) = maps(&mut rule, written_window(view), operand_dims(view, 0), result_dims(view));
    rule.operands.extend(std::iter::repeat_n(operand, n_pairs));
    scalars(&mut rule, n_pairs);
    rule.results.extend(std::iter::repeat_n(result, n_pairs));
    rule
}

fn n_window(view: &View) -> f64 {
    written_window(view).iter().map(|dim| dim.size as f64).product()
}

/// One combination less than the window has elements, per position.
fn work_reduce_window(view: &View) -> Work {
    let leaves = view.instr.shape.leaves();
    let Some(result) = leaves.first().and_then(|leaf| leaf.as_array()) else { return Work::default() };
    let combined = match broadcast_reduction(view, result) {
        Some(span) => result.n_elements() / span + (span - 1.0),
        None => (n_window(view) - 1.0).max(0.0) * result.n_elements(),
    };
    applied(view, Key::ToApply) * combined
}

/// How long the windows are that XLA cuts a scan into (`xla_reduce_window_rewrite_base_length`).
const SCAN_BASE: f64 = 16.0;

/// The work of a scan, where each position reduces all elements up to it, as XLA runs it: a tree of scans of
/// [`SCAN_BASE`] elements (`reduce_window_rewriter.h`) in place of one combination per pair of elements.
pub(crate) fn scan_work(view: &View) -> Option<Work> {
    let (window, dims) = (written_window(view), operand_dims(view, 0));
    let mut wide = window.iter().zip(dims).filter(|(dim, _)| dim.size != 1);
    let ((dim, &size), None) = (wide.next()?, wide.next()) else { return None };
    let pads = [dim.pad_low, dim.pad_high];
    let is_scan = view.instr.op == Opcode::ReduceWindow
        && dim.size == size
        && pads.contains(&0)
        && pads.contains(&(size - 1))
        && [dim.stride, dim.lhs_dilate, dim.rhs_dilate] == [1; 3];
    let n_elements: f64 = dims.iter().map(|&size| size as f64).product();
    is_scan.then(|| applied(view, Key::ToApply) * (n_elements * scan_steps(size as f64)))
}

/// Combinations per element of a scan of so many.
fn scan_steps(size: f64) -> f64 {
    match size > SCAN_BASE {
        true => SCAN_BASE + scan_steps((size / SCAN_BASE).ceil()) / SCAN_BASE,
        false => size - 1.0,
    }
}

/// XLA counts a window that always covers the whole of one dimension as one reduction, broadcast back.
fn broadcast_reduction(view: &View, result: &ArrayShape) -> Option<f64> {
    let window = written_window(view);
    let n_wide = window.iter().filter(|dim| dim.size != 1).count();
    let n_padded = window.iter().filter(|dim| dim.pad_low != 0 || dim.pad_high != 0).count();
    if n_wide != 1 || n_padded != 1 || matches!(view.instr.shape, Shape::Tuple(_)) {
        return None;
    }
    let covers = |dim: &WindowDim| {
        dim.size != 1
            && dim.pad_low > 0
            && dim.pad_low == dim.pad_high
            && (dim.size - 1) / 2 == dim.pad_low
            && dim.size % 2 == 1
    };
    let at = window.iter().position(covers)?;
    let span = *result.dims.get(at)?;
    (window[at].pad_low == span - 1).then_some(span as f64)
}

fn infer_select_and_scatter(view: &View) -> Inferred {
    let (operand, source) = (view.array(0)?, view.array(1)?);
    mixed_dtype(view, operand.dtype, source.dtype)?;
    mixed_dtype(view, operand.dtype, expect_scalar(view, 2)?)?;
    let dims = positions(operand, window(view, operand)?)?;
    if dims != source.dims {
        let wanted = describe_array(&ArrayShape::new(source.dtype, &dims));
        return Err(format!(
            "operand 1 of `select-and-scatter` must be {wanted}, got {}",
            describe_array(source)
        ));
    }
    check_selection(view, Key::Select, operand.dtype)?;
    check_reducer(view, Key::Scatter, &[operand.dtype])?;
    Ok(Some(like(operand)))
}

fn rule_select_and_scatter(view: &View) -> Rule {
    let mut rule = Rule::default();
    let (operand, source) =
        maps(&mut rule, written_window(view), operand_dims(view, 0), operand_dims(view, 1));
    rule.operands.extend([operand.clone(), source, TensorMap::new()]);
    rule.results.push(operand);
    rule
}

/// Per source element: the window is searched, then one element is scattered.
fn work_select_and_scatter(view: &View) -> Work {
    let n_source: f64 = operand_dims(view, 1).iter().map(|&size| size as f64).product();
    applied(view, Key::Select) * (n_source * (n_window(view) - 1.0).max(0.0))
        + applied(view, Key::Scatter) * n_source
}

#[cfg(test)]
mod tests {
    use crate::flops::executed;
    use crate::ops::check::{error, rule, with_root, work};

    #[test]
    fn windows_permute_and_the_rest_passes() {
        let body = "x: f32[8,6,3]; z: f32[]; ROOT r = f32[8,3,3] reduce-window(x, z), window={size=1x2x1 stride=1x2x1}, to_apply=max";
        assert_eq!(rule(body), "([a,b,c],[])->([a,d,c]) {a=8, b=6~, c=3, d=3~}");
        assert_eq!(work(body).flops, 72.0);
        let body = "x: f32[8,6]; z: f32[]; ROOT r = f32[8,6] reduce-window(x, z), window={size=1x6 pad=0_0x5_0}, to_apply=add";
        assert_eq!(rule(body), "([a,b],[])->([a,c]) {a=8, b=6~, c=6~}");
    }

    #[test]
    fn a_scan_runs_as_a_tree_of_short_ones() {
        let flops = |size: i64, window: &str| {
            let body = format!(
                "x: f32[2,{size}]; z: f32[]; ROOT r = f32[2,{size}] reduce-window(x, z), window={{{window}}}, to_apply=add"
            );
            with_root(&body, |view| executed(view).flops)
        };
        assert_eq!(flops(4, "size=1x4 pad=0_0x3_0"), 3.0 * 8.0);
        // Scans of 16, of 4 sums of these, and of these sums to each element.
        assert_eq!(flops(64, "size=1x64 pad=0_0x63_0"), (16.0 + 3.0 / 16.0) * 128.0);
        assert_eq!(flops(64, "size=1x64 pad=0_0x0_63"), (16.0 + 3.0 / 16.0) * 128.0);
        // No scan: one combination less than the window has elements, per position.
        assert_eq!(flops(64, "size=1x63 pad=0_0x31_31"), 62.0 * 128.0);
    }

    #[test]
    fn a_selected_element_stays_near() {
        let body = "x: f32[8,6]; s: f32[8,3]; z: f32[]
            ROOT r = f32[8,6] select-and-scatter(x, s, z), window={size=1x2 stride=1x2}, select=less, scatter=add";
        assert_eq!(rule(body), "([a,b],[a,c],[])->([a,b]) {a=8, b=6~, c=3~}");
        assert_eq!(work(body).flops, 48.0);
    }

    #[test]
    fn says_what_does_not_fit() {
        let check = |attrs: &str, expected: &str| {
            let op = format!("reduce-window(x, z), {attrs}, to_apply=add");
            assert_eq!(error(&format!("x: f32[8]; z: f32[]; ROOT r = f32[8] {op}")), expected);
        };
        check("dimensions={}", "the number of window dimensions must be 1, got 0");
        check("window={size=2}", "`reduce-window` makes f32[7], not f32[8]");
        check(
            "window={size=2 stride=0}",
            "a window needs a size, a stride and dilations of at least 1, got size 2 stride 0 lhs_dilate 1 rhs_dilate 1",
        );
        check("window={size=2 lhs_dilate=9223372036854775807}", "the result's size is negative or overflows");
    }

    #[test]
    fn a_window_over_all_of_one_dimension_counts_as_one_reduction_broadcast_back() {
        let flops = |window: &str, made: &str| {
            work(&format!("x: f32[2,4]; z: f32[]; ROOT r = f32[{made}] reduce-window(x, z), window={{{window}}}, to_apply=add")).flops
        };
        assert_eq!(flops("size=1x7 pad=0_0x3_3", "2,4"), 8.0 / 4.0 + 3.0);
        // Otherwise one combination less than the window has elements, per position.
        assert_eq!(flops("size=1x3", "2,2"), 2.0 * 4.0);
        assert_eq!(flops("size=1x5 pad=0_0x2_2", "2,4"), 4.0 * 8.0);
        assert_eq!(flops("size=1x7 pad=0_0x4_2", "2,4"), 6.0 * 8.0);
        assert_eq!(flops("size=1x6 pad=0_0x3_3", "2,5"), 5.0 * 10.0);
        assert_eq!(flops("size=3x7 pad=1_1x3_3", "2,4"), 20.0 * 8.0);
        assert_eq!(flops("size=1x3 pad=1_1x0_0", "4,2"), 2.0 * 8.0);
        assert_eq!(flops("size=1x7 pad=1_1x3_3", "4,4"), 6.0 * 16.0);
        let pair = "x: f32[4]; i: s32[4]; z: f32[]; j: s32[]; ROOT r = (f32[4], s32[4]) reduce-window(x, i, z, j), window={size=7 pad=3_3}, to_apply=sums";
        assert_eq!(work(pair).flops, 2.0 * 6.0 * 4.0);
    }
}
