//! The time of fused attention: one core per block of queries of one head, which walks over the blocks of
//! keys.
//!
//! A block of queries takes a fixed time (its queries in, its result out) and a time per block of keys; a
//! causal one skips the keys after it. Blocks go to cores as these get free, so the whole takes the mean over
//! cores plus, where the blocks are few, part of the longest. Backward does 2.5 times the products (Dao,
//! "FlashAttention-2", 2023). op_attention_fwd_compact.csv: median error 2 % (A100), 6 % (H100, B200), 7 %
//! (L40S).

use crate::accelerator::Accelerator;

/// One attention over heads: `softmax(q k^T) v`, never in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Sequences.
    pub batch: f64,
    /// Query heads.
    pub heads: f64,
    /// Key and value heads.
    pub kv_heads: f64,
    /// Queries of a sequence.
    pub q_len: f64,
    /// Keys of a sequence.
    pub kv_len: f64,
    /// Elements of a head.
    pub head_dim: f64,
    /// Whether a query sees the keys before it only.
    pub is_causal: bool,
    /// Whether the kernel is one for all generations of cores, not one for this.
    pub is_portable: bool,
}

/// Queries and keys in a block.
const BLOCK: f64 = 128.0;
/// Kernels that prepare an attention: rotation of queries and keys, layouts. Fitted with
/// `attention_tile_secs`.
const N_KERNELS: f64 = 3.0;
/// Products of the backward part over those of the forward part.
const BACKWARD_WORK: f64 = 2.5;
/// Rate of the backward part over that of the forward part: op_efficiency_simumax.csv, 32 to 128 heads, 0.75
/// to 0.87.
const BACKWARD_EFFICIENCY: f64 = 0.77;
/// Fraction of the products' rate in tiles that attention reaches, where a device has no measurement: A100
/// 0.55, H100 0.70, B200 0.77, L40S 0.67.
const OF_PRODUCTS: f64 = 0.67;

impl Attention {
    /// Operations of the forward part, those that a causal one skips not counted.
    pub fn flops(&self) -> f64 {
        let seen = if self.is_causal { 0.5 } else { 1.0 };
        4.0 * seen * self.batch * self.heads * self.q_len * self.kv_len * self.head_dim
    }

    fn bytes(&self) -> f64 {
        2.0 * self.batch * self.head_dim * 2.0 * (self.heads * self.q_len + self.kv_heads * self.kv_len)
    }
}

impl Accelerator {
    /// Seconds of the forward part on one device.
    pub fn attention_secs(&self, attention: &Attention) -> f64 {
        let work_secs = self.attention_work_secs(attention);
        N_KERNELS * self.launch_secs + work_secs.max(self.memory_secs(attention.bytes()))
    }

    /// Seconds of the backward part on one device.
    pub fn attention_backward_secs(&self, attention: &Attention) -> f64 {
        let work_secs = self.attention_work_secs(attention) * BACKWARD_WORK / BACKWARD_EFFICIENCY;
        N_KERNELS * self.launch_secs + work_secs.max(2.0 * self.memory_secs(attention.bytes()))
    }

