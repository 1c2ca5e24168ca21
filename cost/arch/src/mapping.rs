//! Mapping of contractions on tensor cores: tiles, unrolled loops and loop orders, and what they take.

pub mod cost;
mod feed;
mod fit;
pub mod machine;
pub mod mapper;
pub mod nest;
mod refill;
#[cfg(test)]
mod tests;
mod tiles;

pub use cost::{Cost, Mapping, Order};
pub use machine::{Machine, Mode};
pub use mapper::{Objective, best};
pub use nest::{Loops, Nest, Tensor};
