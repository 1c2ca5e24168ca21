//! Why the planner's search ended: the values of `stop` in the summary and in `plan.json`.

/// A value of `stop` and what it says.
pub struct StopInfo {
    /// The value.
    pub name: &'static str,
    /// What it says about the plan, on one line.
    pub meaning: &'static str,
}

/// Every value that a planned program can have.
pub static STOPS: &[StopInfo] = &[
    StopInfo {
        name: "optimal",
        meaning: "proved: no plan that makes each value once takes less in the planner's model",
    },
    StopInfo { name: "memory-gap", meaning: "the memory limit binds; a plan up to the gap faster may fit" },
    StopInfo {
        name: "layers-alike",
        meaning: "equal layers are laid out alike; a plan that does not, up to the gap faster, is not excluded",
    },
    StopInfo {
        name: "width",
        meaning: "a table of choices was cut off; the plan is good, the gap says how good",
    },
    StopInfo {
        name: "stages-open",
        meaning: "other numbers of pipeline stages or microbatches have only a weak bound; the gap is to that",
    },
    StopInfo {
        name: "limit",
        meaning: "as many candidates are evaluated as `place{max-plans=…}` allows; another plan may be up to the gap faster",
    },
    StopInfo {
        name: "gap",
        meaning: "the plan is as near to the bound as `--gap` asks for; another one may be up to the gap faster",
    },
    StopInfo {
        name: "interrupted",
        meaning: "the user ended the search (Ctrl-C); another plan may be up to the gap faster",
    },
];

#[cfg(test)]
mod tests {
    use super::STOPS;
    use phzc_solver::choose::Stop;

    #[test]
    fn every_end_of_a_search_over_layouts_is_explained() {
        for stop in [Stop::Optimal, Stop::MemoryGap, Stop::Width] {
            assert!(STOPS.iter().any(|info| info.name == stop.as_str()), "{stop:?}");
        }
    }
}
