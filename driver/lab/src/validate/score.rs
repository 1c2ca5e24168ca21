//! Figures of merit: predicted against measured.

use super::pick::{Pick, picks};
use super::rank::spearman;
use phzc_cost::training::Terms;
use serde::Serialize;
use std::collections::BTreeSet;

/// One row that was predicted.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    /// Its `row_id`.
    pub name: String,
    /// Its device.
    pub device: String,
    /// What rows run that compete with each other; empty where none does.
    pub workload: String,
    /// Whether training runs on that device were fitted to; operators do not ask.
    pub is_fitted: bool,
    /// Seconds that were measured and predicted.
    pub secs: Option<[f64; 2]>,
    /// Bytes that were measured and predicted.
    pub bytes: Option<[f64; 2]>,
    /// Seconds that a peer predicted, where the table says it.
    pub peer_secs: Option<f64>,
    /// The 80 % interval of the seconds, of a run.
    pub interval_secs: Option<[f64; 2]>,
    /// Operations of the model per device, of a run.
    pub flops: Option<f64>,
    /// Where the predicted seconds go.
    pub terms: Terms,
    /// Where its times come from, if not from formulas.
    pub source: Option<&'static str>,
    /// What the row does not say and was assumed.
    pub assumed: String,
    /// Whether a run is predicted to fit, and whether it did.
    pub fits: Option<[bool; 2]>,
}

/// The figures of one file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Score {
    /// The file's name.
    pub file: String,
    /// What its rows are.
    pub kind: String,
    /// Rows of the file.
    pub rows: usize,
    /// Rows with a predicted and a measured time.
    pub scored: usize,
    /// Mean absolute error of the time, in per cent.
    pub mape: Option<f64>,
    /// Mean signed error, in per cent.
    pub bias: Option<f64>,
    /// Median absolute error, in per cent.
    pub median: Option<f64>,
    /// The error that nine of ten rows stay below, in per cent.
    pub p90: Option<f64>,
    /// Kendall's rank correlation of measured and predicted times.
    pub kendall_tau: Option<f64>,
    /// Spearman's rank correlation of measured and predicted times.
    pub spearman: Option<f64>,
    /// The same of the peer, where the table has its predictions.
    pub peer_spearman: Option<f64>,
    /// The same on each device, where the file has several and one has pairs to rank.
    pub kendall_tau_by_device: Vec<(String, f64)>,
    /// Which plan is picked of those of one workload.
    pub picks: Vec<Pick>,
    /// Mean absolute error of the memory, in per cent.
    pub memory_mape: Option<f64>,
    /// Rows with a memory measurement.
    pub memory_scored: usize,
    /// Runs that fitted: predicted to fit, predicted not to.
    pub fitted: [usize; 2],
    /// Runs that did not fit: predicted to fit (false promises), predicted not to.
    pub out_of_memory: [usize; 2],
    /// Per cent of the measured times inside the 80 % interval.
    pub coverage80: Option<f64>,
    /// Error of one rate per device, learnt from the file's other rows, in per cent.
    pub constant_mape: Option<f64>,
    /// Error of the peer on the rows that it could run, in per cent.
    pub peer_mape: Option<f64>,
    /// Rows that could not be expressed, by reason: how many, and their numbers in the table from 1.
    pub unexpressed: Vec<(String, usize, Vec<usize>)>,
}

/// Calculon (caa4b11, its own system files) on the same files: data/published/README.md.
const PEERS: [(&str, f64); 5] = [
    ("korthikanti2022_a100", 4.0),
    ("vtrain_a100_multi", 12.9),
    ("nemo_launcher_a100_scaling", 30.4),
    ("nemo_h100_fp8_2024", 12.1),
    ("mlperf_training_llm", 15.6),
];

/// The figures of one file's rows.
pub(crate) fn score(
    file: &str,
    kind: &str,
    n_rows: usize,
    scored: &[Scored],
    unexpressed: Vec<(String, usize, Vec<usize>)>,
) -> Score {
    let timed: Vec<&Scored> = scored.iter().filter(|row| row.secs.is_some()).collect();
    let errors: Vec<f64> = timed.iter().filter_map(|row| row.secs.map(relative)).collect();
    let memory: Vec<f64> = scored.iter().filter_map(|row| row.bytes.map(relative)).collect();
    let covered = timed.iter().filter(|row| is_covered(row)).count();
    let fits = |is_fit: bool| {
        [true, false].map(|says| scored.iter().filter(|row| row.fits == Some([says, is_fit])).count())
    };
    let pairs: Vec<[f64; 2]> = timed.iter().filter_map(|row| row.secs).collect();
    let peers: Vec<[f64; 2]> = timed.iter().filter_map(|row| Some([row.secs?[0], row.peer_secs?])).collect();
    let peer_errors: Vec<f64> = peers.iter().copied().map(relative).collect();
    let published = PEERS.iter().find(|(name, _)| file.contains(name)).map(|(_, mape)| *mape);
    Score {
        file: file.to_owned(),
        kind: kind.to_owned(),
        rows: n_rows,
        scored: timed.len(),
        mape: mean_absolute(&errors),
        bias: mean(&errors),
        median: quantile(&errors, 0.5),
        p90: quantile(&errors, 0.9),
        kendall_tau: kendall_tau(&pairs),
        spearman: spearman(&pairs),
        peer_spearman: spearman(&peers),
        kendall_tau_by_device: tau_by_device(&timed),
        picks: picks(&timed),
        memory_mape: mean_absolute(&memory),
        memory_scored: memory.len(),
        fitted: fits(true),
        out_of_memory: fits(false),
        coverage80: timed
            .iter()
            .any(|row| row.interval_secs.is_some())
            .then(|| 100.0 * covered as f64 / timed.len() as f64),
        constant_mape: constant_mape(&timed),
        peer_mape: mean_absolute(&peer_errors).or(published),
        unexpressed,
    }
}

