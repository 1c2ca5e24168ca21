//! `phzc sweep FLEET.toml --program MODEL`: the program planned on every cluster that the fleet's numbers of
//! nodes allow, and which of them are worth their money.
//!
//! Each point is the best plan that was found on all nodes of a cluster, with the bound that no plan there
//! beats. What leaves nodes idle is the smaller cluster's, and costs less there.

use crate::args::Args;
use crate::planned::{Planned, Watch, egress_usd, legal_program};
use crate::summary::{count, table};
use crate::{cluster, controls};
use clap::Parser;
use phzc_cost::Cluster;
use phzc_frontends::ReadArgs;
use phzc_io::units::{energy, percent, secs};
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::{Diagnostic, Module};
use phzc_lab::results::{Header, Stream, digest, merged};
use phzc_lab::sweep::pareto::{Offer, Wish, better, may_be_missed, wanted};
use phzc_lab::sweep::{self, SweepArgs, clusters};
use phzc_passes::Pipeline;
use phzc_passes::derive::is_planned;
use phzc_passes::report::{Plan, Replica, ReplicaStage, Stage};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The arguments of `phzc sweep`.
#[derive(Debug, clap::Args)]
pub struct SweepCommand {
    /// What is swept
    #[command(flatten)]
    pub sweep: SweepArgs,

    /// Plan this program, on clusters of a cluster file's `[[nodes]]`, instead of measured layers
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["cost", "html"])]
    pub program: Option<PathBuf>,

    /// Passes that plan the program
    #[arg(long, value_name = "PIPELINE", default_value = "default", requires = "program")]
    pub passes: String,

    /// What the program's attention is priced as: as-written or flash
    #[arg(long, value_name = "HOW", value_parser = ["flash", "as-written"], requires = "program")]
    pub attention: Option<String>,

    /// How the program is read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// The best plan on a cluster, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    /// Nodes of each kind.
    counts: Vec<usize>,
    /// What `--cluster` calls it.
    cluster: String,
    /// Dollars of an hour.
    usd_per_hour: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Told>,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A plan as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Told {
    step_secs: f64,
    /// With the seconds in which the step waits for nodes that are not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_secs: Option<f64>,
    /// With `egress_usd`.
    usd: f64,
    /// Of these, for bytes from one zone to another.
    #[serde(default, skip_serializing_if = "is_zero")]
    egress_usd: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kwh: Option<f64>,
    bound_secs: Option<f64>,
    tokens_per_sec: Option<f64>,
    mfu: Option<f64>,
    microbatches: usize,
    memory_share: f64,
    /// Per stage its device, its number of devices and its mesh.
    stages: Vec<String>,
}

impl Offer for Point {
    fn cost(&self) -> Option<[f64; 2]> {
        self.plan.as_ref().map(|plan| [plan.secs(), plan.usd])
    }

    fn least_cost(&self) -> Option<[f64; 2]> {
        let plan = self.plan.as_ref()?;
        let share = plan.bound_secs? / plan.step_secs;
        // What a plan sends from zone to zone another need not send.
        Some([share * plan.secs(), share * (plan.usd - plan.egress_usd)])
    }

    fn kwh(&self) -> Option<f64> {
        self.plan.as_ref()?.kwh
    }
}

fn is_zero(usd: &f64) -> bool {
    *usd == 0.0
}

impl Told {
    /// The seconds by which plans are compared.
    fn secs(&self) -> f64 {
        self.expected_secs.unwrap_or(self.step_secs)
    }
}

