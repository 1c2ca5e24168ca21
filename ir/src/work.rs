//! What an instruction costs before any hardware is known.

use std::ops::{Add, AddAssign, Mul};

/// FLOPs, transcendental function calls and bytes moved by one execution of an instruction.
///
/// The counts follow XLA's `HloCostAnalysis`: an elementwise op is one FLOP or one transcendental
/// per element, a dot two FLOPs per multiply-add, a reduction its reducer per combined element.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point (or integer) operations.
    pub flops: f64,
    /// Those of `flops` that matrix units do inside kernels of other ops: attention, products of libraries.
    pub products: f64,
    /// Calls of exponential, logarithm, square root and their kin.
    pub transcendentals: f64,
    /// Bytes of operands read and results written.
    pub bytes: f64,
}

impl Work {
    /// No work but `flops`.
    pub fn flops(flops: f64) -> Work {
        Work { flops, ..Work::default() }
    }

    /// No work but `transcendentals`.
    pub fn transcendentals(transcendentals: f64) -> Work {
        Work { transcendentals, ..Work::default() }
    }

    /// The larger of each quantity.
    pub fn max(self, other: Work) -> Work {
        Work {
            flops: self.flops.max(other.flops),
            products: self.products.max(other.products),
            transcendentals: self.transcendentals.max(other.transcendentals),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

impl Add for Work {
    type Output = Work;
    fn add(self, other: Work) -> Work {
        Work {
            flops: self.flops + other.flops,
            products: self.products + other.products,
            transcendentals: self.transcendentals + other.transcendentals,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        *self = *self + other;
    }
}

impl Mul<f64> for Work {
    type Output = Work;
    fn mul(self, times: f64) -> Work {
        Work {
            flops: self.flops * times,
            products: self.products * times,
            transcendentals: self.transcendentals * times,
            bytes: self.bytes * times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_adds_up_and_is_repeated_part_by_part() {
        let work = Work { flops: 1.0, products: 0.5, transcendentals: 3.0, bytes: 5.0 };
        assert_eq!(work * 2.0, Work { flops: 2.0, products: 1.0, transcendentals: 6.0, bytes: 10.0 });
        let mut sum = work + Work::flops(7.0);
        sum += Work::transcendentals(4.0);
        assert_eq!(sum, Work { flops: 8.0, products: 0.5, transcendentals: 7.0, bytes: 5.0 });
    }
}
