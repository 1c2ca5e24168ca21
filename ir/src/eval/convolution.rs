//! `convolution`: patches of the input times the kernel, as matrix products.

use super::Call;
use super::contract::{add_product, by_hand};
use super::gather::positions;
use super::value::{Array, Buf, Data, Element, Value};
use crate::attr::{DimLabels, Key, LabelledDims, Value as Attr, WindowDim};
use crate::diag::{Diagnostic, Result};
use ndarray::{Array2, ArrayView2, ArrayViewD, ArrayViewMut2, Axis, IxDyn, s};
use num_complex::Complex;
use rayon::prelude::*;

/// Result positions whose patches are laid out together.
const BLOCK_ROWS: usize = 128;
/// Elements of patches that are laid out together (4 MiB of `f32`).
const BLOCK_ELEMENTS: usize = 1 << 20;

/// `convolution`.
pub(crate) fn convolution(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let instr = call.view.instr;
    let (rhs, lhs) = (args.swap_remove(1).array()?, args.swap_remove(0).array()?);
    let shape = instr.shape.as_array().ok_or_else(|| Diagnostic::error("an array is made"))?;
    let dims = super::value::sizes(&shape.dims)?;
    let case = Case::of(call, &dims)?;
    let wide = if Data::zeros(shape.dtype, &[]).fits(lhs.dtype()) { lhs.dtype() } else { shape.dtype };
    let (lhs, rhs) = (super::convert::convert(lhs, wide), super::convert::convert(rhs, wide));
    let data = match (lhs.dense(), rhs.dense()) {
        (Data::F32(a), Data::F32(b)) => Data::F32(case.run(&a, &b, add_product)),
        (Data::F64(a), Data::F64(b)) => Data::F64(case.run(&a, &b, add_product)),
        (Data::C64(a), Data::C64(b)) => Data::C64(case.run(&a, &b, add_product::<Complex<f32>>)),
        (Data::C128(a), Data::C128(b)) => Data::C128(case.run(&a, &b, add_product::<Complex<f64>>)),
        (Data::Int(a), Data::Int(b)) => Data::Int(case.run(&a, &b, |a, b, c| {
            by_hand(a, b, c, |sum, x, y| i64::wrapping_add(sum, x.wrapping_mul(y)));
        })),
        _ => return Err(super::undefined(instr.op, wide)),
    };
    Ok(super::convert::convert(Array::new(shape.dtype, data), shape.dtype).into())
}

/// A convolution's attributes.
struct Case<'a> {
    labels: &'a DimLabels,
    window: &'a [WindowDim],
    feature_groups: usize,
    batch_groups: usize,
    /// Sizes of the result.
    dims: &'a [usize],
}

/// The operands with their dimensions in one order: batch, space, features; space, input features, output
/// features.
struct Laid<'a, T> {
    input: &'a [T],
    input_dims: Vec<usize>,
    kernel: ArrayView2<'a, T>,
    kernel_space: Vec<usize>,
    made_space: Vec<usize>,
    /// Input features of a group.
    n_inputs: usize,
}

