//! `dot`: batches of matrix products.

use super::Call;
use super::value::{Array, Buf, Data, Element, Sizes, Value};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use ndarray::{ArrayView2, ArrayView3, ArrayViewD, ArrayViewMut2, Axis, Ix3, IxDyn, LinalgScalar};
use num_complex::Complex;
use rayon::prelude::*;

/// Multiplications that are worth another core.
const PARALLEL_FROM: usize = 1 << 17;
/// Rows that a core takes at a time: many enough to make up for reading the other matrix once more.
const BLOCK_ROWS: usize = 128;

/// `dot`.
pub(crate) fn dot(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let instr = call.view.instr;
    let dims = |key| -> Sizes { instr.ints(key).iter().map(|&dim| dim as usize).collect() };
    let lhs = (dims(Key::LhsBatchDims), dims(Key::LhsContractingDims));
    let rhs = (dims(Key::RhsBatchDims), dims(Key::RhsContractingDims));
    let (b, a) = (args.swap_remove(1).array()?, args.swap_remove(0).array()?);
    let shape = instr.shape.as_array().ok_or_else(|| Diagnostic::error("`dot` makes an array"))?;
    // Storage of the result: integers of all widths share theirs, floats may have to be widened.
    let wide = if Data::zeros(shape.dtype, &[]).fits(a.dtype()) { a.dtype() } else { shape.dtype };
    let (a, b) = (super::convert::convert(a, wide), super::convert::convert(b, wide));
    let (left, right) = (Roles::of(&a, &lhs.0, &lhs.1), Roles::of(&b, &rhs.0, &rhs.1));
    let data = match (a.dense(), b.dense()) {
        (Data::F32(a), Data::F32(b)) => Data::F32(product(&a, &b, &left, &right, add_product)),
        (Data::F64(a), Data::F64(b)) => Data::F64(product(&a, &b, &left, &right, add_product)),
        (Data::C64(a), Data::C64(b)) => {
            Data::C64(product(&a, &b, &left, &right, add_product::<Complex<f32>>))
        }
        (Data::C128(a), Data::C128(b)) => {
            Data::C128(product(&a, &b, &left, &right, add_product::<Complex<f64>>))
        }
        (Data::Int(a), Data::Int(b)) => Data::Int(product(&a, &b, &left, &right, |a, b, c| {
            by_hand(a, b, c, |s, x, y| i64::wrapping_add(s, x.wrapping_mul(y)))
        })),
        (Data::Pred(a), Data::Pred(b)) => {
            Data::Pred(product(&a, &b, &left, &right, |a, b, c| by_hand(a, b, c, |s, x, y| s | (x & y))))
        }
        _ => return Err(super::undefined(instr.op, a_dtype(call))),
    };
    Ok(super::convert::convert(Array::new(shape.dtype, data), shape.dtype).into())
}

fn a_dtype(call: &Call) -> crate::dtype::DType {
    call.view.array(0).map_or(crate::dtype::DType::F32, |shape| shape.dtype)
}

/// The dimensions of an operand by role, and the sizes of each role.
struct Roles {
    batch: Sizes,
    free: Sizes,
    contracting: Sizes,
    dims: Sizes,
}

impl Roles {
    fn of(array: &Array, batch: &[usize], contracting: &[usize]) -> Roles {
        let free = (0..array.rank()).filter(|dim| !batch.contains(dim) && !contracting.contains(dim));
        Roles {
            batch: batch.into(),
            free: free.collect(),
            contracting: contracting.into(),
            dims: array.dims().into(),
        }
    }

    fn sizes<'a>(&'a self, dims: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
        dims.iter().map(|&dim| self.dims[dim])
    }

    /// Sizes of all batches, of all free dimensions, of all contracted ones.
    fn totals(&self) -> [usize; 3] {
        [&self.batch, &self.free, &self.contracting].map(|dims| self.sizes(dims).product())
    }
}

