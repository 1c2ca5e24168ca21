//! How wide an 80 % interval has to be: from runs that the clock they are predicted with was not fitted to.

use super::{Clocks, Data, fitted};
use phzc_cost::Accelerator;
use rayon::prelude::*;

/// The part of the rows that an interval is to hold.
const PART: f64 = 0.8;

/// Factors that 80 % of the rows lie within, every file counting alike: `[own, usual]`, with a clock fitted to the device's other
/// files, and with the clock of a device that nothing was fitted to. `None` where there is no such row.
pub(super) fn widths(fit: &[Data]) -> [Option<f64>; 2] {
    let left_out = |index: usize| {
        let others: Vec<&Data> =
            fit.iter().enumerate().filter(|(other, _)| *other != index).map(|it| it.1).collect();
        let known: Clocks = super::devices(&others)
            .into_iter()
            .map(|device| fitted(&others, device, Accelerator::USUAL_SUSTAINED))
            .collect();
        [
            errors(&fit[index], |device| known.get(device).copied()),
            errors(&fit[index], |_| Some(Accelerator::USUAL_SUSTAINED)),
        ]
    };
    let all: Vec<[Vec<f64>; 2]> = (0..fit.len()).into_par_iter().map(left_out).collect();
    [0, 1].map(|kind| quantile(all.iter().map(|both| both[kind].as_slice()).collect()))
}

/// Absolute logarithms of predicted over measured, of the rows whose device has a clock.
fn errors(one: &Data, clock: impl Fn(&str) -> Option<f64>) -> Vec<f64> {
    let error = |(run, secs): (&super::Run, &Vec<f64>)| {
        let clock = clock(&run.cluster.accelerator.name)?;
        Some((secs[super::index(clock)] / run.measured_secs?).ln().abs())
    };
    one.runs.iter().zip(&one.secs).filter_map(error).collect()
}

/// The factor that `PART` of all rows stay within when each file has the same weight.
fn quantile(files: Vec<&[f64]>) -> Option<f64> {
    let files: Vec<&[f64]> = files.into_iter().filter(|errors| !errors.is_empty()).collect();
    let weight = |errors: &[f64]| 1.0 / (errors.len() * files.len()) as f64;
    let mut rows: Vec<(f64, f64)> =
        files.iter().flat_map(|errors| errors.iter().map(|error| (*error, weight(errors)))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut seen = 0.0;
    let at = rows.iter().find(|(_, weight)| {
        seen += weight;
        seen >= PART - 1e-9
    });
    at.map(|(error, _)| error.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_alike_however_long_they_are() {
        let (long, short) = ([0.1; 30], [0.2, 0.3]);
        // Half of all weight lies at 0.1, a quarter at 0.2, a quarter at 0.3.
        let factor = quantile(vec![&long, &short]).expect("rows");
        assert!((factor.ln() - 0.3).abs() < 1e-12, "{factor}");
        assert_eq!(quantile(vec![&[]]), None);
    }
}
