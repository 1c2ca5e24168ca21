//! The search over accelerators: which ones no other beats in throughput, area and power together.
//!
//! Accelerators are visited from the smallest on. One is left out when a smaller and more frugal one is as
//! fast in every layer, or has the throughput that it has at most: by the least times of its mappings and
//! schedules, and again, once its operators are mapped, by the least times of its schedules. What is left is
//! scheduled and placed. Throughput falls where any layer takes longer, so that this holds whatever plans
//! there are.

mod best;
mod rates;

pub use best::{Limit, best_first};

use crate::estimate::{Estimator, Layer, LayerSecs};
use crate::space::{Point, Space};
use phzc_ir::Result;
use rates::{Rates, candidate, most_rates};
use rayon::prelude::*;

/// Accelerators that are estimated side by side; a constant, so that the number of threads changes nothing.
const CHUNK: usize = 64;

/// Accelerators that are near the best, with it.
const N_NEAR: usize = 4;

/// A model to train.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// As it is shown.
    pub name: String,
    /// Its part in the common figure.
    pub weight: f64,
    /// By microbatch, in samples: the layers that differ.
    pub microbatches: Vec<(u64, Vec<Layer>)>,
}

/// A way to run a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Run {
    /// Position of the model.
    pub model: usize,
    /// Position of the microbatch in the model.
    pub microbatch: usize,
    /// What a device holds.
    pub hbm_bytes: u64,
    /// Whether stages run forward again before they run backward.
    pub recompute: bool,
}

/// What is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The accelerators.
    pub space: Space,
    /// The models.
    pub models: Vec<Model>,
    /// Sizes of HBM to choose from.
    pub hbm_bytes: Vec<u64>,
    /// Whether to store or to recompute activations, to choose from.
    pub recompute: Vec<bool>,
}

/// An accelerator that no other beats in time, area and power together.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Candidate {
    /// The accelerator.
    pub point: Point,
    /// By model: the best run and its samples per second; `None` where nothing fits.
    pub runs: Vec<Option<(Run, f64)>>,
    /// Samples per second of all models, each by its weight; `None` where one does not fit.
    pub samples_per_sec: Option<f64>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// By area: no accelerator has more throughput with no more area and power.
    pub front: Vec<Candidate>,
    /// By model: the accelerator with the most samples per second, among all.
    pub best: Vec<Option<Candidate>>,
    /// Those with the most samples per second of all models, the best first; of equal ones the smallest.
    pub near: Vec<Candidate>,
    /// Accelerators of the space.
    pub n_points: usize,
    /// Of those: mapped and scheduled; the others were excluded by bounds.
    pub n_estimated: usize,
    /// Of those: placed.
    pub n_placed: usize,
}

/// Times of the layers, by model, microbatch and layer, in one list.
pub type Times = Vec<LayerSecs>;

impl Question {
    /// All layers, in the order of [`Times`].
    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.models.iter().flat_map(|model| &model.microbatches).flat_map(|it| &it.1)
    }

    /// Samples per second of all models, each by its weight.
    fn weighed(&self, rates: impl Iterator<Item = f64>) -> f64 {
        rates.zip(&self.models).map(|(rate, model)| rate * model.weight).sum()
    }
}

/// How runs are placed.
pub trait Place: Sync {
    /// Samples per second of the best plan of a run, from the seconds of its layers; `None` where none fits.
    /// More seconds or less memory must not give more.
    fn samples_per_sec(&self, run: &Run, times: &[LayerSecs]) -> Option<f64>;

    /// No plan has more samples per second; less memory or more seconds must not give more.
    fn most_samples_per_sec(&self, run: &Run, times: &[LayerSecs]) -> f64;
}

/// What goes with a search: what an earlier run of it visited, and who hears of each accelerator in turn.
pub struct Log<'a> {
    /// Of the first accelerators in the order of [`ordered`].
    pub visited: Vec<Visit>,
    /// Hears of every other one, in order.
    pub record: &'a mut dyn FnMut(&Point, &Visit) -> Result<()>,
    /// Hears how many accelerators of how many are done.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

/// Accelerators in the order in which they are visited: the smallest first.
pub fn ordered(points: &[Point]) -> Vec<Point> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| {
        a.um2.total_cmp(&b.um2).then(a.watts.total_cmp(&b.watts)).then(a.cores.cmp(&b.cores))
    });
    points
}

/// Searches. What was visited before is not visited again, and the result is the same.
///
/// # Errors
/// For a technology that lacks a buffer, layers that cannot be priced, and what `record` fails with.
pub fn search(
    question: &Question,
    points: &[Point],
    estimator: &Estimator,
    place: &impl Place,
    log: Log,
) -> Result<Found> {
    let points = ordered(points);
    let mut known = Known::default();
    in_chunks(&points, log, &mut known, |known, point| known.visit(question, estimator, place, *point))?;
    Ok(known.found(points.len(), question.models.len()))
}

