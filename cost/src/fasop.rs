//! FASOP's cost model of hybrid-parallel transformers on nodes of unlike devices (HPDC 2024;
//! reference/fasop.md, section 3, and section 9 for the strict variant).
//!
//! A plan is an order of nodes, degrees, a microbatch and the layers of each stage. Its step is the replay of
//! 1F1B over measured layer times, then the sums of gradients and of the shared embedding; its memory is a
//! formula per stage; its price that of all nodes for as long. All rates are in bits per second, as there.

mod bill;
mod memory;
mod rate;
mod replay;
#[cfg(test)]
mod tests;
mod time;

pub use memory::StageMemory;
pub use rate::{Rate, Zones};
pub use replay::{CriticalPath, critical_path, step_secs};
pub use time::Times;

/// A kind of node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeKind {
    /// What a person calls its device.
    pub device: String,
    /// Rate between nodes, in bits per second.
    pub between_bits_per_sec: Rate,
    /// Rate inside one, in bits per second.
    pub inside_bits_per_sec: Rate,
    /// Price of a node.
    pub usd_per_hour: f64,
    /// Memory of one device that a program can use.
    pub memory_gib: f64,
    /// Part of the time in which a node of this offer is there, from 0 to 1.
    pub availability: f64,
    /// Power of one device.
    pub watts: f64,
    /// Number of its zone.
    pub zone: usize,
}

impl NodeKind {
    /// Nodes that are always there, in the one zone that there is, of no known power.
    pub fn plain(device: &str, bits_per_sec: [f64; 2], usd_per_hour: f64, memory_gib: f64) -> NodeKind {
        let [between, inside] = bits_per_sec.map(Rate::from);
        NodeKind {
            device: device.to_owned(),
            between_bits_per_sec: between,
            inside_bits_per_sec: inside,
            usd_per_hour,
            memory_gib,
            availability: 1.0,
            watts: 0.0,
            zone: 0,
        }
    }
}

/// What an entry of the list of layers is, for parameters and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A table of words.
    Embedding,
    /// A transformer layer.
    Layer,
    /// The logits.
    Head,
}

/// A transformer and its batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Transformer {
    /// Width of the residual stream.
    pub hidden: f64,
    /// Positions of a sequence.
    pub seq: f64,
    /// Words.
    pub vocab: f64,
    /// Attention heads.
    pub heads: f64,
    /// Sequences of a step.
    pub batch: usize,
    /// What each entry of the list of layers is.
    pub roles: Vec<Role>,
    /// Whether first and last stage share the embedding, and sum up its gradient.
    pub shares_embedding: bool,
    /// Per kind of node and degree of tensor parallelism, by its power of two: forward seconds of each entry
    /// for one sequence, and how they grow with the microbatch.
    pub times: Vec<Vec<LayerTimes>>,
}

/// Measured times of all entries on one device with one degree of tensor parallelism.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTimes {
    /// Forward seconds of each entry for one sequence.
    pub forward_secs: Vec<f64>,
    /// Per entry: how many times as long a microbatch takes.
    pub growth: Vec<Growth>,
}

/// How many times as long a microbatch of several sequences takes as one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Sizes and factors, ascending from size one; between two the smaller's holds.
    pub points: Vec<(usize, f64)>,
    /// Whether it grows with the size behind the last point, or stays.
    pub is_linear: bool,
}

impl Growth {
    /// The factor of a microbatch of `size` sequences.
    pub fn factor(&self, size: usize) -> f64 {
        let known = self.points.iter().rev().find(|(at, _)| *at <= size);
        match (known, self.points.last()) {
            (Some((at, factor)), Some((last, _))) if at == last && self.is_linear => {
                factor * size as f64 / *at as f64
            }
            (Some((_, factor)), _) => *factor,
            (None, _) => size as f64,
        }
    }
}

/// Nodes in the order of ranks, all with as many devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// The kinds there are, the fastest device first.
    pub kinds: Vec<NodeKind>,
    /// Devices of a node.
    pub per_node: usize,
    /// What lies between their zones.
    pub zones: Zones,
}

/// Degrees of parallelism and the microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Degrees {
    /// Tensor-parallel devices.
    pub tensor: usize,
    /// Copies.
    pub data: usize,
    /// Stages.
    pub stages: usize,
    /// Sequences of a microbatch.
    pub micro_batch: usize,
}

/// Which form of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As FASOP has it.
    Faithful,
    /// Its omissions repaired (reference/fasop.md, section 9).
    Strict,
}

/// Nodes in an order, degrees on them: everything but the layers of each stage.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// The nodes.
    pub fleet: &'a Fleet,
    /// What is trained.
    pub model: &'a Transformer,
    /// How it is priced.
    pub variant: Variant,
    /// Per node in the order of ranks, its kind.
    pub order: Vec<usize>,
    /// Degrees of parallelism.
    pub degrees: Degrees,
}

/// What a plan takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds of one step.
    pub step_secs: f64,
    /// Of these, until the first stage has ended its last backward part.
    pub pipeline_secs: f64,
    /// Seconds of the sum of the shared embedding's gradient.
    pub embedding_secs: f64,
    /// Seconds of one step with those in which a node is waited for.
    pub expected_secs: f64,
    /// Dollars of one step.
    pub usd: f64,
    /// Of these, for bytes between zones.
    pub egress_usd: f64,
    /// Energy of one step, all devices at their power.
    pub kwh: f64,
    /// The largest stage, in GiB.
    pub memory_gib: f64,
    /// Whether every stage fits.
    pub fits: bool,
}

impl Placement<'_> {
    /// Microbatches of a step on one copy.
    pub fn n_microbatches(&self) -> usize {
        self.model.batch / (self.degrees.data * self.degrees.micro_batch)
    }

    /// The cost of a cut into so many entries per stage.
    pub fn cost(&self, cut: &[usize]) -> Cost {
        let times = Times::of(self);
        self.cost_in(&times, cut)
    }

    /// The same with times that are known.
    pub fn cost_in(&self, times: &Times, cut: &[usize]) -> Cost {
        let ends =
            step_secs(&times.stage_secs(cut), &times.boundary_secs, self.n_microbatches(), self.variant);
        let embedding_secs = times.embedding_secs;
        let with_sums = ends.iter().enumerate().map(|(stage, end)| end + self.sum_secs(cut, stage));
        let step_secs = with_sums.fold(0.0, f64::max) + embedding_secs;
        let memory = self.memory(cut);
        let cost = Cost {
            step_secs,
            pipeline_secs: ends.first().copied().unwrap_or(0.0),
            embedding_secs,
            memory_gib: memory.iter().map(|stage| stage.gib).fold(0.0, f64::max),
            fits: memory.iter().all(StageMemory::fits),
            ..Cost::default()
        };
        self.billed(cost, cut)
    }
}
