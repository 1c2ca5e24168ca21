//! What a plan's text says: layouts and movements, microbatches, memory, and the one price that planner and
//! report share.

mod collectives;
pub mod derive;
pub mod memory;
pub mod microbatch;
pub mod moving;
pub mod partial;
pub mod partitioned;
pub mod plan_note;
pub mod pricing;
pub mod report;
pub mod strip;
#[cfg(test)]
mod testing;
pub mod unplanned;
