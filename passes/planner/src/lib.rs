//! The planner: blocks, strategies and resharding, layer repeats, stages, microbatches, recomputation.

pub mod copies;
pub mod fuse;
pub mod place;
pub mod shard;
pub mod stop;
#[cfg(test)]
mod testing;
pub mod units;