/// Does what the command line says.
pub(crate) fn run(args: &SweepCommand, io: &mut Io) -> Result<(), Failure> {
    let own = &args.sweep;
    let Some(path) = &args.program else { return sweep::run(own, io).map_err(|error| hinted(own, error)) };
    let fleet = priced_fleet(own)?;
    let pipeline = pipeline(args)?;
    let module = unplanned_program(path, &args.read, io)?;
    let all = all_clusters(&fleet)?;
    let header = header(own, &module, &pipeline)?;
    let search = Search { fleet: &fleet, module: &module, pipeline: &pipeline };
    let points = match own.merge.is_empty() {
        true => search.points(own, &all, &header, io)?,
        false => merged(&own.merge, &header, (all.len(), "clusters"), |point: &Point| point.counts.clone())?,
    };
    let wish = Wish { objective: &own.objective, max_secs: own.max_time, max_usd: own.max_price };
    let chosen = wanted(&points, &wish);
    if chosen.is_empty() && own.part.is_none() {
        return Err(none(&points).into());
    }
    let missed = may_be_missed(&points, &chosen, &wish);
    let text = || text((&chosen, missed, &own.objective), &points, (all.len(), &fleet, &args.passes));
    write_stdout(io, &if own.json { json(&chosen) } else { text() })
}

/// The nodes, all of which have prices.
fn priced_fleet(args: &SweepArgs) -> Result<Cluster, Failure> {
    let fleet = cluster::from_file(&args.fleet).map_err(|failure| of_another_kind(&args.fleet, failure))?;
    if args.objective == "energy" && fleet.bill(1.0).kwh.is_none() {
        let error = Diagnostic::error(format!("not all nodes of `{}` have `watts`", fleet.name));
        return Err(error.help("give each of `[[nodes]]` the `watts` of one device (docs/sweep.md)").into());
    }
    if fleet.usd_per_hour().is_none() {
        let error = Diagnostic::error(format!("not all nodes of `{}` have a price", fleet.name));
        return Err(error.help("give each of `[[nodes]]` a `usd_per_hour` (docs/sweep.md)").into());
    }
    Ok(fleet)
}

/// A failure to read the file, with what it is instead of nodes with prices.
fn of_another_kind(path: &Path, mut failure: Failure) -> Failure {
    let text = files::read(path, files::MAX_CLUSTER_BYTES).unwrap_or_default();
    let is_measured = text.lines().any(|line| line.trim() == "[model]");
    let help = match Cluster::named(&path.to_string_lossy()) {
        Ok(_) => "the nodes of a name have no prices: write a file with `[[nodes]]` (docs/sweep.md)",
        Err(_) if is_measured => "this is a file of measured layers: leave `--program` out",
        Err(_) => return failure,
    };
    failure.errors = failure.errors.into_iter().map(|error| error.help(help)).collect();
    failure
}

/// The program, which is to be planned.
fn unplanned_program(path: &Path, read: &ReadArgs, io: &mut Io) -> Result<Module, Failure> {
    let (module, _) = legal_program(path, read, io)?;
    if is_planned(&module) {
        let error = Diagnostic::error(format!("`{}` is a plan already", path.display()));
        return Err(error.help("give the program that it is a plan of").into());
    }
    Ok(module)
}

/// What results are of: other inputs have another first line.
fn header(args: &SweepArgs, module: &Module, pipeline: &Pipeline) -> Result<Header, Failure> {
    let fleet = files::read(&args.fleet, files::MAX_CLUSTER_BYTES)?;
    let digest = digest([fleet, phzc_ir::print(module), pipeline.to_string()].concat().bytes());
    let line = format!("{{\"sweep\":1,\"cost\":\"program\",\"input\":\"{digest}\"}}");
    Ok(Header { line, words: "other inputs" })
}

/// A failure to read the fleet; of a cluster file, with what that is for.
fn hinted(args: &SweepArgs, mut failure: Failure) -> Failure {
    if failure.source.is_some() && cluster::from_file(&args.fleet).is_ok() {
        let help = "this is a cluster file: name the program that it is for, `--program MODEL`";
        failure.errors = failure.errors.into_iter().map(|error| error.help(help)).collect();
    }
    failure
}

/// The most clusters of a sweep.
const MAX_CLUSTERS: usize = 10_000;

fn all_clusters(fleet: &Cluster) -> Result<Vec<Vec<usize>>, Diagnostic> {
    let counts = fleet.node_counts();
    let n_clusters = counts.iter().map(|[least, most]| most - least + 1).fold(1, usize::saturating_mul);
    if n_clusters > MAX_CLUSTERS {
        let message = format!("`count`: expected {MAX_CLUSTERS} clusters at most, found {n_clusters}");
        return Err(Diagnostic::error(message).help("give fewer numbers of nodes"));
    }
    Ok(clusters(&counts))
}

