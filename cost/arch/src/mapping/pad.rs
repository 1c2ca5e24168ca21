//! Padding: sizes that divide badly, made a little larger.

use super::cost::{Cost, Mapping};
use super::machine::Machine;
use super::mapper::{best, floor};
use super::nest::{Loops, N_LOOPS, Nest};
use super::objective::Objective;
use phzc_ir::Result;

/// Extra iterations of a loop at most, as a part of it.
const MAX_WASTE: f64 = 1.0 / 16.0;

/// A contraction as it is run: with its loops as they are or padded, whichever is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Padded {
    /// With the sizes that the mapping's factors have.
    pub nest: Nest,
    /// The mapping.
    pub mapping: Mapping,
    /// What it takes, padding included.
    pub cost: Cost,
}

/// The best mapping over the sizes of the nest and the padded ones: a loop of `n` may become the multiple of
/// the largest power of two that adds at most a sixteenth.
///
/// # Errors
/// Where [`best`] has none.
pub fn best_padded(nest: &Nest, machine: &Machine, objective: Objective) -> Result<Padded> {
    let (mapping, cost) = best(nest, machine, objective)?;
    let mut found = Padded { nest: *nest, mapping, cost };
    for sizes in padded_sizes(&nest.sizes) {
        let nest = Nest { sizes, ..*nest };
        if nest.check().is_err() || objective.score(floor(&nest, machine)?) >= objective.score(found.cost) {
            continue;
        }
        let (mapping, cost) = best(&nest, machine, objective)?;
        if objective.score(cost) < objective.score(found.cost) {
            found = Padded { nest, mapping, cost };
        }
    }
    Ok(found)
}

/// Cycles of a contraction in mode `native`: the best latency, padded or not.
///
/// # Errors
/// Where [`best`] has none.
pub fn native_cycles(nest: &Nest, machine: &Machine) -> Result<f64> {
    Ok(best_padded(nest, machine, Objective::Cycles)?.cost.cycles)
}

/// Every choice of loops to pad, but that of none.
fn padded_sizes(sizes: &Loops) -> Vec<Loops> {
    let larger = sizes.map(padded);
    let padding: Vec<usize> = (0..N_LOOPS).filter(|at| larger[*at] != sizes[*at]).collect();
    let choices = (1..1_u32 << padding.len()).map(|bits| {
        let mut chosen = *sizes;
        for (_, at) in padding.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1) {
            chosen[*at] = larger[*at];
        }
        chosen
    });
    choices.collect()
}

fn padded(size: u64) -> u64 {
    let most = size + (size as f64 * MAX_WASTE) as u64;
    let multiples = (0..u64::BITS - 1).map(|exponent| size.next_multiple_of(1 << exponent));
    multiples.take_while(|multiple| *multiple <= most).last().unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::machine;

    #[test]
    fn a_size_becomes_a_multiple_of_a_power_of_two_if_that_adds_little() {
        assert_eq!([1, 17, 127, 1000, 4096, 11008].map(padded), [1, 18, 128, 1024, 4096, 11264]);
    }

    #[test]
    fn sizes_without_divisors_are_padded() {
        let (nest, machine) = (Nest::product(128, 509, 1021), machine(1, 32, 32, 8));
        let found = best_padded(&nest, &machine, Objective::Latency).expect("it fits");
        assert_eq!(found.nest.sizes, Nest::product(128, 512, 1024).sizes);
        found.mapping.check(&found.nest, &machine).expect("it fits");
        let plain = best(&nest, &machine, Objective::Latency).expect("it fits").1;
        assert!(found.cost.cycles * 4.0 < plain.cycles, "{:?}, not {plain:?}", found.cost);
    }
}
