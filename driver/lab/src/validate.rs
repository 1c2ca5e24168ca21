//! `phzc validate`: predicts published, measured training runs and says how far off the predictions are.

mod choice;
mod contradictions;
pub(crate) mod csv;
mod device;
mod experts;
mod job;
mod jobs;
mod links;
mod listing;
mod measured;
mod model;
mod network;
mod operators;
mod pick;
mod plan;
mod plot;
mod profile;
mod rank;
mod score;
mod software;
mod table;
mod trials;
mod version;
mod words;

use csv::{Record, Table};
use job::Reading;
pub(crate) use job::Run;
pub use jobs::{MeasuredJob, MeasuredJobs, jobs};
use links::Links;
use phzc_cost::training::{MeasuredStages, Prediction, Terms};
use phzc_cost::{Accelerator, Cluster};
use phzc_io::render::{Source, render};
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::{Diagnostic, Result};
use plan::Plan;
use profile::{Profile, Source as LayerSource};
use rayon::prelude::*;
pub(crate) use score::relative;
use score::{Score, Scored, score};
use std::path::{Path, PathBuf};

/// The arguments of `phzc validate`.
#[derive(Debug, clap::Args)]
pub struct ValidateArgs {
    /// Tables of measured runs, operators or collectives, or folders of them (docs/validation.md)
    #[arg(value_name = "DATA.csv", required = true)]
    pub data: Vec<PathBuf>,

    /// Times of single layers that were measured (docs/validation.md), to be taken where a row names their
    /// model and device
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,

    /// Folder of the plans that rows over unlike devices name (docs/validation.md); asks for `--profile` and
    /// `--links`
    #[arg(long, value_name = "DIR", requires = "profile", requires = "links")]
    pub plans: Option<PathBuf>,

    /// Times of messages between nodes that were measured (docs/validation.md), for those plans
    #[arg(long, value_name = "FILE")]
    pub links: Option<PathBuf>,

    /// A cluster of your own (docs/hardware.md), as `phzc calibrate -o` writes it: rows on its device, or on
    /// that which it is based on, are predicted with its numbers
    #[arg(long, value_name = "CLUSTER.toml")]
    pub cluster: Option<PathBuf>,

    /// One JSON object per file instead of the table
    #[arg(long)]
    pub json: bool,

    /// Predict runs by programs: `gen` writes the model, the planner keeps to the row's degrees, the report
    /// prices the result; printed beside the list of operators (docs/validation.md)
    #[arg(long, conflicts_with_all = ["profile", "plans", "links", "cluster", "svg"])]
    pub programs: bool,

    /// Print every row too: measured, predicted, where the time goes
    #[arg(long)]
    pub rows: bool,

