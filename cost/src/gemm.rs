//! The time of a matrix product: equal tiles over the cores, in whole waves.
//!
//! A core works on one tile of the result at a time; `ceil(tiles / cores)` waves make the product, the last
//! one possibly part full. A wave takes a fixed time to start and to end, and then the longer of its
//! arithmetic and of the traffic of its operands from the second-level cache. Where the tiles are too few,
//! the sum over `k` is split too. The library that is modelled tries tile sizes and keeps the fastest, and so
//! does [`Accelerator::gemm_secs`]. The law is NVIDIA's "Matrix multiplication background user's guide" (tile
//! and wave quantisation); the constants of a device are few and have a meaning: cores, sustained fraction of
//! the peak, start of a wave, cache bandwidth. On op_gemm_bf16_compact.csv the median error is 4 % (A100), 5
//! % (H100, B200) and 8 % (L40S).

use crate::accelerator::Accelerator;

/// `batch` products of an `m x k` and a `k x n` matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Independent products.
    pub batch: f64,
    /// Rows of the result.
    pub m: f64,
    /// Columns of the result.
    pub n: f64,
    /// Length of the sums.
    pub k: f64,
}

/// What a product does with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Writes it: a forward product, or the gradient of an input.
    Write,
    /// Adds it to what is there, both operands transposed: the gradient of a weight.
    Accumulate,
}

