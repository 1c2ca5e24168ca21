//! The list of passes, over the crates that hold them.
//!
//! ```text
//! analysis ← plan ← pass ← opt ← spmd ← audit
//!                     ↑      ↑
//!         solver ←  planner ─┘          // knows no judge, and no judge knows it
//! ```
//!
//! No pass does I/O, prints, or reads the environment. The text of the module is the state that goes from one
//! pass to the next; what a pass hands on besides (`handed_on`) follows from it.

pub mod estimate;
pub mod propagate;
pub mod registry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use phzc_analysis::{
    batch, block_notes, blocks, classes, graph, linear, merged, phase, repeats, roles, segments,
};
pub use phzc_audit::{check, verify};
pub use phzc_opt::{dce, grad, inline, optimizer, simplify, unroll, unshard};
pub use phzc_pass::manager::{Done, Hooks};
pub use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
pub use phzc_pass::pipeline::{Alias, Pipeline, Registry, Step};
pub use phzc_pass::{alternative, explanation, manager, pass};
pub use phzc_plan::{derive, memory, microbatch, moving, partitioned, plan_note, pricing, report, unplanned};
pub use phzc_planner::{fuse, layer_repeats, place, shard, stop, units};
pub use phzc_solver::{chain, choose};
pub use phzc_spmd::{accumulate, segments as device_segments, spmd, stages, unmap, unpartition};
pub use registry::pipeline;
