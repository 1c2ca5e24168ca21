//! Linear algebra, sorting and the other ops that work on whole matrices, rows or features.

use super::maps::{alike, all_replicated, dim, operand_dims, result_dims};
use super::read::{
    Inferred, callee, count, describe_array, expect_size, has, like, one_dim, one_or_tuple, plain, same_dims,
};
use super::reducer::{DTypes, check_comparator};
use crate::attr::Key;
use crate::dtype::{Class, DType};
use crate::eval::{linalg as eval, sort};
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef};
use crate::rule::{FactorKind, Rule, TensorMap};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use crate::work::Work;

pub use super::batch_norm::{BATCH_NORM_GRAD, BATCH_NORM_INFERENCE, BATCH_NORM_TRAINING};

/// `cholesky`: batches of square matrices.
pub const CHOLESKY: OpDef =
    OpDef::new(Arity::Exactly(1), infer_cholesky, |view| whole(view, 2), work_cholesky, FusionKind::Opaque)
        .evaluated(eval::cholesky);
/// `triangular-solve`: batches and right-hand sides pass.
pub const TRIANGULAR_SOLVE: OpDef = OpDef::new(
    Arity::Exactly(2),
    infer_triangular_solve,
    rule_triangular_solve,
    work_triangular_solve,
    FusionKind::Opaque,
)
.evaluated(eval::triangular_solve);
/// `fft`: the transformed dimensions are the last ones.
pub const FFT: OpDef =
    OpDef::new(Arity::Exactly(1), infer_fft, rule_fft, work_fft, FusionKind::Opaque).evaluated(eval::fft);
/// `sort`: one dimension, any number of arrays together.
pub const SORT: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_sort, rule_sort, work_sort, FusionKind::Opaque).evaluated(sort::sort);
/// `topk`: the largest of the last dimension, and where they were.
pub const TOPK: OpDef =
    OpDef::new(Arity::Exactly(1), infer_topk, rule_topk, |_| Work::default(), FusionKind::Opaque)
        .evaluated(sort::topk);

/// All dimensions pass but the last `n`.
fn whole(view: &View, n: usize) -> Rule {
    let rank = result_dims(view).len();
    alike(view, |dim| if dim + n >= rank { FactorKind::Replicate } else { FactorKind::Pass })
}

/// The size of the square matrices in the last two dimensions.
fn square(view: &View, shape: &ArrayShape) -> Result<i64, String> {
    match *shape.dims {
        [.., rows, columns] if rows == columns => Ok(rows),
        _ => {
            Err(format!("`{}` needs square matrices, got {}", view.instr.op.as_str(), describe_array(shape)))
        }
    }
}

fn infer_cholesky(view: &View) -> Inferred {
    let operand = view.array(0)?;
    square(view, operand)?;
    Ok(Some(like(operand)))
}

fn work_cholesky(view: &View) -> Work {
    let dims = operand_dims(view, 0);
    let elements: f64 = dims.iter().map(|&size| size as f64).product();
    Work::flops((elements * dims.last().map_or(0.0, |&size| size as f64) / 3.0).floor())
}

fn infer_triangular_solve(view: &View) -> Inferred {
    let (a, b) = (view.array(0)?, view.array(1)?);
    let n = square(view, a)?;
    let side = b.rank().checked_sub(if has(view, Key::LeftSide) { 2 } else { 1 });
    let fits = a.rank() == b.rank()
        && a.dims[..a.rank() - 2] == b.dims[..a.rank() - 2]
        && side.is_some_and(|dim| b.dims[dim] == n)
        && a.dtype == b.dtype;
    if !fits {
        return Err(format!(
            "`triangular-solve` of {} does not fit {}",
            describe_array(a),
            describe_array(b)
        ));
    }
    Ok(Some(like(b)))
}

fn rule_triangular_solve(view: &View) -> Rule {
    let sizes = operand_dims(view, 1);
    let (n_batch, solved) = (sizes.len() - 2, sizes.len() - if has(view, Key::LeftSide) { 2 } else { 1 });
    let mut rule = Rule::default();
    let kind = |dim| if dim == solved { FactorKind::Replicate } else { FactorKind::Pass };
    let b: TensorMap =
        sizes.iter().enumerate().map(|(index, &size)| dim(rule.factor(size, kind(index)))).collect();
    let mut a: TensorMap = b[..n_batch].into();
    a.extend([b[solved].clone(), dim(rule.factor(sizes[solved], FactorKind::Replicate))]);
    rule.operands.extend([a, b.clone()]);
    rule.results.push(b);
    rule
}

