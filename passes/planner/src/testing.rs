//! What this crate's unit tests run.

pub(crate) use phzc_testing::*;

phzc_testing::runs_passes!(
    phzc_opt::inline::PASS,
    phzc_opt::dce::PASS,
    phzc_opt::grad::PASS,
    phzc_opt::optimizer::PASS,
    crate::fuse::PASS,
    crate::shard::PASS,
    crate::place::PASS,
    phzc_audit::check::PASS
);
