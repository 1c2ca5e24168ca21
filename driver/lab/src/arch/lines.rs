//! Results of a search as lines of JSON: one per cost mode and accelerator, in the order of the visits.

use super::args::ArchArgs;
use super::inputs::Inputs;
use super::report::name;
use crate::results::{Header, Stream, digest, read};
use phzc_arch::mapping::Mode;
use phzc_arch::search::Visit;
use phzc_arch::space::Point;
use phzc_arch::{Cores, Space};
use phzc_io::Failure;
use phzc_ir::Diagnostic;
use std::collections::BTreeMap;

/// How far an accelerator was looked at.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    mode: String,
    cores: Cores,
    visit: Visit,
}

impl Line {
    /// Of one accelerator.
    pub fn new(mode: Mode, point: &Point, visit: &Visit) -> Line {
        Line { mode: name(mode).to_owned(), cores: point.cores, visit: visit.clone() }
    }

    fn is_of(&self, mode: Mode, point: &Point) -> bool {
        self.mode == name(mode) && self.cores == point.cores
    }
}

/// What decides about the results: models, accelerators, fleet and what there is to choose from.
pub(super) fn header(args: &ArchArgs, inputs: &Inputs, space: &Space, points: &[Point]) -> Header {
    let choices = format!("{:?}", (args.modes(), args.hbm_bytes(), args.recompute(), &inputs.weights));
    let fleet = format!("{:?}", (args.devices, args.batch, args.optimizer, args.link_bytes_per_sec));
    let places = format!("{:?}", (space, points, &inputs.estimates));
    let goals = if args.is_best_alone() { format!("best {:?}", args.limits) } else { String::new() };
    let parts = [super::graphs_text(&inputs.models), choices, fleet, places, goals];
    let digest = digest(parts.iter().flat_map(|part| part.bytes()));
    Header { line: format!("{{\"arch\":1,\"input\":\"{digest}\"}}"), words: "other models or another search" }
}

/// Opens the file of results of `own` accelerators, if there is one.
///
/// # Errors
/// When it is of another search or of another part, or cannot be written.
pub(super) fn open(args: &ArchArgs, header: &Header, own: &[Point]) -> Result<Stream<Line>, Failure> {
    let expected = args.modes().iter().flat_map(|mode| own.iter().map(move |point| (*mode, point)));
    let is_of = |line: &Line, (mode, point): &(Mode, &Point)| line.is_of(*mode, point);
    Stream::of_part(args.results(), header, (expected, "accelerators"), is_of)
}

/// The visits of one of several modes, as far as a file has them.
pub(super) fn visits(lines: &[Line], at: usize, n_points: usize) -> Vec<Visit> {
    lines.iter().skip(at * n_points).take(n_points).map(|line| line.visit.clone()).collect()
}

/// By mode: the visits of all accelerators, from the files of parts; none where there are none to join.
///
/// # Errors
/// When a file is of another search, or an accelerator is in none.
pub(super) fn merged(args: &ArchArgs, header: &Header, points: &[Point]) -> Result<Vec<Vec<Visit>>, Failure> {
    if args.merge.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = BTreeMap::new();
    for path in &args.merge {
        for Line { mode, cores, visit } in read::<Line>(path, header)? {
            known.insert((mode, cores), visit);
        }
    }
    let n_wanted = args.modes().len() * points.len();
    if known.len() < n_wanted {
        let message = format!("{} of {n_wanted} accelerators are in these files", known.len());
        return Err(Diagnostic::error(message)
            .help("name the files of all parts, each of them whole")
            .into());
    }
    let mut modes = Vec::new();
    for mode in args.modes() {
        let visit = |point: &Point| known.remove(&(name(*mode).to_owned(), point.cores));
        modes.push(points.iter().filter_map(visit).collect());
    }
    Ok(modes)
}
