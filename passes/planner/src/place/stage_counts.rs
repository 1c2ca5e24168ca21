//! What the search knows of every number of stages: by what the chosen one is compared with the others.
//!
//! It is what the search has come by: nothing is evaluated for it, so it costs no time and changes no plan.

use super::Recompute;
use super::candidate::Evaluated;
use super::device_groups::Groups;
use super::stage_lower_bounds::LowerBounds;
use super::stage_search::Sketched;
use super::top::options_of;
use phzc_pass::alternative::{Alternative, Known, StageCount};
use phzc_plan::report::Plan;
use std::collections::BTreeMap;

/// What is known so far.
#[derive(Default)]
pub struct StageCounts {
    /// The best plan by its device groups and its stages, and whether it computes something again.
    best: BTreeMap<(usize, usize), (Plan, bool)>,
    /// Per number of groups: what is known where no plan was evaluated.
    open: BTreeMap<usize, Known>,
    /// Per number of groups: no plan of any form takes less.
    bounds: BTreeMap<usize, f64>,
}

impl StageCounts {
    /// A candidate has been evaluated.
    pub fn evaluated(&mut self, found: &Evaluated) {
        if let Evaluated::Placed(found) = found {
            self.add(&found.plan, found.is_again());
        }
    }

    /// One of a number of groups has been evaluated, perhaps to no plan.
    pub fn evaluated_on(&mut self, n_groups: usize, found: &Evaluated) {
        if let Evaluated::TooLarge(error) | Evaluated::Impossible(error) = found {
            self.open.insert(n_groups, Known::None(error.message.clone()));
        }
    }

    fn add(&mut self, plan: &Plan, is_again: bool) {
        let n_stages = plan.stages.len();
        let n_groups = plan.schedule.parse().unwrap_or(phzc_cost::Schedule::OneFOneB).n_groups(n_stages);
        let known = self.best.get(&(n_groups, n_stages));
        if known.is_none_or(|(known, _)| plan.time_secs < known.time_secs) {
            self.best.insert((n_groups, n_stages), (plan.clone(), is_again));
        }
    }

    /// Layouts have been chosen for a number of groups, unless all take `to_beat_secs` or longer. Of several
    /// forms of a program the first, which is the one that is cut, says what is known.
    pub fn sketched(&mut self, n_groups: usize, found: &Result<Sketched, Evaluated>, to_beat_secs: f64) {
        let known = match found {
            Ok(sketched) if sketched.secs().is_finite() => Known::About(sketched.secs()),
            Ok(_) => Known::None("no cut of its layouts has so many layers and fits in memory".to_owned()),
            Err(Evaluated::TooLarge(error) | Evaluated::Impossible(error)) => {
                Known::None(error.message.clone())
            }
            Err(_) if to_beat_secs.is_finite() => Known::Over(to_beat_secs),
            _ => return,
        };
        self.open.entry(n_groups).or_insert(known);
    }

    /// What bounds the plans of one form, with these numbers of groups.
    pub fn bounded(&mut self, counts: &[usize], bounds: &LowerBounds) {
        for &count in counts {
            let secs = bounds.of(count);
            self.bounds.entry(count).and_modify(|known| *known = known.min(secs)).or_insert(secs);
        }
    }

    /// What another search has found.
    pub fn join(&mut self, other: &StageCounts) {
        other.best.values().for_each(|(plan, is_again)| self.add(plan, *is_again));
    }

    /// All that is known: numbers of groups with a plan, then those without.
    pub fn listed(&self, recompute: Recompute, groups: &Groups) -> Vec<StageCount> {
        let bound = |n_groups: usize| self.bounds.get(&n_groups).copied().unwrap_or(0.0);
        let count =
            |n_groups: usize, known: Known| StageCount { n_groups, known, lower_bound_secs: bound(n_groups) };
        let mut all = Vec::new();
        for (&(n_groups, _), (plan, is_again)) in &self.best {
            let schedule = plan.schedule.parse().ok().filter(|_| plan.stages.len() > 1);
            let options = options_of((n_groups, plan.n_microbatches, schedule), recompute, groups);
            let found = Alternative { options, is_again: *is_again, plan: plan.clone() };
            all.push(count(n_groups, Known::Plan(Box::new(found))));
        }
        for n_groups in self.bounds.keys().filter(|count| self.best.keys().all(|it| it.0 != **count)) {
            let known = self.open.get(n_groups).cloned().unwrap_or(Known::Bound);
            all.push(count(*n_groups, known));
        }
        all
    }
}
