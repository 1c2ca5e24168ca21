//! What a mapping is chosen by.

use super::cost::Cost;

/// What is to be least: the first, then the second.
pub type Score = (f64, f64);

/// What a mapping is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// Cycles alone: the search ends with the first mapping that takes no more than any can.
    Cycles,
    /// Cycles, then energy.
    Latency,
    /// Energy times cycles, Phaze's choice, then cycles.
    Edp,
}

impl Objective {
    /// What is least in the best mapping.
    pub fn score(self, cost: Cost) -> Score {
        match self {
            Objective::Cycles => (cost.cycles, 0.0),
            Objective::Latency => (cost.cycles, cost.energy_pj),
            Objective::Edp => (cost.edp(), cost.cycles),
        }
    }
}