    /// File for a scatter plot of predicted over measured times
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// No table of measurements is larger.
const MAX_CSV_BYTES: u64 = 64 << 20;

/// What was measured of parts of runs, to be taken instead of formulas.
#[derive(Default)]
struct Inputs {
    profile: Profile,
    links: Links,
    plans: Option<PathBuf>,
    cluster: Option<Cluster>,
}

/// One file, predicted.
pub(crate) struct Outcome {
    pub score: Score,
    pub rows: Vec<Scored>,
}

/// Does what the command line says.
pub fn run(args: &ValidateArgs, io: &mut Io) -> std::result::Result<(), Failure> {
    let inputs = Inputs {
        profile: args
            .profile
            .as_deref()
            .map(|path| parsed(path, Profile::parse))
            .transpose()?
            .unwrap_or_default(),
        links: args.links.as_deref().map(|path| parsed(path, Links::parse)).transpose()?.unwrap_or_default(),
        plans: args.plans.clone(),
        cluster: args.cluster.as_deref().map(|path| parsed(path, Cluster::from_toml)).transpose()?,
    };
    let (mut outcomes, mut paths, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for path in &args.data {
        paths.extend(listing::tables(path, &mut warnings)?);
    }
    let mut failures = Vec::new();
    for path in &paths {
        match outcome(path, &inputs, paths.len() > 1, io) {
            Ok(made) => outcomes.extend(made),
            Err(failure) => failures.push(failure),
        }
    }
    // A wrong file does not keep the others from being scored.
    if outcomes.is_empty()
        && let Some(failure) = failures.pop()
    {
        return Err(failure);
    }
    warnings.extend(listing::unused(args.profile.as_deref(), &inputs.profile, &outcomes));
    warn(None, &warnings, io);
    args.svg.iter().try_for_each(|path| files::write(path, &plot::svg(&outcomes)))?;
    let text = if args.json { table::json(&outcomes) } else { table::text(&outcomes, args.rows) };
    write_stdout(io, &text)?;
    let last = failures.pop();
    failures.iter().for_each(|failure| warn(failure.source.as_ref(), &failure.errors, io));
    last.map_or(Ok(()), Err)
}

/// One file's predictions; of trials, one outcome per experiment. Among others, a table of facts that nothing
/// predicts is listed as such.
fn outcome(
    path: &Path,
    inputs: &Inputs,
    is_among_others: bool,
    io: &mut Io,
) -> std::result::Result<Vec<Outcome>, Failure> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let has_all = |table: &Table, columns: &[&str]| columns.iter().all(|column| table.has(column));
    with_table(path, io, |table, warnings| match operators::kind(table) {
        Some(kind) => Ok(vec![singles(&name, table, kind, warnings)?]),
        None if has_all(table, &trials::COLUMNS) => trials::outcomes(&name, table, &inputs.profile),
        None if is_among_others && !is_meant(table) => {
            let made =
                (0..table.rows.len()).map(|_| Made::Not("nothing of this table is predicted".to_owned()));
            Ok(vec![collected(&name, "other", table.rows.len(), made.collect())])
        }
        None => Ok(vec![runs(&name, table, inputs, warnings)?]),
    })
}

/// Whether a table looks like one of runs or operators, columns that it lacks apart.
fn is_meant(table: &Table) -> bool {
    let most_of =
        |columns: &[&str]| 2 * columns.iter().filter(|column| table.has(column)).count() > columns.len();
    most_of(&job::COLUMNS) || operators::KINDS.iter().any(|kind| most_of(kind.columns))
}

fn parsed<T>(path: &Path, parse: fn(&str) -> Result<T>) -> std::result::Result<T, Failure> {
    let text = files::read(path, MAX_CSV_BYTES)?;
    parse(&text).map_err(|error| Failure::new(Some(Source { name: path.display().to_string(), text }), error))
}

/// What is made of the table in a file; errors, and the warnings that are pushed, point into it.
fn with_table<T>(
    path: &Path,
    io: &mut Io,
    make: impl FnOnce(&Table, &mut Vec<Diagnostic>) -> Result<T>,
) -> std::result::Result<T, Failure> {
    let text = files::read(path, MAX_CSV_BYTES)?;
    let mut warnings = Vec::new();
    let made = Table::parse(&text).and_then(|table| make(&table, &mut warnings));
    let source = Source { name: path.display().to_string(), text };
    warn(Some(&source), &warnings, io);
    made.map_err(|error| Failure::new(Some(source), error))
}

fn warn(source: Option<&Source>, warnings: &[Diagnostic], io: &mut Io) {
    // Nothing is left to be done when stderr does not take a warning.
    let _ = io.stderr.write_all(render(source, warnings, io.color).as_bytes());
}

/// The runs of a file whose time was measured and that can be predicted.
pub(crate) fn runs_of(path: &Path, io: &mut Io) -> std::result::Result<Vec<Run>, Failure> {
    Ok(readings(path, io)?.into_iter().filter_map(|(_, reading)| measured(reading)).collect())
}

/// A run whose time was measured.
fn measured(reading: Reading) -> Option<Run> {
    match reading {
        Reading::Run(run) => Some(*run).filter(|run| run.measured_secs.is_some()),
        Reading::Unexpressed(_) => None,
    }
}

/// The rows of a file by their names, as runs or with the reason why they are none.
fn readings(path: &Path, io: &mut Io) -> std::result::Result<Vec<(String, Reading)>, Failure> {
    with_table(path, io, |table, warnings| {
        table.expect(&job::COLUMNS)?;
        check_devices(&table.records().collect::<Vec<Record>>())?;
        warnings.extend(words::of_runs(table));
        let read =
            |row: Record<'_>| Ok((row.text("row_id").to_owned(), job::read(row, row.text("device"), None)?));
        table.records().map(read).collect()
    })
}

/// A table of training runs.
fn runs(name: &str, table: &Table, inputs: &Inputs, warnings: &mut Vec<Diagnostic>) -> Result<Outcome> {
    table.expect(&job::COLUMNS)?;
    let records: Vec<Record> = table.records().collect();
    check_devices(&records)?;
    warnings.extend(words::of_runs(table));
    warnings.extend(contradictions::of_runs(table));
    let read: Result<Vec<Made>> = records.par_iter().map(|row| made(*row, inputs)).collect();
    Ok(collected(name, "runs", table.rows.len(), read?))
}

/// An error when the table names devices and none of them is known: single unknown ones are listed with their
/// rows.
fn check_devices(records: &[Record]) -> Result<()> {
    let mut named = records.iter().filter(|row| !row.text("device").is_empty());
    let is_known =
        |row: &&Record| device::device(row.text("device")).is_ok() || row.text("device").contains('+');
    let Some(first) = named.next().filter(|_| !records.iter().any(|row| is_known(&row))) else {
        return Ok(());
    };
    let unknown = Accelerator::named(first.text("device")).err();
    let error = first.error("device", &format!("unknown device `{}`", first.text("device")));
    Err(unknown.and_then(|unknown| unknown.help).into_iter().fold(error, Diagnostic::help))
}

/// A table of operators or collectives.
fn singles(
    name: &str,
    table: &Table,
    kind: &operators::Kind,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Outcome> {
    check_devices(&table.records().collect::<Vec<Record>>())?;
    warnings.extend(words::of_operators(table));
    warnings.extend(contradictions::of_collectives(table));
    let made = |row: Record| {
        Ok(match (kind.pair)(row)? {
            Ok(pair) => Made::Scored(Box::new(single(row, pair))),
            Err(reason) => Made::Not(reason),
        })
    };
    let read: Result<Vec<Made>> = table.records().map(made).collect();
    Ok(collected(name, kind.name, table.rows.len(), read?))
}

/// An operator has no configuration, no memory and no interval.
fn single(row: Record, secs: [f64; 2]) -> Scored {
    Scored {
        name: ["op", "collective", "kinds"].map(|column| row.text(column)).concat(),
        device: row.text("device").to_owned(),
        workload: String::new(),
        is_fitted: true,
        secs: Some(secs),
        bytes: None,
        peer_secs: None,
        interval_secs: None,
        flops: None,
        terms: Terms::default(),
        source: None,
        assumed: String::new(),
        fits: None,
    }
}

fn collected(name: &str, kind: &str, n_rows: usize, made: Vec<Made>) -> Outcome {
    let mut rows = Vec::new();
    let mut reasons: Vec<(String, usize, Vec<usize>)> = Vec::new();
    for (index, one) in made.into_iter().enumerate() {
        match one {
            Made::Scored(row) => rows.push(*row),
            Made::Not(reason) => match reasons.iter_mut().find(|(known, ..)| *known == reason) {
                Some((_, count, rows)) => {
                    *count += 1;
                    rows.push(index + 1);
                }
                None => reasons.push((reason, 1, vec![index + 1])),
            },
        }
    }
    Outcome { score: score(name, kind, n_rows, &rows, reasons), rows }
}

/// What became of one row.
enum Made {
    Scored(Box<Scored>),
    Not(String),
}

fn made(row: Record, inputs: &Inputs) -> Result<Made> {
    let plan = plan_of(row, inputs)?;
    let device = plan.as_ref().and_then(Plan::smallest).unwrap_or_else(|| row.text("device").to_owned());
    let run = match job::read(row, &device, inputs.cluster.as_ref())? {
        Reading::Run(run) => run,
        Reading::Unexpressed(reason) => return Ok(Made::Not(reason)),
    };
    if run.measured_secs.is_none() && run.measured_bytes.is_none() && !run.is_out_of_memory {
        return Ok(Made::Not("nothing that is predicted was measured".to_owned()));
    }
    let measured = match &plan {
        Some(plan) => planned(row, &run, plan, inputs),
        None => inputs.profile.stages(row, &run.job.layout).map(|(stage_secs, source)| {
            let send_secs = inputs.links.like_secs(row.text("device"), &run.job);
            (MeasuredStages { stage_secs, send_secs, ..MeasuredStages::default() }, source)
        }),
    };
    if plan.is_some() && measured.is_none() {
        return Ok(Made::Not(
            "its devices differ, and the profile or the links do not have them all".to_owned(),
        ));
    }
    let prediction = match &measured {
        Some((stages, _)) => run.job.predict_measured(&run.cluster, stages),
        None => run.job.predict(&run.cluster),
    };
    let source = measured.map(|(_, source)| source.as_str());
    let workload = pick::workload(row);
    Ok(Made::Scored(Box::new(Scored { source, workload, ..scored(&run, &prediction) })))
}

/// The plan of a row whose devices differ, if there is one.
fn plan_of(row: Record, inputs: &Inputs) -> Result<Option<Plan>> {
    let named = plan::named(row.text("notes")).filter(|_| row.text("device").contains('+'));
    let (Some(folder), Some(name)) = (&inputs.plans, named) else { return Ok(None) };
    let read = files::read(&folder.join(name), MAX_CSV_BYTES).and_then(|text| Plan::parse(&text));
    read.map(Some).map_err(|error| row.error("notes", &format!("plan `{name}`: {}", error.message)))
}

/// Stages, sends and sums of a plan over unlike devices.
fn planned(row: Record, run: &Run, plan: &Plan, inputs: &Inputs) -> Option<(MeasuredStages, LayerSource)> {
    let layout = &run.job.layout;
    if plan.stages.len() != layout.stages {
        return None;
    }
    let (stage_secs, source) = inputs.profile.plan_stages(row.text("model"), plan, layout.micro_batch)?;
    let send_secs = Some(inputs.links.send_secs(plan, &run.job)?);
    let sync_secs = Some(inputs.links.sync_secs(plan, &run.job)?);
    Some((MeasuredStages { stage_secs, send_secs, sync_secs }, source))
}

/// The 80 % interval; on a network that is not known, the wider one of a device without a fit.
fn interval_secs(run: &Run, prediction: &Prediction) -> [f64; 2] {
    let mut cluster = run.cluster.clone();
    if !run.is_network_known {
        cluster.accelerator.sources.remove("sustained");
    }
    prediction.interval_secs(&cluster)
}

fn scored(run: &Run, prediction: &Prediction) -> Scored {
    let secs = prediction.step_secs;
    Scored {
        name: run.name.clone(),
        device: run.cluster.accelerator.name.clone(),
        workload: String::new(),
        is_fitted: run.cluster.accelerator.is_fitted(),
        secs: run.measured_secs.map(|measured| [measured, secs]),
        peer_secs: None,
        bytes: run.measured_bytes.map(|measured| [measured, run.reported_bytes(&prediction.memory)]),
        interval_secs: Some(interval_secs(run, prediction)),
        flops: Some(run.job.model_flops() / run.job.layout.n_devices() as f64),
        terms: prediction.terms,
        source: None,
        assumed: run.assumed.join(", "),
        fits: Some([choice::runs(&run.job, &run.cluster), !run.is_out_of_memory]),
    }
}
