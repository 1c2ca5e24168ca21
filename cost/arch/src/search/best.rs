//! The best accelerators alone: of each model, and of all models together.
//!
//! All accelerators are bounded by the least times of their mappings. Those with the highest bound are looked
//! at first: placed with these least times, then mapped and bounded again, then scheduled and placed, as long
//! as any of the steps may still be better than what is known. The search ends where no bound is.

use super::rates::{candidate, most_rates};
use super::{Candidate, Found, Known, Place, Question, Times, Visit, best_of, ordered, times};
use crate::estimate::Estimator;
use crate::space::Point;
use phzc_ir::Result;
use rayon::prelude::*;

/// Accelerators that are looked at side by side; a constant, so that the number of threads changes nothing.
const CHUNK: usize = 8;
/// Accelerators that are bounded between two words of progress.
const N_BOUNDED: usize = 512;

/// Samples per second by goal: of each model, then of all together.
type Goals = Vec<f64>;

/// Searches for the best alone; the front has the best of all models together.
///
/// # Errors
/// As [`super::search`].
pub fn best_first(
    question: &Question,
    points: &[Point],
    estimator: &Estimator,
    place: &impl Place,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Found> {
    let points = ordered(points);
    let search = Search { question, estimator, place };
    let mut bounds: Vec<Goals> = Vec::with_capacity(points.len());
    for some in points.chunks(N_BOUNDED) {
        let new = some.par_iter().map(|point| search.bound(point)).collect::<Result<Vec<_>>>()?;
        bounds.extend(new);
        progress(bounds.len(), points.len());
    }
    let mut looked = Looked { known: Known::default(), is_visited: vec![false; points.len()] };
    (0..=question.models.len())
        .try_for_each(|goal| search.close(&points, (goal, &bounds), &mut looked, progress))?;
    let known = looked.known;
    let n_models = question.models.len();
    let common = common(&known.candidates).cloned();
    Ok(Found {
        best: (0..n_models).map(|model| best_of(&known.candidates, model)).collect(),
        n_points: points.len(),
        n_estimated: known.n_estimated,
        n_placed: known.candidates.len(),
        front: Vec::from_iter(common),
    })
}

/// What is known to be reached.
fn best(question: &Question, known: &Known) -> Goals {
    let rate = |it: Candidate, model: usize| it.runs[model].map_or(0.0, |run| run.1);
    let of = |model: usize| best_of(&known.candidates, model).map_or(0.0, |it| rate(it, model));
    let all = common(&known.candidates).and_then(|it| it.samples_per_sec).unwrap_or(0.0);
    (0..question.models.len()).map(of).chain([all]).collect()
}

/// The most samples per second of all models; the smallest of equals.
fn common(candidates: &[Candidate]) -> Option<&Candidate> {
    let fitting = candidates.iter().filter(|it| it.samples_per_sec.is_some());
    fitting.max_by(|a, b| {
        let rates = a.samples_per_sec.unwrap_or(0.0).total_cmp(&b.samples_per_sec.unwrap_or(0.0));
        rates.then(b.point.um2.total_cmp(&a.point.um2)).then(b.point.cores.cmp(&a.point.cores))
    })
}

/// What was looked at.
struct Looked {
    known: Known,
    /// By position.
    is_visited: Vec<bool>,
}

struct Search<'a, P> {
    question: &'a Question,
    estimator: &'a Estimator<'a>,
    place: &'a P,
}

impl<P: Place> Search<'_, P> {
    /// Looks at accelerators until none that is left has a bound above what is known to reach a goal.
    fn close(
        &self,
        points: &[Point],
        (goal, bounds): (usize, &[Goals]),
        Looked { known, is_visited }: &mut Looked,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|a, b| bounds[*b][goal].total_cmp(&bounds[*a][goal]));
        loop {
            let least = best(self.question, known)[goal].max(f64::MIN_POSITIVE);
            let open = order.iter().take_while(|at| bounds[**at][goal] >= least);
            let next: Vec<usize> = open.filter(|at| !is_visited[**at]).take(CHUNK).copied().collect();
            if next.is_empty() {
                return Ok(());
            }
            let visits = next.par_iter().map(|at| self.visit(known, &points[*at]));
            let visits = visits.collect::<Result<Vec<_>>>()?;
            next.iter().for_each(|at| is_visited[*at] = true);
            visits.into_iter().for_each(|visit| known.add(visit));
            progress(is_visited.iter().filter(|it| **it).count(), points.len());
        }
    }

    fn bound(&self, point: &Point) -> Result<Goals> {
        let rates = most_rates(self.question, self.place, &self.floors(point)?);
        let sum = self.question.weighed(rates.iter().copied());
        Ok(rates.into_iter().chain([sum]).collect())
    }

    fn floors(&self, point: &Point) -> Result<Times> {
        let template = self.question.space.template(point.cores);
        self.question.layers().map(|layer| self.estimator.floor_secs(&template, layer)).collect()
    }

    fn visit(&self, known: &Known, point: &Point) -> Result<Visit> {
        let least = best(self.question, known);
        let is_worse = |times: &Times| {
            let found = candidate(self.question, self.place, *point, times);
            let rates = found.runs.iter().map(|run| run.map_or(0.0, |run| run.1));
            let all = rates.chain([found.samples_per_sec.unwrap_or(0.0)]);
            all.zip(&least).all(|(rate, least)| rate < *least)
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
