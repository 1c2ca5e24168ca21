//! `phzc sweep`: the fastest plan of every cluster that can be rented, and which of them are worth their
//! money.
//!
//! For the same nodes the fastest plan is the cheapest, so that each cluster is planned once; the front of
//! time and money is that of all clusters, with a bound on what may have been missed.

mod bound;
mod file;
mod front;
mod search;
#[cfg(test)]
mod tests;

use crate::results::{Header, Part, Stream, digest, read};
use file::Sweep;
use front::Point;
use phzc_cost::fasop::Variant;
use phzc_io::render::Source;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::Diagnostic;
use rayon::prelude::*;
use search::Problem;
use std::path::{Path, PathBuf};

/// The arguments of `phzc sweep`.
#[derive(Debug, clap::Args)]
pub struct SweepArgs {
    /// Nodes with prices, a model and its measured layers (docs/sweep.md)
    #[arg(value_name = "FLEET.toml")]
    pub fleet: PathBuf,

    /// Cost model: FASOP's own, or with its omissions repaired
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "fasop-strict",
        value_parser = ["fasop", "fasop-strict"]
    )]
    pub cost: String,

    /// What is wanted: the least time, the least money of a step, or all that nothing else beats in both
    #[arg(long, value_name = "WHAT", default_value = "pareto", value_parser = ["time", "price", "pareto"])]
    pub objective: String,

    /// The most dollars that a step may take
    #[arg(long, value_name = "USD")]
    pub max_price: Option<f64>,

    /// The most seconds that a step may take
    #[arg(long, value_name = "SECS")]
    pub max_time: Option<f64>,

    /// File for one line of JSON per cluster, written as it goes on; a sweep that was cut off goes on behind
    /// its lines
    #[arg(short, long, value_name = "RESULTS.jsonl")]
    pub output: Option<PathBuf>,

    /// Only this part of the clusters: 2/4 is every fourth from the second on
    #[arg(long, value_name = "I/N", value_parser = Part::parse, requires = "output")]
    pub part: Option<Part>,

    /// Results of parts, to be joined instead of computed
    #[arg(long, value_name = "RESULTS.jsonl", num_args = 1.., conflicts_with_all = ["output", "part"])]
    pub merge: Vec<PathBuf>,

    /// One JSON object per point
    #[arg(long)]
    pub json: bool,
}

/// Does what the command line says.
pub fn run(args: &SweepArgs, io: &mut Io) -> Result<(), Failure> {
    let text = files::read(&args.fleet, files::MAX_CLUSTER_BYTES)?;
    let source = || Some(Source { name: args.fleet.display().to_string(), text: text.clone() });
    let sweep = Sweep::parse(&text).map_err(|error| Failure::new(source(), error))?;
    let variant = if args.cost == "fasop" { Variant::Faithful } else { Variant::Strict };
    let problem = Problem { fleet: &sweep.fleet, model: &sweep.model, variant };
    let clusters = clusters(&sweep.counts);
    let header = header(&text, &args.cost);
    let points = if args.merge.is_empty() {
        computed(args, &problem, &clusters, &header, io)?
    } else {
        merged(&args.merge, &header, clusters.len())?
    };
    let kinds: Vec<&str> = sweep.fleet.kinds.iter().map(|kind| kind.device.as_str()).collect();
    let wanted = front::wanted(&points, &args.objective, [args.max_time, args.max_price]);
    if wanted.is_empty() {
        let error = Diagnostic::error("no cluster has a plan within these limits");
        return Err(error.help("allow more nodes, time or money").into());
    }
    let missed = front::may_be_missed(&points);
    write_stdout(io, &if args.json { front::json(&wanted) } else { front::text(&wanted, &kinds, missed) })
}

/// All clusters: every number of each kind, none at all left out.
fn clusters(counts: &[[usize; 2]]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for [least, most] in counts {
        let longer = |one: &Vec<usize>| {
            let one = one.clone();
            (*least..=*most).map(move |n| [&one[..], &[n]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|counts| counts.iter().any(|n| *n > 0));
    all
}

/// What results are of: other inputs have another first line.
fn header(fleet: &str, cost: &str) -> Header {
    let digest = digest(fleet.bytes().chain(cost.bytes()));
    let line = format!("{{\"sweep\":1,\"cost\":\"{cost}\",\"input\":\"{digest}\"}}");
    Header { line, words: "another fleet or cost model" }
}

/// So many clusters are planned side by side.
const AT_ONCE: usize = 8;

/// The points of all clusters of a part, those of an earlier run read from its file.
fn computed(
    args: &SweepArgs,
    problem: &Problem,
    clusters: &[Vec<usize>],
    header: &Header,
    io: &mut Io,
) -> Result<Vec<Point>, Failure> {
    let part = args.part.unwrap_or_default();
    let own: Vec<&Vec<usize>> = part.of(clusters).collect();
    let mut stream = Stream::<Point>::open(args.output.as_deref(), header)?;
    if stream.results.iter().zip(&own).any(|(point, counts)| point.counts != **counts) {
        let error = Diagnostic::error("the results are of another part of the clusters");
        return Err(error.help("name another file, or the part that it is of").into());
    }
    let left: Vec<&Vec<usize>> = own.iter().skip(stream.results.len()).copied().collect();
    for some in left.chunks(AT_ONCE) {
        (io.progress)(&format!("{} of {} clusters", stream.results.len(), own.len()));
        let best = some.par_iter().map(|counts| Point::new(counts, &problem.best(counts)));
        best.collect::<Vec<Point>>().into_iter().try_for_each(|point| stream.push(point))?;
    }
    (io.progress)("");
    Ok(stream.results)
}

/// The points of several files, in the order of the parts that made them.
fn merged(paths: &[PathBuf], header: &Header, n_clusters: usize) -> Result<Vec<Point>, Failure> {
    let of = |path: &PathBuf| read::<Point>(Path::new(path), header);
    let mut points = paths.iter().map(of).collect::<Result<Vec<_>, Failure>>()?.concat();
    points.sort_by(|a, b| a.counts.cmp(&b.counts));
    points.dedup_by(|a, b| a.counts == b.counts);
    if points.len() < n_clusters {
        let message = format!("{} of {n_clusters} clusters are in these files", points.len());
        return Err(Diagnostic::error(message).help("name the files of all parts").into());
    }
    Ok(points)
}
