//! The planner: blocks, strategies and resharding, layer repeats, stages, microbatches, recomputation.

pub mod fuse;
#[cfg(test)]
mod golden_tests;
pub mod layer_repeats;
pub mod place;
pub mod plan_state;
#[cfg(test)]
mod plan_tests;
mod recomputation;
pub mod shard;
pub mod stop;
#[cfg(test)]
mod testing;
pub mod units;
