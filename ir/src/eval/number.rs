//! What the two float types have in common.

use super::value::Element;
use num_traits::{Float, FloatConst};
use std::cmp::Ordering;

/// `f32` or `f64`.
pub(crate) trait Real: Float + FloatConst + Element + Sync + Send {
    /// The error function.
    fn erf(self) -> Self;
    /// Rounds to the nearest integer, ties to the even one.
    fn round_even(self) -> Self;
    /// IEEE 754's total order.
    fn total_order(self, other: Self) -> Ordering;
}

impl Real for f32 {
    fn erf(self) -> f32 {
        libm::erff(self)
    }
    fn round_even(self) -> f32 {
        self.round_ties_even()
    }
    fn total_order(self, other: f32) -> Ordering {
        self.total_cmp(&other)
    }
}

impl Real for f64 {
    fn erf(self) -> f64 {
        libm::erf(self)
    }
    fn round_even(self) -> f64 {
        self.round_ties_even()
    }
    fn total_order(self, other: f64) -> Ordering {
        self.total_cmp(&other)
    }
}