fn work_triangular_solve(view: &View) -> Work {
    let n = operand_dims(view, 0).last().map_or(0.0, |&size| size as f64);
    let right: f64 = operand_dims(view, 1).iter().map(|&size| size as f64).product();
    Work::flops(2.0 * n * right)
}

fn infer_fft(view: &View) -> Inferred {
    let (operand, lengths) = (view.array(0)?, view.instr.ints(Key::FftLength));
    let n_whole = operand.rank().checked_sub(lengths.len()).filter(|_| (1..=3).contains(&lengths.len()));
    let n_whole = n_whole.ok_or_else(|| format!("`fft_length` does not fit {}", describe_array(operand)))?;
    let kind = view.instr.word(Key::FftType).unwrap_or("FFT");
    let (mut dims, last) = (operand.dims.clone(), lengths.len() - 1);
    for (at, &length) in lengths.iter().enumerate() {
        let is_half = kind == "IRFFT" && at == last;
        let wanted = if is_half { length / 2 + i64::from(length > 0) } else { length };
        expect_size("the transformed size", wanted, dims[n_whole + at])?;
        dims[n_whole + at] =
            if kind == "RFFT" && at == last { length / 2 + i64::from(length > 0) } else { length };
    }
    let dtype = match (kind, operand.dtype) {
        ("FFT" | "IFFT", complex) if complex.class() == Class::Complex => complex,
        ("RFFT", DType::F32) => DType::C64,
        ("RFFT", DType::F64) => DType::C128,
        ("IRFFT", DType::C64) => DType::F32,
        ("IRFFT", DType::C128) => DType::F64,
        (kind, _) => {
            return Err(format!("`fft` of type `{kind}` cannot transform {}", describe_array(operand)));
        }
    };
    Ok(Some(plain(dtype, dims)))
}

/// Batches pass; input and result of a real transform differ in the last size.
fn rule_fft(view: &View) -> Rule {
    let n_batch = operand_dims(view, 0).len() - view.instr.ints(Key::FftLength).len();
    batches(view, n_batch)
}

/// The first `n_batch` dimensions pass; the others are apart in operand and results.
fn batches(view: &View, n_batch: usize) -> Rule {
    let mut rule = Rule::default();
    let shared = rule.fresh(&operand_dims(view, 0)[..n_batch], FactorKind::Pass);
    let mut with = |rest: &[i64]| -> TensorMap {
        let mut map = shared.clone();
        map.extend(rule.fresh(&rest[n_batch..], FactorKind::Replicate));
        map
    };
    let operand = with(operand_dims(view, 0));
    let results: Vec<TensorMap> =
        view.instr.shape.leaves().iter().map(|leaf| with(super::maps::leaf_dims(leaf))).collect();
    rule.operands.push(operand);
    rule.results = results;
    rule
}

/// XLA's rule: four multiply-adds per element and factor of two in each length.
fn work_fft(view: &View) -> Work {
    let logarithm =
        |&length: &i64| f64::from(u64::try_from(length).ok().and_then(u64::checked_ilog2).unwrap_or(0));
    let steps: f64 = view.instr.ints(Key::FftLength).iter().map(logarithm).product();
    let elements: f64 = operand_dims(view, 0).iter().map(|&size| size as f64).product();
    Work::flops(8.0 * steps * elements)
}

fn infer_sort(view: &View) -> Inferred {
    let first = view.array(0)?;
    one_dim(view, Key::Dimensions, first.rank())?;
    let mut dtypes = DTypes::new();
    let mut parts = Vec::with_capacity(view.n_operands());
    for index in 0..view.n_operands() {
        let operand = view.array(index)?;
        same_dims(view, first, operand)?;
        dtypes.push(operand.dtype);
        parts.push(like(operand));
    }
    check_comparator(callee(view, Key::ToApply)?, &dtypes)?;
    Ok(Some(one_or_tuple(parts)))
}