/// Tile sizes that libraries have: `m x n` of the result.
const TILES: [(f64, f64); 7] = [
    (256.0, 256.0),
    (256.0, 128.0),
    (128.0, 256.0),
    (128.0, 128.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (64.0, 64.0),
];
/// Into how many parts the sums may be split, where tiles are too few.
const SPLITS: [f64; 5] = [2.0, 3.0, 4.0, 6.0, 8.0];
/// Sums are not split into parts shorter than this.
const LEAST_K: f64 = 256.0;
/// Rate of weight gradients over that of other products, beyond their traffic.
///
/// op_efficiency_simumax.csv: medians of layout NT (205 + 226 rows) under those of TN and NN, A100 6 %, B200
/// 6 %.
const ACCUMULATE_EFFICIENCY: f64 = 0.94;

/// The whole number from `x` up, for `x` from 0 to 2^63: `f64::ceil` is a call on machines that it has to run
/// on.
fn ceil(x: f64) -> f64 {
    let whole = x as i64 as f64;
    if whole < x { whole + 1.0 } else { whole }
}

/// What a device reaches in products of one dtype, worked out once for all tile sizes.
struct Rates {
    n_cores: f64,
    /// Seconds that one core takes for one operation inside tiles.
    secs_per_flop: f64,
    /// Seconds that one core waits for one element from the second-level cache.
    secs_per_element: f64,
}

impl Gemm {
    /// One product.
    pub fn new(m: f64, n: f64, k: f64) -> Gemm {
        Gemm { batch: 1.0, m, n, k }
    }

    /// Operations, a multiplication and an addition each.
    pub fn flops(&self) -> f64 {
        2.0 * self.batch * self.m * self.n * self.k
    }
}

impl Accelerator {
    /// Seconds of one product on one device, its launch included; operands of `dtype_key`.
    pub fn gemm_secs(&self, gemm: &Gemm, dtype_key: &str, role: Role) -> f64 {
        let operand_bytes = dtype_bytes(dtype_key);
        let result_bytes = if role == Role::Accumulate { 2.0 * 4.0 } else { operand_bytes.max(2.0) };
        let bytes = operand_bytes * (gemm.m + gemm.n) * gemm.k + result_bytes * gemm.m * gemm.n;
        let arithmetic_secs = self.product_secs(gemm, dtype_key, role);
        self.launch_secs + arithmetic_secs.max(self.memory_secs(gemm.batch * bytes))
    }

    /// Seconds of a product's arithmetic alone: no launch, no traffic with memory.
    ///
    /// What fills a small part of a tile only (one row, one feature per group) is done on the vector units
    /// instead.
    /// A device that has a template maps them instead.
    pub fn product_secs(&self, gemm: &Gemm, dtype_key: &str, role: Role) -> f64 {
        if let Some(secs) = self.template.as_ref().and_then(|mapped| mapped.product_secs(gemm)) {
            return secs;
        }
        let rate = if role == Role::Accumulate { ACCUMULATE_EFFICIENCY } else { 1.0 };
        let vector_secs = gemm.flops() / self.vector_rate().min(self.peak_flops_per_sec.of(dtype_key));
        (self.tiles_secs(gemm, dtype_key) / rate).min(vector_secs)
    }

    /// Seconds of the arithmetic of a product whose shape is not known: as if tiles fitted it.
    pub fn shapeless_product_secs(&self, flops: f64, dtype_key: &str) -> f64 {
        flops / self.tile_flops_per_sec(dtype_key) + self.tile_secs
    }

    /// Seconds of all waves with the tile size and the split that are best. Without cores known there are no
    /// waves.
    fn tiles_secs(&self, gemm: &Gemm, dtype_key: &str) -> f64 {
        let Some(n_cores) = self.n_cores.map(|n| n as f64) else {
            return self.shapeless_product_secs(gemm.flops(), dtype_key);
        };
        let rates = Rates {
            n_cores,
            secs_per_flop: n_cores / self.tile_flops_per_sec(dtype_key),
            secs_per_element: self
                .l2_bytes_per_sec
                .map_or(0.0, |rate| dtype_bytes(dtype_key) * n_cores / rate),
        };
        TILES.iter().fold(f64::INFINITY, |best, &tile| self.tile_secs_of(gemm, tile, &rates, best))
    }

    /// The same with tiles of one size, or `best` if that is less.
    fn tile_secs_of(&self, gemm: &Gemm, tile: (f64, f64), rates: &Rates, best: f64) -> f64 {
        let n_tiles = gemm.batch * ceil(gemm.m / tile.0) * ceil(gemm.n / tile.1);
        let part_secs =
            (2.0 * tile.0 * tile.1 * rates.secs_per_flop).max((tile.0 + tile.1) * rates.secs_per_element);
        // No split beats cores that are all busy all the time.
        if n_tiles / rates.n_cores * part_secs * gemm.k >= best {
            return best;
        }
        let waves_secs =
            |n_tiles: f64, k: f64| ceil(n_tiles / rates.n_cores) * (part_secs * k + self.tile_secs);
        let whole_secs = best.min(waves_secs(n_tiles, gemm.k));
        if n_tiles >= 2.0 * rates.n_cores {
            return whole_secs;
        }
        let splits = SPLITS.iter().take_while(|split| gemm.k >= LEAST_K * **split);
        let joined_secs = 8.0 * gemm.batch * gemm.m * gemm.n / self.hbm_bytes_per_sec;
        let secs = |split: &f64| waves_secs(n_tiles * split, ceil(gemm.k / split)) + split * joined_secs;
        splits.map(secs).fold(whole_secs, f64::min)
    }

    /// What products reach at most, in operations per second.
    pub fn most_flops_per_sec(&self, dtype_key: &str) -> f64 {
        match &self.template {
            Some(mapped) => mapped.template.peak_flops_per_sec().max(self.tile_flops_per_sec(dtype_key)),
            None => self.tile_flops_per_sec(dtype_key),
        }
    }

    /// What all cores reach inside tiles, in operations per second.
    pub fn tile_flops_per_sec(&self, dtype_key: &str) -> f64 {
        let whole = self.tile_efficiency.unwrap_or(self.matmul_efficiency);
        let is_narrow = dtype_bytes(dtype_key) < 2.0 && self.peak_flops_per_sec.f8.is_some();
        let efficiency = if is_narrow { self.f8_efficiency.unwrap_or(whole * F8_OF_BF16) } else { whole };
        self.peak_flops_per_sec.of(dtype_key) * efficiency * self.sustained
    }
}

/// The fraction of the peak that 8-bit products reach, over that of `bf16`, where a device has no
/// measurement.
///
/// gemm_max_achievable.csv: 0.88 (H100), 0.91 (H200), 0.93 (GH200), 0.98 (B200), 0.99 (GB200).
const F8_OF_BF16: f64 = 0.92;

/// How much longer a gradient's product takes whose operand has rows that are not aligned. Fitted to
/// vtrain_a100_single_part.csv: heads over 50257 words.
pub const UNALIGNED: f64 = 3.5;
/// The same of products of scores, whose sums over one head are short. Fitted to bigscience_a100_part.csv:
/// heads of 150.
pub const UNALIGNED_HEAD: f64 = 14.0;

impl Accelerator {
    /// Whether rows of so many elements of 16 bits are read as a whole by the matrix units of a device with
    /// cores: they have to be aligned to 16 bytes (NVIDIA, "Matrix multiplication background user's guide",
    /// section 2). Sizes that are worked out of operations are whole but for rounding.
    pub fn is_aligned(&self, n_elements: f64) -> bool {
        self.n_cores.is_none() || n_elements.round() % 8.0 == 0.0
    }

    /// How much longer a product of 16-bit numbers takes in a library that does not pad rows: several at once
    /// are taken for products of scores; of one, columns that are not aligned slow a sum over samples only.
    pub fn unpadded_slowdown(&self, gemm: &Gemm, role: Role) -> f64 {
        let [are_columns_odd, are_sums_odd] = [gemm.n, gemm.k].map(|size| !self.is_aligned(size));
        match gemm.batch > 1.0 {
            true if are_columns_odd || are_sums_odd => UNALIGNED_HEAD,
            false if are_sums_odd || are_columns_odd && role == Role::Accumulate => UNALIGNED,
            _ => 1.0,
        }
    }
}

/// Bytes of one element of an operand.
pub fn dtype_bytes(dtype_key: &str) -> f64 {
    match dtype_key {
        "f64" | "s64" | "u64" | "c64" => 8.0,
        "f32" | "tf32" | "s32" | "u32" => 4.0,
        key if key.starts_with("f4") => 0.5,
        key if key.starts_with("f8") || key == "s8" || key == "u8" => 1.0,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{self, assert_close};

    /// As in a benchmark of milliseconds.
    fn a100() -> Accelerator {
        Accelerator { sustained: 1.0, ..Accelerator::named("a100").unwrap().clone() }
    }

    fn tflops(m: f64, n: f64, k: f64) -> f64 {
        let gemm = Gemm::new(m, n, k);
        gemm.flops() / a100().gemm_secs(&gemm, "bf16", Role::Write) / 1e12
    }

    #[test]
    fn a_last_wave_that_is_part_full_costs_a_whole_one() {
        // 256 and 320 tiles of 128 x 256 on 108 cores: 2.4 and 3.0 waves. Measured: 223.8 and 276.1 TFLOP/s.
        let (odd, even) = (tflops(2048.0, 4096.0, 4096.0), tflops(2048.0, 5120.0, 4096.0));
        assert!((205.0..245.0).contains(&odd) && (255.0..285.0).contains(&even), "{odd} {even}");
    }

    #[test]
    fn short_sums_are_slower_and_weight_gradients_slower_still() {
        assert!(tflops(2048.0, 5120.0, 1024.0) < 0.95 * tflops(2048.0, 5120.0, 8192.0));
        let gemm = Gemm::new(4096.0, 4096.0, 4096.0);
        assert!(
            a100().gemm_secs(&gemm, "bf16", Role::Accumulate)
                > 1.05 * a100().gemm_secs(&gemm, "bf16", Role::Write)
        );
    }

    #[test]
    fn a_device_of_unknown_cores_has_no_waves() {
        let tpu = Accelerator::named("tpu-v5p").unwrap();
        let gemm = Gemm::new(8000.0, 8000.0, 8000.0);
        let secs = gemm.flops() / (4.59e14 * tpu.matmul_efficiency * tpu.sustained);
        assert!((tpu.gemm_secs(&gemm, "bf16", Role::Write) / secs - 1.0).abs() < 0.01);
    }

    #[test]
    fn few_tiles_are_filled_up_by_splitting_the_sums() {
        let (few, many) = (Gemm::new(512.0, 512.0, 16384.0), Gemm::new(4096.0, 4096.0, 16384.0));
        let rate = |gemm: &Gemm| gemm.flops() / a100().product_secs(gemm, "bf16", Role::Write);
        // Sixteen tiles of 128 x 128 would keep 15 % of the cores busy.
        assert!(rate(&few) > 0.5 * rate(&many));
    }

    #[test]
    fn what_fills_no_tile_runs_on_the_vector_units() {
        let depthwise = Gemm { batch: 512.0, m: 1e5, n: 1.0, k: 9.0 };
        let secs = a100().product_secs(&depthwise, "bf16", Role::Write);
        assert!((secs * a100().peak_flops_per_sec.f32 / depthwise.flops() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_element_has_the_bytes_of_its_type() {
        let bytes = ["f64", "tf32", "u32", "bf16", "f8e5m2", "s8", "u8", "f4e2m1fn"].map(dtype_bytes);
        assert_eq!(bytes, [8.0, 4.0, 4.0, 2.0, 1.0, 1.0, 1.0, 0.5]);
    }

    /// Of 4 flop/s in `bf16`, 2 on the vector units, 4 bytes/s; a launch takes 1 s, a wave 2 s.
    fn toy_secs(m: f64, n: f64, k: f64, role: Role) -> f64 {
        toy::device().gemm_secs(&Gemm { batch: 2.0, m, n, k }, "bf16", role)
    }

    #[test]
    fn a_product_takes_the_longer_of_its_arithmetic_and_its_traffic() {
        assert_eq!(toy_secs(2.0, 3.0, 4.0, Role::Write), 1.0 + (96.0 / 4.0 + 2.0));
        // 2 (8 + 4) bytes of operands and 2 x 32 of results; adding to what is there reads and writes 32
        // bits.
        assert_eq!(toy_secs(8.0, 4.0, 1.0, Role::Write), 1.0 + 2.0 * (24.0 + 64.0) / 4.0);
        assert_eq!(toy_secs(8.0, 4.0, 1.0, Role::Accumulate), 1.0 + 2.0 * (24.0 + 256.0) / 4.0);
        assert_close(toy_secs(4.0, 4.0, 11.5, Role::Accumulate), 1.0 + (736.0 / 4.0 + 2.0) / 0.94);
    }

    #[test]
    fn results_of_narrow_products_have_16_bits_and_those_of_wide_ones_their_own() {
        let secs = |dtype| toy::device().gemm_secs(&Gemm::new(20.0, 20.0, 1.0), dtype, Role::Write);
        assert_eq!(secs("f8e4m3fn"), 1.0 + (40.0 + 2.0 * 400.0) / 4.0);
        assert_eq!(secs("f32"), 1.0 + (4.0 * 40.0 + 4.0 * 400.0) / 4.0);
    }

    #[test]
    fn rates_of_8_bits_are_measured_or_a_fraction_of_those_of_16() {
        let mut device = toy::device();
        assert_eq!(device.tile_flops_per_sec("f8e4m3fn"), 16.0 * 0.5 * 0.5);
        device.peak_flops_per_sec.f8 = Some(64.0);
        assert_close(device.tile_flops_per_sec("f8e4m3fn"), 64.0 * 0.5 * 0.92 * 0.5);
        device.f8_efficiency = Some(0.25);
        assert_eq!(device.tile_flops_per_sec("f8e4m3fn"), 64.0 * 0.25 * 0.5);
        device.tile_efficiency = Some(0.75);
        assert_eq!(device.tile_flops_per_sec("bf16"), 16.0 * 0.75 * 0.5);
        assert_eq!(device.shapeless_product_secs(60.0, "bf16"), 60.0 / 6.0 + 2.0);
    }

    /// Two cores that each take 2^-16 s for an operation inside tiles: 2 s for each term of the sums of 256 x
    /// 256 results.
    fn two_cores() -> Accelerator {
        let mut device =
            Accelerator { n_cores: Some(2), matmul_efficiency: 1.0, sustained: 1.0, ..toy::device() };
        device.peak_flops_per_sec.bf16 = Some(131072.0);
        device.hbm_bytes_per_sec = 32768.0;
        device
    }

    #[test]
    fn the_tile_size_counts_that_needs_the_least_waves_times_work() {
        let secs = |device: &Accelerator, gemm: Gemm| device.tiles_secs(&gemm, "bf16");
        // Two tiles of 256 x 128 in a wave of 1 s a term and 2 s; one of 256 x 256 takes twice that.
        assert_eq!(secs(&two_cores(), Gemm::new(256.0, 256.0, 64.0)), 66.0);
        assert_eq!(secs(&two_cores(), Gemm { batch: 3.0, ..Gemm::new(256.0, 256.0, 64.0) }), 3.0 * 66.0);
        // 8 results too many on each side: 25 tiles of 64 x 64 in 13 waves; four of 256 x 256 would take
        // twice as long.
        assert_eq!(secs(&two_cores(), Gemm::new(264.0, 264.0, 64.0)), 13.0 * (0.125 * 64.0 + 2.0));
    }

    #[test]
    fn the_second_level_cache_holds_up_tiles_that_have_much_border() {
        // 384 elements of 2 bytes for each of 2 cores at 768 bytes/s: 2 s a term.
        let device = Accelerator { l2_bytes_per_sec: Some(768.0), ..two_cores() };
        assert_eq!(device.tiles_secs(&Gemm::new(256.0, 256.0, 64.0), "bf16"), 130.0);
    }

    #[test]
    fn long_sums_of_few_tiles_are_split_and_joined_through_memory() {
        // One tile of 64 x 64 at 1/8 s a term; two halves are written and read in 32 bits, 1 s each.
        assert_eq!(two_cores().tiles_secs(&Gemm::new(64.0, 64.0, 511.0), "bf16"), 511.0 / 8.0 + 2.0);
        assert_eq!(two_cores().tiles_secs(&Gemm::new(64.0, 64.0, 512.0), "bf16"), 256.0 / 8.0 + 2.0 + 2.0);
    }

    #[test]
    fn sums_are_split_where_the_last_wave_is_part_full() {
        // 12 tiles on 8 cores: two waves of 66 s, or three of half the sums and 12 s to join each half.
        let mut device = Accelerator { n_cores: Some(8), ..two_cores() };
        device.peak_flops_per_sec.bf16 = Some(4.0 * 131072.0);
        let gemm = Gemm { batch: 12.0, ..Gemm::new(64.0, 64.0, 512.0) };
        assert_eq!(device.tiles_secs(&gemm, "bf16"), 3.0 * (256.0 / 8.0 + 2.0) + 2.0 * 12.0);
    }

    #[test]
    fn a_large_matrix_product_runs_at_the_measured_rate() {
        let rate = tflops(8192.0, 8192.0, 8192.0);
        assert!((260.0..285.0).contains(&rate), "{rate} against 271.2 measured");
    }

    #[test]
    fn rows_that_are_not_aligned_slow_gradients_and_products_of_heads() {
        let device = a100();
        let slowdown = |batch: f64, n: f64, k: f64, role| {
            device.unpadded_slowdown(&Gemm { batch, m: 2048.0, n, k }, role)
        };
        assert_eq!(slowdown(1.0, 50257.0, 1024.0, Role::Write), 1.0);
        assert_eq!(slowdown(1.0, 50257.0, 1024.0, Role::Accumulate), UNALIGNED);
        assert_eq!(slowdown(1.0, 1024.0, 50257.0, Role::Write), UNALIGNED);
        assert_eq!(slowdown(64.0, 2048.0, 150.0, Role::Write), UNALIGNED_HEAD);
        assert_eq!(slowdown(64.0, 2048.0, 128.0, Role::Write), 1.0);
        assert_eq!(slowdown(1.0, 1024.0, 57_600.0 - 1e-9, Role::Write), 1.0, "rounding");
    }
}
