//! A lower bound of a step: the best pipeline if nothing had to be sent between stages.
//!
//! Stages from the last one to the first take as many layers as fit in memory and in a time; the least time
//! for which so many stages hold all layers is that of the slowest stage, from below. Time and memory of a
//! stage only grow with its layers, so that no other cut does better. The rest is the step's formula with
//! the first layer as the first stage (`reference/phaze.md`, section 5).

use super::place::Fleet;
use phzc_arch::estimate::LayerSecs;
use phzc_arch::model::Microbatch;
use phzc_arch::search::Run;
use phzc_cost::phaze::Copies;

/// Halvings of the interval in which the slowest stage's time is looked for; its lower end is the bound.
const N_HALVINGS: usize = 12;

/// A layer of the chain, for one microbatch.
struct Load {
    /// Forward and backward.
    secs: f64,
    /// Forward.
    again_secs: f64,
    /// Parameters with their copies.
    parameter_bytes: f64,
    activation_bytes: f64,
}

/// Seconds that no plan of a run falls below; infinite where no plan fits.
pub(super) fn least_secs(fleet: &Fleet, microbatch: &Microbatch, run: &Run, times: &[LayerSecs]) -> f64 {
    let loads = loads(fleet, microbatch, times);
    let n_microbatches = (fleet.batch / microbatch.samples) as usize;
    let parameter_bytes = microbatch.kinds[microbatch.chain[0]].parameter_bytes;
    let mut least = f64::INFINITY;
    for n_stages in 1..=loads.len().min(fleet.n_devices) {
        let slowest_secs = slowest_secs(&loads, run, n_stages);
        if slowest_secs.is_infinite() {
            continue;
        }
        for d in 1..=(fleet.n_devices / n_stages).min(n_microbatches) {
            let rounds = n_microbatches.div_ceil(d) + n_stages - 1;
            let sync = 4.0 * (d - 1) as f64 * parameter_bytes / fleet.link_bytes_per_sec / d as f64;
            least = least.min(slowest_secs * rounds as f64 + sync);
        }
    }
    least
}

fn loads(fleet: &Fleet, microbatch: &Microbatch, times: &[LayerSecs]) -> Vec<Load> {
    let n_copies = if fleet.copies == Copies::Adam { 3.0 } else { 2.0 };
    let of = |kind: &usize| Load {
        secs: times[*kind].forward + times[*kind].backward,
        again_secs: times[*kind].forward,
        parameter_bytes: n_copies * microbatch.kinds[*kind].parameter_bytes,
        activation_bytes: microbatch.kinds[*kind].activation_bytes,
    };
    microbatch.chain.iter().map(of).collect()
}

/// The slowest of at most so many stages, from below.
fn slowest_secs(loads: &[Load], run: &Run, n_stages: usize) -> f64 {
    let all: f64 = loads.iter().map(|load| load.secs + load.again_secs).sum();
    let (mut low, mut high) = (0.0, all);
    if !fits(loads, run, n_stages, f64::INFINITY) {
        return f64::INFINITY;
    }
    for _ in 0..N_HALVINGS {
        let middle = 0.5 * (low + high);
        if fits(loads, run, n_stages, middle) { high = middle } else { low = middle }
    }
    low
}

/// Whether so many stages hold all layers within a time.
fn fits(loads: &[Load], run: &Run, n_stages: usize, limit_secs: f64) -> bool {
    let mut left = loads;
    for from_end in 1..=n_stages {
        let n_taken = n_taken(left, run, from_end, limit_secs);
        left = &left[..left.len() - n_taken];
        if n_taken == 0 || left.is_empty() {
            break;
        }
    }
    left.is_empty()
}

/// Layers at the end that the stage with this position from the end can hold.
fn n_taken(loads: &[Load], run: &Run, from_end: usize, limit_secs: f64) -> usize {
    let n_stashes = if run.recompute { 1.0 } else { from_end as f64 };
    let n_forward = f64::from(u8::from(run.recompute && from_end > 1));
    let (mut secs, mut bytes) = (0.0, 0.0);
    let fits = loads.iter().rev().take_while(|load| {
        secs += load.secs + n_forward * load.again_secs;
        bytes += load.parameter_bytes + n_stashes * load.activation_bytes;
        secs <= limit_secs && bytes <= run.hbm_bytes as f64
    });
    fits.count()
}
