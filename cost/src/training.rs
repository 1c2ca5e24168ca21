//! Training runs by their configuration: a transformer, its parallel layout, a cluster; step time and memory come out.
//!
//! A layer is a list of operators with their local shapes ([`layer`]); every operator is priced by the functions that price
//! planned programs ([`price`]: products, attention, memory traffic, collectives), stages by the replay of their schedule
//! ([`step`]), memory by what each operator keeps for its backward part ([`memory`]). Nothing here is a time of its own.

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

impl Job {
    /// The prediction on a cluster that has as many devices as the layout, or more.
    pub fn predict(&self, cluster: &Cluster) -> Prediction {
        let (step_secs, terms) = step::step(self, cluster);
        Prediction { step_secs, terms, memory: self.memory() }
    }

    /// The memory of the fullest device.
    pub fn memory(&self) -> Memory {
        memory::peak(self)
    }

    /// Operations of the model in one step, recomputation not counted: forward once, backward twice.
    pub fn model_flops(&self) -> f64 {
        let whole = Job { layout: self.layout.on_one_device(), ..self.clone() };
        let tokens = self.layout.n_sequences() as f64 * self.model.seq;
        let layer: f64 = layer::layer(&whole).iter().map(layer::Operator::flops).sum();
        let head = layer::head(&whole).iter().map(layer::Operator::flops).sum::<f64>();
        3.0 * (layer * self.model.layers as f64 + head) * tokens
            / (self.model.seq * self.layout.micro_batch as f64)
    }
}
