//! The best accelerators alone: of each model, and of all models together, within each of some limits.
//!
//! All accelerators are bounded by the least times of their mappings. Those with the highest bound are looked
//! at first: placed with these least times, then mapped and bounded again, then scheduled and placed, as long
//! as any of the steps may still be better than what is known. The search ends where no bound is.

use super::rates::{candidate, most_rates};
use super::{Candidate, Known, Place, Question, Times, Visit, ordered, times};
use crate::estimate::Estimator;
use crate::space::Point;
use phzc_ir::Result;
use rayon::prelude::*;

/// Accelerators that are looked at side by side; a constant, so that the number of threads changes nothing.
const CHUNK: usize = 8;
/// Accelerators that are bounded between two words of progress.
const N_BOUNDED: usize = 512;

/// Samples per second of each model, then of all together.
type Rates = Vec<f64>;

/// Within which the best is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The largest area.
    pub um2: f64,
    /// The largest peak power.
    pub watts: f64,
}

impl Limit {
    const NONE: Limit = Limit { um2: f64::INFINITY, watts: f64::INFINITY };

    /// `n` areas with `n` powers each, up to those of the largest accelerator; without those that another
    /// stands for because they hold the same accelerators.
    pub fn grid(points: &[Point], n: u32) -> Vec<Limit> {
        let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let [um2, watts] = [most(|point| point.um2), most(|point| point.watts)];
        let step = |most: f64, at: u32| most * (f64::from(at) / f64::from(n));
        let mut limits: Vec<(usize, Limit)> = Vec::new();
        for (at, to) in (1..=n).flat_map(|at| (1..=n).map(move |to| (at, to))) {
            let limit = Limit { um2: step(um2, at), watts: step(watts, to) };
            let n_held = points.iter().filter(|point| limit.allows(point)).count();
            if n_held > 0 && !limits.iter().any(|(n, other)| *n == n_held && other.is_within(limit)) {
                limits.push((n_held, limit));
            }
        }
        limits.into_iter().map(|(_, limit)| limit).collect()
    }

    /// Whether an accelerator is no larger and takes no more.
    pub fn allows(&self, point: &Point) -> bool {
        point.um2 <= self.um2 && point.watts <= self.watts
    }

    fn is_within(&self, other: Limit) -> bool {
        self.um2 <= other.um2 && self.watts <= other.watts
    }

    /// The accelerator with the most samples per second of all models within it; the smallest of equals.
    pub fn best<'c>(&self, candidates: &'c [Candidate]) -> Option<&'c Candidate> {
        let fitting = candidates.iter().filter(|it| it.samples_per_sec.is_some() && self.allows(&it.point));
        fitting.max_by(|a, b| {
            let rates = a.samples_per_sec.unwrap_or(0.0).total_cmp(&b.samples_per_sec.unwrap_or(0.0));
            rates.then(b.point.um2.total_cmp(&a.point.um2)).then(b.point.cores.cmp(&a.point.cores))
        })
    }
}

/// What is looked for: the most of some rate within a limit.
struct Goal {
    /// Position among the [`Rates`].
    rate: usize,
    limit: Limit,
}

impl Goal {
    /// The rate of each model and of all, then that of all within each limit.
    fn all(n_models: usize, limits: &[Limit]) -> Vec<Goal> {
        let whole = (0..=n_models).map(|rate| Goal { rate, limit: Limit::NONE });
        whole.chain(limits.iter().map(|limit| Goal { rate: n_models, limit: *limit })).collect()
    }

    /// What is known to be reached; above zero, so that what does not fit is not looked at.
    fn least(&self, known: &Known) -> f64 {
        let of = |it: &Candidate| match it.runs.get(self.rate) {
            Some(run) => run.map_or(0.0, |run| run.1),
            None => it.samples_per_sec.unwrap_or(0.0),
        };
        let within = known.candidates.iter().filter(|it| self.limit.allows(&it.point));
        within.map(of).fold(f64::MIN_POSITIVE, f64::max)
    }
}