/// The passes, with what other options ask of them.
fn pipeline(args: &SweepCommand) -> Result<Pipeline, Failure> {
    let attention = args.attention.iter().map(|how| format!("--attention={how}"));
    let line = ["phzc".to_owned(), "-".to_owned(), format!("--passes={}", args.passes)];
    let asked = Args::try_parse_from(line.into_iter().chain(attention)).expect("what was read once");
    controls::pipeline(&asked)
}

/// Why no point is wanted.
fn none(points: &[Point]) -> Diagnostic {
    let planned = points.iter().filter(|point| point.plan.is_some()).count();
    let why = points.iter().rev().find_map(|point| point.error.clone());
    match why.filter(|_| planned == 0) {
        Some(why) => Diagnostic::error(format!("no cluster of the fleet has a plan; the largest: {why}")),
        None => Diagnostic::error("no cluster has a plan within these limits")
            .help("allow more nodes, time or money"),
    }
}

/// What is planned, and where.
struct Search<'a> {
    fleet: &'a Cluster,
    module: &'a Module,
    pipeline: &'a Pipeline,
}

impl Search<'_> {
    /// The points of all clusters of a part, those of an earlier run read from its file.
    fn points(
        &self,
        args: &SweepArgs,
        all: &[Vec<usize>],
        header: &Header,
        io: &mut Io,
    ) -> Result<Vec<Point>, Failure> {
        let own: Vec<&Vec<usize>> = args.part.unwrap_or_default().of(all).collect();
        let is_of = |point: &Point, counts: &&&Vec<usize>| point.counts == ***counts;
        let mut stream = Stream::of_part(args.output.as_deref(), header, (&own, "clusters"), is_of)?;
        for counts in own.iter().skip(stream.results.len()) {
            let so_far = format!("{} of {} clusters", stream.results.len(), own.len());
            let point = self.point(counts, self.fleet.with_nodes(counts)?, &so_far, io);
            // A search that was told to end has not seen all of its cluster.
            if io.interrupt.is_requested() {
                break;
            }
            stream.push(point)?;
        }
        (io.progress)("");
        Ok(stream.results)
    }

    fn point(&self, counts: &[usize], on: Cluster, so_far: &str, io: &Io) -> Point {
        let (name, usd_per_hour) = (on.name.clone(), on.usd_per_hour().unwrap_or(0.0));
        let said = |what: &str| if what.is_empty() { String::new() } else { format!("{so_far}: {what}") };
        let progress = |what: &str| (io.progress)(&said(what));
        let watch = Watch { progress: &progress, interrupt: io.interrupt, clock: io.clock };
        let planned = Planned::anew(self.module.clone(), self.pipeline, on, &watch);
        let (plan, error) = match planned {
            Ok(planned) => match told(&planned) {
                Some(told) => (Some(told), None),
                None => (None, Some("its nodes are never there all at once".to_owned())),
            },
            Err(error) => (None, Some(error.message)),
        };
        Point { counts: counts.to_vec(), cluster: name, usd_per_hour, plan, error }
    }
}

/// The plan as it is written down; none where its step is waited for for ever.
fn told(planned: &Planned) -> Option<Told> {
    let plan = &planned.plan;
    let stage = |stage: &Stage| {
        let device = stage.device.as_ref().map_or(&planned.cluster.accelerator.name, |device| &device.name);
        let [first, last] = stage.devices;
        let mesh = if stage.mesh.is_empty() { String::new() } else { format!(" {}", stage.mesh) };
        format!("{} {device}{mesh}", last - first + 1)
    };
    let done = plan.throughput.unwrap_or_default();
    let bill = planned.cluster.bill(plan.time_secs);
    let egress_usd = egress_usd(&planned.module, &planned.facts, &planned.cluster);
    bill.expected_secs.is_finite().then(|| Told {
        step_secs: plan.time_secs,
        expected_secs: Some(bill.expected_secs).filter(|secs| *secs > plan.time_secs),
        usd: bill.usd.unwrap_or(0.0) + egress_usd,
        egress_usd,
        kwh: bill.kwh,
        bound_secs: plan.lower_bound_secs.map(|bound| bound.min(plan.time_secs)),
        tokens_per_sec: done.tokens_per_sec,
        mfu: done.mfu,
        microbatches: plan.n_microbatches,
        memory_share: plan.most_memory_share(),
        stages: match plan.replicas.is_empty() {
            true => plan.stages.iter().map(stage).collect(),
            false => plan.replicas.iter().map(|it| replica(it, plan)).collect(),
        },
    })
}

