//! `phzc replan PLAN --lost 9`: the plan for what is left of a cluster, or for another, and what moves
//! before it can go on.
//!
//! Parameters and optimizer states are where the old plan has them. Plans are weighed by their step and by
//! the seconds that it takes to move these to where they are to be.

use crate::planned::Planned;
use crate::summary::table;
use crate::what_if::{Anew, AnewArgs, HardwareArgs, fits, plan_of};
use crate::{cluster, controls};
use phzc_cost::Cluster;
use phzc_io::units::{bytes, percent, secs};
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::Diagnostic;
use phzc_passes::moving::{Moving, Side, Slot, moving, slots};
use phzc_passes::{Pipeline, place};
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
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub moving_budget: Option<f64>,

    /// File for the new plan
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// One JSON object
    #[arg(long)]
    pub json: bool,

    /// What is planned anew
    #[command(flatten)]
    pub anew: AnewArgs,
}

/// Seconds from 0 up.
fn seconds(text: &str) -> Result<f64, String> {
    let secs = text.parse().ok().filter(|secs: &f64| secs.is_finite() && *secs >= 0.0);
    secs.ok_or_else(|| "expected seconds from 0 up".to_owned())
}

/// A plan that can take the old one's place.
struct Candidate {
    name: &'static str,
    planned: Planned,
    moving: Moving,
}

/// Does what the command line says.
pub(crate) fn run(args: &ReplanArgs, io: &mut Io) -> Result<(), Failure> {
    let before = plan_of(&args.plan, args.cluster.as_deref(), &args.anew.read, io)?;
    let (to, nodes) = changed(args, &before)?;
    if args.output.is_some() && !args.hardware.is_empty() {
        let error =
            Diagnostic::error("a plan for hardware that no name or file describes cannot be read back");
        return Err(error.help("describe it in a file, `--to FILE.toml`, or leave `-o` out").into());
    }
    let anew = Anew::new(&args.anew, &before.module, io)?;
    let search =
        Search { before: &before, anew: &anew, to: &to, nodes: &nodes, budget_secs: args.moving_budget };
    let found = search.candidates(io)?;
    let is_within = |it: &&Candidate| args.moving_budget.is_none_or(|most| it.moving.time_secs <= most);
    let chosen = found.iter().filter(is_within).min_by(|a, b| time_secs(a).total_cmp(&time_secs(b)));
    let chosen = chosen.ok_or_else(|| over_budget(&found))?;
    args.output.iter().try_for_each(|path| files::write(path, &phzc_ir::print(&chosen.planned.module)))?;
    let told = if args.json { told(&before, &found, chosen) } else { text(&before, &found, chosen, &nodes) };
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
fn changed(args: &ReplanArgs, before: &Planned) -> Result<(Cluster, Vec<Slot>), Failure> {
    let old = &before.cluster;
    if !args.lost.is_empty() {
        return Ok(without(old, &args.lost)?);
    }
    let to = match &args.to {
        Some(name) => cluster::choose(Some(name), &before.module)?,
        None => {
            cluster::equal(old)?;
            args.hardware.apply(old)?
        }
    };
    let nodes = continued(old, &to);
    Ok((to, nodes))
}

/// The nodes of a new cluster: of each device and size of nodes, the first are the old one's first, each
/// once.
fn continued(old: &Cluster, to: &Cluster) -> Vec<Slot> {
    let what = |cluster: &Cluster, slot: &Slot| {
        let nodes = cluster.around(slot.first);
        (nodes.accelerator.name.clone(), slot.n_devices)
    };
    let mut left = slots(old);
    let mut nodes = slots(to);
    for slot in &mut nodes {
        let same = left.iter().position(|other| what(old, other) == what(to, slot));
        slot.was = same.map(|at| left.remove(at).first);
    }
    nodes
}

/// What is left of a cluster without the nodes of some devices.
fn without(old: &Cluster, lost: &[usize]) -> phzc_ir::Result<(Cluster, Vec<Slot>)> {
    let all = slots(old);
    if let Some(device) = lost.iter().find(|device| **device >= old.n_all_devices()) {
        let message = format!("`--lost {device}`: `{}` has {} devices", old.name, old.n_all_devices());
        return Err(Diagnostic::error(message).help("devices are numbered from 0"));
    }
    let is_left =
        |slot: &&Slot| !lost.iter().any(|&it| (slot.first..slot.first + slot.n_devices).contains(&it));
    let left: Vec<Slot> = all.iter().filter(is_left).copied().collect();
    if left.is_empty() {
        return Err(
            Diagnostic::error("no node is left").help("name fewer devices, or the new cluster: `--to`")
        );
    }
    let n_kinds = old.kinds().count();
    let counts = |kind: usize| left.iter().filter(|slot| slot.kind == kind).count();
    let to = old.with_nodes(&(0..n_kinds).map(counts).collect::<Vec<_>>())?;
    let mut nodes = slots(&to);
    nodes.iter_mut().zip(left).for_each(|(slot, known)| slot.was = Some(known.first));
    Ok((to, nodes))
}

/// What is planned anew, and on what.
struct Search<'a> {
    before: &'a Planned,
    anew: &'a Anew,
    to: &'a Cluster,
    nodes: &'a [Slot],
    budget_secs: Option<f64>,
}