/// Searches for the best alone, of each model and of all, and of all within each limit: the visits of all
/// accelerators in the order of [`ordered`], of which [`super::found_best`] tells the result.
///
/// # Errors
/// As [`super::search`].
pub fn best_first(
    question: &Question,
    (points, limits): (&[Point], &[Limit]),
    estimator: &Estimator,
    place: &impl Place,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Visit>> {
    let points = ordered(points);
    let goals = Goal::all(question.models.len(), limits);
    let search = Search { question, estimator, place, goals: &goals };
    let mut bounds: Vec<Rates> = Vec::with_capacity(points.len());
    for some in points.chunks(N_BOUNDED) {
        let new = some.par_iter().map(|point| search.bound(point)).collect::<Result<Vec<_>>>()?;
        bounds.extend(new);
        progress(bounds.len(), points.len());
    }
    let mut looked = Looked { known: Known::default(), visits: vec![None; points.len()] };
    goals.iter().try_for_each(|goal| search.close(&points, (goal, &bounds), &mut looked, progress))?;
    Ok(looked.visits.into_iter().map(|visit| visit.unwrap_or(Visit::Bounded)).collect())
}

/// What was looked at.
struct Looked {
    known: Known,
    /// By position; none of those that were not looked at.
    visits: Vec<Option<Visit>>,
}

struct Search<'a, P> {
    question: &'a Question,
    estimator: &'a Estimator<'a>,
    place: &'a P,
    goals: &'a [Goal],
}

impl<P: Place> Search<'_, P> {
    /// Looks at accelerators until none that is left has a bound above what is known to reach a goal.
    fn close(
        &self,
        points: &[Point],
        (goal, bounds): (&Goal, &[Rates]),
        Looked { known, visits }: &mut Looked,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..points.len()).filter(|at| goal.limit.allows(&points[*at])).collect();
        order.sort_by(|a, b| bounds[*b][goal.rate].total_cmp(&bounds[*a][goal.rate]));
        loop {
            let least = goal.least(known);
            let open = order.iter().take_while(|at| bounds[**at][goal.rate] >= least);
            let next: Vec<usize> = open.filter(|at| visits[**at].is_none()).take(CHUNK).copied().collect();
            if next.is_empty() {
                return Ok(());
            }
            let seen: &Known = known;
            let new = next.par_iter().map(|at| self.visit(seen, &points[*at]));
            for (at, visit) in next.iter().zip(new.collect::<Result<Vec<_>>>()?) {
                known.add(visit.clone());
                visits[*at] = Some(visit);
            }
            progress(visits.iter().flatten().count(), points.len());
        }
    }

    fn bound(&self, point: &Point) -> Result<Rates> {
        let rates = most_rates(self.question, self.place, &self.floors(point)?);
        let sum = self.question.weighed(rates.iter().copied());
        Ok(rates.into_iter().chain([sum]).collect())
    }

    fn floors(&self, point: &Point) -> Result<Times> {
        let template = self.question.space.template(point.cores);
        self.question.layers().map(|layer| self.estimator.floor_secs(&template, layer)).collect()
    }

    fn visit(&self, known: &Known, point: &Point) -> Result<Visit> {
        let own = self.goals.iter().filter(|goal| goal.limit.allows(point));
        let least: Vec<(usize, f64)> = own.map(|goal| (goal.rate, goal.least(known))).collect();
        let is_worse = |times: &Times| {
            let found = candidate(self.question, self.place, *point, times);
            let rates = found.runs.iter().map(|run| run.map_or(0.0, |run| run.1));
            let all: Rates = rates.chain([found.samples_per_sec.unwrap_or(0.0)]).collect();
            least.iter().all(|(rate, least)| all[*rate] < *least)
        };
        if is_worse(&self.floors(point)?) {
            return Ok(Visit::Bounded);
        }
        let template = self.question.space.template(point.cores);
        let mapped = self.question.layers().map(|it| self.estimator.mapped_floor_secs(&template, it));
        if is_worse(&mapped.collect::<Result<Times>>()?) {
            return Ok(Visit::Mapped);
        }
        let times = times(self.question, self.estimator, point)?;
        Ok(Visit::Placed(candidate(self.question, self.place, *point, &times), times))
    }
}
