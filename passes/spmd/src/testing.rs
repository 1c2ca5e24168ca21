//! What this crate's unit tests run.

pub(crate) use phzc_testing::*;

phzc_testing::runs_passes!(
    phzc_planner::fuse::PASS,
    phzc_planner::shard::PASS,
    phzc_planner::place::PASS,
    crate::accumulate::PASS,
    crate::spmd::PASS,
    crate::unpartition::PASS,
    crate::unmap::PASS,
    crate::pad::PASS
);
