//! How much recomputed runs may hold: the caps between which the best patterns of a layer change.

use super::layers::Layers;
use super::patterns::{Candidate, Edge, Patterns, Use, hull_patterns, patterns};
use std::sync::Arc;

/// How much a recomputed run may hold, and the patterns that this allows; the first is nothing.
pub struct Cap {
    /// MiB.
    pub mib: f64,
    /// Per class: the patterns of a plan under this cap; none under the first.
    pub full: Vec<Arc<Patterns>>,
    /// Per class: all that some run below the next cap allows.
    pub loose: Vec<Arc<Patterns>>,
}

/// How the patterns of a layer are made.
type Make = fn(&[Candidate], f64, Edge, Use) -> Patterns;

/// The most caps that are told apart.
const MAX_CAPS: usize = 32;
/// Sums of runs that are looked at for them.
const MAX_SUMS: usize = 120;

impl Cap {
    /// The caps at which the hull of some class changes; of many, some.
    pub fn all(layers: &Layers, candidates: &[Candidate]) -> Vec<Cap> {
        let ops = |class: usize| {
            let layer = layers.first_of[class];
            &candidates[layers.starts[layer]..layers.starts[layer + 1]]
        };
        let under = |mib: f64, purpose: Use, made: Make| -> Vec<Arc<Patterns>> {
            let of = |class: usize| Arc::new(made(ops(class), mib, layers.edges[class], purpose));
            (0..layers.n_classes()).map(of).collect()
        };
        let loose = |mib: f64| under(mib, Use::Bound, hull_patterns);
        let sums = run_sums((0..layers.n_classes()).map(ops));
        let mut raw: Vec<(f64, Vec<Arc<Patterns>>)> = Vec::new();
        for mib in spread(&sums, MAX_SUMS).into_iter().map(|at| sums[at]) {
            let hulls = under(mib, Use::Plan, hull_patterns);
            if raw.last().is_none_or(|last| !have_equal_hulls(&last.1, &hulls)) {
                raw.push((mib, hulls));
            }
        }
        let all: Vec<f64> = raw.iter().map(|cap| cap.0).collect();
        let kept = spread(&all, MAX_CAPS);
        // What a run holds below a cap is at most the next smaller sum.
        let below = |mib: f64| sums[..sums.partition_point(|&sum| sum < mib)].last().copied().unwrap_or(0.0);
        let limit = |at: usize| kept.get(at).map_or(f64::INFINITY, |&raw| below(all[raw]));
        let mut caps = vec![Cap { mib: 0.0, full: Vec::new(), loose: loose(limit(0)) }];
        caps.extend(kept.iter().enumerate().map(|(at, &own)| Cap {
            mib: all[own],
            full: under(all[own], Use::Plan, patterns),
            loose: loose(limit(at + 1)),
        }));
        caps
    }
}

fn have_equal_hulls(a: &[Arc<Patterns>], b: &[Arc<Patterns>]) -> bool {
    let hull = |of: &Patterns| {
        of.hull.iter().map(|&at| (of.points[at].saved_mib, of.points[at].ms)).collect::<Vec<_>>()
    };
    a.iter().zip(b).all(|(a, b)| hull(a) == hull(b))
}

/// What the runs of some layers may hold, ascending.
fn run_sums<'c>(layers: impl Iterator<Item = &'c [Candidate]>) -> Vec<f64> {
    let mut sums = Vec::new();
    for ops in layers {
        for first in 0..ops.len() {
            let mut sum = 0.0;
            sums.extend(ops[first..].iter().map(|op| {
                sum += op.mib;
                sum
            }));
        }
    }
    sums.retain(|&mib| mib > 0.0);
    sums.sort_by(f64::total_cmp);
    sums.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
    sums
}

/// Positions of no more than `most` of some ascending numbers, evenly by value, the last one among them.
fn spread(numbers: &[f64], most: usize) -> Vec<usize> {
    let last = numbers.last().copied().unwrap_or(0.0);
    let below = |at: usize| numbers.partition_point(|&number| number <= last * at as f64 / most as f64);
    let mut kept: Vec<usize> = match numbers.len() <= most {
        true => (0..numbers.len()).collect(),
        false => (1..=most).filter_map(|at| below(at).checked_sub(1)).collect(),
    };
    kept.dedup();
    kept
}
