//! The search over accelerators: which ones no other beats in throughput, area and power together.
//!
//! Throughput falls where any layer takes longer, so that an accelerator that is no faster in any layer, no
//! smaller and no more frugal than another is out, whatever plans there are. Accelerators are visited from
//! the smallest on; one whose least times another's times already beat is not even mapped. What is left is
//! placed in every run.

use crate::estimate::{Estimator, Layer};
use crate::mapping::vector::Passes;
use crate::space::{Point, Space};
use phzc_ir::Result;
use rayon::prelude::*;

/// Accelerators that are estimated side by side; a constant, so that the number of threads changes nothing.
const CHUNK: usize = 64;

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
    /// Accelerators of the space.
    pub n_points: usize,
    /// Of those: mapped and scheduled; the others were excluded by bounds.
    pub n_estimated: usize,
    /// Of those: placed.
    pub n_placed: usize,
}

/// Times of the layers, by model, microbatch and layer, in one list.
pub type Times = Vec<Passes>;

impl Question {
    /// All layers, in the order of [`Times`].
    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.models.iter().flat_map(|model| &model.microbatches).flat_map(|it| &it.1)
    }
}

/// Searches. `place` gives the samples per second of the best plan of a run, from the seconds of its
/// layers; more seconds must not give more. `progress` hears how many accelerators of how many are done.
///
/// # Errors
/// For a technology that lacks a buffer, and layers that cannot be priced.
pub fn search(
    question: &Question,
    points: &[Point],
    estimator: &Estimator,
    place: &(impl Fn(&Run, &[Passes]) -> Option<f64> + Sync),
    progress: &mut impl FnMut(usize, usize),
) -> Result<Found> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| {
        a.um2.total_cmp(&b.um2).then(a.watts.total_cmp(&b.watts)).then(a.cores.cmp(&b.cores))
    });
    let (mut fastest, mut n_estimated) = (Vec::new(), 0);
    for (at, chunk) in points.chunks(CHUNK).enumerate() {
        let estimates = chunk.par_iter().map(|point| estimate(question, estimator, &fastest, *point));
        for (point, times) in estimates.collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            n_estimated += 1;
            if !is_beaten(&fastest, &point, &times) {
                fastest.push((point, times));
            }
        }
        progress((at * CHUNK + chunk.len()).min(points.len()), points.len());
    }
    let candidates: Vec<Candidate> =
        fastest.par_iter().map(|(point, times)| candidate(question, place, *point, times)).collect();
    let best = (0..question.models.len()).map(|model| best_of(&candidates, model)).collect();
    let (n_points, n_placed) = (points.len(), candidates.len());
    Ok(Found { front: front(candidates), best, n_points, n_estimated, n_placed })
}

/// Estimates and places every accelerator of a list, in its order. `place` as in [`search`].
///
/// # Errors
/// As [`search`].
pub fn evaluate(
    question: &Question,
    points: &[Point],
    estimator: &Estimator,
    place: &(impl Fn(&Run, &[Passes]) -> Option<f64> + Sync),
) -> Result<Vec<Candidate>> {
    let of = |point: &Point| {
        let times = times(question, estimator, point)?;
        Ok(candidate(question, place, *point, &times))
    };
    points.par_iter().map(of).collect()
}

/// Times of all layers of an accelerator, by model, microbatch and layer.
///
/// # Errors
/// As [`search`].
pub fn times(question: &Question, estimator: &Estimator, point: &Point) -> Result<Times> {
    let template = question.space.template(point.cores);
    question.layers().map(|layer| estimator.layer_secs(&template, layer)).collect()
}

/// The points of a part of a search, of `n_parts` in all; what parts find, [`merge`] puts together.
pub fn part(points: &[Point], at: usize, n_parts: usize) -> Vec<Point> {
    points.iter().skip(at).step_by(n_parts.max(1)).copied().collect()
}

/// What the parts of a search found, together.
pub fn merge(parts: Vec<Found>, n_models: usize) -> Found {
    let of = |model: usize| {
        let found = parts.iter().filter_map(|part| part.best.get(model)?.clone());
        best_of(&found.collect::<Vec<_>>(), model)
    };
    let best = (0..n_models).map(of).collect();
    let sum = |of: fn(&Found) -> usize| parts.iter().map(of).sum();
    let [n_points, n_estimated, n_placed] =
        [sum(|part| part.n_points), sum(|part| part.n_estimated), sum(|part| part.n_placed)];
    let all = parts.into_iter().flat_map(|part| part.front).collect();
    Found { front: front(all), best, n_points, n_estimated, n_placed }
}

/// The times of an accelerator; `None` where its least times are beaten already.
fn estimate(
    question: &Question,
    estimator: &Estimator,
    fastest: &[(Point, Times)],
    point: Point,
) -> Result<Option<(Point, Times)>> {
    let template = question.space.template(point.cores);
    let floors = question.layers().map(|layer| estimator.floor_secs(&template, layer));
    if is_beaten(fastest, &point, &floors.collect::<Result<Times>>()?) {
        return Ok(None);
    }
    Ok(Some((point, times(question, estimator, &point)?)))
}

/// Whether some accelerator is as fast in every layer, as small and as frugal.
fn is_beaten(fastest: &[(Point, Times)], point: &Point, times: &Times) -> bool {
    let beats = |(other, theirs): &(Point, Times)| {
        let is_no_worse = other.um2 <= point.um2 && other.watts <= point.watts;
        is_no_worse
            && theirs.iter().zip(times).all(|(a, b)| a.forward <= b.forward && a.backward <= b.backward)
    };
    fastest.iter().any(beats)
}

fn candidate(
    question: &Question,
    place: &impl Fn(&Run, &[Passes]) -> Option<f64>,
    point: Point,
    times: &[Passes],
) -> Candidate {
    let mut left = times;
    let mut runs = Vec::new();
    for (model, of) in question.models.iter().enumerate() {
        let mut best: Option<(Run, f64)> = None;
        for (microbatch, (_, layers)) in of.microbatches.iter().enumerate() {
            let (own, rest) = left.split_at(layers.len());
            left = rest;
            for (hbm_bytes, recompute) in memory_choices(question) {
                let run = Run { model, microbatch, hbm_bytes, recompute };
                let found = place(&run, own).filter(|it| best.is_none_or(|(_, most)| *it > most));
                best = found.map(|samples_per_sec| (run, samples_per_sec)).or(best);
            }
        }
        runs.push(best);
    }
    let weighed = runs.iter().zip(&question.models).map(|(run, model)| Some(run.as_ref()?.1 * model.weight));
    let samples_per_sec = weighed.sum();
    Candidate { point, runs, samples_per_sec }
}

fn memory_choices(question: &Question) -> impl Iterator<Item = (u64, bool)> + '_ {
    question.hbm_bytes.iter().flat_map(|bytes| question.recompute.iter().map(move |it| (*bytes, *it)))
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
