//! How wide an 80 % interval has to be: from runs that the clock they are predicted with was not fitted to.
//!
//! One constant per device is fitted here, its clock, so that the mean absolute logarithm of predicted over
//! measured is least, each file counting alike; the value that was there counts as one more row that it fits
//! exactly.

use super::{Data, Run};
use phzc_cost::Accelerator;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Sustained clocks by device.
type Clocks = BTreeMap<String, f64>;

/// Least and largest clock that is tried, and the step of the search.
const CLOCKS: (f64, f64, f64) = (0.40, 1.20, 0.01);

/// A table with, per run, its seconds at each clock that is tried.
struct Table<'a> {
    runs: &'a [Run],
    secs: Vec<Vec<f64>>,
}

/// The part of the rows that an interval is to hold.
const PART: f64 = 0.8;

/// Factors that the runs of a further file stay within, four files of five and in each four rows of five:
/// `[own, new]`, with a clock fitted to other files of the device, and on a device that nothing was fitted
/// to. `None` where rows or devices are too few.
///
/// Each file is left out in turn and predicted with clocks fitted to the others; a file's devices count as
/// files of their own. A new device's clock is a further draw of those that were fitted: Student's prediction
/// interval on their logarithms.
pub(super) fn widths(fit: &[Data]) -> [Option<f64>; 2] {
    let fit: Vec<Table> = fit.iter().map(Table::of).collect();
    let clocks_of = |files: &[&Table]| -> Clocks {
        let devices = devices(files).into_iter();
        devices.map(|device| fitted(files, device, Accelerator::USUAL_SUSTAINED)).collect()
    };
    let left_out = |index: usize| {
        let others: Vec<&Table> =
            fit.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, one)| one).collect();
        let known = clocks_of(&others);
        let factors = devices(&[&fit[index]]).into_iter();
        factors.filter_map(|device| factor(&fit[index], &device, *known.get(&device)?)).collect::<Vec<f64>>()
    };
    let own = quantile((0..fit.len()).into_par_iter().flat_map(left_out).collect());
    let clocks = clocks_of(&fit.iter().collect::<Vec<&Table>>());
    let spread = spread(&clocks.values().map(|clock| clock.ln()).collect::<Vec<f64>>());
    let new = own.zip(spread).map(|(own, spread)| own.ln().hypot(spread).exp());
    [own, new]
}

/// 90 % quantiles of Student's distribution by degrees of freedom, from 1 on.
const STUDENT: [f64; 8] = [3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397];

/// Half the width of the 80 % interval that one more draw lies in.
fn spread(draws: &[f64]) -> Option<f64> {
    let n_free = draws.len().checked_sub(1).filter(|n| *n > 0)?;
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / n_free as f64;
    let student = STUDENT[n_free.min(STUDENT.len()) - 1];
    Some(student * (variance * (1.0 + 1.0 / draws.len() as f64)).sqrt())
}

/// The factor that `PART` of a device's rows in a file stay within at a clock.
fn factor(one: &Table, device: &str, clock: f64) -> Option<f64> {
    let own = one.runs.iter().zip(&one.secs).filter(|(run, _)| run.clock_name() == device);
    let error = |(run, secs): (&Run, &Vec<f64>)| Some((secs[index(clock)] / run.measured_secs?).ln().abs());
    quantile(own.filter_map(error).map(f64::exp).collect())
}

/// The value that one more of the same kind stays at or below with probability `PART`: of `n`, the one at
/// place `ceil(PART (n + 1))`, or the largest (split conformal prediction: Vovk, Gammerman, Shafer 2005; Lei
/// et al. 2018, eq. 5).
fn quantile(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = (PART * (values.len() + 1) as f64).ceil() as usize;
    values.get(place.min(values.len()).checked_sub(1)?).copied()
}

impl Table<'_> {
    fn of(data: &Data) -> Table<'_> {
        let secs = |run: &Run| tried().map(|clock| secs(run, clock)).collect();
        Table { runs: &data.runs, secs: data.runs.par_iter().map(secs).collect() }
    }
}

/// The clocks that are tried.
fn tried() -> impl Iterator<Item = f64> {
    let (least, most, step) = CLOCKS;
    (0..=((most - least) / step).round() as usize).map(move |index| least + step * index as f64)
}

/// The tried clock that is nearest.
fn index(clock: f64) -> usize {
    let (least, most, step) = CLOCKS;
    ((clock.clamp(least, most) - least) / step).round() as usize
}

/// The clocks that the runs' devices have now.
fn clocks(data: &[&Table]) -> Clocks {
    let runs = data.iter().flat_map(|one| one.runs);
    runs.map(|run| (run.clock_name(), run.cluster.accelerator.sustained)).collect()
}

/// The devices of all runs, by name.
fn devices(data: &[&Table]) -> Vec<String> {
    clocks(data).into_keys().collect()
}

/// The clock of one device with the least loss, if it was `now` so far.
fn fitted(fit: &[&Table], device: String, now: f64) -> (String, f64) {
    let n_rows = n_rows(fit, &device).max(1.0);
    let loss = |clock: f64| loss(fit, &device, clock) + (clock / now).ln().abs() / n_rows;
    let best = tried().min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap_or(now);
    (device, best)
}

fn n_rows(fit: &[&Table], device: &str) -> f64 {
    fit.iter().flat_map(|one| one.runs).filter(|run| run.clock_name() == device).count() as f64
}

/// The mean over files of the mean absolute logarithm of predicted over measured.
fn loss(fit: &[&Table], device: &str, clock: f64) -> f64 {
    let at = index(clock);
    let of_file = |one: &&Table| {
        let own = one.runs.iter().zip(&one.secs).filter(|(run, _)| run.clock_name() == device);
        let errors: Vec<f64> =
            own.filter_map(|(run, secs)| Some((secs[at] / run.measured_secs?).ln().abs())).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    };
    let losses: Vec<f64> = fit.iter().filter_map(of_file).collect();
    losses.iter().sum::<f64>() / losses.len().max(1) as f64
}

fn secs(run: &Run, clock: f64) -> f64 {
    let mut cluster = run.cluster.clone();
    cluster.accelerator.sustained = clock;
    run.job.predict(&cluster).step_secs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_lies_within_in_four_of_five_cases() {
        assert_eq!(quantile(vec![1.3, 1.1, 1.5, 1.2, 1.4]), Some(1.5));
        assert_eq!(quantile((1..=9).map(f64::from).collect()), Some(8.0));
        assert_eq!(quantile(vec![1.3]), Some(1.3));
        assert_eq!(quantile(Vec::new()), None);
    }

    #[test]
    fn few_devices_say_little_of_the_next() {
        // Deviation 1, times the root of 4 / 3.
        let three = spread(&[-1.0, 0.0, 1.0]).expect("three draws");
        assert!((three - 1.886 * (4.0f64 / 3.0).sqrt()).abs() < 1e-12, "{three}");
        assert_eq!(spread(&[0.5]), None);
    }
}
