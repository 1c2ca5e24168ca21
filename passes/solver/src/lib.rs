//! The planner's searches, which know no HLO: one option per block of a graph of choices, and cuts of a chain
//! into pipeline stages.

pub mod chain;
pub mod choose;