impl<'a> Case<'a> {
    fn of(call: &Call<'a>, dims: &'a [usize]) -> Result<Case<'a>> {
        let instr = call.view.instr;
        let Some(Attr::DimLabels(labels)) = instr.attr(Key::DimLabels) else {
            return Err(Diagnostic::error("`convolution` needs `dim_labels`"));
        };
        let window = match instr.attr(Key::Window) {
            Some(Attr::Window(window)) => &window.dims[..],
            _ => &[],
        };
        let groups = |key| instr.int(key).map_or(1, |n| n.max(1) as usize);
        let (feature_groups, batch_groups) = (groups(Key::FeatureGroupCount), groups(Key::BatchGroupCount));
        Ok(Case { labels, window, feature_groups, batch_groups, dims })
    }

    fn run<T: Element>(
        &self,
        lhs: &Buf<T>,
        rhs: &Buf<T>,
        product: impl Fn(ArrayView2<T>, ArrayView2<T>, ArrayViewMut2<T>) + Sync,
    ) -> Buf<T> {
        let input = in_order(lhs.view(), &self.labels.lhs, [Role::Major, Role::Space, Role::Minor]);
        let kernel = in_order(rhs.view(), &self.labels.rhs, [Role::Space, Role::Minor, Role::Major]);
        let space = kernel.ndim() - 2;
        let (n_inputs, n_outputs) = (kernel.shape()[space], kernel.shape()[space + 1]);
        let n_kernel: usize = kernel.shape()[..=space].iter().product();
        let laid = Laid {
            input: input.as_slice().expect("in order"),
            input_dims: input.shape().to_vec(),
            kernel: kernel.view().into_shape_with_order((n_kernel, n_outputs)).expect("in order"),
            kernel_space: kernel.shape()[..space].to_vec(),
            made_space: self.labels.out.spatial.iter().map(|&dim| self.dims[dim]).collect(),
            n_inputs,
        };
        let n_batch = laid.input_dims[0] / self.batch_groups;
        let n_rows = n_batch * laid.made_space.iter().product::<usize>();
        let mut made = Array2::from_elem((n_rows, n_outputs), T::default());
        let n_groups = self.feature_groups.max(self.batch_groups);
        let per_group = n_outputs / n_groups;
        for group in 0..n_groups {
            let columns = s![.., group * per_group..(group + 1) * per_group];
            self.run_group(&laid, group, laid.kernel.slice(columns), made.slice_mut(columns), &product);
        }
        self.in_place(made, n_batch, &laid.made_space)
    }

    /// One group of output features, in blocks of result positions.
    fn run_group<T: Element>(
        &self,
        laid: &Laid<T>,
        group: usize,
        kernel: ArrayView2<T>,
        mut made: ArrayViewMut2<T>,
        product: &(impl Fn(ArrayView2<T>, ArrayView2<T>, ArrayViewMut2<T>) + Sync),
    ) {
        let blocks = made.axis_chunks_iter_mut(Axis(0), BLOCK_ROWS).into_par_iter().enumerate();
        blocks.for_each(|(block, mut made)| {
            let n_rows = made.nrows();
            let places: Vec<_> = positions(&laid.kernel_space).collect();
            let per_chunk = (BLOCK_ELEMENTS / (n_rows * laid.n_inputs).max(1)).max(1);
            for (chunk, places) in places.chunks(per_chunk).enumerate() {
                let n_columns = places.len() * laid.n_inputs;
                let mut patches = vec![T::default(); n_rows * n_columns];
                for (row, patch) in patches.chunks_mut(n_columns.max(1)).enumerate() {
                    self.lay_out(laid, group, block * BLOCK_ROWS + row, places, patch);
                }
                let patches = ArrayView2::from_shape((n_rows, n_columns), &patches).expect("as many as that");
                let from = chunk * per_chunk * laid.n_inputs;
                product(patches, kernel.slice(s![from..from + n_columns, ..]), made.view_mut());
            }
        });
    }

    /// The input elements that a result position reads, for each of the kernel's places; zeros in the
    /// padding.
    fn lay_out<T: Element>(
        &self,
        laid: &Laid<T>,
        group: usize,
        row: usize,
        places: &[super::Sizes],
        patch: &mut [T],
    ) {
        let space = &laid.input_dims[1..laid.input_dims.len() - 1];
        let n_features = laid.input_dims[laid.input_dims.len() - 1];
        let (mut at, mut rest) = (vec![0; space.len()], row);
        for dim in (0..space.len()).rev() {
            at[dim] = rest % laid.made_space[dim];
            rest /= laid.made_space[dim];
        }
        let per_batch_group = laid.input_dims[0] / self.batch_groups;
        let batch = if self.batch_groups > 1 { group * per_batch_group + rest } else { rest };
        let feature = if self.feature_groups > 1 { group * laid.n_inputs } else { 0 };
        for (place, target) in places.iter().zip(patch.chunks_mut(laid.n_inputs.max(1))) {
            let from = self.window.iter().enumerate().try_fold(batch, |from, (dim, window)| {
                Some(from * space[dim] + read_at(window, at[dim], place[dim], space[dim])?)
            });
            if let Some(from) = from {
                let from = from * n_features + feature;
                target.copy_from_slice(&laid.input[from..from + laid.n_inputs]);
            }
        }
    }

    /// Rows by batch and space, columns of features, as the result's labels say.
    fn in_place<T: Element>(&self, made: Array2<T>, n_batch: usize, space: &[usize]) -> Buf<T> {
        let mut dims = vec![n_batch];
        dims.extend(space);
        dims.push(made.ncols());
        let made = made.into_shape_with_order(IxDyn(&dims)).expect("as many as that");
        // The result's dimension at `role`'s place is the `index`-th of what was made.
        let mut order = vec![0; dims.len()];
        let places = role_order(&self.labels.out, [Role::Major, Role::Space, Role::Minor]);
        places.iter().enumerate().for_each(|(index, &place)| order[place] = index);
        made.permuted_axes(IxDyn(&order)).into_shared()
    }
}