/// Visits accelerators chunk by chunk; all of a chunk know what those before it have found.
fn in_chunks(
    points: &[Point],
    Log { visited, record, progress }: Log,
    known: &mut Known,
    visit: impl Fn(&Known, &Point) -> Result<Visit> + Sync,
) -> Result<()> {
    let mut visited = visited.into_iter();
    for (at, chunk) in points.chunks(CHUNK).enumerate() {
        let mut visits: Vec<Visit> = visited.by_ref().take(chunk.len()).collect();
        let left = &chunk[visits.len()..];
        let seen: &Known = known;
        let new = left.par_iter().map(|point| visit(seen, point)).collect::<Result<Vec<_>>>()?;
        left.iter().zip(&new).try_for_each(|(point, visit)| record(point, visit))?;
        visits.extend(new);
        visits.into_iter().for_each(|visit| known.add(visit));
        progress((at * CHUNK + chunk.len()).min(points.len()), points.len());
    }
    Ok(())
}

/// What visits of all accelerators of a space have found together, by whatever runs.
pub fn found(visits: impl IntoIterator<Item = Visit>, n_models: usize) -> Found {
    let (mut known, mut n_points) = (Known::default(), 0);
    for visit in visits {
        n_points += 1;
        known.add(visit);
    }
    known.found(n_points, n_models)
}

/// The same of visits by [`best_first`]: the front has the best of all models together, and those within
/// limits that none of these beats.
pub fn found_best(visits: impl IntoIterator<Item = Visit>, n_models: usize, limits: &[Limit]) -> Found {
    let (mut known, mut n_points) = (Known::default(), 0);
    for visit in visits {
        n_points += 1;
        known.add(visit);
    }
    let within = limits.iter().filter_map(|limit| limit.best(&known.candidates));
    let mut proved: Vec<Candidate> = near(&known.candidates).into_iter().take(1).collect();
    for candidate in within {
        if !proved.contains(candidate) {
            proved.push(candidate.clone());
        }
    }
    Found { front: front(proved), ..known.found(n_points, n_models) }
}

impl Visit {
    /// The accelerator with its runs, where it was placed.
    pub fn candidate(&self) -> Option<Candidate> {
        match self {
            Visit::Placed(candidate, _) => Some(candidate.clone()),
            Visit::Bounded | Visit::Mapped => None,
        }
    }
}

/// What a search has found so far.
#[derive(Default)]
struct Known {
    /// Accelerators that were scheduled, and their times.
    fastest: Vec<(Point, Times)>,
    candidates: Vec<Candidate>,
    /// By model: the most samples per second so far.
    most: Vec<f64>,
    n_estimated: usize,
}

/// How far the estimate of an accelerator went.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visit {
    /// Excluded before its operators were mapped.
    Bounded,
    /// Excluded then.
    Mapped,
    /// Placed.
    Placed(Candidate, Times),
}

impl Known {
    /// Estimates an accelerator as long as it may be better than those that are known.
    fn visit(
        &self,
        question: &Question,
        estimator: &Estimator,
        place: &impl Place,
        point: Point,
    ) -> Result<Visit> {
        let template = question.space.template(point.cores);
        let floors = question.layers().map(|layer| estimator.floor_secs(&template, layer));
        if self.excludes(question, place, &point, &floors.collect::<Result<Times>>()?) {
            return Ok(Visit::Bounded);
        }
        let mapped = question.layers().map(|layer| estimator.mapped_floor_secs(&template, layer));
        if self.excludes(question, place, &point, &mapped.collect::<Result<Times>>()?) {
            return Ok(Visit::Mapped);
        }
        let times = times(question, estimator, &point)?;
        Ok(Visit::Placed(candidate(question, place, point, &times), times))
    }

    /// Whether times that are no longer than an accelerator's show that it is none of the best.
    fn excludes(&self, question: &Question, place: &impl Place, point: &Point, times: &Times) -> bool {
        if is_beaten(&self.fastest, point, times) {
            return true;
        }
        let most: Rates = most_rates(question, place, times);
        let is_best = most.iter().enumerate().any(|(model, rate)| {
            let known = self.most.get(model).copied().unwrap_or(0.0);
            *rate > known && question.models.len() > 1
        });
        let sum = question.weighed(most.iter().copied());
        let beats = |other: &Candidate| {
            let is_no_worse = other.point.um2 <= point.um2 && other.point.watts <= point.watts;
            is_no_worse && other.samples_per_sec.is_some_and(|rate| rate >= sum)
        };
        !is_best && self.candidates.iter().any(beats)
    }

