//! What each device and each stage runs: a plan lowered to the program of one device, to one module per
//! stage and phase, and to a loop over its microbatches.

pub mod accumulate;
pub mod pad;
mod rebuild;
pub mod segments;
pub mod spmd;
pub mod stages;
#[cfg(test)]
mod testing;
pub mod unmap;
pub mod unpartition;
