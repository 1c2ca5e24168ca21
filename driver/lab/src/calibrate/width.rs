//! How wide an 80 % interval has to be: from runs that the clock they are predicted with was not fitted to.

use super::{Clocks, Data, Run, fitted, index};
use phzc_cost::Accelerator;
use rayon::prelude::*;

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
    let clocks_of = |files: &[&Data]| -> Clocks {
        let devices = super::devices(files).into_iter();
        devices.map(|device| fitted(files, device, Accelerator::USUAL_SUSTAINED)).collect()
    };
    let left_out = |index: usize| {
        let others: Vec<&Data> =
            fit.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, one)| one).collect();
        let known = clocks_of(&others);
        let factors = super::devices(&[&fit[index]]).into_iter();
        factors.filter_map(|device| factor(&fit[index], &device, *known.get(&device)?)).collect::<Vec<f64>>()
    };
    let own = quantile((0..fit.len()).into_par_iter().flat_map(left_out).collect());
    let clocks = clocks_of(&fit.iter().collect::<Vec<&Data>>());
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
fn factor(one: &Data, device: &str, clock: f64) -> Option<f64> {
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
