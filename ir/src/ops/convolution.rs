//! `convolution`: roles of the dimensions, grouped channels, windows.

use super::contract::product_dtype;
use super::linear;
use super::maps::operand_dims;
use super::positions::valid_positions;
use super::read::{Inferred, count, describe_array, expect_size, plain};
use super::windowed::window_size;
use crate::attr::{DimLabels, Key, LabelledDims, Value, WindowDim};
use crate::eval::convolution as eval;
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorId, FactorKind, Reducer, Rule, TensorMap};
use crate::shape::{ArrayShape, Dims};
use crate::view::View;
use crate::work::Work;
use smallvec::SmallVec;

/// `convolution`: batch, features and groups pass, input features add up, windows permute.
pub const CONVOLUTION: OpDef = OpDef::new(Arity::Exactly(2), infer, rule, work, FusionKind::Matrix)
    .linear_in(linear::either)
    .evaluated(eval::convolution);

pub(super) fn labels<'a>(view: &View<'a>) -> Option<&'a DimLabels> {
    match view.instr.attr(Key::DimLabels) {
        Some(Value::DimLabels(labels)) => Some(labels),
        _ => None,
    }
}

pub(super) fn window<'a>(view: &View<'a>) -> &'a [WindowDim] {
    match view.instr.attr(Key::Window) {
        Some(Value::Window(window)) => &window.dims,
        _ => &[],
    }
}

fn infer(view: &View) -> Inferred {
    let (lhs, rhs) = (view.array(0)?, view.array(1)?);
    let labels = labels(view).ok_or("`convolution` needs `dim_labels`")?;
    check_labels(labels, lhs, rhs, window(view).len())?;
    let (features, batches) = (count(view, Key::FeatureGroupCount)?, count(view, Key::BatchGroupCount)?);
    check_groups(labels, lhs, rhs, features, batches)?;
    let mut dims = Dims::from_elem(0, lhs.rank());
    dims[labels.out.major] = lhs.dims[labels.lhs.major] / batches;
    dims[labels.out.minor] = rhs.dims[labels.rhs.major];
    for (index, dim) in window(view).iter().enumerate() {
        expect_size("the window's size", rhs.dims[labels.rhs.spatial[index]], dim.size)?;
        dims[labels.out.spatial[index]] = window_size(lhs.dims[labels.lhs.spatial[index]], dim)?;
    }
    Ok(Some(plain(product_dtype(view, lhs.dtype, rhs.dtype)?, dims)))
}

/// Every role has a place of its own in each tensor.
fn check_labels(
    labels: &DimLabels,
    lhs: &ArrayShape,
    rhs: &ArrayShape,
    n_window: usize,
) -> Result<(), String> {
    let rank = labels.lhs.spatial.len() + 2;
    let covers = |dims: &LabelledDims| {
        let all = dims.spatial.iter().chain([&dims.major, &dims.minor]);
        let seen = all.fold(0u64, |seen, &at| if at < rank.min(64) { seen | 1 << at } else { seen });
        dims.spatial.len() + 2 == rank && seen.count_ones() as usize == rank
    };
    if lhs.rank() != rank || rhs.rank() != rank {
        let (a, b) = (describe_array(lhs), describe_array(rhs));
        return Err(format!("`dim_labels` `{}` fits rank {rank}, got {a} and {b}", labels.text));
    }
    if !(covers(&labels.lhs) && covers(&labels.rhs) && covers(&labels.out)) {
        return Err(format!("`dim_labels` `{}` must give every dimension one role", labels.text));
    }
    expect_size("the number of window dimensions", rank as i64 - 2, n_window as i64)
}

