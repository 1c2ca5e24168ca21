//! The roofline: one operation takes the longer of its arithmetic and its memory traffic, plus one launch.
//!
//! `time = launch + max(flops / (efficiency * peak), bytes / (efficiency * bandwidth))`, after Williams et al.,
//! "Roofline: an insightful visual performance model", CACM 2009. Seconds, bytes and operations throughout.

use crate::accelerator::Accelerator;
use phzc_ir::Work;

/// Operations that one transcendental costs on the vector units.
///
/// NVIDIA's special-function units finish 16 results per clock and SM, its scalar units 64 fused multiply-adds
/// (128 operations): CUDA programming guide, "Arithmetic instructions", compute capability 7.0 and 8.0 (from memory, not re-read).
pub const FLOPS_PER_TRANSCENDENTAL: f64 = 8.0;

impl Accelerator {
    /// Seconds of one operation on one device.
    ///
    /// `dtype_key` is the HLO name of the operands' dtype; `is_matmul` sends the flops to the matrix units.
    /// `f32` products run at the IEEE rate: ask for `tf32` where the compiler may use it.
    pub fn op_secs(&self, work: &Work, dtype_key: &str, is_matmul: bool) -> f64 {
        self.launch_secs + self.compute_secs(work, dtype_key, is_matmul).max(self.memory_secs(work.bytes))
    }

    /// Seconds of arithmetic alone.
    pub fn compute_secs(&self, work: &Work, dtype_key: &str, is_matmul: bool) -> f64 {
        let vector = self.vector_flops_per_sec.unwrap_or(self.peak_flops_per_sec.f32);
        let matrix = self.peak_flops_per_sec.of(dtype_key) * self.matmul_efficiency;
        let flops_per_sec = if is_matmul { matrix } else { vector };
        work.flops / flops_per_sec + work.transcendentals * FLOPS_PER_TRANSCENDENTAL / vector
    }

    /// Seconds to move `bytes` between memory and the cores.
    pub fn memory_secs(&self, bytes: f64) -> f64 {
        bytes / (self.hbm_bytes_per_sec * self.hbm_efficiency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn work(flops: f64, bytes: f64) -> Work {
        Work { flops, bytes, ..Work::default() }
    }

    fn a100() -> &'static Accelerator {
        Accelerator::named("a100").unwrap()
    }

    #[test]
    fn a_large_matrix_product_runs_at_the_measured_rate() {
        let n = 8192.0;
        let secs = a100().op_secs(&work(2.0 * n * n * n, 3.0 * n * n * 2.0), "bf16", true);
        let tflops = 2.0 * n * n * n / secs / 1e12;
        assert!((260.0..272.0).contains(&tflops), "{tflops} against 271.2 measured");
    }

    #[test]
    fn an_addition_is_bound_by_memory() {
        let bytes = 3.0 * 4.0 * 1e8;
        let secs = a100().op_secs(&work(1e8, bytes), "f32", false);
        assert_eq!(secs, a100().launch_secs + a100().memory_secs(bytes));
    }

    #[test]
    fn an_absent_dtype_runs_at_the_rate_of_a_wider_one() {
        let v100 = Accelerator::named("v100").unwrap();
        assert_eq!(v100.peak_flops_per_sec.of("bf16"), v100.peak_flops_per_sec.f32);
        assert_eq!(a100().peak_flops_per_sec.of("f8e4m3fn"), a100().peak_flops_per_sec.of("bf16"));
        assert_eq!(a100().peak_flops_per_sec.of("u8"), 624e12);
    }

    proptest! {
        #[test]
        fn more_work_never_takes_less_time(flops in 0.0..1e15, bytes in 0.0..1e11, more in 0.0..1e12, is_matmul: bool) {
            let secs = |flops, bytes| a100().op_secs(&work(flops, bytes), "bf16", is_matmul);
            prop_assert!(secs(flops + more, bytes) >= secs(flops, bytes));
            prop_assert!(secs(flops, bytes + more) >= secs(flops, bytes));
        }
    }
}