/// `27/32 on 2 quick`.
fn replica(it: &Replica, plan: &Plan) -> String {
    let stage = |stage: &ReplicaStage| {
        let [first, last] = stage.devices;
        format!("{} {}", last - first + 1, stage.device.as_ref().map_or("", |device| &device.name))
    };
    let on: Vec<String> = it.stages.iter().map(stage).collect();
    format!("{}/{} on {}", it.n_microbatches, plan.n_microbatches, on.join(", "))
}

/// One object per line.
fn json(chosen: &[&Point]) -> String {
    let line = |point: &&Point| serde_json::to_string(point).expect("its numbers are finite") + "\n";
    chosen.iter().map(line).collect()
}

/// A line per point, then what may have been missed and how to get a plan.
fn text(
    (chosen, missed, objective): (&[&Point], Option<f64>, &str),
    points: &[Point],
    (n_clusters, fleet, passes): (usize, &Cluster, &str),
) -> String {
    let has_energy = chosen.iter().any(|point| point.kwh().is_some());
    let rows = chosen.iter().filter_map(|point| Some(row(point, point.plan.as_ref()?, has_energy))).collect();
    let mut header =
        vec!["cluster", "time", "USD", "USD/Mtoken", "tokens/s", "MFU", "gap", "memory", "stages"];
    if has_energy {
        header.insert(3, "energy");
    }
    let n_numbers = header.len() - 1;
    let mut out = table(&header, 1..n_numbers, rows);
    let unplanned = points.iter().filter(|point| point.plan.is_none()).count();
    if unplanned > 0 {
        out += &format!("{unplanned} of {} clusters have no plan\n", points.len());
    }
    let is_whole = points.len() == n_clusters;
    if !is_whole {
        out += &format!("{} of {n_clusters} clusters were looked at\n", points.len());
    }
    // What other passes would find is not bounded by these.
    let by = if passes == "default" { "" } else { " by these passes" };
    let on = if is_whole { "" } else { " on these clusters" };
    let of = format!("plan{by}{on}");
    let better = better(objective);
    out += &match missed {
        Some(missed) => format!("no {of} is more than {} {better} than one above", percent(missed)),
        None => format!("how much {better} another plan may be is not known"),
    };
    out + &format!("; prices: {}\n", fleet.price_basis().unwrap_or("-"))
}

fn row(point: &Point, plan: &Told, has_energy: bool) -> Vec<String> {
    let gap = plan.bound_secs.map(|bound| percent((plan.step_secs - bound) / plan.step_secs));
    // What is waited for, too, is time in which no token is done.
    let tokens_per_sec = plan.tokens_per_sec.map(|rate| rate * plan.step_secs / plan.secs());
    let per_token = tokens_per_sec.map(|rate| format!("{:.4}", plan.usd / plan.secs() / rate * 1e6));
    let none = || "-".to_owned();
    let runs = plan.stages.chunk_by(|a, b| a == b);
    let run =
        |run: &[String]| if run.len() > 1 { format!("{} x ({})", run.len(), run[0]) } else { run[0].clone() };
    let mut cells = vec![point.cluster.clone(), secs(plan.secs()), format!("{:.6}", plan.usd)];
    cells.extend(has_energy.then(|| plan.kwh.map_or_else(none, energy)));
    cells.extend([
        per_token.unwrap_or_else(none),
        tokens_per_sec.map_or_else(none, count),
        plan.mfu.map_or_else(none, percent),
        gap.unwrap_or_else(none),
        percent(plan.memory_share),
        runs.map(run).collect::<Vec<String>>().join(", "),
    ]);
    cells
}
