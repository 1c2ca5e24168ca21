//! Mapping of contractions on tensor cores: tiles, unrolled loops and loop orders, and what they take.

pub mod cache;
pub mod cost;
mod feed;
mod fit;
pub mod machine;
pub mod mapper;
pub mod nest;
pub mod objective;
pub mod pad;
mod refill;
#[cfg(test)]
mod tests;
mod tiles;
pub mod vector;

pub use cache::Cache;
pub use cost::{Cost, Mapping, Order};
pub use machine::{Machine, Mode};
pub use mapper::{best, floor};
pub use nest::{Loops, Nest, Tensor};
pub use objective::Objective;
pub use pad::{Padded, best_padded, native_cycles};
