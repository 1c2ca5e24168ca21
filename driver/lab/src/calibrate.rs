//! `phzc calibrate`: fits each device's sustained clock to measured training runs, and says what that does to
//! others.
//!
//! One constant per device, for the others have benchmarks of their own: how much of the clock of a short
//! benchmark a training run keeps. It makes the mean absolute logarithm of predicted over measured least,
//! each file counting alike. A few rows move it little: the value that was there counts as one more row that
//! it fits exactly.

mod width;

use crate::validate::{Run, relative, runs_of};
use phzc_io::{Failure, Io, write_stdout};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The arguments of `phzc calibrate`.
#[derive(Debug, clap::Args)]
pub struct CalibrateArgs {
    /// Tables of measured training runs to fit to: published ones, or a few rows of your own
    /// (docs/validation.md)
    #[arg(value_name = "FIT.csv", required = true)]
    pub fit: Vec<PathBuf>,

    /// Tables that are predicted before and after, and not fitted to
    #[arg(long, value_name = "TEST.csv", num_args = 1..)]
    pub test: Vec<PathBuf>,
}

/// Least and largest clock that is tried, and the step of the search.
const CLOCKS: (f64, f64, f64) = (0.40, 1.20, 0.01);

/// One table of runs.
struct Data {
    name: String,
    runs: Vec<Run>,
    /// Per run: its seconds at each clock that is tried.
    secs: Vec<Vec<f64>>,
}

/// Sustained clocks by device.
type Clocks = BTreeMap<String, f64>;

/// Does what the command line says.
pub fn run(args: &CalibrateArgs, io: &mut Io) -> Result<(), Failure> {
    let (fit, test) = (read(&args.fit, io)?, read(&args.test, io)?);
    let before = clocks(fit.iter().chain(&test));
    let all: Vec<&Data> = fit.iter().collect();
    let fitted: Clocks = clocks(&fit).into_iter().map(|(device, now)| fitted(&all, device, now)).collect();
    let after: Clocks =
        before.iter().map(|(device, now)| (device.clone(), *fitted.get(device).unwrap_or(now))).collect();
    let mut out = String::from("# sustained clock: before, after\n");
    for (device, clock) in &fitted {
        let source = if is_fitted(&fit, device) { "" } else { ", which no run was fitted to" };
        out += &format!("{device}: sustained = {clock:.2} # was {:.2}{source}\n", before[device]);
    }
    for (kind, data) in [("fit", &fit), ("test", &test)] {
        for one in data {
            let (old, new) = (mape(one, &before), mape(one, &after));
            out += &format!(
                "{kind}: {}, {} rows, MAPE {old:.1} % before, {new:.1} % after\n",
                one.name,
                one.runs.len()
            );
        }
    }
    write_stdout(io, &(out + &interval(&fit)))
}

/// What intervals the files ask for; one file alone has no other to be left out of.
fn interval(fit: &[Data]) -> String {
    let names = ["with a clock of its device from other files", "on a device without a fit"];
    let line = |(factor, name): (Option<f64>, &str)| {
        factor.map_or(String::new(), |factor| {
            format!("interval: factor {factor:.3} for a further file, {name}\n")
        })
    };
    if fit.len() < 2 { String::new() } else { width::widths(fit).into_iter().zip(names).map(line).collect() }
}

fn is_fitted(fit: &[Data], device: &str) -> bool {
    let mut runs = fit.iter().flat_map(|one| &one.runs);
    runs.any(|run| run.clock_name() == device && run.cluster.accelerator.is_fitted())
}

fn read(paths: &[PathBuf], io: &mut Io) -> Result<Vec<Data>, Failure> {
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let data = |path: &PathBuf| {
        let runs = runs_of(path, io)?;
        let secs = runs.par_iter().map(|run| tried().map(|clock| secs(run, clock)).collect()).collect();
        Ok(Data { name: name(path), runs, secs })
    };
    paths.iter().map(data).collect()
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
fn clocks<'a>(data: impl IntoIterator<Item = &'a Data>) -> Clocks {
    let runs = data.into_iter().flat_map(|one| &one.runs);
    runs.map(|run| (run.clock_name(), run.cluster.accelerator.sustained)).collect()
}

/// The devices of all runs, by name.
fn devices(data: &[&Data]) -> Vec<String> {
    clocks(data.iter().copied()).into_keys().collect()
}

/// The clock of one device with the least loss, if it was `now` so far.
fn fitted(fit: &[&Data], device: String, now: f64) -> (String, f64) {
    let n_rows = n_rows(fit, &device).max(1.0);
    let loss = |clock: f64| loss(fit, &device, clock) + (clock / now).ln().abs() / n_rows;
    let best = tried().min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap_or(now);
    (device, best)
}

fn n_rows(fit: &[&Data], device: &str) -> f64 {
    fit.iter().flat_map(|one| &one.runs).filter(|run| run.clock_name() == device).count() as f64
}

/// The mean over files of the mean absolute logarithm of predicted over measured.
fn loss(fit: &[&Data], device: &str, clock: f64) -> f64 {
    let at = index(clock);
    let of_file = |one: &&Data| {
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

fn mape(one: &Data, clocks: &Clocks) -> f64 {
    let error = |run: &Run| Some(relative([run.measured_secs?, secs(run, clocks[&run.clock_name()])]).abs());
    let errors: Vec<f64> = one.runs.iter().filter_map(error).collect();
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}
