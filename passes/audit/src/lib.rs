//! Judges of plans that are no part of the planner: `check` from the text alone, `verify` by running both.

pub mod check;
#[cfg(test)]
mod testing;
pub mod verify;
