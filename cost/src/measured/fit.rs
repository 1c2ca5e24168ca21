//! Times of single kernels that add up to those of the segments and steps that they were measured in.
//!
//! Each kernel starts with what it took alone, or with its formula's time scaled by one factor for all that
//! were not measured alone, and is then multiplied, again and again, by what its segments take over what
//! their kernels add up to: iterative proportional fitting (Deming & Stephan 1940), which changes the given
//! proportions as little as it can. Steps come after segments: what a step takes that its segments and
//! collectives do not, waiting and memory that is not in a cache, is spread over all of them.

use super::{Item, Source};
use std::collections::BTreeMap;

/// Rounds of fitting: each brings a kernel of one segment all the way, one of several nearer.
const N_ROUNDS: usize = 40;
/// The least part of its formula's time that what was not measured alone starts with.
const LEAST_START: f64 = 0.02;

/// What was measured as one program: what a device runs between two collectives, or a whole step.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Seconds of one time.
    pub secs: f64,
    /// Its kernels by key, with how often each runs.
    pub kernels: BTreeMap<String, f64>,
}

/// Seconds of everything that was measured, alone or in a segment.
pub(super) fn fitted(
    items: &[Item],
    alone_secs: &BTreeMap<String, f64>,
    together: &[Vec<Segment>],
) -> BTreeMap<String, (f64, Source)> {
    let formulas: BTreeMap<&str, f64> =
        items.iter().map(|item| (item.key.as_str(), item.formula_secs)).collect();
    let mut secs = started(&formulas, alone_secs, together);
    for segments in together {
        (0..N_ROUNDS).for_each(|_| round(&mut secs, segments));
    }
    let source = |key: &str| match alone_secs.contains_key(key) {
        true => Source::Measured,
        false => Source::Segment,
    };
    let of_segments = secs.into_iter().map(|(key, secs)| (key.to_owned(), (secs, source(key))));
    let mut found: BTreeMap<String, (f64, Source)> =
        alone_secs.iter().map(|(key, &secs)| (key.clone(), (secs, Source::Measured))).collect();
    found.extend(of_segments);
    found
}

/// What the kernels of segments start with.
fn started<'s>(
    formulas: &BTreeMap<&str, f64>,
    alone_secs: &BTreeMap<String, f64>,
    together: &'s [Vec<Segment>],
) -> BTreeMap<&'s str, f64> {
    let formula = |key: &str| formulas.get(key).copied().unwrap_or(0.0);
    let (mut left_secs, mut open_secs) = (0.0, 0.0);
    for segment in together.iter().find(|it| !it.is_empty()).into_iter().flatten() {
        let known: f64 = segment.kernels.iter().filter_map(|(key, n)| Some(n * alone_secs.get(key)?)).sum();
        left_secs += (segment.secs - known).max(0.0);
        let open = segment.kernels.iter().filter(|(key, _)| !alone_secs.contains_key(*key));
        open_secs += open.map(|(key, n)| n * formula(key)).sum::<f64>();
    }
    let factor = if open_secs > 0.0 { (left_secs / open_secs).max(LEAST_START) } else { 1.0 };
    let start = |key: &str| alone_secs.get(key).copied().unwrap_or(factor * formula(key));
    let keys = together.iter().flatten().flat_map(|segment| segment.kernels.keys());
    keys.map(|key| (key.as_str(), start(key))).collect()
}

fn round(secs: &mut BTreeMap<&str, f64>, segments: &[Segment]) {
    // Per kernel: its time in all segments, and the same times the logarithm of what they lack.
    let mut wanted: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for segment in segments.iter().filter(|segment| segment.secs > 0.0) {
        let own = |(key, n): (&String, &f64)| n * secs[key.as_str()];
        let sum: f64 = segment.kernels.iter().map(own).sum();
        if sum > 0.0 {
            let lack = (segment.secs / sum).ln();
            for (key, n) in &segment.kernels {
                let [weight, total] = wanted.entry(key).or_default();
                *weight += n * secs[key.as_str()];
                *total += n * secs[key.as_str()] * lack;
            }
        }
    }
    for (key, [weight, total]) in wanted.into_iter().filter(|(_, [weight, _])| *weight > 0.0) {
        if let Some(secs) = secs.get_mut(key) {
            *secs *= (total / weight).exp();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(secs: f64, kernels: &[(&str, f64)]) -> Segment {
        Segment { secs, kernels: kernels.iter().map(|&(key, n)| (key.to_owned(), n)).collect() }
    }

    fn items(formulas: &[(&str, f64)]) -> Vec<Item> {
        let item = |&(key, formula_secs): &(&str, f64)| Item {
            key: key.to_owned(),
            class: "loop".to_owned(),
            formula_secs,
        };
        formulas.iter().map(item).collect()
    }

    /// A segment of `a`, which was measured alone too, and `b`, alike by formula.
    fn of_two(alone_secs: f64, segment_secs: f64) -> BTreeMap<String, (f64, Source)> {
        let alone = BTreeMap::from([("a".to_owned(), alone_secs)]);
        let both = segment(segment_secs, &[("a", 1.0), ("b", 1.0)]);
        fitted(&items(&[("a", 1.0), ("b", 1.0)]), &alone, &[vec![both]])
    }

    #[test]
    fn kernels_add_up_to_their_segments() {
        let segments = [segment(10.0, &[("a", 1.0), ("b", 2.0)]), segment(9.0, &[("b", 1.0), ("c", 1.0)])];
        let found =
            fitted(&items(&[("a", 1.0), ("b", 1.0), ("c", 1.0)]), &BTreeMap::new(), &[segments.to_vec()]);
        for segment in &segments {
            let sum: f64 = segment.kernels.iter().map(|(key, n)| n * found[key].0).sum();
            assert!((sum / segment.secs - 1.0).abs() < 1e-3, "{sum} of {}", segment.secs);
        }
        assert!(found.values().all(|(_, source)| *source == Source::Segment));
    }

    #[test]
    fn what_was_measured_alone_keeps_its_time_where_the_rest_explains_the_segment() {
        let found = of_two(3.0, 5.0);
        assert!((found["a"].0 - 3.0).abs() < 1e-9 && (found["b"].0 - 2.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn more_than_the_segment_is_scaled_down_to_it() {
        let found = of_two(8.0, 4.0);
        assert!((found["a"].0 + found["b"].0 - 4.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_a_step_takes_beyond_its_segments_is_spread_over_them() {
        let parts = vec![segment(6.0, &[("a", 2.0)]), segment(2.0, &[("b", 1.0)])];
        let steps = vec![segment(10.0, &[("a", 2.0), ("b", 1.0)])];
        let found = fitted(&items(&[("a", 1.0), ("b", 1.0)]), &BTreeMap::new(), &[parts, steps]);
        assert!((found["a"].0 - 3.75).abs() < 1e-9 && (found["b"].0 - 2.5).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn nothing_measured_is_nothing_known() {
        assert!(fitted(&items(&[("a", 1.0)]), &BTreeMap::new(), &[]).is_empty());
    }
}
