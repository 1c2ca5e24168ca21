//! `phzc replan PLAN --lost 9`: the plan for what is left of a cluster, or for another, and what moves
//! before it can go on.
//!
//! Parameters and optimizer states are where the old plan has them. Plans are weighed by their step and by
//! the seconds that it takes to move these to where they are to be.

mod nodes;
mod search;

use crate::cluster;
use crate::planned::Unpriced;
use crate::summary::table;
use crate::what_if::{Anew, AnewArgs, HardwareArgs, read_plan};
use phzc_cost::Cluster;
use phzc_io::units::{bytes, percent, secs};
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::Diagnostic;
use phzc_passes::moving::{Moving, Slot};
use phzc_passes::report::Plan;
use search::{Candidate, Search, Searched};
use serde_json::json;
use std::path::PathBuf;

/// The arguments of `phzc replan`.
#[derive(Debug, clap::Args)]
#[group(id = "changed", required = true, multiple = true, args = ["lost", "to", "hbm", "bandwidth", "nodes"])]
pub struct ReplanArgs {
    /// A planned program: what `phzc MODEL -o PLAN` wrote
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// The hardware that PLAN was made for [default: PLAN's own]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// Devices that are gone, each with its node
    #[arg(
        long,
        value_name = "DEVICE,…",
        value_delimiter = ',',
        conflicts_with_all = ["to", "hbm", "bandwidth", "nodes"]
    )]
    pub lost: Vec<usize>,

    /// The new cluster: nodes of a kind that the old one has are these, the first to the first
    #[arg(long, value_name = "CLUSTER", conflicts_with_all = ["hbm", "bandwidth", "nodes"])]
    pub to: Option<String>,

    /// What changes
    #[command(flatten)]
    pub hardware: HardwareArgs,

    /// Only plans for which devices send each other states for so many seconds at most; what comes from a
    /// checkpoint is not timed
    #[arg(long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub moving_budget: Option<f64>,

    /// File for the new plan
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// One JSON object
    #[arg(long)]
    pub json: bool,

    /// Look at all plans, not only at those near the old one: takes as long as planning
    #[arg(long = "anew")]
    pub is_all: bool,

    /// What is planned anew
    #[command(flatten)]
    pub anew: AnewArgs,
}

/// Seconds from 0 up.
fn seconds(text: &str) -> Result<f64, String> {
    let secs = text.parse().ok().filter(|secs: &f64| secs.is_finite() && *secs >= 0.0);
    secs.ok_or_else(|| "expected seconds from 0 up".to_owned())
}

/// Does what the command line says.
pub(crate) fn run(args: &ReplanArgs, io: &mut Io) -> Result<(), Failure> {
    let before = read_plan(&args.plan, args.cluster.as_deref(), &args.anew.read, io)?;
    let (to, nodes) = changed(args, &before)?;
    if args.output.is_some() && !args.hardware.is_empty() && Cluster::named(&to.name).is_err() {
        let error =
            Diagnostic::error("a plan for hardware that no name or file describes cannot be read back");
        let help =
            "name it, as `--to a100-8x4`, or describe it in a file, `--to FILE.toml`, or leave `-o` out";
        return Err(error.help(help).into());
    }
    let anew = Anew::new(&args.anew, &before, io)?;
    let search = Search {
        before: &before,
        anew: &anew,
        to: &to,
        nodes: &nodes,
        budget_secs: args.moving_budget,
        is_near: args.anew.passes.is_none(),
        is_all: args.is_all,
    };
    let (plan, found) = std::thread::scope(|scope| {
        let plan = scope.spawn(|| before.plan());
        let found = search.candidates(io);
        (plan.join().expect("it does not panic"), found)
    });
    let (found, searched) = found?;
    let is_within = |it: &&Candidate| args.moving_budget.is_none_or(|most| it.moving.time_secs <= most);
    let chosen = found.iter().filter(is_within).min_by(|a, b| time_secs(a).total_cmp(&time_secs(b)));
    let chosen = chosen.ok_or_else(|| over_budget(&found))?;
    args.output.iter().try_for_each(|path| files::write(path, &phzc_ir::print(&chosen.planned.module)))?;
    let told = if args.json {
        told(&plan, &found, chosen, &nodes)
    } else {
        text(&plan, (&found, &searched), chosen, &nodes)
    };
    write_stdout(io, &told)
}

fn time_secs(candidate: &Candidate) -> f64 {
    candidate.planned.plan.time_secs
}