fn is_covered(row: &Scored) -> bool {
    let inside =
        |[low, high]: [f64; 2]| row.secs.is_some_and(|[measured, _]| (low..=high).contains(&measured));
    row.interval_secs.is_some_and(inside)
}

/// Predicted over measured, less one, in per cent.
pub(crate) fn relative([measured, predicted]: [f64; 2]) -> f64 {
    100.0 * (predicted / measured - 1.0)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn mean_absolute(values: &[f64]) -> Option<f64> {
    mean(&values.iter().map(|value| value.abs()).collect::<Vec<f64>>())
}

/// The absolute value that a part of all stay at or below.
pub(crate) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    let index = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(index.max(1) - 1).copied()
}

/// Pairs in the same order less pairs in opposite order, over all pairs that differ in both.
fn kendall_tau(pairs: &[[f64; 2]]) -> Option<f64> {
    let mut sorted = pairs.to_vec();
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let n_all = n_pairs(sorted.len());
    let n_first = n_ties(&sorted, |a, b| a[0] == b[0]);
    let n_both = n_ties(&sorted, |a, b| a == b);
    let mut second: Vec<f64> = sorted.iter().map(|pair| pair[1]).collect();
    let n_opposite = sort_counting_inversions(&mut second);
    let n_second = n_ties(&second, |a, b| a == b);
    let n_differ = n_all + n_both - n_first - n_second;
    (n_differ > 0).then(|| (n_differ as f64 - 2.0 * n_opposite as f64) / n_differ as f64)
}

/// The rank correlation among the rows of each device, by name; none where all are of one device.
fn tau_by_device(rows: &[&Scored]) -> Vec<(String, f64)> {
    let devices: BTreeSet<&str> = rows.iter().map(|row| row.device.as_str()).collect();
    if devices.len() < 2 {
        return Vec::new();
    }
    let tau = |device: &str| {
        let own = rows.iter().filter(|row| row.device == device);
        kendall_tau(&own.filter_map(|row| row.secs).collect::<Vec<_>>())
    };
    devices.into_iter().filter_map(|device| Some((device.to_owned(), tau(device)?))).collect()
}

fn n_pairs(n: usize) -> usize {
    n * n.saturating_sub(1) / 2
}

/// Pairs of equal neighbours' runs.
fn n_ties<T>(sorted: &[T], is_equal: impl Fn(&T, &T) -> bool) -> usize {
    sorted.chunk_by(is_equal).map(|run| n_pairs(run.len())).sum()
}

/// Sorts, and counts the pairs that stood the other way round.
fn sort_counting_inversions(values: &mut [f64]) -> usize {
    if values.len() < 2 {
        return 0;
    }
    let (low, high) = values.split_at_mut(values.len() / 2);
    let mut count = sort_counting_inversions(low) + sort_counting_inversions(high);
    let (mut left, mut right) = (low.iter().copied().peekable(), high.iter().copied().peekable());
    let mut merged = Vec::with_capacity(low.len() + high.len());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        if b < a {
            count += left.len();
            merged.extend(right.next());
        } else {
            merged.extend(left.next());
        }
    }
    merged.extend(left.chain(right));
    values.copy_from_slice(&merged);
    count
}

/// Each row by the mean rate of the file's other rows on the same device.
fn constant_mape(rows: &[&Scored]) -> Option<f64> {
    let rate = |row: &Scored| Some(row.flops? / row.secs?[0]);
    let error = |(index, row): (usize, &&Scored)| {
        let others =
            rows.iter().enumerate().filter(|(other, one)| *other != index && one.device == row.device);
        let rates: Vec<f64> = others.filter_map(|(_, one)| rate(one)).collect();
        let [measured, _] = row.secs?;
        Some(relative([measured, row.flops? / mean(&rates)?]))
    };
    mean_absolute(&rows.iter().enumerate().filter_map(error).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_counts_pairs() {
        assert_eq!(kendall_tau(&[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]), Some(1.0));
        assert_eq!(kendall_tau(&[[1.0, 30.0], [2.0, 20.0], [3.0, 10.0]]), Some(-1.0));
        assert_eq!(kendall_tau(&[[1.0, 1.0], [2.0, 3.0], [3.0, 2.0]]), Some(1.0 / 3.0));
        assert_eq!(kendall_tau(&[[1.0, 1.0], [1.0, 2.0], [2.0, 2.0], [3.0, 0.0]]), Some(-1.0 / 2.0));
        assert_eq!(kendall_tau(&[[1.0, 1.0]]), None);
    }

    #[test]
    fn quantiles_are_of_absolute_values() {
        assert_eq!(quantile(&[-3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[-3.0, 1.0, 2.0], 0.9), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