/// Batches × free of the left × free of the right.
fn product<T: Element>(
    a: &Buf<T>,
    b: &Buf<T>,
    left: &Roles,
    right: &Roles,
    gemm: impl Fn(ArrayView2<T>, ArrayView2<T>, ArrayViewMut2<T>) + Sync + Send,
) -> Buf<T> {
    let ([batch, rows, inner], [_, columns, _]) = (left.totals(), right.totals());
    let order = |parts: [&Sizes; 3]| -> Vec<usize> { parts.into_iter().flatten().copied().collect() };
    let a = a.view().permuted_axes(IxDyn(&order([&left.batch, &left.free, &left.contracting])));
    let b = b.view().permuted_axes(IxDyn(&order([&right.batch, &right.contracting, &right.free])));
    let (a, b) = (Merged::new(&a, (batch, rows, inner)), Merged::new(&b, (batch, inner, columns)));
    let mut made = ndarray::Array3::from_elem((batch, rows, columns), T::default());
    batched(a.view(), b.view(), &mut made, gemm);
    let dims: Vec<usize> =
        left.sizes(&left.batch).chain(left.sizes(&left.free)).chain(right.sizes(&right.free)).collect();
    made.into_shape_with_order(IxDyn(&dims)).expect("the sizes of the roles").into_shared()
}

/// A tensor as a batch of matrices, copied only where its strides do not allow it.
struct Merged<'a, T>(ndarray::CowArray<'a, T, Ix3>);

impl<'a, T: Element> Merged<'a, T> {
    fn new(view: &'a ArrayViewD<'a, T>, dims: (usize, usize, usize)) -> Merged<'a, T> {
        Merged(view.to_shape(dims).expect("the sizes of the roles"))
    }

    fn view(&self) -> ArrayView3<'_, T> {
        self.0.view()
    }
}

/// Every batch alone, rows in blocks of their own where they are worth a core: no sum is split.
fn batched<T: Element>(
    a: ArrayView3<T>,
    b: ArrayView3<T>,
    made: &mut ndarray::Array3<T>,
    gemm: impl Fn(ArrayView2<T>, ArrayView2<T>, ArrayViewMut2<T>) + Sync + Send,
) {
    let (_, rows, inner) = a.dim();
    let (per_row, n_batch) = (inner * b.dim().2, a.dim().0);
    let block = (PARALLEL_FROM / per_row.max(1)).max(BLOCK_ROWS);
    let is_small = n_batch * rows * per_row < PARALLEL_FROM;
    let whole = |((a, b), mut c): ((ArrayView2<T>, ArrayView2<T>), ArrayViewMut2<T>)| {
        if is_small || rows <= block {
            return gemm(a, b, c);
        }
        let parts = a.axis_chunks_iter(Axis(0), block).into_par_iter();
        parts.zip(c.axis_chunks_iter_mut(Axis(0), block)).for_each(|(a, c)| gemm(a, b.view(), c));
    };
    let (a, b) = (a.axis_iter(Axis(0)), b.axis_iter(Axis(0)));
    match is_small {
        true => a.zip(b).zip(made.axis_iter_mut(Axis(0))).for_each(whole),
        false => {
            let pairs = a.into_par_iter().zip(b.into_par_iter());
            pairs.zip(made.axis_iter_mut(Axis(0)).into_par_iter()).for_each(whole);
        }
    }
}

/// `c += a b` by the `matrixmultiply` crate's kernels (complex numbers: by its users' plain loops).
pub(crate) fn add_product<T: Element + LinalgScalar>(
    a: ArrayView2<T>,
    b: ArrayView2<T>,
    mut c: ArrayViewMut2<T>,
) {
    ndarray::linalg::general_mat_mul(T::one(), &a, &b, T::one(), &mut c);
}

