//! What no stage on some number of devices takes less than, block by block.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Per number of devices, per block: its part of the least seconds of a step in which all devices are as busy
/// as those that run it.
#[derive(Default)]
pub struct StageLowerBounds(Mutex<BTreeMap<usize, Vec<f64>>>);

impl StageLowerBounds {
    /// Adds what is known of the blocks on one mesh; of several meshes each block has its least.
    pub fn add(&self, n_devices: usize, share: f64, blocks: &[f64]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(n_devices).or_insert_with(|| vec![f64::INFINITY; blocks.len()]);
        own.iter_mut().zip(blocks).for_each(|(own, block)| *own = own.min(share * block));
    }

    /// Whether something is known of stages on so many devices.
    pub fn has(&self, n_devices: usize) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&n_devices)
    }

    /// Seconds of a step with every block on that of these numbers of devices on which it takes least.
    pub fn least_secs(&self, sizes: &[usize]) -> f64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<&Vec<f64>> = sizes.iter().filter_map(|size| all.get(size)).collect();
        let n_blocks = known.first().map_or(0, |blocks| blocks.len());
        let least = |block: usize| known.iter().map(|blocks| blocks[block]).fold(f64::INFINITY, f64::min);
        (0..n_blocks).map(least).sum()
    }
}