impl Search<'_> {
    /// The plan as it is, where it can be, the program planned anew, and, where these move for too long, that
    /// in as many stages as before.
    fn candidates(&self, io: &Io) -> Result<Vec<Candidate>, Failure> {
        let is_as_large = self.to.n_all_devices() >= self.before.cluster.n_all_devices();
        let same = is_as_large.then(|| Planned::new(self.before.module.clone(), self.to.clone()).ok());
        let same = same.flatten().filter(fits);
        let mut found: Vec<Candidate> =
            same.map(|same| self.candidate("the plan as it is", same)).into_iter().collect();
        let free = self.anew.on(self.to, &self.anew.pipeline, io);
        let refusal = free.map(|free| found.push(self.candidate("planned anew", free))).err();
        let is_over = |it: &Candidate| self.budget_secs.is_some_and(|most| it.moving.time_secs > most);
        if found.iter().all(is_over) {
            let alike = self.anew.on(self.to, &self.in_as_many_stages(), io).ok();
            found.extend(alike.map(|alike| self.candidate("in as many stages", alike)));
        }
        match refusal {
            Some(error) if found.is_empty() => Err(error.into()),
            _ => Ok(found),
        }
    }

    fn candidate(&self, name: &'static str, planned: Planned) -> Candidate {
        let moving = moving(side(self.before), side(&planned), self.nodes, self.to);
        Candidate { name, planned, moving }
    }

    fn in_as_many_stages(&self) -> Pipeline {
        let (n_stages, mut pipeline) = (self.before.plan.stages.len(), self.anew.pipeline.clone());
        controls::steps(&mut pipeline, place::PASS.name)
            .for_each(|step| controls::set(step, "stages", &n_stages.to_string()));
        pipeline
    }
}

fn side(planned: &Planned) -> Side<'_> {
    Side { module: &planned.module, facts: &planned.facts }
}

fn text(before: &Planned, found: &[Candidate], chosen: &Candidate, nodes: &[Slot]) -> String {
    let plan = &before.plan;
    let mut rows = vec![vec!["as planned".to_owned(), plan.cluster.clone(), secs(plan.time_secs)]];
    rows[0].resize(7, "-".to_owned());
    rows.extend(found.iter().map(|it| row(it, plan.time_secs)));
    let header = ["", "cluster", "time", "more", "moves", "from a checkpoint", "takes"];
    let mut out = table(&header, 2..7, rows) + "\n";
    out += &format!("chosen: {}\n", chosen.name);
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
fn told(before: &Planned, found: &[Candidate], chosen: &Candidate) -> String {
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
            "nodes": it.moving.nodes,
        })
    };
    let all: Vec<_> = found.iter().map(of).collect();
    let whole = json!({
        "before": {"cluster": before.plan.cluster, "step_secs": before.plan.time_secs},
        "chosen": of(chosen),
        "candidates": all,
    });
    format!("{whole}\n")
}