/// The input index that the window's element `place` reads at position `at`; nothing in padding and holes.
fn read_at(window: &WindowDim, at: usize, place: usize, size: usize) -> Option<usize> {
    let place = if window.reversed { window.size - 1 - place as i64 } else { place as i64 };
    let index = at as i64 * window.stride + place * window.rhs_dilate - window.pad_low;
    let is_element = index >= 0 && index % window.lhs_dilate == 0;
    let index = usize::try_from(index / window.lhs_dilate).ok()?;
    (is_element && index < size).then_some(index)
}

/// A role of a convolution's dimensions.
enum Role {
    Major,
    Minor,
    Space,
}

fn role_order(labels: &LabelledDims, roles: [Role; 3]) -> Vec<usize> {
    let of = |role: Role| match role {
        Role::Major => vec![labels.major],
        Role::Minor => vec![labels.minor],
        Role::Space => labels.spatial.to_vec(),
    };
    roles.into_iter().flat_map(of).collect()
}

fn in_order<T: Element>(view: ArrayViewD<T>, labels: &LabelledDims, roles: [Role; 3]) -> ndarray::ArrayD<T> {
    view.permuted_axes(IxDyn(&role_order(labels, roles))).as_standard_layout().into_owned()
}

#[cfg(test)]
mod tests {
    use crate::eval::check::{check, result};

    fn along(window: &str, rest: &str, size: usize) -> String {
        let body = format!(
            "x: f32[1,4,1]; k: f32[2,1,1]; ROOT y = f32[1,{size},1] convolution(x, k), window={{size=2 {window}}}, dim_labels=b0f_0io->b0f{rest}"
        );
        result(&body, &["{{{1}, {2}, {3}, {4}}}", "{{{1}}, {{10}}}"])
    }

    #[test]
    fn windows_have_strides_padding_holes_and_may_be_reversed() {
        assert_eq!(along("", "", 3), "{{{21}, {32}, {43}}}");
        assert_eq!(along("stride=2", "", 2), "{{{21}, {43}}}");
        assert_eq!(along("pad=1_1", "", 5), "{{{10}, {21}, {32}, {43}, {4}}}");
        assert_eq!(along("pad=-1_0", "", 2), "{{{32}, {43}}}");
        assert_eq!(along("lhs_dilate=2", "", 6), "{{{1}, {20}, {2}, {30}, {3}, {40}}}");
        assert_eq!(along("rhs_dilate=2", "", 2), "{{{31}, {42}}}");
        assert_eq!(along("rhs_reversal=1", "", 3), "{{{12}, {23}, {34}}}");
    }

    #[test]
    fn features_and_batches_are_grouped() {
        let features = "x: f32[1,1,2]; k: f32[1,1,2]; ROOT y = f32[1,1,2] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2";
        check(features, &["{{{3, 5}}}", "{{{10, 100}}}"], "{{{30, 500}}}");
        let batches = "x: f32[2,1,1]; k: f32[1,1,2]; ROOT y = f32[1,1,2] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, batch_group_count=2";
        check(batches, &["{{{3}}, {{5}}}", "{{{10, 100}}}"], "{{{30, 500}}}");
    }

    #[test]
    fn labels_may_be_in_any_order() {
        let body = "x: f32[2,1,3]; k: f32[1,2,1]; ROOT y = f32[1,1,3] convolution(x, k), window={size=1}, dim_labels=fb0_oi0->bf0";
        check(body, &["{{{1, 2, 3}}, {{4, 5, 6}}}", "{{{1}, {10}}}"], "{{{41, 52, 63}}}");
    }

