//! The loops of a contraction, its three tensors, and the words of a tile of each.

use phzc_ir::{Diagnostic, Result};

/// Loops of a nest.
pub const N_LOOPS: usize = 8;

/// One number per loop, in the order of [`NAMES`].
pub type Loops = [u64; N_LOOPS];

/// The loops by letter: batch, rows (or images), reduction (or input channels), columns (or output channels),
/// output rows and columns, window rows and columns.
pub const NAMES: [char; N_LOOPS] = ['b', 'n', 'c', 'k', 'p', 'q', 'r', 's'];

/// Batch: indexes every tensor.
pub const BATCH: usize = 0;
/// Rows of a product, images of a convolution.
pub const ROWS: usize = 1;
/// Reduction of a product, input channels of a convolution.
pub const REDUCTION: usize = 2;
/// Columns of a product, output channels of a convolution.
pub const COLUMNS: usize = 3;
/// First loop that slides a window; its partner comes two loops later.
pub const SLIDING: usize = 4;

/// The largest extent of a loop; products of all loops stay exact in an `f64`.
const MAX_MACS: u128 = 1 << 53;

/// A tensor of the nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tensor {
    /// `[b, n, c, p + r, q + s]`
    Input,
    /// `[b, c, k, r, s]`
    Weight,
    /// `[b, n, k, p, q]`
    Output,
}

impl Tensor {
    /// All three.
    pub const ALL: [Tensor; 3] = [Tensor::Input, Tensor::Weight, Tensor::Output];

    /// Whether a loop indexes it.
    pub fn has(self, of: usize) -> bool {
        match self {
            Tensor::Input => of != COLUMNS,
            Tensor::Weight => of != ROWS && of != SLIDING && of != SLIDING + 1,
            Tensor::Output => of != REDUCTION && of < SLIDING + 2,
        }
    }
}

/// A contraction: three tensors, of which one is the sum over products of the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nest {
    /// Extents of the loops.
    pub sizes: Loops,
    /// Steps of the window, by rows and by columns.
    pub strides: [u64; 2],
    /// The tensor that streams in, the one that the registers hold, the one that is summed.
    pub roles: [Tensor; 3],
}

impl Nest {
    /// A matrix product, `[rows, reduction] x [reduction, columns]`.
    pub fn product(rows: u64, columns: u64, reduction: u64) -> Nest {
        Nest { sizes: [1, rows, reduction, columns, 1, 1, 1, 1], strides: [1, 1], roles: Tensor::ALL }
    }

    /// Equal matrix products whose operands all differ.
    pub fn batched(batch: u64, rows: u64, columns: u64, reduction: u64) -> Nest {
        let mut nest = Nest::product(rows, columns, reduction);
        nest.sizes[BATCH] = batch;
        nest
    }

    /// The same with the rows of all batches against one weight, as Phaze has it.
    pub fn folded(mut self) -> Nest {
        self.sizes[ROWS] = self.sizes[ROWS].saturating_mul(self.sizes[BATCH]);
        self.sizes[BATCH] = 1;
        self
    }

    /// A convolution of `images`, `[input, output]` channels, `[rows, columns]` of its result and of its
    /// window.
    pub fn convolution(images: u64, channels: [u64; 2], output: [u64; 2], window: [u64; 2]) -> Nest {
        let ([c, k], [p, q], [r, s]) = (channels, output, window);
        Nest { sizes: [1, images, c, k, p, q, r, s], strides: [1, 1], roles: Tensor::ALL }
    }

    /// The two contractions of the backward pass: gradient of the input, gradient of the weight.
    pub fn backward(&self) -> [Nest; 2] {
        use Tensor::{Input, Output, Weight};
        [[Output, Weight, Input], [Input, Output, Weight]].map(|roles| Nest { roles, ..*self })
    }

    /// Multiply-accumulates.
    pub fn macs(&self) -> f64 {
        volume(&self.sizes)
    }

    /// Words of a tile of a tensor.
    pub fn words(&self, tensor: Tensor, tile: &Loops) -> f64 {
        let [b, n, c, k, p, q, r, s] = *tile;
        let words = match tensor {
            Tensor::Input => b * n * c * swept(p, r, self.strides[0]) * swept(q, s, self.strides[1]),
            Tensor::Weight => b * c * k * r * s,
            Tensor::Output => b * n * k * p * q,
        };
        words as f64
    }

    /// Words of the tensor that is summed.
    pub fn output_words(&self) -> f64 {
        self.words(self.roles[2], &self.sizes)
    }

    /// Whether its sizes can be priced.
    ///
    /// # Errors
    /// For a loop or stride of zero, and for more than 2^53 multiply-accumulates.
    pub fn check(&self) -> Result<()> {
        let all = self.sizes.iter().chain(&self.strides);
        if all.clone().any(|size| *size == 0) {
            return Err(Diagnostic::error("a contraction has a loop or a stride of zero"));
        }
        let macs = all.fold(1_u128, |product, size| product.saturating_mul(u128::from(*size)));
        match macs > MAX_MACS {
            true => Err(Diagnostic::error("a contraction has more than 2^53 multiply-accumulates")),
            false => Ok(()),
        }
    }
}

/// Elements along one side under `steps` positions of a window; between windows smaller than a stride none is
/// needed.
fn swept(steps: u64, window: u64, stride: u64) -> u64 {
    (steps - 1) * stride.min(window) + window
}

/// Product over all loops.
pub fn volume(loops: &Loops) -> f64 {
    loops.iter().product::<u64>() as f64
}

/// Elementwise product.
pub fn times(left: &Loops, right: &Loops) -> Loops {
    std::array::from_fn(|at| left[at] * right[at])
}

/// Elementwise quotient; the right one divides.
pub fn over(left: &Loops, right: &Loops) -> Loops {
    std::array::from_fn(|at| left[at] / right[at])
}

/// Greatest common divisors, entry by entry.
pub fn common(left: &Loops, right: &Loops) -> Loops {
    std::array::from_fn(|at| common_divisor(left[at], right[at]))
}

/// The greatest common divisor.
pub fn common_divisor(mut large: u64, mut small: u64) -> u64 {
    while small > 0 {
        (large, small) = (small, large % small);
    }
    large
}

/// Whether every entry divides that of the other.
pub fn is_divisor(of: &Loops, whole: &Loops) -> bool {
    of.iter().zip(whole).all(|(part, whole)| whole.is_multiple_of(*part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_makes_a_tile_of_the_input_larger() {
        let nest = Nest { strides: [2, 4], ..Nest::convolution(1, [3, 4], [8, 8], [3, 3]) };
        assert_eq!(nest.words(Tensor::Input, &nest.sizes), f64::from(3 * (7 * 2 + 3) * (8 * 3)));
    }

    #[test]
    fn backward_contractions_have_as_many_multiplies_and_sum_the_other_tensors() {
        let nest = Nest::product(4, 6, 8);
        let outputs = nest.backward().map(|it| (it.macs(), it.output_words()));
        assert_eq!(outputs, [(nest.macs(), 32.0), (nest.macs(), 48.0)]);
    }

    #[test]
    fn a_contraction_that_cannot_be_priced_is_an_error() {
        assert!(Nest::product(0, 1, 1).check().is_err());
        assert!(Nest::product(1 << 20, 1 << 20, 1 << 20).check().is_err());
        assert!(Nest::product(1 << 17, 1 << 17, 1 << 17).check().is_ok());
    }
}
