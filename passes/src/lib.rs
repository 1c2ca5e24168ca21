//! The passes: functions from module to module, each with a name, typed options and golden tests.
//!
//! No pass does I/O, prints, or reads the environment; the text of the module is all the state
//! that goes from one pass to the next.

// Files that tests/long shares with the unit tests name this crate as it does.
#[cfg(test)]
extern crate self as phzc_passes;

pub mod alternative;
pub mod batch;
pub mod blocks;
pub mod check;
pub mod classes;
pub mod copies;
pub mod dce;
pub mod derive;
pub mod estimate;
pub mod explanation;
pub mod fuse;
pub mod grad;
pub mod graph;
pub mod inline;
pub mod linear;
pub mod manager;
pub mod memory;
pub mod merged;
pub mod microbatch;
pub mod optimizer;
mod partial;
pub mod pass;
pub mod phase;
pub mod pipeline;
mod pipeline_syntax;
pub mod place;
mod plan_note;
pub mod pricing;
pub mod registry;
pub mod repeats;
pub mod report;
pub mod roles;
pub mod segments;
pub mod shard;
mod siblings;
pub mod simplify;
pub mod spmd;
pub mod stages;
pub mod stop;
mod strip;
#[cfg(test)]
mod testing;
pub mod units;
pub mod verify;

pub use manager::{Done, Hooks};
pub use pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
pub use phzc_solver::{chain, choose};
pub use pipeline::{Pipeline, Step};
