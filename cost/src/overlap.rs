//! Computation and communication at once: both slow down, for they share memory and cores.

use crate::cluster::Cluster;

/// Part of the shorter of two that is not hidden, per part of the memory's bandwidth that the moved bytes
/// take.
///
/// overlap_interference_mist.csv, products beside all-gathers: 0.48 of the shorter is not hidden at 0.14 of
/// the bandwidth (A100, NVLink), 0.2 at 0.12 (V100, NVLink), 0.05 to 0.08 at 0.01 to 0.03 (both, between
/// nodes).
const LOSS: f64 = 3.0;

impl Cluster {
    /// Seconds of computation and a collective of `moved_bytes` on each device that start together.
    pub fn beside_secs(&self, compute_secs: f64, moved_secs: f64, moved_bytes: f64) -> f64 {
        let share = moved_bytes / moved_secs.max(f64::MIN_POSITIVE) / self.accelerator.hbm_bytes_per_sec;
        compute_secs.max(moved_secs) + (LOSS * share).min(1.0) * compute_secs.min(moved_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_an_all_gather_inside_a_node_is_not_hidden_and_hardly_any_between_nodes() {
        let a100 = Cluster::named("a100-40-8").unwrap();
        let exposed = |bytes_per_sec: f64| a100.beside_secs(1.0, 0.5, 0.5 * bytes_per_sec) - 1.0;
        assert!((0.19..0.26).contains(&exposed(2.2e11)), "{}", exposed(2.2e11));
        assert!(exposed(2e10) < 0.03);
    }
}
