//! Whether tiles fit where a mapping puts them.

use super::machine::Machine;
use super::nest::{Loops, Nest, Tensor};

/// Whether the registers of a PE hold the tiles of all three tensors.
pub(super) fn fit_registers(nest: &Nest, machine: &Machine, tile: &Loops) -> bool {
    all_words(nest, tile) <= machine.register_words as f64
}

/// Whether the buffer of a core holds the tiles.
pub(super) fn fit_core(nest: &Nest, machine: &Machine, tile: &Loops) -> bool {
    let most = machine.core_words as f64;
    match machine.is_per_operand {
        true => Tensor::ALL.iter().all(|tensor| nest.words(*tensor, tile) <= most),
        false => all_words(nest, tile) <= most,
    }
}

/// Whether the global buffer holds the tiles.
pub(super) fn fit_global(nest: &Nest, machine: &Machine, tile: &Loops) -> bool {
    all_words(nest, tile) <= machine.global_words as f64
}

fn all_words(nest: &Nest, tile: &Loops) -> f64 {
    Tensor::ALL.iter().map(|tensor| nest.words(*tensor, tile)).sum()
}

/// Whether factors can be split into two products within the two sides.
pub(super) fn fit_axes(factors: &Loops, sides: [u64; 2]) -> bool {
    let product: u64 = factors.iter().product();
    if product > sides[0] * sides[1] {
        return false;
    }
    let is_easy = product.is_power_of_two() && sides.iter().all(|side| side.is_power_of_two());
    is_easy || product <= sides[0].max(sides[1]) || splits(factors, product, 1, sides)
}

/// Whether some product of divisors of `factors`, times `first`, is within one side and the rest of `product`
/// within the other.
fn splits(factors: &[u64], product: u64, first: u64, sides: [u64; 2]) -> bool {
    if first > sides[0] {
        return false;
    }
    let Some((factor, rest)) = factors.split_first() else { return product / first <= sides[1] };
    let divisors = (1..=(*factor).min(sides[0] / first)).filter(|divisor| factor.is_multiple_of(*divisor));
    divisors.into_iter().any(|divisor| splits(rest, product, first * divisor, sides))
}
