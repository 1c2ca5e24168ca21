//! Checking a plan by running it: small programs with the same meaning as the real ones.

pub mod shrink;
