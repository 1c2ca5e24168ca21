//! Repeats in a sequence of fingerprints: which stretch is a copy of which earlier one.

use std::ops::Range;

/// Copies with the stretch that each repeats, in order: `(copy, first occurrence)`.
///
/// The period that covers most of the sequence wins; ties go to the shorter one. A stretch is a copy
/// when at least two whole periods stand side by side.
pub fn repeats(items: &[u64]) -> Vec<(Range<usize>, Range<usize>)> {
    let best = (1..=items.len() / 2).map(|period| (longest_run(items, period), period));
    let Some(((start, length), period)) =
        best.max_by_key(|&((_, length), period)| (length, usize::MAX - period))
    else {
        return Vec::new();
    };
    let n_periods = length / period;
    let first = start..start + period;
    (1..n_periods.max(1))
        .map(|copy| (start + copy * period..start + (copy + 1) * period, first.clone()))
        .collect()
}

/// Start and length of the longest stretch in which every item equals the one `period` before it.
fn longest_run(items: &[u64], period: usize) -> (usize, usize) {
    let (mut best, mut start) = ((0, 0), 0);
    for index in period..=items.len() {
        if index == items.len() || items[index] != items[index - period] {
            let length = index - start;
            let whole = length - length % period;
            if whole > best.1 && whole > period {
                best = (start, whole);
            }
            start = index + 1 - period;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_layers_between_head_and_tail() {
        assert_eq!(repeats(&[9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8]), [(4..7, 1..4), (7..10, 1..4)]);
    }

    #[test]
    fn prefers_the_shorter_period() {
        assert_eq!(repeats(&[1, 2, 1, 2, 1, 2, 1, 2]).len(), 3);
    }

    #[test]
    fn finds_nothing_in_a_sequence_without_repeats() {
        assert_eq!(repeats(&[1, 2, 3, 4]), []);
    }
}
