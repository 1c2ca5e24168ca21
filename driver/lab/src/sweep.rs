//! `phzc sweep`: the fastest plan of every cluster that can be rented, and which of them are worth their
//! money.
//!
//! For the same nodes the fastest plan is the cheapest, so that each cluster is planned once; the front of
//! time and money is that of all clusters, with a bound on what may have been missed.

mod alike;
mod bound;
mod file;
mod fleet;
mod front;
mod growth;
mod orders;
mod page;
pub mod pareto;
mod sailor;
mod search;
#[cfg(test)]
mod tests;

use crate::arch::positive;
use crate::results::{Header, Part, Stream, digest, merged};
use file::Sweep;
use front::Point;
use pareto::Wish;
use phzc_cost::fasop::Variant;
use phzc_io::render::Source;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::Diagnostic;
use rayon::prelude::*;
use search::Problem;
use std::path::PathBuf;

/// The arguments of `phzc sweep`.
#[derive(Debug, clap::Args)]
pub struct SweepArgs {
    /// Nodes with prices, a model and its measured layers (docs/sweep.md)
    #[arg(value_name = "FLEET.toml")]
    pub fleet: PathBuf,

    /// Cost model: FASOP's own, or with its omissions repaired; or Sailor's, of one request
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "fasop-strict",
        value_parser = ["fasop", "fasop-strict", "sailor"]
    )]
    pub cost: String,

    /// What is wanted: the least time, money or energy of a step, or all that nothing else beats in time
    /// and money
    #[arg(long, value_name = "WHAT", default_value = "pareto", value_parser = ["time", "price", "energy", "pareto"])]
    pub objective: String,

    /// The most dollars that a step may take
    #[arg(long, value_name = "USD", value_parser = positive)]
    pub max_price: Option<f64>,

    /// The most seconds that a step may take
    #[arg(long, value_name = "SECS", value_parser = positive)]
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

    /// File for the points and their plans as one page, which needs no network
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,

    /// One JSON object per point
    #[arg(long)]
    pub json: bool,
}

/// Does what the command line says.
pub fn run(args: &SweepArgs, io: &mut Io) -> Result<(), Failure> {
    if args.cost == "sailor" {
        return sailor::run(args, io);
    }
    let text = files::read(&args.fleet, files::MAX_CLUSTER_BYTES)?;
    let source = || Some(Source { name: args.fleet.display().to_string(), text: text.clone() });
    let sweep = Sweep::parse(&text).map_err(|error| Failure::new(source(), error))?;
    let is_energy = args.objective == "energy";
    let mut used = sweep.fleet.kinds.iter().zip(&sweep.counts).filter(|(_, [_, most])| *most > 0);
    if let Some((kind, _)) = used.find(|(kind, _)| is_energy && kind.watts == 0.0) {
        let error =
            Diagnostic::error(format!("`watts` of `{}` is not given, and energy is asked for", kind.device));
        return Err(error.help("give each of `[[nodes]]` the `watts` of one device").into());
    }
    let variant = if args.cost == "fasop" { Variant::Faithful } else { Variant::Strict };
    let problem = Problem { fleet: &sweep.fleet, model: &sweep.model, variant };
    let clusters = clusters(&sweep.counts);
    let header = header(&text, &args.cost);
    let points = if args.merge.is_empty() {
        computed(args, &problem, &clusters, &header, io)?
    } else {
        merged(&args.merge, &header, (clusters.len(), "clusters"), |point: &Point| point.counts.clone())?
    };
    let kinds: Vec<&str> = sweep.names.iter().map(String::as_str).collect();
    let wish = Wish { objective: &args.objective, max_secs: args.max_time, max_usd: args.max_price };
    let wanted = pareto::wanted(&points, &wish);
    if wanted.is_empty() && args.part.is_none() {
        let error = Diagnostic::error("no cluster has a plan within these limits");
        return Err(error.help("allow more nodes, time or money").into());
    }
    let missed = pareto::may_be_missed(&points, &wanted, &wish);
    if let Some(path) = &args.html {
        files::write(path, &page::html(&sweep, &args.cost, &points, &wanted))?;
    }
    let text = || front::text(&wanted, &kinds, (missed, pareto::better(&args.objective)));
    write_stdout(io, &if args.json { front::json(&wanted) } else { text() })
}

/// All clusters: every number of each kind, none at all left out.
pub fn clusters(counts: &[[usize; 2]]) -> Vec<Vec<usize>> {
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
    let is_of = |point: &Point, counts: &&&Vec<usize>| point.counts == ***counts;
    let mut stream = Stream::of_part(args.output.as_deref(), header, (&own, "clusters"), is_of)?;
    let left: Vec<&Vec<usize>> = own.iter().skip(stream.results.len()).copied().collect();
    for some in left.chunks(AT_ONCE) {
        (io.progress)(&format!("{} of {} clusters", stream.results.len(), own.len()));
        let best = some.par_iter().map(|counts| Point::new(counts, &problem.best(counts)));
        best.collect::<Vec<Point>>().into_iter().try_for_each(|point| stream.push(point))?;
    }
    (io.progress)("");
    Ok(stream.results)
}
