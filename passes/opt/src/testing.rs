//! What this crate's unit tests run.

pub(crate) use phzc_testing::*;

phzc_testing::runs_passes!(
    crate::dce::PASS,
    crate::inline::PASS,
    crate::grad::PASS,
    crate::optimizer::PASS,
    crate::simplify::PASS,
    crate::unroll::PASS
);
