//! What this crate's unit tests run.

pub(crate) use phzc_testing::*;
