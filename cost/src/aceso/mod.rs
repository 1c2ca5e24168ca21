//! The cost of a pipeline plan of measured operators: Aceso's, term by term (`reference/aceso.md`, sections 3
//! to 5), or phzc's own.
//!
//! A model is a flat chain of operators, a stage any contiguous part of it. With `N` microbatches and `t_k`
//! the time of a microbatch in stage `k`, a step takes `(N - 1) max t_k + sum t_k`: 1F1B without overlap,
//! gradients' sums or the optimizer. Memory is the state, the activations of all microbatches in flight, what
//! a recomputed run makes again, and the allocator's reserve. The own cost ([`Own`]) adds what that leaves
//! out, other schedules ([`PlanSchedule`]), and transfers as they were measured.

mod chain;
mod layout;
mod order;
mod own;
mod plan;
#[cfg(test)]
mod tests;

pub use chain::{Corrections, OpChain, Repeat};
pub use layout::Form;
pub use order::{MAX_CHUNKS, PlanSchedule};
pub use own::{MAX_ZERO, Own, Step};
pub use plan::{OpChoice, PipelinePlan, StageChoice, StageCost, StageParts};

use crate::profile::OpTables;

/// What a plan is priced on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The measured operators, collectives and links.
    pub tables: OpTables,
    /// The model.
    pub chain: OpChain,
    /// Copies of the parameters that stay in memory: themselves, gradients, master weights and moments.
    pub state_copies: f64,
    /// Samples of a step.
    pub global_batch: u32,
    /// Devices that a node has.
    pub devices_per_node: usize,
    /// MiB that a device has.
    pub limit_mib: f64,
    /// Whether memory is Aceso's to the letter: what the last recomputed run of a stage holds is forgotten if
    /// its last operator but one shares buffers ([`Corrections`]).
    pub forgets_last_run: bool,
    /// phzc's own cost instead of Aceso's.
    pub own: Option<Own>,
}

impl Machine {
    /// Microbatches of a step.
    pub fn n_microbatches(&self, microbatch: u32) -> f64 {
        f64::from(self.global_batch / microbatch)
    }
}
