//! Throughput of one accelerator: the best run of each model, and bounds of it.

use super::{Candidate, Place, Question, Run};
use crate::estimate::LayerSecs;
use crate::space::Point;
use std::cmp::Ordering;

/// Samples per second by model.
pub(super) type Rates = Vec<f64>;

/// A run without its size of HBM, its times, and the most samples per second that it may have.
struct Choice<'t> {
    microbatch: usize,
    recompute: bool,
    times: &'t [LayerSecs],
    most: f64,
}

/// An accelerator with the best run of each model.
pub(super) fn candidate(
    question: &Question,
    place: &impl Place,
    point: Point,
    times: &[LayerSecs],
) -> Candidate {
    let mut runs = Vec::new();
    for (model, choices) in choices(question, place, times).into_iter().enumerate() {
        runs.push(best_run(question, place, model, choices));
    }
    let rates: Option<Vec<f64>> = runs.iter().map(|run| Some(run.as_ref()?.1)).collect();
    let samples_per_sec = rates.map(|rates| question.weighed(rates.into_iter()));
    Candidate { point, runs, samples_per_sec }
}

/// By model: no run has more samples per second with times that are no shorter.
pub(super) fn most_rates(question: &Question, place: &impl Place, times: &[LayerSecs]) -> Rates {
    let most = |choices: Vec<Choice>| choices.iter().map(|choice| choice.most).fold(0.0, f64::max);
    choices(question, place, times).into_iter().map(most).collect()
}

/// By model: every microbatch with and without recomputation, as far as they are asked for.
fn choices<'t>(question: &Question, place: &impl Place, times: &'t [LayerSecs]) -> Vec<Vec<Choice<'t>>> {
    let (mut left, mut all) = (times, Vec::new());
    let hbm_bytes = question.hbm_bytes.iter().copied().max().unwrap_or(0);
    for (model, of) in question.models.iter().enumerate() {
        let mut choices = Vec::new();
        for (microbatch, (_, layers)) in of.microbatches.iter().enumerate() {
            let (times, rest) = left.split_at(layers.len());
            left = rest;
            for &recompute in &question.recompute {
                let run = Run { model, microbatch, hbm_bytes, recompute };
                let most = place.most_samples_per_sec(&run, times);
                choices.push(Choice { microbatch, recompute, times, most });
            }
        }
        all.push(choices);
    }
    all
}

/// The run with the most samples per second; of equal ones the least HBM, then the smallest microbatch, then
/// without recomputation. What is bounded below the best so far is not placed.
fn best_run(
    question: &Question,
    place: &impl Place,
    model: usize,
    mut choices: Vec<Choice>,
) -> Option<(Run, f64)> {
    choices.sort_by(|a, b| b.most.total_cmp(&a.most));
    let mut sizes = question.hbm_bytes.clone();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut best: Option<(Run, f64)> = None;
    for choice in choices {
        for hbm_bytes in &sizes {
            let least = best.map_or(0.0, |best| best.1);
            let run = Run {
                model,
                microbatch: choice.microbatch,
                hbm_bytes: *hbm_bytes,
                recompute: choice.recompute,
            };
            let found = (choice.most >= least).then(|| place.samples_per_sec(&run, choice.times)).flatten();
            // With less memory it is no faster.
            let Some(rate) = found.filter(|rate| *rate >= least) else { break };
            if best.is_none_or(|best| is_better((run, rate), best)) {
                best = Some((run, rate));
            }
        }
    }
    best
}

fn is_better((run, rate): (Run, f64), (other, least): (Run, f64)) -> bool {
    let order = |run: Run| (run.hbm_bytes, run.microbatch, run.recompute);
    match rate.total_cmp(&least) {
        Ordering::Greater => true,
        Ordering::Equal => order(run) < order(other),
        Ordering::Less => false,
    }
}
