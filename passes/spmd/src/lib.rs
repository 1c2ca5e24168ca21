//! What each device and each stage runs: a plan lowered to the program of one device, and to one module per
//! stage and phase.

pub mod pad;
pub mod segments;
pub mod spmd;
pub mod stages;
#[cfg(test)]
mod testing;
pub mod unmap;
pub mod unpartition;
