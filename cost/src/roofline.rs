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
    /// Seconds of arithmetic on the vector units alone. Products are priced in `gemm.rs`.
    pub fn vector_secs(&self, work: &Work) -> f64 {
        let operations = work.flops - work.products + work.transcendentals * FLOPS_PER_TRANSCENDENTAL;
        operations / (self.vector_efficiency * self.vector_rate())
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
        assert!(a100().memory_secs(bytes) > a100().vector_secs(&work(1e8, bytes)));
    }

    #[test]
    fn an_absent_dtype_runs_at_the_rate_of_a_wider_one() {
        let v100 = Accelerator::named("v100").unwrap();
        assert_eq!(v100.peak_flops_per_sec.of("bf16"), v100.peak_flops_per_sec.f32);
        assert_eq!(a100().peak_flops_per_sec.of("f8e4m3fn"), a100().peak_flops_per_sec.of("bf16"));
        assert_eq!(a100().peak_flops_per_sec.of("u8"), 624e12);
    }

    #[test]
    fn a_transcendental_function_takes_as_long_as_several_operations() {
        let work = Work { flops: 20.0, transcendentals: 3.0, bytes: 8.0, ..Work::default() };
        assert_eq!(toy::device().vector_secs(&work), (20.0 + 3.0 * 8.0) / 2.0);
        assert_eq!(toy::device().memory_secs(8.0), 8.0 / 4.0);
    }

    #[test]
    fn vector_units_of_unknown_rate_run_at_the_peak_of_32_bits() {
        let device = Accelerator { vector_flops_per_sec: None, ..toy::device() };
        assert_eq!(device.vector_secs(&work(20.0, 0.0)), 20.0 / 4.0);
    }

    proptest! {
        #[test]
        fn more_work_never_takes_less_time(flops in 0.0..1e15, bytes in 0.0..1e11, more in 0.0..1e12) {
            let secs = |flops| a100().vector_secs(&work(flops, bytes));
            prop_assert!(secs(flops + more) >= secs(flops));
            prop_assert!(a100().memory_secs(bytes + more) >= a100().memory_secs(bytes));
        }
    }
}
