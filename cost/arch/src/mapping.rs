//! Mapping of contractions on tensor cores: tiles, unrolled loops and loop orders, and what they take.

pub mod cost;
pub mod machine;
pub mod nest;
#[cfg(test)]
mod tests;

pub use cost::{Cost, Mapping, Order};
pub use machine::{Machine, Mode};
pub use nest::{Loops, Nest, Tensor};
