//! One of the best plans, as `place` hands it to the driver.

use phzc_plan::report::Plan;

/// One of the best plans.
pub struct Alternative {
    /// Options of `place` that ask for it.
    pub options: String,
    /// Whether it computes activations again.
    pub is_again: bool,
    /// What the report says of it.
    pub plan: Plan,
}