fn over_budget(found: &[Candidate]) -> Diagnostic {
    let least = found.iter().map(|it| it.moving.time_secs).fold(f64::INFINITY, f64::min);
    let error = Diagnostic::error("no plan that was found is where it is to be within `--moving-budget`");
    error.help(format!("the one whose devices send for the shortest time takes {}", secs(least)))
}

/// The new cluster, and what its nodes were.
fn changed(args: &ReplanArgs, before: &Unpriced) -> Result<(Cluster, Vec<Slot>), Failure> {
    let old = &before.cluster;
    if !args.lost.is_empty() {
        return Ok(nodes::without(old, &args.lost)?);
    }
    let to = match &args.to {
        Some(name) => cluster::choose(Some(name), &before.module)?,
        None => {
            cluster::equal(old).map_err(|error| error.help("name the new cluster: `--to`"))?;
            nodes::known_by_name(old, args.hardware.apply(old)?)
        }
    };
    let nodes = nodes::continued(old, &to);
    Ok((to, nodes))
}

fn text(
    plan: &Plan,
    (found, searched): (&[Candidate], &Searched),
    chosen: &Candidate,
    nodes: &[Slot],
) -> String {
    let mut rows = vec![vec!["as planned".to_owned(), plan.cluster.clone(), secs(plan.time_secs)]];
    rows[0].resize(7, "-".to_owned());
    rows.extend(found.iter().map(|it| row(it, plan.time_secs)));
    let header = ["", "cluster", "time", "more", "moves", "from a checkpoint", "takes"];
    let mut out = table(&header, 2..7, rows) + "\n";
    let more = match searched {
        Searched::Near => " (`--anew` looks at all plans, not only at those near the old one)".to_owned(),
        Searched::All => String::new(),
        Searched::None(error) => format!(" (planned anew there is none: {})", error.message),
    };
    out += &format!("chosen: {}{more}\n", chosen.name);
    let moving = &chosen.moving;
    let links: Vec<String> =
        moving.links.iter().map(|(name, moved)| format!("{} over {name}", bytes(*moved))).collect();
    if !links.is_empty() {
        out += &format!("moves: {}, {} in all\n", links.join(", "), secs(moving.time_secs));
    }
    out + &parts(moving, nodes)
}

fn row(it: &Candidate, before_secs: f64) -> Vec<String> {
    let Candidate { name, planned, moving } = it;
    vec![
        (*name).to_owned(),
        planned.plan.cluster.clone(),
        secs(planned.plan.time_secs),
        percent(planned.plan.time_secs / before_secs - 1.0),
        bytes(moving.bytes()),
        bytes(moving.unheld_bytes),
        secs(moving.time_secs),
    ]
}

/// Nodes that are listed.
const MAX_NODES: usize = 32;

/// Which nodes take which parts, unless each takes its own.
fn parts(moving: &Moving, nodes: &[Slot]) -> String {
    let is_own = |(role, &node): (usize, &usize)| nodes[node].was.is_none_or(|was| was == nodes[role].first);
    if moving.nodes.iter().enumerate().all(is_own) {
        return String::new();
    }
    let name = |&node: &usize| nodes[node].was.map_or_else(|| "new".to_owned(), |was| was.to_string());
    let names: Vec<String> = moving.nodes.iter().take(MAX_NODES).map(name).collect();
    let more = if moving.nodes.len() > MAX_NODES { ", … (`--json` has all)" } else { "" };
    format!(
        "nodes of the new plan in order, by their first device in the old one: {}{more}\n",
        names.join(", ")
    )
}

/// The same as JSON.
fn told(plan: &Plan, found: &[Candidate], chosen: &Candidate, nodes: &[Slot]) -> String {
    let of = |it: &Candidate| {
        let links: Vec<_> =
            it.moving.links.iter().map(|(name, bytes)| json!({"link": name, "bytes": bytes})).collect();
        json!({
            "name": it.name,
            "cluster": it.planned.plan.cluster,
            "step_secs": it.planned.plan.time_secs,
            "moved_bytes": it.moving.bytes(),
            "links": links,
            "checkpoint_bytes": it.moving.unheld_bytes,
            "moving_secs": it.moving.time_secs,
            "nodes": it.moving.nodes.iter().map(|&node| nodes[node].was).collect::<Vec<_>>(),
        })
    };
    let all: Vec<_> = found.iter().map(of).collect();
    let whole = json!({
        "before": {"cluster": plan.cluster, "step_secs": plan.time_secs},
        "chosen": of(chosen),
        "candidates": all,
    });
    format!("{whole}\n")
}
