//! How much recomputed runs may hold: the caps between which the best patterns of a layer change.

use super::layers::Layers;
use super::patterns::{Candidate, Edge, Patterns, Use, hull_patterns, patterns};
use std::iter;
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
        let per_class = |mib: f64, purpose: Use, make: Make| -> Vec<Arc<Patterns>> {
            let classes = (0..layers.n_classes()).map(|class| (layers.ops_of(class), layers.edges[class]));
            classes.map(|(ops, edge)| Arc::new(make(&candidates[ops], mib, edge, purpose))).collect()
        };
        let sums = run_sums((0..layers.n_classes()).map(|class| &candidates[layers.ops_of(class)]));
        let mut changes: Vec<(f64, Vec<Arc<Patterns>>)> = Vec::new();
        for mib in spread(&sums, MAX_SUMS) {
            let hulls = per_class(mib, Use::Plan, hull_patterns);
            if changes.last().is_none_or(|last| !have_equal_hulls(&last.1, &hulls)) {
                changes.push((mib, hulls));
            }
        }
        let mibs = spread(&changes.into_iter().map(|change| change.0).collect::<Vec<_>>(), MAX_CAPS);
        // What a run holds below a cap is at most the next smaller sum.
        let below =
            |&mib: &f64| sums[..sums.partition_point(|&sum| sum < mib)].last().copied().unwrap_or(0.0);
        let limits = mibs.iter().map(below).chain([f64::INFINITY]);
        let full = mibs.iter().map(|&mib| (mib, per_class(mib, Use::Plan, patterns)));
        let caps = iter::once((0.0, Vec::new())).chain(full).zip(limits);
        caps.map(|((mib, full), limit)| Cap { mib, full, loose: per_class(limit, Use::Bound, hull_patterns) })
            .collect()
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

/// No more than `most` of some ascending numbers that differ, evenly by value, the last one among them.
fn spread(numbers: &[f64], most: usize) -> Vec<f64> {
    if numbers.len() <= most {
        return numbers.to_vec();
    }
    let last = numbers.last().copied().unwrap_or(0.0);
    let below = |at: usize| numbers.partition_point(|&number| number <= last * at as f64 / most as f64);
    let mut kept: Vec<usize> = (1..=most).filter_map(|at| below(at).checked_sub(1)).collect();
    kept.dedup();
    kept.into_iter().map(|at| numbers[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_sums_of_operators_that_follow_one_another() {
        let op = |mib: f64| Candidate { ms: 1.0, mib, is_free: true };
        let layers = [vec![op(1.0), op(2.0), op(4.0)], vec![op(0.0), op(3.0), op(8.0)]];
        assert_eq!(run_sums(layers.iter().map(Vec::as_slice)), [1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 11.0]);
    }

    #[test]
    fn of_many_numbers_some_are_kept_evenly_by_value() {
        let numbers = [1.0, 2.0, 3.0, 4.0, 10.0, 11.0, 12.0, 20.0];
        assert_eq!(spread(&numbers, 8), numbers);
        assert_eq!(spread(&numbers, 4), [4.0, 10.0, 12.0, 20.0]);
        assert_eq!(spread(&numbers, 2), [10.0, 20.0]);
        assert_eq!(spread(&[1.0, 20.0, 20.5], 2), [1.0, 20.5]);
    }
}
