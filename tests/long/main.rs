//! What runs programs by the hundred, and what plans real ones: minutes, where `cargo test` takes seconds.
//!
//! `cargo test --release --test long` runs all of it, as `.ci/run` does; `… --test long spmd` a part.

#[path = "../common/mod.rs"]
mod common;
mod corpus;
mod corpus_verify;
mod generate;
mod hard;
mod interleave;
mod parallelism;
mod place;
mod plans;
mod plant;
mod report;
mod schedule;
mod shard;
mod shrink;
mod spmd;
mod stages;
mod sweep;
mod top;
mod unequal;
mod verify;
