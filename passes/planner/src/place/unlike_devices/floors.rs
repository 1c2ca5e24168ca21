//! What no plan on unlike devices takes less than.
//!
//! Every stage is on one kind, and takes `t` seconds of the step on `g` of its `n_k` devices; a block that
//! replicas of a stage share is in each with the part of its seconds that their microbatches are. With
//! weights `w_k` such that `sum_k n_k w_k = 1` the step takes `T >= sum_stages g w_k t`, so at least the sum
//! over blocks of the least `w_k c_kb`, where `c_kb` is the least device-seconds of block `b` on kind `k`
//! (numbers of devices and meshes are free, movements and bubbles cost nothing). The weights are the dual of
//! spreading the blocks over the kinds; all give a bound.
//!
//! Each kind holds stages one after the other, so of a row of equal layers one per border between kinds is on
//! several of them at most: the blocks of every other one are together on the kind that takes least for all
//! of them.

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
    /// Per block: the row of equal layers it is in one of, for all of which its seconds are.
    row_of: Vec<Option<usize>>,
    /// Per row: its equal layers.
    n_layers: Vec<usize>,
}

impl Floors {
    /// Of the problems on each kind.
    pub fn new(problems: &[Problem]) -> Floors {
        Floors {
            device_secs: problems.par_iter().map(Problem::block_device_secs).collect(),
            n_devices: problems.iter().map(|problem| problem.cluster.n_devices()).collect(),
            row_of: problems[0].subject.row_of(),
            n_layers: problems[0].subject.n_inner_layers(),
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

    /// How fast a kind is, the fastest being 1.
    pub fn relative_speed(&self, kind: usize) -> f64 {
        self.alone_secs(self.fastest_first()[0]) / self.alone_secs(kind)
    }

    /// The most stages of a layer or more that a kind can have where all kinds are busy for as long.
    pub fn most_stages(&self, kind: usize) -> usize {
        let speed = |kind: usize| 1.0 / self.alone_secs(kind);
        let all: f64 = (0..self.n_devices.len()).map(speed).sum();
        match self.n_layers.iter().map(|n| n + 2).sum::<usize>() {
            0 => usize::MAX,
            n_layers => (n_layers as f64 * speed(kind) / all) as usize,
        }
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
        let blocks = 0..self.device_secs[0].len();
        let sum = blocks.map(least).sum::<f64>();
        let more = |(row, &n_layers): (usize, &usize)| {
            let more = self.together(row, kinds, weights) - self.each_block(row, least);
            n_layers.saturating_sub(kinds.len() - 1) as f64 / n_layers as f64 * more.max(0.0)
        };
        (sum + self.n_layers.iter().enumerate().map(more).sum::<f64>()) / devices.sum::<f64>()
    }

    fn blocks_of(&self, row: usize) -> impl Iterator<Item = usize> {
        (0..self.row_of.len()).filter(move |&block| self.row_of[block] == Some(row))
    }

    /// The least of a row of equal layers, all blocks of a layer on one kind.
    fn together(&self, row: usize, kinds: &[usize], weights: &[f64]) -> f64 {
        let of_kind = |(&kind, weight): (&usize, &f64)| {
            weight * self.blocks_of(row).map(|block| self.device_secs[kind][block]).sum::<f64>()
        };
        kinds.iter().zip(weights).map(of_kind).fold(f64::INFINITY, f64::min)
    }

    /// The same, each block on the kind that is best at it.
    fn each_block(&self, row: usize, least: impl Fn(usize) -> f64) -> f64 {
        self.blocks_of(row).map(least).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks on two kinds of so many devices.
    fn floors(device_secs: [[f64; 2]; 2], n_devices: [usize; 2]) -> Floors {
        let device_secs = device_secs.map(Vec::from).to_vec();
        Floors { device_secs, n_devices: n_devices.to_vec(), row_of: vec![None; 2], n_layers: Vec::new() }
    }

    #[test]
    fn blocks_of_a_layer_stay_together_but_at_a_border_of_kinds() {
        // Each kind is four times as good at one of the blocks.
        let apart = || floors([[4.0, 16.0], [16.0, 4.0]], [1, 1]);
        let layers = |n_layers| Floors { row_of: vec![Some(0); 2], n_layers: vec![n_layers], ..apart() };
        let secs: Vec<f64> = [1, 2, 10].map(|n_layers| layers(n_layers).secs()).to_vec();
        assert!((secs[0] - 4.0).abs() < 1e-6 && (secs[1] - 7.0).abs() < 1e-6, "{secs:?}");
        assert!((secs[2] - 9.4).abs() < 1e-6, "{secs:?}");
    }

    #[test]
    fn kinds_that_are_as_fast_share_the_work() {
        let it = floors([[4.0, 8.0], [4.0, 8.0]], [2, 4]);
        assert!((it.secs() - 12.0 / 6.0).abs() < 1e-9);
        assert_eq!((it.alone_secs(0), it.alone_secs(1), it.fastest_first()), (6.0, 3.0, vec![1, 0]));
        assert_eq!((it.relative_speed(0), it.relative_speed(1)), (0.5, 1.0));
    }

    #[test]
    fn a_kind_has_as_many_stages_as_it_can_hold_layers() {
        let it = Floors { n_layers: vec![10], ..floors([[1.0, 1.0], [2.0, 2.0]], [1, 1]) };
        assert_eq!([0, 1].map(|kind| it.most_stages(kind)), [8, 4]);
        let slow = Floors { n_layers: vec![10], ..floors([[1.0, 1.0], [20.0, 20.0]], [1, 1]) };
        assert_eq!(slow.most_stages(1), 0);
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
