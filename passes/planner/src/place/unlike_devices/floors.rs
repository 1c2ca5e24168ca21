//! What no plan on unlike devices takes less than.
//!
//! Every stage is on one kind, and takes `t` seconds of the step on `g` of its `n_k` devices; a block that
//! replicas of a stage share is in each with the part of its seconds that their microbatches are. With
//! weights `w_k` such that `sum_k n_k w_k = 1` the step takes `T >= sum_stages g w_k t`, so at least the sum
//! over blocks of the least `w_k c_kb`, where `c_kb` is the least device-seconds of block `b` on kind `k`
//! (numbers of devices and meshes are free, movements and bubbles cost nothing). The weights are the dual of
//! spreading the blocks over the kinds; all give a bound.

use super::super::Problem;
use rayon::prelude::*;

/// How often weights are improved, and by how much at first.
const N_ROUNDS: usize = 60;
const FIRST_STEP: f64 = 0.5;

/// Device-seconds of the blocks on each kind.
pub(super) struct Floors {
    /// Per kind, per block.
    device_secs: Vec<Vec<f64>>,
    n_devices: Vec<usize>,
}

impl Floors {
    /// Of the problems on each kind.
    pub fn new(problems: &[Problem]) -> Floors {
        Floors {
            device_secs: problems.par_iter().map(Problem::block_device_secs).collect(),
            n_devices: problems.iter().map(|problem| problem.cluster.n_devices()).collect(),
        }
    }

    /// No plan on one kind alone takes less.
    pub fn alone_secs(&self, kind: usize) -> f64 {
        self.device_secs[kind].iter().sum::<f64>() / self.n_devices[kind] as f64
    }

    /// No replica of a plan on so many devices of a kind that runs all microbatches takes less.
    pub fn replica_secs(&self, kind: usize, n_devices: usize) -> f64 {
        self.device_secs[kind].iter().sum::<f64>() / n_devices as f64
    }

    /// The kinds, the one that promises the fastest plan first.
    pub fn fastest_first(&self) -> Vec<usize> {
        let mut kinds: Vec<usize> = (0..self.n_devices.len()).collect();
        kinds.sort_by(|&a, &b| self.alone_secs(a).total_cmp(&self.alone_secs(b)));
        kinds
    }

    /// No plan takes less.
    pub fn secs(&self) -> f64 {
        self.of(&(0..self.n_devices.len()).collect::<Vec<_>>())
    }

    /// No plan on some kinds takes less.
    pub fn of(&self, kinds: &[usize]) -> f64 {
        // As long as all kinds are busy for as long, were all blocks alike.
        let mut weights: Vec<f64> =
            kinds.iter().map(|&kind| 1.0 / self.device_secs[kind].iter().sum::<f64>()).collect();
        let mut best = self.bound(kinds, &weights);
        let mut step = FIRST_STEP;
        for _ in 0..N_ROUNDS {
            let before = best;
            for at in 0..kinds.len() {
                for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                    let mut changed = weights.clone();
                    changed[at] *= factor;
                    let bound = self.bound(kinds, &changed);
                    if bound > best {
                        (best, weights) = (bound, changed);
                    }
                }
            }
            if best == before {
                step *= 0.5;
            }
        }
        best
    }

    fn bound(&self, kinds: &[usize], weights: &[f64]) -> f64 {
        let devices = kinds.iter().zip(weights).map(|(&kind, weight)| self.n_devices[kind] as f64 * weight);
        let least = |block: usize| {
            let all = kinds.iter().zip(weights).map(|(&kind, weight)| weight * self.device_secs[kind][block]);
            all.fold(f64::INFINITY, f64::min)
        };
        let sum = (0..self.device_secs[0].len()).map(least).sum::<f64>();
        sum / devices.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks on two kinds of so many devices.
    fn floors(device_secs: [[f64; 2]; 2], n_devices: [usize; 2]) -> Floors {
        Floors { device_secs: device_secs.map(Vec::from).to_vec(), n_devices: n_devices.to_vec() }
    }

    #[test]
    fn kinds_that_are_as_fast_share_the_work() {
        let it = floors([[4.0, 8.0], [4.0, 8.0]], [2, 4]);
        assert!((it.secs() - 12.0 / 6.0).abs() < 1e-9);
        assert_eq!((it.alone_secs(0), it.alone_secs(1), it.fastest_first()), (6.0, 3.0, vec![1, 0]));
    }

    #[test]
    fn each_kind_takes_what_it_is_best_at() {
        // One device each: block 0 on the first, 4 s, block 1 on the second, 4 s.
        let it = floors([[4.0, 16.0], [16.0, 4.0]], [1, 1]);
        assert!((it.secs() - 4.0).abs() < 1e-6, "{}", it.secs());
        // A kind that is a hundred times slower takes a hundredth.
        let it = floors([[5.0, 5.0], [500.0, 500.0]], [1, 1]);
        assert!((it.secs() - 10.0 / 1.01).abs() < 1e-6, "{}", it.secs());
    }
}
