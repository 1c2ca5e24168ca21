//! The loops of a product of two tensors by what they do: matrices, rows, columns or sums.

use crate::rule::{FactorId, Rule, TensorMap};

/// What a loop of a product of two operands does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Counts independent products: both operands and the result have it.
    Batch,
    /// Counts rows of the result: the first operand has it, or neither has (positions of a convolution's
    /// window).
    Rows,
    /// Counts columns of the result: the second operand has it.
    Columns,
    /// Is summed over: the result lacks it.
    Sums,
}

/// Sizes of a product's loops; what is summed over follows from the operations: `flops / (2 batch rows
/// columns)`.
///
/// A convolution is the product that libraries make of it (implicit GEMM): positions and images are rows,
/// output features columns. Padding is not summed over, hence the operations and not the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Independent products.
    pub batch: f64,
    /// Rows of the result.
    pub rows: f64,
    /// Columns of the result.
    pub columns: f64,
    /// Whether both operands lie with what is summed over outside (`x^T y`), as in the gradient of a weight.
    pub sums_outside: bool,
}

impl Product {
    /// The product of a rule with two operands or more; `None` where loops are not told apart.
    pub fn of(rule: &Rule) -> Option<Product> {
        if rule.is_fallback || rule.operands.len() < 2 || rule.results.len() != 1 {
            return None;
        }
        let of = |part| {
            let ids = (0..rule.factors.len()).filter(|&id| rule.part(id as FactorId) == part);
            ids.map(|id| rule.factors[id].size as f64).product()
        };
        Some(Product {
            batch: of(Part::Batch),
            rows: of(Part::Rows),
            columns: of(Part::Columns),
            sums_outside: rule.operands[..2].iter().all(|map| is_summed_outside(rule, map)),
        })
    }

    /// The same with one kind of loop shared by `n_devices`.
    #[must_use]
    pub fn split(mut self, part: Part, n_devices: f64) -> Product {
        match part {
            Part::Batch => self.batch /= n_devices,
            Part::Rows => self.rows /= n_devices,
            Part::Columns => self.columns /= n_devices,
            Part::Sums => {}
        }
        self
    }

    /// The length of the sums of so many operations.
    pub fn sums(&self, flops: f64) -> f64 {
        let n_results = self.batch * self.rows * self.columns;
        if n_results > 0.0 { flops / (2.0 * n_results) } else { 0.0 }
    }
}

impl Rule {
    /// What a loop does in a product of the first two operands.
    pub fn part(&self, id: FactorId) -> Part {
        let has = |map: &TensorMap| map.iter().any(|dim| dim.contains(&id));
        match (has(&self.operands[0]), has(&self.operands[1]), self.results.iter().any(has)) {
            (_, _, false) => Part::Sums,
            (true, true, true) => Part::Batch,
            (false, true, true) => Part::Columns,
            (_, false, true) => Part::Rows,
        }
    }
}

/// Whether the outermost loop of a tensor, batches and single iterations apart, is summed over.
fn is_summed_outside(rule: &Rule, map: &TensorMap) -> bool {
    let counts = |id: &&FactorId| rule.factors[**id as usize].size > 1 && rule.part(**id) != Part::Batch;
    map.iter().flatten().find(counts).is_some_and(|&id| rule.part(id) == Part::Sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::with_root;

    fn product(body: &str) -> Product {
        with_root(body, |view| Product::of(&(view.instr.op.def().rule)(view))).expect("a product")
    }

    #[test]
    fn a_dot_has_batches_rows_and_columns() {
        let body = "x: f32[5,2,3]; w: f32[5,4,3]
            ROOT d = f32[5,2,4] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}";
        let product = product(body);
        assert_eq!((product.batch, product.rows, product.columns), (5.0, 2.0, 4.0));
        assert_eq!((product.sums(240.0), product.sums_outside), (3.0, false));
    }

    #[test]
    fn the_gradient_of_a_weight_sums_over_the_outer_loops_of_both() {
        let body = "x: f32[8,2,3]; w: f32[8,2,4]
            ROOT d = f32[3,4] dot(x, w), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}";
        assert!(product(body).sums_outside);
    }

    #[test]
    fn a_convolution_is_an_implicit_product() {
        let body = "x: f32[8,32,32,3]; k: f32[3,3,3,16]
            ROOT c = f32[8,32,32,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f";
        let product = product(body);
        assert_eq!((product.batch, product.rows, product.columns), (1.0, 8.0 * 1024.0, 16.0));
        assert_eq!(product.sums(2.0 * 8192.0 * 16.0 * 27.0), 27.0);
    }

    #[test]
    fn a_kind_of_loop_can_be_shared_and_the_sums_stay_whole() {
        let whole = Product { batch: 12.0, rows: 24.0, columns: 36.0, sums_outside: false };
        let of = |part| {
            let split = whole.split(part, 4.0);
            [split.batch, split.rows, split.columns]
        };
        assert_eq!([of(Part::Batch), of(Part::Rows)], [[3.0, 24.0, 36.0], [12.0, 6.0, 36.0]]);
        assert_eq!([of(Part::Columns), of(Part::Sums)], [[12.0, 24.0, 9.0], [12.0, 24.0, 36.0]]);
        assert_eq!(Product { rows: 0.0, ..whole }.sums(7.0), 0.0);
    }

    #[test]
    fn ops_of_one_operand_or_several_results_are_no_products() {
        let of = |body: &str| with_root(body, |view| Product::of(&(view.instr.op.def().rule)(view)));
        assert_eq!(of("x: f32[2]; ROOT y = f32[2] negate(x)"), None);
        assert_eq!(of("x: f32[2]; y: f32[2]; ROOT z = (f32[2], f32[2]) tuple(x, y)"), None);
        assert_eq!(
            of("x: f32[2]; y: f32[2]; ROOT z = f32[2] custom-call(x, y), custom_call_target=\"f\""),
            None
        );
    }
}
