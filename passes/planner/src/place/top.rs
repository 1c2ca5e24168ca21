//! The best plans besides the best one: `place{top=K}`. They differ in their number of stages, of
//! microbatches, or their schedule.

use super::candidate::Placement;
use super::device_groups::Groups;
use super::schedule::Wanted;
use super::search_control::SearchControl;
use super::{Problem, Recompute, Worth};
use phzc_cost::Schedule;
use phzc_pass::alternative::Alternative;
use phzc_plan::report::{self, Plan};
use rayon::prelude::*;

/// What distinguishes a plan: numbers of device groups and microbatches, and the schedule where there are
/// stages.
pub(super) type Key = (usize, usize, Option<Schedule>);

/// A plan, and what it is.
struct Found {
    key: Key,
    placement: Placement,
    plan: Plan,
}

/// Up to so many stages have different numbers of devices, as alternatives.
const MAX_UNEQUAL: usize = 8;

/// What may be one of the best.
struct Candidate {
    n_stages: usize,
    /// Any, if there is none.
    n_microbatches: Option<usize>,
    schedule: Wanted,
    /// Seconds of a step, by an estimate.
    secs: f64,
}

impl Problem<'_> {
    /// The best placement, `best` or a faster one, and the `k` best.
    pub(super) fn ranked(&self, best: Placement, wanted: usize, k: usize) -> (Placement, Vec<Alternative>) {
        let bound = best.lower_bound_secs();
        let mut found = vec![self.found(best)];
        let mut open = if self.control.ends() { Vec::new() } else { self.candidates(wanted) };
        self.control.know(open.len());
        while let Some(next) = next(&mut open, &found, k).filter(|_| !self.control.ends()) {
            let part = self.control.part();
            let placement = self.only(&part, next.n_microbatches, next.schedule).best(next.n_stages);
            self.control.join(&part);
            // What does not fit, or cannot be cut so, is no alternative.
            let Ok(placement) = placement.and_then(|found| found.best) else { continue };
            let one = self.found(placement);
            if next.schedule == Wanted::Fastest {
                let others = other_schedules(&one, next.secs);
                self.control.know(others.len());
                open.extend(others);
            }
            match found.iter_mut().find(|other| other.key == one.key) {
                Some(other) if other.plan.time_secs <= one.plan.time_secs => {}
                Some(other) => *other = one,
                None => found.push(one),
            }
            found.sort_by(|a, b| a.plan.time_secs.total_cmp(&b.plan.time_secs));
        }
        found.truncate(k);
        let all = found.iter().map(|found| self.alternative(found)).collect();
        let mut first = found.swap_remove(0).placement;
        first.end = self.control.ended();
        first.note(bound.min(first.lower_bound_secs()));
        (first, all)
    }

    fn found(&self, placement: Placement) -> Found {
        let plan = report::plan(&placement.text, self.cluster).expect("the planner's own text");
        let schedule: Option<Schedule> = plan.schedule.parse().ok().filter(|_| plan.stages.len() > 1);
        let n_groups = schedule.unwrap_or_default().n_groups(plan.stages.len());
        Found { key: (n_groups, plan.n_microbatches, schedule), placement, plan }
    }

    /// Every number of stages with every number of microbatches, with what the chain takes it to take.
    fn candidates(&self, wanted: usize) -> Vec<Candidate> {
        let (one, many) = self.stage_counts(wanted).expect("as for the best plan");
        let all = [one, many].concat();
        let pairs: Vec<(usize, usize)> = all
            .iter()
            .flat_map(|&n_stages| self.counts.iter().map(move |&count| (n_stages, count)))
            .collect();
        let most = if wanted > 0 { wanted } else { MAX_UNEQUAL.min(self.cluster.n_devices()) };
        let unequal = (wanted.max(2)..=most)
            .filter(|count| !all.contains(count) && self.may_be_unequal(*count) && !self.is_huge(0));
        // They are tried in any case: without layouts on all sizes there is no estimate.
        let any = |n_stages| Candidate { n_stages, n_microbatches: None, schedule: self.schedule, secs: 0.0 };
        let candidate = |(n_stages, n_microbatches): (usize, usize)| {
            let (schedule, n_microbatches) = (self.schedule, Some(n_microbatches));
            let secs = match n_stages {
                1 => 0.0,
                _ => self.only(&self.control.part(), n_microbatches, schedule).sketched_secs(n_stages),
            };
            Candidate { n_stages, n_microbatches, schedule, secs }
        };
        let equal: Vec<Candidate> = pairs.into_par_iter().map(candidate).collect();
        equal.into_iter().chain(unequal.map(any)).collect()
    }

    /// Seconds of the best cut in layouts that ignore memory; infinite if there is none.
    fn sketched_secs(&self, n_stages: usize) -> f64 {
        self.sketched(n_stages, f64::INFINITY).map_or(f64::INFINITY, |sketched| sketched.secs())
    }

    /// The same problem with one number of microbatches, by one schedule.
    fn only<'m>(
        &'m self,
        control: &'m SearchControl<'m>,
        n_microbatches: Option<usize>,
        schedule: Wanted,
    ) -> Problem<'m> {
        let counts = n_microbatches.map_or_else(|| self.counts.clone(), |count| vec![count]);
        Problem { counts, schedule, control, worth: Worth::ALL, ..self.clone() }
    }

    fn alternative(&self, found: &Found) -> Alternative {
        let options = options_of(found.key, self.recompute, &self.groups);
        Alternative { options, is_again: found.placement.is_again(), plan: found.plan.clone() }
    }
}

/// The options that ask for a plan.
pub(super) fn options_of(key: Key, recompute: Recompute, groups: &Groups) -> String {
    let (n_stages, n_microbatches, schedule) = key;
    let mut options = format!("stages={n_stages},microbatches={n_microbatches}");
    options += &schedule.map(|schedule| format!(",schedule={schedule}")).unwrap_or_default();
    options += match recompute {
        Recompute::Auto => "",
        Recompute::Never => ",recompute=never",
        Recompute::All => ",recompute=all",
    };
    options + &groups.noted()
}

/// A plan whose schedule was free, by each of the others; `secs` is what its kind was taken to take.
fn other_schedules(found: &Found, secs: f64) -> Vec<Candidate> {
    let (n_stages, n_microbatches, Some(own)) = found.key else { return Vec::new() };
    let is_other = |wanted: &Wanted| match wanted {
        Wanted::This(schedule) => *schedule != own,
        _ => own.n_chunks() == 1,
    };
    let all = Schedule::ALL.map(Wanted::This).into_iter().chain([Wanted::Interleaved]);
    let candidate = |schedule: Wanted| {
        let secs = match schedule {
            // The text is cut as these need it.
            Wanted::This(schedule) if own.n_chunks() == 1 => found.plan.secs_by(schedule),
            _ => secs,
        };
        Candidate { n_stages, n_microbatches: Some(n_microbatches), schedule, secs }
    };
    all.filter(is_other).map(candidate).collect()
}

/// The candidate that promises most, unless the `k` best are known and it promises no less than they take.
fn next(open: &mut Vec<Candidate>, found: &[Found], k: usize) -> Option<Candidate> {
    let least = (0..open.len()).min_by(|&a, &b| open[a].secs.total_cmp(&open[b].secs))?;
    let is_worth = found.get(k - 1).is_none_or(|last| open[least].secs < last.plan.time_secs);
    is_worth.then(|| open.remove(least))
}

#[cfg(test)]
mod tests;