fn check_groups(
    labels: &DimLabels,
    lhs: &ArrayShape,
    rhs: &ArrayShape,
    features: i64,
    batches: i64,
) -> Result<(), String> {
    let (batch, input) = (lhs.dims[labels.lhs.major], lhs.dims[labels.lhs.minor]);
    let (output, kernel_input) = (rhs.dims[labels.rhs.major], rhs.dims[labels.rhs.minor]);
    if features > 1 && batches > 1 {
        return Err("`convolution` cannot group both features and batches".to_owned());
    }
    for (what, size, groups) in [
        ("input features", input, features),
        ("output features", output, features),
        ("batch size", batch, batches),
        ("output features", output, batches),
    ] {
        if size % groups != 0 {
            return Err(format!("`convolution` cannot divide its {what} of {size} into {groups} groups"));
        }
    }
    expect_size("the kernel's input features", input / features, kernel_input)
}

/// Groups are the major part of what they group, on every side that has them.
fn rule(view: &View) -> Rule {
    let Some(labels) = labels(view) else { return super::maps::fallback(view) };
    let (lhs, rhs) = (operand_dims(view, 0), operand_dims(view, 1));
    let (features, batches) = (n_groups(view, Key::FeatureGroupCount), n_groups(view, Key::BatchGroupCount));
    let mut rule = Rule::default();
    let mut group = |count: i64| (count > 1).then(|| rule.factor(count, FactorKind::Pass));
    let (by_feature, by_batch) = (group(features), group(batches));
    let batch = rule.factor(lhs[labels.lhs.major] / batches, FactorKind::Pass);
    let input = rule.factor(rhs[labels.rhs.minor], FactorKind::Reduce(Reducer::Add));
    let output = rule.factor(rhs[labels.rhs.major] / (features * batches), FactorKind::Pass);
    let mut from = TensorMap::from_elem(SmallVec::new(), lhs.len());
    let (mut kernel, mut to) = (from.clone(), from.clone());
    let list = |major: Option<FactorId>, minor: FactorId| major.into_iter().chain([minor]).collect();
    from[labels.lhs.major] = list(by_batch, batch);
    from[labels.lhs.minor] = list(by_feature, input);
    kernel[labels.rhs.major] = list(by_feature.or(by_batch), output);
    kernel[labels.rhs.minor] = list(None, input);
    to[labels.out.major] = list(None, batch);
    to[labels.out.minor] = list(by_feature.or(by_batch), output);
    for (index, dim) in window(view).iter().enumerate() {
        let sizes = (lhs[labels.lhs.spatial[index]], out_size(view, labels, index));
        let [read, position, written] = spatial(&mut rule, dim, sizes);
        from[labels.lhs.spatial[index]] = read;
        kernel[labels.rhs.spatial[index]] = position;
        to[labels.out.spatial[index]] = written;
    }
    rule.operands.extend([from, kernel]);
    rule.results.push(to);
    rule
}

fn n_groups(view: &View, key: Key) -> i64 {
    view.instr.int(key).unwrap_or(1).max(1)
}

fn out_size(view: &View, labels: &DimLabels, index: usize) -> i64 {
    super::maps::result_dims(view)[labels.out.spatial[index]]
}

/// Factors of one spatial dimension in input, kernel and result.
///
/// A window of one element passes. Windows that lie side by side (patches) or interleave, and cover the
/// input exactly, are a contraction of kernel positions; other windows need their neighbours.
fn spatial(rule: &mut Rule, dim: &WindowDim, (input, output): (i64, i64)) -> [SmallVec<[FactorId; 2]>; 3] {
    let list = SmallVec::from_slice;
    if dim.is_trivial() && dim.size == 1 {
        let shared = rule.factor(input, FactorKind::Pass);
        return [list(&[shared]), list(&[rule.factor(1, FactorKind::Replicate)]), list(&[shared])];
    }
    let plain = dim.pad_low == 0 && dim.pad_high == 0 && dim.lhs_dilate == 1 && !dim.reversed;
    let covers = plain && output.checked_mul(dim.size) == Some(input);
    let side_by_side = dim.rhs_dilate == 1 && (dim.stride == dim.size || output == 1);
    let interleaved = dim.stride == 1 && dim.rhs_dilate == output;
    if covers && (side_by_side || interleaved) {
        let window = rule.factor(output, FactorKind::Pass);
        let position = rule.factor(dim.size, FactorKind::Reduce(Reducer::Add));
        let read = if side_by_side { [window, position] } else { [position, window] };
        return [list(&read), list(&[position]), list(&[window])];
    }
    let (from, to) = (rule.factor(input, FactorKind::Permute), rule.factor(output, FactorKind::Permute));
    [list(&[from]), list(&[rule.factor(dim.size, FactorKind::Replicate)]), list(&[to])]
}

