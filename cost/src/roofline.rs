//! The roofline: one operation takes the longer of its arithmetic and its memory traffic, plus one launch.
//!
//! `time = launch + max(flops / (efficiency * peak), bytes / (efficiency * bandwidth))`, after Williams et
//! al., "Roofline: an insightful visual performance model", CACM 2009. Seconds, bytes and operations
//! throughout.

use crate::accelerator::Accelerator;
use phzc_ir::Work;

/// Operations that one transcendental costs on the vector units.
///
/// NVIDIA's special-function units finish 16 results per clock and SM, its scalar units 64 fused
/// multiply-adds (128 operations): CUDA programming guide, "Arithmetic instructions", compute capability 7.0
/// and 8.0 (from memory, not re-read).
pub const FLOPS_PER_TRANSCENDENTAL: f64 = 8.0;

impl Accelerator {
    /// Seconds of one operation on the vector units of one device. Products are priced in `gemm.rs`.
    pub fn op_secs(&self, work: &Work) -> f64 {
        self.launch_secs + self.vector_secs(work).max(self.memory_secs(work.bytes))
    }

    /// Seconds of arithmetic on the vector units alone.
    pub fn vector_secs(&self, work: &Work) -> f64 {
        (work.flops + work.transcendentals * FLOPS_PER_TRANSCENDENTAL) / self.vector_rate()
    }

    /// Operations per second of the vector units.
    pub(crate) fn vector_rate(&self) -> f64 {
        self.vector_flops_per_sec.unwrap_or(self.peak_flops_per_sec.f32)
    }

    /// Seconds to move `bytes` between memory and the cores.
    pub fn memory_secs(&self, bytes: f64) -> f64 {
        bytes / (self.hbm_bytes_per_sec * self.hbm_efficiency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy;
    use proptest::prelude::*;

    fn work(flops: f64, bytes: f64) -> Work {
        Work { flops, bytes, ..Work::default() }
    }

    fn a100() -> &'static Accelerator {
        Accelerator::named("a100").unwrap()
    }

    #[test]
    fn an_addition_is_bound_by_memory() {
        let bytes = 3.0 * 4.0 * 1e8;
        let secs = a100().op_secs(&work(1e8, bytes));
        assert_eq!(secs, a100().launch_secs + a100().memory_secs(bytes));
    }

    #[test]
    fn an_absent_dtype_runs_at_the_rate_of_a_wider_one() {
        let v100 = Accelerator::named("v100").unwrap();
        assert_eq!(v100.peak_flops_per_sec.of("bf16"), v100.peak_flops_per_sec.f32);
        assert_eq!(a100().peak_flops_per_sec.of("f8e4m3fn"), a100().peak_flops_per_sec.of("bf16"));
        assert_eq!(a100().peak_flops_per_sec.of("u8"), 624e12);
    }

    #[test]
    fn an_operation_takes_a_launch_and_the_longer_of_arithmetic_and_memory() {
        let secs =
            |flops, transcendentals, bytes| toy::device().op_secs(&Work { flops, transcendentals, bytes });
        assert_eq!(secs(20.0, 3.0, 8.0), 1.0 + (20.0 + 3.0 * 8.0) / 2.0);
        assert_eq!(secs(2.0, 0.0, 8.0), 1.0 + 8.0 / 4.0);
    }

    #[test]
    fn vector_units_of_unknown_rate_run_at_the_peak_of_32_bits() {
        let device = Accelerator { vector_flops_per_sec: None, ..toy::device() };
        assert_eq!(device.vector_secs(&work(20.0, 0.0)), 20.0 / 4.0);
    }

    proptest! {
        #[test]
        fn more_work_never_takes_less_time(flops in 0.0..1e15, bytes in 0.0..1e11, more in 0.0..1e12) {
            let secs = |flops, bytes| a100().op_secs(&work(flops, bytes));
            prop_assert!(secs(flops + more, bytes) >= secs(flops, bytes));
            prop_assert!(secs(flops, bytes + more) >= secs(flops, bytes));
        }
    }
}
