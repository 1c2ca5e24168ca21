//! Training runs by their configuration: a transformer, its parallel layout, a cluster; step time and memory come out.
//!
//! A layer is a list of operators with their local shapes (`layer.rs`); every operator is priced by the functions that price
//! planned programs (`price.rs`: products, attention, memory traffic, collectives), stages by the replay of their schedule
//! (`step.rs`), memory by what each operator keeps for its backward part (`memory.rs`). Nothing here is a time of its own.

mod job;
mod layer;
mod memory;
mod price;
mod step;
#[cfg(test)]
mod tests;

pub use job::{Job, Layout, Model, Recompute, Sharding, Stack};
pub use memory::Memory;
pub use price::Terms;

use crate::Cluster;

/// What a run is predicted to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds of one optimizer step.
    pub step_secs: f64,
    /// Where they go on the stage that is busy longest.
    pub terms: Terms,
    /// Bytes on the fullest device.
    pub memory: Memory,
}

/// Half width of the 80 % interval, as a factor. `phzc calibrate` prints it: each of the files of data/published that are marked fit
/// left out in turn and predicted with clocks fitted to the others, 1.154.
const INTERVAL: f64 = 1.154;
/// The same on a device that no training run was fitted to, whose clock is one more like those that were fitted: 1.209.
const UNFITTED_INTERVAL: f64 = 1.209;

impl Prediction {
    /// Between which seconds eight of ten steps lie.
    pub fn interval_secs(&self, cluster: &Cluster) -> [f64; 2] {
        let factor = if cluster.accelerator.is_fitted() { INTERVAL } else { UNFITTED_INTERVAL };
        [self.step_secs / factor, self.step_secs * factor]
    }
}

impl Job {
    /// The prediction on a cluster that has as many devices as the layout, or more.
    pub fn predict(&self, cluster: &Cluster) -> Prediction {
        let (step_secs, terms) = step::step(self, cluster);
        Prediction { step_secs, terms, memory: self.memory() }
    }

    /// The same with measured stages over the analytic ones: forward, backward and update of each, in seconds.
    ///
    /// There is one part per stage, whatever the layout says of parts.
    pub fn predict_measured(&self, cluster: &Cluster, stages: &[[f64; 3]]) -> Prediction {
        let (step_secs, terms) = step::step_of_measured(self, cluster, stages);
        Prediction { step_secs, terms, memory: self.memory() }
    }

    /// The memory of the fullest device.
    pub fn memory(&self) -> Memory {
        memory::peak(self)
    }

    /// Operations of the model in one step, recomputation not counted: forward once, backward twice (once if weights are frozen).
    pub fn model_flops(&self) -> f64 {
        let whole = Job { layout: self.layout.on_one_device(), ..self.clone() };
        let tokens = self.layout.n_sequences() as f64 * self.model.seq;
        let layer: f64 = layer::layer(&whole).iter().map(layer::Operator::flops).sum();
        let head = layer::head(&whole).iter().map(layer::Operator::flops).sum::<f64>();
        let passes = if self.model.is_frozen() { 2.0 } else { 3.0 };
        passes * (layer * self.model.layers as f64 + head) * tokens
            / (self.model.seq * self.layout.micro_batch as f64)
    }
}
