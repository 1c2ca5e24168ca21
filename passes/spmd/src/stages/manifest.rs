//! What says how the modules fit together: `stages.json` (docs/stages.md).

use serde::Serialize;

/// How the modules of a plan fit together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of this schema.
    pub schema: u32,
    /// The program's name.
    pub program: String,
    /// Microbatches of one step.
    pub n_microbatches: usize,
    /// The order in which stages run them.
    pub schedule: String,
    /// Pipeline stages, first to last.
    pub stages: Vec<Devices>,
    /// The replicas of all stages, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
    /// The modules.
    pub modules: Vec<Entry>,
    /// Sums over the microbatches.
    pub accumulators: Vec<Accumulator>,
    /// What runs one after the other.
    pub order: Vec<Run>,
    /// Where each array of the program's result is.
    pub results: Vec<Output>,
}

/// Where a stage runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Devices {
    /// First and last device.
    pub devices: [usize; 2],
    /// The mesh that the modules' layouts are of.
    pub mesh: String,
}

/// A replica of all stages: it runs the same modules for its own microbatches, and updates what it has by the
/// sums over those of all replicas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replica {
    /// First and last microbatch.
    pub microbatches: [usize; 2],
    /// Per stage: first and last device.
    pub devices: Vec<[usize; 2]>,
}

/// A module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its file, beside the manifest.
    pub file: String,
    /// The stage that runs it.
    pub stage: usize,
    /// `forward`, `backward` or `update`.
    pub phase: &'static str,
    /// Where its parameters come from, in order.
    pub parameters: Vec<Given>,
    /// What its results are, in order.
    pub results: Vec<Made>,
}

/// A parameter of a module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Given {
    /// The type: `f32[4,8]`.
    pub shape: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub from: From,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum From {
    /// The program's parameter, or its `leaf`-th array; microbatch `i` gets the `i`-th part of `split_dim`.
    Program {
        /// The parameter's number.
        parameter: u32,
        /// Which of its arrays.
        leaf: usize,
        /// The dimension that runs over the batch.
        split_dim: Option<usize>,
    },
    /// A result of another module, for the same microbatch; once per step it is that of the last one.
    Module {
        /// The module.
        module: String,
        /// Which result.
        result: usize,
    },
    /// The sum so far; once per step, the sum over all microbatches.
    Accumulator {
        /// Which.
        accumulator: usize,
    },
    /// The number of the microbatch, from 0.
    Microbatch,
}

/// A result of a module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Made {
    /// The instruction that makes it.
    pub name: String,
    /// The type.
    pub shape: String,
    /// The accumulator that it is the new value of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulator: Option<usize>,
    /// The modules that read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<String>,
}

/// A sum over the microbatches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accumulator {
    /// The instruction that sums up in the program.
    pub name: String,
    /// The type.
    pub shape: String,
    /// What it is full of before the first microbatch: `zero`, `one`, `ones` (every bit), `lowest`,
    /// `highest`.
    pub start: &'static str,
    /// The module that adds to it.
    pub module: String,
}

/// One run of a module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The module.
    pub module: String,
    /// For which microbatch; null once per step.
    pub microbatch: Option<usize>,
}

/// An array of the program's result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Output {
    /// The type.
    pub shape: String,
    /// The dimension along which the microbatches' parts are joined.
    pub join_dim: Option<usize>,
    /// Where it is.
    #[serde(flatten)]
    pub from: From,
}