/// XLA's rule: only positions at which the kernel meets an input element count.
fn work(view: &View) -> Work {
    let (Some(labels), Some(out)) = (labels(view), view.instr.shape.as_array()) else {
        return Work::default();
    };
    let (lhs, rhs) = (operand_dims(view, 0), operand_dims(view, 1));
    let batch = lhs[labels.lhs.major] / n_groups(view, Key::BatchGroupCount);
    let mut fmas = rhs[labels.rhs.minor] as f64 * out.dims[labels.out.minor] as f64 * batch as f64;
    for (index, dim) in window(view).iter().enumerate() {
        let (input, output) = (lhs[labels.lhs.spatial[index]], out.dims[labels.out.spatial[index]]);
        fmas *= valid_positions(input, output, dim);
    }
    Work::flops(2.0 * fmas)
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};

    #[test]
    fn batch_and_output_features_pass_and_input_features_add_up() {
        let body = "x: f32[8,32,32,3]; k: f32[3,3,3,16]
            ROOT c = f32[8,32,32,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f";
        assert_eq!(
            rule(body),
            "([a,d,g,b],[f,i,b,c])->([a,e,h,c]) {a=8, b=3+, c=16, d=32~, e=32~, f=3!, g=32~, h=32~, i=3!}"
        );
        assert_eq!(work(body).flops, 2.0 * 8.0 * 3.0 * 16.0 * (94.0 * 94.0));
    }

    #[test]
    fn a_window_of_one_passes() {
        let body = "x: f32[8,32,3]; k: f32[1,3,16]
            ROOT c = f32[8,32,16] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f";
        assert_eq!(rule(body), "([a,d,b],[e,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=32, e=1!}");
    }

    #[test]
    fn a_window_that_covers_the_input_adds_up() {
        let body = "x: f32[8,32,3]; k: f32[32,3,16]
            ROOT c = f32[8,1,16] convolution(x, k), window={size=32}, dim_labels=b0f_0io->b0f";
        assert_eq!(rule(body), "([a,de,b],[e,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=1, e=32+}");
    }

    #[test]
    fn patches_and_their_gradient_contract_positions() {
        let body = "x: f32[8,32,3]; k: f32[4,3,16]
            ROOT c = f32[8,8,16] convolution(x, k), window={size=4 stride=4}, dim_labels=b0f_0io->b0f";
        assert_eq!(rule(body), "([a,de,b],[e,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=8, e=4+}");
        let body = "x: f32[3,32,8]; g: f32[8,8,16]
            ROOT c = f32[3,4,16] convolution(x, g), window={size=8 rhs_dilate=4}, dim_labels=b0f_0io->b0f";
        assert_eq!(rule(body), "([a,ed,b],[e,b,c])->([a,d,c]) {a=3, b=8+, c=16, d=4, e=8+}");
    }

    #[test]
    fn feature_groups_are_major() {
        let body = "x: f32[8,32,6]; k: f32[1,3,16]
            ROOT c = f32[8,32,16] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2";
        assert_eq!(rule(body), "([b,e,ac],[f,c,ad])->([b,e,ad]) {a=2, b=8, c=3+, d=8, e=32, f=1!}");
    }

    #[test]
    fn batch_groups_become_output_features() {
        let body = "x: f32[8,32,6]; k: f32[1,6,16]
            ROOT c = f32[4,32,16] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, batch_group_count=2";
        assert_eq!(rule(body), "([ab,e,c],[f,c,ad])->([b,e,ad]) {a=2, b=4, c=6+, d=8, e=32, f=1!}");
    }

    #[test]
    fn says_what_does_not_fit() {
        let conv = |kernel: &str, attrs: &str| {
            error(&format!("x: f32[8,32,6]; k: f32{kernel}; ROOT c = f32[1] convolution(x, k){attrs}"))
        };
        assert_eq!(conv("[3,6,16]", ""), "`convolution` needs `dim_labels`");
        let labels = ", window={size=3}, dim_labels=b0f_0io->b0f";
        assert_eq!(
            conv("[3,6]", labels),
            "`dim_labels` `b0f_0io->b0f` fits rank 3, got f32[8,32,6] and f32[3,6]"
        );
        assert_eq!(conv("[3,5,16]", labels), "the kernel's input features must be 6, got 5");
        assert_eq!(conv("[2,6,16]", labels), "the window's size must be 2, got 3");
        assert_eq!(
            conv("[3,6,16]", &format!("{labels}, feature_group_count=0")),
            "`feature_group_count` must be at least 1, got 0"
        );
        assert_eq!(
            conv("[3,6,16]", &format!("{labels}, feature_group_count=4")),
            "`convolution` cannot divide its input features of 6 into 4 groups"
        );
    }

    #[test]
    fn groups_divide_features_and_batches() {
        let of = |attrs: &str| {
            error(&format!(
                "x: f32[4,8,6]; k: f32[1,3,4]; ROOT c = f32[4,8,4] convolution(x, k), window={{size=1}}, dim_labels=b0f_0io->b0f{attrs}"
            ))
        };
        assert_eq!(of(", feature_group_count=2"), "");
        assert_eq!(
            of(", feature_group_count=4"),
            "`convolution` cannot divide its input features of 6 into 4 groups"
        );
        assert_eq!(
            of(", feature_group_count=3"),
            "`convolution` cannot divide its output features of 4 into 3 groups"
        );
        assert_eq!(
            of(", batch_group_count=3"),
            "`convolution` cannot divide its batch size of 4 into 3 groups"
        );
        assert_eq!(
            of(", feature_group_count=2, batch_group_count=2"),
            "`convolution` cannot group both features and batches"
        );
        assert_eq!(of(""), "the kernel's input features must be 6, got 3");
    }

    #[test]
    fn labels_give_every_dimension_one_role() {
        let of = |k: &str, labels: &str| {
            error(&format!(
                "x: f32[4,8,6]; k: f32[{k}]; ROOT c = f32[4,8,4] convolution(x, k), window={{size=1}}, dim_labels={labels}"
            ))
        };
        assert_eq!(
            of("1,6", "b0f_0io->b0f"),
            "`dim_labels` `b0f_0io->b0f` fits rank 3, got f32[4,8,6] and f32[1,6]"
        );
        assert_eq!(
            of("1,6,4", "bf_io->bf"),
            "`dim_labels` `bf_io->bf` fits rank 2, got f32[4,8,6] and f32[1,6,4]"
        );
    }

    #[test]
    fn windows_that_overlap_or_turn_need_their_neighbours() {
        let spatial = |window: &str, made: i64| {
            let rule = rule(&format!(
                "x: f32[8,32,3]; k: f32[4,3,16]; ROOT c = f32[8,{made},16] convolution(x, k), window={{size=4 {window}}}, dim_labels=b0f_0io->b0f"
            ));
            rule.contains('~')
        };
        assert!(!spatial("stride=4", 8) && !spatial("rhs_dilate=8", 8));
        assert!(
            spatial("stride=4 rhs_reversal=1", 8)
                && spatial("stride=2", 15)
                && spatial("stride=4 pad=2_2", 9)
        );
        assert!(
            spatial("stride=4 pad=4_0", 9)
                && spatial("rhs_dilate=4", 20)
                && spatial("stride=8 lhs_dilate=2", 8)
        );
    }

    #[test]
    fn images_of_other_groups_are_not_multiplied() {
        let body = "x: f32[4,8,6]; k: f32[1,6,4]; ROOT c = f32[2,8,4] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, batch_group_count=2";
        assert_eq!(work(body).flops, 2.0 * 2.0 * 8.0 * 6.0 * 4.0);
    }
}
