//! Where the time of the slowest stage goes.

use serde::{Deserialize, Serialize};

/// Seconds of one step on the slowest stage; they add up to `time_secs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Kernels that arithmetic bounds, launches included.
    pub compute_secs: f64,
    /// Kernels that memory bounds, launches included.
    pub memory_bound_secs: f64,
    /// Collectives and sends.
    pub collective_secs: f64,
    /// Waiting for other stages.
    pub bubble_secs: f64,
}

impl Breakdown {
    pub(super) fn times(self, share: f64) -> Breakdown {
        Breakdown {
            compute_secs: share * self.compute_secs,
            memory_bound_secs: share * self.memory_bound_secs,
            collective_secs: share * self.collective_secs,
            bubble_secs: share * self.bubble_secs,
        }
    }

    pub(super) fn add(&mut self, other: &Breakdown) {
        self.compute_secs += other.compute_secs;
        self.memory_bound_secs += other.memory_bound_secs;
        self.collective_secs += other.collective_secs;
        self.bubble_secs += other.bubble_secs;
    }
}
