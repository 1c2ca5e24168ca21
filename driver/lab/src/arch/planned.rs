//! The accelerators with the most samples per second, planned: what a step of each program takes on the
//! device file, so that figure and choice are those of plans.
//!
//! The search knows Phaze's pipelines; the planner shards layers too, and sends what stages share. On several
//! devices the two therefore differ, and the plan is what a program runs as.

use super::args::ArchArgs;
use super::device::cluster_toml;
use super::inputs::Inputs;
use super::place::Fleet;
use super::solve::{Chosen, Found};
use super::{PlanProgram, Planner};
use phzc_io::{Failure, Io};
use phzc_ir::Diagnostic;
use std::path::Path;

/// An accelerator with the plans of all programs.
#[derive(Clone)]
pub(super) struct OnDevice {
    /// The accelerator, as it was searched.
    pub chosen: Chosen,
    /// By model: seconds of a step as it is planned.
    pub step_secs: Vec<f64>,
    /// Samples per second of all models as they are planned, each by its weight.
    pub samples_per_sec: f64,
    toml: String,
}

/// What plans say of the accelerators with the most samples per second.
#[derive(Clone)]
pub(super) struct Planned {
    /// The best first, by their plans; none where nothing was planned.
    pub chips: Vec<OnDevice>,
    /// Why nothing was planned, if nothing was.
    pub why_not: Option<String>,
    /// Accelerators that have no plan though others have, and why the last of them has none.
    pub failed: Option<(usize, String)>,
    /// The device file: of the first, or of the search's best where nothing was planned.
    pub toml: String,
}

/// Plans all programs on the accelerators of the last mode that have the most samples per second.
///
/// # Errors
/// Where no accelerator fits all models.
pub(super) fn planned(
    args: &ArchArgs,
    (fleet, inputs, found): (&Fleet, &Inputs, &Found),
    planner: &Planner,
    io: &mut Io,
) -> Result<Planned, Failure> {
    let mode = found.modes.last().filter(|mode| !mode.near.is_empty()).ok_or_else(|| {
        let error = Diagnostic::error("no accelerator fits all models, so that there is none to write");
        error.help("give more `--hbm-gib`, devices, or smaller `--microbatches`")
    })?;
    let files = mode.near.iter().map(|chosen| cluster_toml((fleet, inputs, found), mode.mode, chosen));
    let files: Vec<String> = files.collect();
    let unplanned = |why_not: String| {
        let (chips, toml) = (Vec::new(), files[0].clone());
        Ok(Planned { chips, why_not: Some(why_not), failed: None, toml })
    };
    // A search of hours is not lost with a plan.
    if let Some(why_not) = why_not(args, planner, io).unwrap_or_else(|error| Some(said(&error))) {
        return unplanned(why_not);
    }
    let (mut chips, mut last_error) = (Vec::new(), None);
    for (at, (chosen, toml)) in mode.near.iter().zip(&files).enumerate() {
        (io.progress)(&format!("planning on accelerator {} of {}", at + 1, mode.near.len()));
        match step_secs(args, toml, planner.plan, io) {
            Ok(secs) => chips.push(on_device(fleet, inputs, chosen.clone(), (secs, toml.clone()))),
            Err(error) => last_error = Some(error),
        }
    }
    (io.progress)("");
    chips.sort_by(|a, b| b.samples_per_sec.total_cmp(&a.samples_per_sec));
    let last_error = last_error.as_ref().map(said);
    match (chips.first().map(|it| it.toml.clone()), last_error) {
        (None, error) => unplanned(error.unwrap_or_default()),
        (Some(toml), error) => {
            let failed = error.map(|error| (files.len() - chips.len(), error));
            Ok(Planned { chips, why_not: None, failed, toml })
        }
    }
}

/// The message of what failed.
fn said(failure: &Failure) -> String {
    failure.errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ")
}

/// Why programs cannot be planned as they are searched, if they cannot.
fn why_not(args: &ArchArgs, planner: &Planner, io: &mut Io) -> Result<Option<String>, Failure> {
    for path in &args.models {
        let name = path.display();
        if is_chain(path) {
            return Ok(Some(format!("`{name}` is a chain of layers, and a plan is of a program")));
        }
        let samples = (planner.samples)(path, io)?;
        if samples != args.batch {
            return Ok(Some(format!("`{name}` has {samples} samples, and a step {}", args.batch)));
        }
    }
    Ok(None)
}

/// Whether a model is given as layers, not as a program.
pub(super) fn is_chain(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// By program: seconds of its step as it is planned on a cluster.
fn step_secs(args: &ArchArgs, toml: &str, plan: &PlanProgram, io: &mut Io) -> Result<Vec<f64>, Failure> {
    args.models.iter().map(|path| plan(path, toml, io)).collect()
}

fn on_device(
    fleet: &Fleet,
    inputs: &Inputs,
    chosen: Chosen,
    (step_secs, toml): (Vec<f64>, String),
) -> OnDevice {
    let rates =
        step_secs.iter().zip(&inputs.weights).map(|(secs, weight)| weight * fleet.batch as f64 / secs);
    OnDevice { samples_per_sec: rates.sum(), chosen, step_secs, toml }
}