fn rule_sort(view: &View) -> Rule {
    let sorted = super::read::dim_of(view, Key::Dimensions);
    alike(view, |dim| if dim == sorted { FactorKind::Replicate } else { FactorKind::Pass })
}

/// XLA's rule: elements times the logarithm of all elements, rounded up.
fn work_sort(view: &View) -> Work {
    let elements: f64 = operand_dims(view, 0).iter().map(|&size| size as f64).product();
    Work::flops(if elements > 1.0 { elements * elements.log2().ceil() } else { 0.0 })
}

fn infer_topk(view: &View) -> Inferred {
    let operand = view.array(0)?;
    let k = count(view, Key::K)?;
    let mut dims = operand.dims.clone();
    match dims.last_mut() {
        Some(last) if k <= *last => *last = k,
        _ => return Err(format!("`topk` cannot take {k} of {}", describe_array(operand))),
    }
    let values = plain(operand.dtype, dims.clone());
    Ok(Some(Shape::Tuple(vec![values, plain(DType::S32, dims)])))
}

fn rule_topk(view: &View) -> Rule {
    match operand_dims(view, 0).len() {
        0 => all_replicated(view),
        rank => batches(view, rank - 1),
    }
}

/// Errors unless the array has one element per feature.
pub(crate) fn expect_features(shape: &ArrayShape, n_features: i64) -> Result<(), String> {
    expect_size("the rank of a per-feature operand", 1, shape.rank() as i64)?;
    expect_size("the size of a per-feature operand", n_features, shape.dims[0])
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{error, rule, work};

    #[test]
    fn batches_pass_and_matrices_are_whole() {
        assert_eq!(
            rule("x: f32[5,4,4]; ROOT c = f32[5,4,4] cholesky(x), lower=true"),
            "([a,b,c])->([a,b,c]) {a=5, b=4!, c=4!}"
        );
        let solve = "x: f32[5,4,4]; y: f32[5,4,7]; ROOT c = f32[5,4,7] triangular-solve(x, y), left_side=true, lower=true, transpose_a=NO_TRANSPOSE";
        assert_eq!(rule(solve), "([a,b,d],[a,b,c])->([a,b,c]) {a=5, b=4!, c=7, d=4!}");
        assert_eq!(work(solve).flops, 2.0 * 4.0 * 140.0);
        let fft = "x: f32[5,8]; ROOT y = c64[5,5] fft(x), fft_type=RFFT, fft_length={8}";
        assert_eq!(rule(fft), "([a,b])->([a,c]) {a=5, b=8!, c=5!}");
        assert_eq!(work(fft).flops, 8.0 * 3.0 * 40.0);
    }

    #[test]
    fn sorted_dimensions_are_whole() {
        let sort = "x: f32[5,8]; ROOT y = f32[5,8] sort(x), dimensions={1}, to_apply=less";
        assert_eq!(rule(sort), "([a,b])->([a,b]) {a=5, b=8!}");
        assert_eq!(work(sort).flops, 40.0 * 6.0);
        let topk = "x: f32[5,8]; ROOT y = (f32[5,2], s32[5,2]) topk(x), k=2, largest=true";
        assert_eq!(rule(topk), "([a,b])->([a,c],[a,d]) {a=5, b=8!, c=2!, d=2!}");
    }

    #[test]
    fn batch_norm_passes_features() {
        let body = "x: f32[5,8,3]; s: f32[3]; ROOT y = (f32[5,8,3], f32[3], f32[3]) batch-norm-training(x, s, s), epsilon=0.1, feature_index=2";
        assert_eq!(rule(body), "([a,b,c],[c],[c])->([a,b,c],[c],[c]) {a=5!, b=8!, c=3}");
        let body = "x: f32[5,3]; s: f32[3]; ROOT y = f32[5,3] batch-norm-inference(x, s, s, s, s), epsilon=0.1, feature_index=1";
        assert_eq!(rule(body), "([a,b],[b],[b],[b],[b])->([a,b]) {a=5, b=3}");
    }

    #[test]
    fn says_what_does_not_fit() {
        assert_eq!(
            error("x: f32[4,5]; ROOT c = f32[4,5] cholesky(x)"),
            "`cholesky` needs square matrices, got f32[4,5]"
        );
        assert_eq!(
            error("x: f32[4]; ROOT c = f32[4] sort(x), dimensions={0}, to_apply=add"),
            "`add` must return pred[], got f32[]"
        );
        assert_eq!(
            error("x: f32[4]; ROOT c = (f32[5], s32[5]) topk(x), k=5"),
            "`topk` cannot take 5 of f32[4]"
        );
        assert_eq!(
            error("x: c64[4]; ROOT c = c64[4] fft(x), fft_length={5}"),
            "the transformed size must be 5, got 4"
        );
    }

    #[test]
    fn work_of_roots_solutions_and_sorting() {
        let flops = |body: &str| crate::ops::check::work(body).flops;
        assert_eq!(flops("x: f64[3,3]; ROOT y = f64[3,3] cholesky(x), lower=true"), 9.0);
        assert_eq!(flops("x: f64[2,4,4]; ROOT y = f64[2,4,4] cholesky(x), lower=true"), 42.0);
        let solve = "a: f64[3,3]; b: f64[3,5]; ROOT y = f64[3,5] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE";
        assert_eq!(flops(solve), 2.0 * 3.0 * 15.0);
        let sort = |n: usize| {
            flops(&format!("x: f32[{n}]; ROOT y = f32[{n}] sort(x), dimensions={{0}}, to_apply=less"))
        };
        assert_eq!([sort(8), sort(5), sort(2), sort(1), sort(0)], [24.0, 15.0, 2.0, 0.0, 0.0]);
    }

    #[test]
    fn systems_have_matrices_that_fit() {
        let solve = |a: &str, b: &str, left: bool| {
            crate::ops::check::error(&format!(
                "a: {a}; b: {b}; ROOT y = {b} triangular-solve(a, b), left_side={left}, lower=true, transpose_a=NO_TRANSPOSE"
            ))
        };
        assert_eq!(
            [
                solve("f32[3,3]", "f32[3,5]", true),
                solve("f32[3,3]", "f32[5,3]", false),
                solve("f32[2,3,3]", "f32[2,3,5]", true)
            ],
            [""; 3]
        );
        for (a, b, left) in [
            ("f32[3,3]", "f32[5,3]", true),
            ("f32[3,3]", "f32[3,5]", false),
            ("f32[2,3,3]", "f32[4,3,5]", true),
            ("f32[3,3]", "f64[3,5]", true),
            ("f32[3,3]", "f32[2,3,5]", true),
        ] {
            assert_eq!(solve(a, b, left), format!("`triangular-solve` of {a} does not fit {b}"));
        }
    }

    #[test]
    fn spectra_have_the_sizes_that_are_written() {
        let fft = |x: &str, made: &str, attrs: &str| {
            crate::ops::check::error(&format!("x: {x}; ROOT y = {made} fft(x), {attrs}"))
        };
        assert_eq!(fft("c64[2,4]", "c64[2,4]", "fft_type=FFT, fft_length={4}"), "");
        assert_eq!(fft("f32[4,5]", "c64[4,3]", "fft_type=RFFT, fft_length={4,5}"), "");
        assert_eq!(fft("c128[4,3]", "f64[4,5]", "fft_type=IRFFT, fft_length={4,5}"), "");
        assert_eq!(fft("f32[0]", "c64[0]", "fft_type=RFFT, fft_length={0}"), "");
        assert_eq!(
            fft("c64[4]", "c64[4]", "fft_type=FFT, fft_length={3}"),
            "the transformed size must be 3, got 4"
        );
        assert_eq!(
            fft("c64[4]", "f32[4]", "fft_type=IRFFT, fft_length={4}"),
            "the transformed size must be 3, got 4"
        );
        assert_eq!(
            fft("f32[4]", "f32[4]", "fft_type=FFT, fft_length={4}"),
            "`fft` of type `FFT` cannot transform f32[4]"
        );
        assert_eq!(
            fft("c64[4]", "c64[4]", "fft_type=FFT, fft_length={4,4}"),
            "`fft_length` does not fit c64[4]"
        );
    }
}
