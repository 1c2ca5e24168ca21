//! Computation and communication at once: both slow down, for they share cores and memory.

use crate::accelerator::Accelerator;

/// How much of the shorter of two that run at once is not hidden.
///
/// Placeholder until fitted.
const NOT_HIDDEN: f64 = 0.2;

impl Accelerator {
    /// Seconds of computation and communication that start together.
    pub fn beside_secs(&self, compute_secs: f64, moved_secs: f64) -> f64 {
        compute_secs.max(moved_secs) + NOT_HIDDEN * compute_secs.min(moved_secs)
    }
}