    fn attention_work_secs(&self, attention: &Attention) -> f64 {
        let products = self.tile_efficiency.unwrap_or(self.matmul_efficiency);
        let own = self.attention_efficiency.unwrap_or(OF_PRODUCTS * products);
        let portable = self.portable_attention_efficiency.filter(|_| attention.is_portable);
        let efficiency = portable.unwrap_or(own) * self.sustained;
        let flops_per_sec = self.peak_flops_per_sec.of("bf16") * efficiency;
        // Without cores known there are no blocks to hand out.
        let Some(n_cores) = self.n_cores.map(|n| n as f64) else { return attention.flops() / flops_per_sec };
        let core_flops_per_sec = flops_per_sec / n_cores;
        let block_secs = 4.0 * BLOCK * BLOCK * attention.head_dim / core_flops_per_sec;
        let (n_queries, n_keys) = ((attention.q_len / BLOCK).ceil(), (attention.kv_len / BLOCK).ceil());
        let mean_keys = if attention.is_causal { (n_keys + 1.0) / 2.0 } else { n_keys };
        let n_blocks = attention.batch * attention.heads * n_queries;
        let shared_secs = n_blocks * (self.attention_tile_secs + block_secs * mean_keys) / n_cores;
        let longest_secs = self.attention_tile_secs + block_secs * n_keys;
        let tail = 0.5 * (1.0 - n_cores / n_blocks).max(0.0);
        (shared_secs + tail * longest_secs).max(longest_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{self, assert_close};

    fn attention(q_len: f64, heads: f64) -> Attention {
        Attention {
            batch: 4.0,
            heads,
            kv_heads: heads,
            q_len,
            kv_len: q_len,
            head_dim: 128.0,
            is_causal: true,
            is_portable: false,
        }
    }

    #[test]
    fn long_sequences_run_at_the_measured_rate() {
        let a100 = Accelerator { sustained: 1.0, ..Accelerator::named("a100").unwrap().clone() };
        let one = attention(4096.0, 16.0);
        let tflops = one.flops() / a100.attention_secs(&one) / 1e12;
        assert!((120.0..138.0).contains(&tflops), "{tflops} against 128.7 measured");
    }

    #[test]
    fn backward_takes_about_three_times_as_long() {
        let h100 = Accelerator::named("h100").unwrap();
        let one = attention(8192.0, 32.0);
        let ratio = h100.attention_backward_secs(&one) / h100.attention_secs(&one);
        assert!((2.8..3.5).contains(&ratio), "{ratio}");
    }

    /// Two sequences of 6 queries and 10 keys, 4 heads of 3 elements, 2 of keys and values.
    fn short() -> Attention {
        Attention {
            batch: 2.0,
            kv_heads: 2.0,
            kv_len: 10.0,
            head_dim: 3.0,
            is_causal: false,
            ..attention(6.0, 4.0)
        }
    }

    #[test]
    fn a_causal_attention_has_half_the_operations() {
        assert_eq!(short().flops(), 4.0 * 2.0 * 4.0 * 60.0 * 3.0);
        assert_eq!(Attention { is_causal: true, ..short() }.flops(), 2.0 * 2.0 * 4.0 * 60.0 * 3.0);
    }

    #[test]
    fn a_device_of_unknown_cores_runs_at_one_rate_or_at_the_memory_s() {
        // 16 flop/s at a fourth of the peak and half the clock; three kernels of 1 s.
        let slow = Accelerator { attention_efficiency: Some(0.25), ..toy::device() };
        assert_eq!(slow.attention_secs(&short()), 3.0 + 5760.0 / 2.0);
        assert_close(slow.attention_backward_secs(&short()), 3.0 + 2.5 / 0.77 * 5760.0 / 2.0);
        // 2 bytes of queries and results, keys and values, 4 bytes/s; backward twice that.
        let fast = Accelerator { attention_efficiency: Some(1.0), sustained: 1.0, ..toy::device() };
        let one = Attention { batch: 3.0, q_len: 2.0, kv_len: 5.0, ..short() };
        let bytes = 2.0 * 2.0 * 3.0 * 3.0 * (4.0 * 2.0 + 2.0 * 5.0);
        assert_eq!(fast.attention_secs(&one), 3.0 + bytes / 4.0);
        assert_eq!(fast.attention_backward_secs(&one), 3.0 + 2.0 * bytes / 4.0);
    }

    #[test]
    fn attention_reaches_what_was_measured_or_two_thirds_of_what_products_do() {
        let flops_per_sec = |device: Accelerator, is_portable| {
            let one = Attention { is_portable, ..short() };
            one.flops() / device.attention_work_secs(&one)
        };
        let device = || Accelerator { portable_attention_efficiency: Some(0.125), ..toy::device() };
        assert_close(flops_per_sec(device(), false), 16.0 * 0.67 * 0.5 * 0.5);
        assert_close(
            flops_per_sec(Accelerator { tile_efficiency: Some(0.75), ..device() }, false),
            16.0 * 0.67 * 0.75 * 0.5,
        );
        assert_close(flops_per_sec(device(), true), 16.0 * 0.125 * 0.5);
        assert_close(flops_per_sec(toy::device(), true), 16.0 * 0.67 * 0.5 * 0.5);
    }

    /// Two cores, each 5 s for a block of queries and keys of 5 elements, and 3 s for one of queries.
    fn work_secs(heads: f64, q_len: f64, is_causal: bool) -> f64 {
        let mut device = Accelerator {
            n_cores: Some(2),
            attention_efficiency: Some(1.0),
            sustained: 1.0,
            ..toy::device()
        };
        device.peak_flops_per_sec.bf16 = Some(2.0 * 4.0 * 128.0 * 128.0);
        device.attention_work_secs(&Attention {
            batch: 1.0,
            kv_len: 300.0,
            head_dim: 5.0,
            is_causal,
            ..attention(q_len, heads)
        })
    }

    #[test]
    fn blocks_of_queries_walk_over_blocks_of_keys_on_the_cores_that_are_free() {
        // 6 blocks of queries over 3 of keys: 3 per core, and a third of the last.
        assert_eq!(work_secs(3.0, 200.0, false), 3.0 * 18.0 + 18.0 / 3.0);
        // Over 2 blocks of keys in the mean; the longest over 3.
        assert_eq!(work_secs(3.0, 200.0, true), 3.0 * 13.0 + 18.0 / 3.0);
        assert_eq!(work_secs(1.0, 100.0, true), 18.0);
    }
}
