//! `phzc calibrate`: fits what predictions leave open to measured training runs, and says what that does to
//! others.
//!
//! Six causes have a factor each (`terms.rs`): clock, memory passes, rates inside and between nodes, host and
//! overlap. Rows of one device, software and network are a site with factors of its own (`fit.rs`); what
//! several sites agree on holds for what they share (`levels.rs`).

mod file;
mod fit;
mod levels;
mod terms;
mod width;

use crate::validate::{Run, relative, runs_of};
use fit::Fitted;
use levels::{Levels, SiteName, site_of};
use phzc_io::{Failure, Io, files, write_stdout};
use std::path::{Path, PathBuf};
use terms::{Factors, Term, applied, secs};

/// The arguments of `phzc calibrate`.
#[derive(Debug, clap::Args)]
pub struct CalibrateArgs {
    /// Tables of measured training runs to fit to: published ones, or two rows or more of your own
    /// (docs/validation.md)
    #[arg(value_name = "FIT.csv", required = true)]
    pub fit: Vec<PathBuf>,

    /// Tables that are predicted before and after, and not fitted to
    #[arg(long, value_name = "TEST.csv", num_args = 1..)]
    pub test: Vec<PathBuf>,

    /// File for the calibrated cluster of the site with most rows: `--cluster` takes it
    #[arg(short, long, value_name = "CLUSTER.toml")]
    pub output: Option<PathBuf>,
}

/// One table of runs.
struct Data {
    name: String,
    runs: Vec<Run>,
}

/// Does what the command line says.
pub fn run(args: &CalibrateArgs, io: &mut Io) -> Result<(), Failure> {
    let (fit, test) = (read(&args.fit, io)?, read(&args.test, io)?);
    let runs: Vec<&Run> = fit.iter().flat_map(|one| &one.runs).collect();
    let levels = Levels::of(&runs);
    if let Some(path) = &args.output {
        let Some(text) = file::toml(&runs, &levels, &names(&fit)) else {
            return Err(phzc_ir::Diagnostic::error("no row could be fitted: nothing to write").into());
        };
        files::write(path, &text)?;
    }
    let sites = levels.sites.iter().map(|(name, site)| told(name, site, &runs));
    let shared = levels.shared.iter().map(|((term, name), value)| {
        format!("all of {name}: {} x {:.2}\n", term.name(), shown(*term, *value))
    });
    let scores = [("fit", &fit), ("test", &test)];
    let scores = scores.into_iter().flat_map(|(kind, data)| data.iter().map(move |one| (kind, one)));
    let scores = scores.map(|(kind, one)| score(kind, one, &levels));
    let text: String = sites.chain(shared).collect::<Vec<_>>().into_iter().chain(scores).collect();
    write_stdout(io, &(text + &interval(&fit)))
}

fn names(data: &[Data]) -> String {
    data.iter().map(|one| one.name.as_str()).collect::<Vec<&str>>().join(", ")
}

/// What the rows of one site decide, a line per term.
fn told(name: &SiteName, site: &Fitted, runs: &[&Run]) -> String {
    let own: Vec<&&Run> = runs.iter().filter(|run| site_of(run) == *name).collect();
    let said: Vec<&str> = name.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let mut text = format!("{}: {} rows\n", said.join(", "), own.len());
    if let Some(run) = own.first() {
        let device = &run.cluster.accelerator;
        let fitted = if device.is_fitted() { "" } else { ", which no run was fitted to" };
        let clock = device.sustained;
        let after = applied(&run.cluster, &site.factors).accelerator.sustained;
        text += &format!("  sustained = {after:.2} # was {clock:.2}{fitted}{}\n", doubt(site, Term::Clock));
    }
    for term in Term::ALL.into_iter().skip(1) {
        let value = shown(term, site.factors[term as usize]);
        text += &match term {
            Term::Overlap => format!("  {}: {:.0} %{}\n", term.name(), 100.0 * value, doubt(site, term)),
            _ => format!("  {}: x {value:.2}{}\n", term.name(), doubt(site, term)),
        };
    }
    text
}

fn doubt(site: &Fitted, term: Term) -> &'static str {
    if site.decided[term as usize] { "" } else { ", which the rows do not decide" }
}

/// A factor, or of overlap the part that is not hidden.
fn shown(term: Term, value: f64) -> f64 {
    if term == Term::Overlap { 1.0 - (-value).exp() } else { value.exp() }
}

fn score(kind: &str, one: &Data, levels: &Levels) -> String {
    let (old, new) = (mape(one, |_| Factors::default()), mape(one, |run| levels.factors(run)));
    format!("{kind}: {}, {} rows, MAPE {old:.1} % before, {new:.1} % after\n", one.name, one.runs.len())
}

fn mape(one: &Data, factors: impl Fn(&Run) -> Factors) -> f64 {
    let error = |run: &Run| Some(relative([run.measured_secs?, secs(run, &factors(run))]).abs());
    let errors: Vec<f64> = one.runs.iter().filter_map(error).collect();
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
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

fn read(paths: &[PathBuf], io: &mut Io) -> Result<Vec<Data>, Failure> {
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|path| Ok(Data { name: name(path), runs: runs_of(path, io)? })).collect()
}