/// `c = step(c, a, b)` for every product of a row and a column.
pub(crate) fn by_hand<T: Element>(
    a: ArrayView2<T>,
    b: ArrayView2<T>,
    mut c: ArrayViewMut2<T>,
    step: impl Fn(T, T, T) -> T,
) {
    for (i, row) in a.rows().into_iter().enumerate() {
        for (k, &x) in row.iter().enumerate() {
            c.row_mut(i).iter_mut().zip(b.row(k)).for_each(|(sum, &y)| *sum = step(*sum, x, y));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::eval::check::{check, result};

    #[test]
    fn a_dot_contracts_and_batches() {
        let dot = "x: f32[2,3]; y: f32[3,2]; ROOT z = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        check(dot, &["{{1, 2, 3}, {4, 5, 6}}", "{{1, 2}, {3, 4}, {5, 6}}"], "{{22, 28}, {49, 64}}");
        let outer = "x: f32[2]; y: f32[2]; ROOT z = f32[2,2] dot(x, y)";
        check(outer, &["{1, 2}", "{3, 4}"], "{{3, 4}, {6, 8}}");
        let batch = "x: f32[3,2]; y: f32[2,3]; ROOT z = f32[2] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_contracting_dims={1}";
        check(batch, &["{{1, 4}, {2, 5}, {3, 6}}", "{{1, 1, 1}, {2, 2, 2}}"], "{6, 30}");
        let empty = "x: f32[2,0]; y: f32[0,2]; ROOT z = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        check(empty, &["{{}, {}}", "{}"], "{{0, 0}, {0, 0}}");
    }

    #[test]
    fn products_of_narrow_floats_are_rounded_once() {
        // 256 + 1 + 1 in bf16 would stay 256 if every sum were rounded.
        let dot = "x: bf16[3]; y: bf16[3]; ROOT z = bf16[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
        check(dot, &["{256, 1, 1}", "{1, 1, 1}"], "258");
        let wide = "x: bf16[3]; y: bf16[3]; ROOT z = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
        check(wide, &["{256, 1, 0}", "{1, 1, 1}"], "257");
    }

    #[test]
    fn integers_and_complex_numbers_have_products_too() {
        let dot = |dtype: &str, made: &str| {
            format!(
                "x: {dtype}[2]; y: {dtype}[2]; ROOT z = {made}[] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
            )
        };
        check(&dot("s8", "s8"), &["{100, 2}", "{2, 2}"], "-52");
        check(&dot("s8", "s32"), &["{100, 2}", "{2, 2}"], "204");
        check(&dot("c64", "c64"), &["{(0, 1), (1, 0)}", "{(0, 1), (2, 0)}"], "(1, 0)");
    }

    #[test]
    fn every_type_has_products() {
        let dot = |dtype: &str, x: &str, y: &str| {
            let body = format!(
                "x: {dtype}[2]; y: {dtype}[2]; ROOT z = {dtype}[] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
            );
            result(&body, &[x, y])
        };
        assert_eq!([dot("f64", "{1, 2}", "{3, 4}"), dot("u64", "{1, 2}", "{3, 4}")], ["11", "11"]);
        assert_eq!(dot("c128", "{(0, 1), (1, 0)}", "{(0, 1), (2, 0)}"), "(1, 0)");
        assert_eq!(
            [dot("pred", "{true, false}", "{true, true}"), dot("pred", "{true, false}", "{false, true}")],
            ["true", "false"]
        );
    }

    #[test]
    fn several_batches_rows_and_columns_keep_their_order() {
        let body = "x: f32[2,2,3,2]; y: f32[2,2,2]; ROOT z = f32[2,2,3,2] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}";
        let x = "{{{{1, 0}, {0, 1}, {1, 1}}, {{2, 0}, {0, 2}, {2, 2}}}, {{{1, 0}, {0, 1}, {1, 1}}, {{3, 0}, {0, 3}, {3, 3}}}}";
        let y = "{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}";
        let made = "{{{{1, 2}, {3, 4}, {4, 6}}, {{2, 4}, {6, 8}, {8, 12}}}, {{{5, 6}, {7, 8}, {12, 14}}, {{15, 18}, {21, 24}, {36, 42}}}}";
        check(body, &[x, y], made);
    }

    #[test]
    fn a_large_product_is_the_sum_of_its_parts() {
        // Rows of 0, 1, 2, ... times ones: 64 times the row's number, more than a core's share of rows.
        let body = "i = s32[600,64] iota(), iota_dimension=0; x = f32[600,64] convert(i); c = f32[] constant(1); b = f32[64,8] broadcast(c), dimensions={}; y = f32[600,8] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}; ROOT z = f32[3,1] slice(y), slice={[199:600:200], [7:8]}";
        check(body, &[], "{{12736}, {25536}, {38336}}");
    }
}