    #[test]
    fn a_convolution_with_a_window_of_one_is_a_dot() {
        let matrix = "{{1, 2, 3}, {4, 5, 6}}";
        let kernel = "{{1, 0}, {0, 1}, {2, 2}}";
        let shape = "x: f32[2,3]; k: f32[3,2]; ROOT y = f32[2,2]";
        let conv = format!("{shape} convolution(x, k), dim_labels=bf_io->bf");
        let dot = format!("{shape} dot(x, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}");
        assert_eq!(result(&conv, &[matrix, kernel]), result(&dot, &[matrix, kernel]));
    }

    #[test]
    fn planes_have_rows_and_columns() {
        let plane = |window: &str, dims: &str| {
            let body = format!(
                "x: f32[1,3,3,1]; k: f32[2,2,1,1]; y = f32[1,{dims},1] convolution(x, k), window={{size=2x2 {window}}}, dim_labels=b01f_01io->b01f; ROOT z = f32[{dims}] reshape(y)"
            );
            result(
                &body,
                &[
                    "{{{{1}, {2}, {3}}, {{4}, {5}, {6}}, {{7}, {8}, {9}}}}",
                    "{{{{1}}, {{10}}}, {{{100}}, {{1000}}}}",
                ],
            )
        };
        assert_eq!(plane("", "2,2"), "{{5421, 6532}, {8754, 9865}}");
        assert_eq!(plane("stride=1x2 pad=0_1x0_0", "3,1"), "{{5421}, {8754}, {87}}");
        assert_eq!(plane("pad=0_0x1_0", "2,3"), "{{4010, 5421, 6532}, {7040, 8754, 9865}}");
    }

    #[test]
    fn groups_have_several_features_and_images() {
        let features = "x: f32[1,1,4]; k: f32[1,2,4]; ROOT y = f32[1,1,4] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=2";
        check(
            features,
            &["{{{1, 2, 3, 4}}}", "{{{1, 10, 100, 1000}, {2, 20, 200, 2000}}}"],
            "{{{5, 50, 1100, 11000}}}",
        );
        let batches = "x: f32[4,1,1]; k: f32[1,1,4]; y = f32[2,1,4] convolution(x, k), window={size=1}, dim_labels=b0f_0io->b0f, batch_group_count=2; ROOT z = f32[2,4] reshape(y)";
        check(
            batches,
            &["{{{1}}, {{2}}, {{3}}, {{4}}}", "{{{1, 10, 100, 1000}}}"],
            "{{1, 10, 300, 3000}, {2, 20, 400, 4000}}",
        );
    }

    #[test]
    fn every_type_has_convolutions() {
        let of = |dtype: &str, x: &str, k: &str| {
            let body = format!(
                "x: {dtype}[1,3,1]; k: {dtype}[2,1,1]; y = {dtype}[1,2,1] convolution(x, k), window={{size=2}}, dim_labels=b0f_0io->b0f; ROOT z = {dtype}[2] reshape(y)"
            );
            result(&body, &[x, k])
        };
        for dtype in ["f64", "s32", "f16"] {
            assert_eq!(of(dtype, "{{{1}, {2}, {3}}}", "{{{10}}, {{1}}}"), "{12, 23}");
        }
        for dtype in ["c64", "c128"] {
            assert_eq!(
                of(dtype, "{{{(0, 1)}, {(2, 0)}, {(3, 0)}}}", "{{{(0, 1)}}, {{(1, 0)}}}"),
                "{(1, 0), (3, 2)}"
            );
        }
    }

    #[test]
    fn a_long_line_is_convolved_block_by_block() {
        // Sums of neighbours of 0, 1, 2, ...: 2 n + 1.
        let body = "i = s32[1,1000,1] iota(), iota_dimension=1; x = f32[1,1000,1] convert(i); c = f32[] constant(1); k = f32[2,1,1] broadcast(c), dimensions={}; y = f32[1,999,1] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f; r = f32[999] reshape(y); ROOT z = f32[4] slice(r), slice={[127:999:256]}";
        check(body, &[], "{255, 767, 1279, 1791}");
    }
}
