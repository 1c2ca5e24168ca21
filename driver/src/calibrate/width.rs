//! How wide an 80 % interval has to be: from runs that the clock they are predicted with was not fitted to.

use super::{Clocks, Data, Run, fitted, index};
use phzc_cost::Accelerator;
use rayon::prelude::*;

/// The part of the rows that an interval is to hold.
const PART: f64 = 0.8;

/// Factors that the runs of a further file stay within, four files of five and in each four rows of five: `[own, usual]`, with
/// a clock fitted to other files of the device, and with one for a device that nothing was fitted to. `None` without such rows.
///
/// Each file is left out in turn and predicted with clocks fitted to the others; for the second, with the mean clock of the other
/// devices. A file's devices count as files of their own.
pub(super) fn widths(fit: &[Data]) -> [Option<f64>; 2] {
    let left_out = |index: usize| {
        let others: Vec<&Data> =
            fit.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, one)| one).collect();
        let clock = |device| fitted(&others, device, Accelerator::USUAL_SUSTAINED);
        let known: Clocks = super::devices(&others).into_iter().map(clock).collect();
        let device_factors = |device: &String| {
            let of_others = known.iter().filter(|(other, _)| *other != device).map(|(_, clock)| *clock);
            [known.get(device).copied(), mean(of_others)].map(|clock| factor(&fit[index], device, clock?))
        };
        super::devices(&[&fit[index]]).iter().map(device_factors).collect::<Vec<_>>()
    };
    let all: Vec<[Option<f64>; 2]> = (0..fit.len()).into_par_iter().flat_map(left_out).collect();
    [0, 1].map(|kind| quantile(all.iter().filter_map(|both| both[kind]).collect()))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The factor that `PART` of a device's rows in a file stay within at a clock.
fn factor(one: &Data, device: &str, clock: f64) -> Option<f64> {
    let own = one.runs.iter().zip(&one.secs).filter(|(run, _)| run.cluster.accelerator.name == device);
    let error = |(run, secs): (&Run, &Vec<f64>)| Some((secs[index(clock)] / run.measured_secs?).ln().abs());
    quantile(own.filter_map(error).map(f64::exp).collect())
}

/// The value that `PART` of all stay at or below.
fn quantile(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let index = (PART * values.len() as f64).ceil() as usize;
    values.get(index.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_five_lie_within() {
        assert_eq!(quantile(vec![1.3, 1.1, 1.5, 1.2, 1.4]), Some(1.4));
        assert_eq!(quantile(vec![1.3]), Some(1.3));
        assert_eq!(quantile(Vec::new()), None);
        assert_eq!(mean([0.8, 0.9, 1.0].into_iter()), Some(0.9));
    }
}