    fn found(self, n_points: usize, n_models: usize) -> Found {
        let best = (0..n_models).map(|model| best_of(&self.candidates, model)).collect();
        let [n_estimated, n_placed] = [self.n_estimated, self.candidates.len()];
        let near = near(&self.candidates);
        Found { front: front(self.candidates), best, near, n_points, n_estimated, n_placed }
    }

    fn add(&mut self, visit: Visit) {
        self.n_estimated += usize::from(!matches!(visit, Visit::Bounded));
        let Visit::Placed(candidate, times) = visit else { return };
        self.most.resize(candidate.runs.len(), 0.0);
        for (most, run) in self.most.iter_mut().zip(&candidate.runs) {
            *most = most.max(run.map_or(0.0, |run| run.1));
        }
        if !is_beaten(&self.fastest, &candidate.point, &times) {
            self.fastest.push((candidate.point, times));
            self.candidates.push(candidate);
        }
    }
}

/// Estimates and places every accelerator of a list, in its order. `place` and `log` as in [`search`].
///
/// # Errors
/// As [`search`].
pub fn evaluate(
    question: &Question,
    points: &[Point],
    estimator: &Estimator,
    place: &impl Place,
    log: Log,
) -> Result<Vec<Candidate>> {
    let mut candidates: Vec<Candidate> = log.visited.iter().filter_map(Visit::candidate).collect();
    let mut record = |point: &Point, visit: &Visit| {
        candidates.extend(visit.candidate());
        (log.record)(point, visit)
    };
    let log = Log { visited: log.visited.clone(), record: &mut record, progress: log.progress };
    in_chunks(points, log, &mut Known::default(), |_, point| {
        let times = times(question, estimator, point)?;
        Ok(Visit::Placed(candidate(question, place, *point, &times), times))
    })?;
    Ok(candidates)
}

/// Times of all layers of an accelerator, by model, microbatch and layer.
///
/// # Errors
/// As [`search`].
pub fn times(question: &Question, estimator: &Estimator, point: &Point) -> Result<Times> {
    let template = question.space.template(point.cores);
    question.layers().map(|layer| estimator.layer_secs(&template, layer)).collect()
}

/// Whether some accelerator is as fast in every layer, as small and as frugal.
fn is_beaten(fastest: &[(Point, Times)], point: &Point, times: &Times) -> bool {
    let beats = |(other, theirs): &(Point, Times)| {
        let is_no_worse = other.um2 <= point.um2 && other.watts <= point.watts;
        is_no_worse && theirs.iter().zip(times).all(|(theirs, own)| theirs.is_no_longer(own))
    };
    fastest.iter().any(beats)
}

/// The most samples per second of a model; the smallest of equals.
fn best_of(candidates: &[Candidate], model: usize) -> Option<Candidate> {
    let fitting = candidates.iter().filter_map(|it| Some((it.runs[model].as_ref()?.1, it)));
    let best = fitting.max_by(|(rate, one), (other_rate, other)| {
        let by_area = other.point.um2.total_cmp(&one.point.um2);
        rate.total_cmp(other_rate).then(by_area).then(other.point.cores.cmp(&one.point.cores))
    });
    best.map(|(_, candidate)| candidate.clone())
}

/// The accelerators with the most samples per second of all models, the best first, a few of them; of equal
/// ones the smallest.
pub fn near(candidates: &[Candidate]) -> Vec<Candidate> {
    let rate = |it: &Candidate| it.samples_per_sec.unwrap_or(0.0);
    let mut near: Vec<&Candidate> = candidates.iter().filter(|it| it.samples_per_sec.is_some()).collect();
    near.sort_by(|a, b| {
        let by_area = a.point.um2.total_cmp(&b.point.um2).then(a.point.cores.cmp(&b.point.cores));
        rate(b).total_cmp(&rate(a)).then(by_area)
    });
    near.into_iter().take(N_NEAR).cloned().collect()
}

/// Those that no other beats in throughput of all models, area and power; the smallest first.
fn front(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.samples_per_sec.is_some());
    candidates.sort_by(|a, b| a.point.um2.total_cmp(&b.point.um2).then(a.point.cores.cmp(&b.point.cores)));
    let mut front: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let beats = |other: &Candidate| {
            other.point.watts <= candidate.point.watts && other.samples_per_sec >= candidate.samples_per_sec
        };
        if !front.iter().any(beats) {
            front.push(candidate);
        }
    }
    front
}

#[cfg(test)]
mod tests;
