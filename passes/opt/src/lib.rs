//! Passes from program to program that know no cluster: clean-up, inlining, gradients, optimizers.

pub mod dce;
pub mod grad;
pub mod inline;
pub mod optimizer;
pub mod simplify;
#[cfg(test)]
mod testing;
pub mod unroll;
pub mod unshard;
