//! `phzc profile`: what a plan and its rivals ask for, as programs to be measured; `phzc tune`: until the
//! plan stays.

mod entries;
mod folder;
mod plans;
mod programs;
pub mod tune;

pub(crate) use folder::applied;

use crate::args::Args;
use entries::Collected;
use folder::Folder;
use phzc_cost::{Cluster, Source};
use phzc_frontends::ReadArgs;
use phzc_io::units::{percent, secs};
use phzc_io::{Failure, Io};
use phzc_ir::{Module, counted};
use phzc_passes::derive::Facts;
use phzc_passes::report::{Asked, asked};
use plans::Planning;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Keys that are named of what is missing.
const N_NAMED: usize = 3;

/// The arguments of `phzc profile`, and the common ones of `phzc tune`.
#[derive(Debug, clap::Args)]
pub struct ProfileArgs {
    /// Program in any format that is read, possibly gzipped; `-` is standard input
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Hardware: a name or a file `my.toml` [default: the program's own, else a100-8]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// Passes that plan
    #[arg(long, value_name = "PIPELINE", default_value = "fuse,shard,place")]
    pub passes: String,

    /// Directory of the profile; one that is there is added to, and plans are made with what it has
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,

    /// Write so many of the programs that are missing, those first whose uncertainty weighs most [default:
    /// all]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// How the program is read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Does what the command line says.
pub(crate) fn run(args: &ProfileArgs, io: &mut Io) -> Result<(), Failure> {
    let planning = Planning::load(args, io)?;
    let mut folder = Folder::open(&args.output, &planning.cluster)?;
    let collected = planning.collect(folder.measured(), f64::INFINITY, io)?;
    let n_new = folder.add(&collected, args.top)?;
    let said = wrote(&collected, &folder, n_new);
    let _ = io.stderr.write_all(said.as_bytes());
    Ok(())
}

/// `12 programs written, 30 of 42 measured: …`.
fn wrote(collected: &Collected, folder: &Folder, n_new: usize) -> String {
    let (n_all, n_measured) = (folder.n_entries(), folder.n_measured());
    format!(
        "{} per step, {}\n{}{}, {n_measured} of {n_all} are measured: python -m phzc.measure {}\n",
        secs(collected.time_secs),
        collected.said,
        unwritten(collected),
        written(n_new),
        folder.path().display()
    )
}

/// Why neither the step nor its segments are measured, if they are not.
fn unwritten(collected: &Collected) -> String {
    let why = collected.unwritten.as_ref();
    why.map_or(String::new(), |why| format!("only products and collectives are measured: {why}\n"))
}

fn written(n_new: usize) -> String {
    format!("{} written", counted(n_new, "program"))
}

/// `profile: 41 of 53 costs measured (97 % of the time); missing: …`; nothing without a profile.
pub(crate) fn summary(module: &Module, facts: &Facts, cluster: &Cluster) -> String {
    match &cluster.measured {
        None => String::new(),
        Some(_) => format!("profile: {}\n", coverage(&asked(module, facts, cluster))),
    }
}

/// How much of what a plan asks for was measured, and what was not.
fn coverage(asked: &BTreeMap<String, Asked>) -> String {
    let cost = |one: &&Asked| one.times * one.secs;
    let all_secs = asked.values().fold(0.0, |sum, one| sum + cost(&one));
    let (known, mut missing): (Vec<&Asked>, Vec<&Asked>) =
        asked.values().partition(|one| one.source.is_measured());
    let known_secs = known.iter().fold(0.0, |sum, one| sum + cost(one));
    missing.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    let share = if all_secs > 0.0 { known_secs / all_secs } else { 1.0 };
    let mut out = format!(
        "{} of {} measured ({} of the time)",
        known.len(),
        counted(asked.len(), "cost"),
        percent(share)
    );
    let word = |one: &&Asked| {
        let how = if one.source == Source::Scaled { "scaled" } else { "by formula" };
        format!("`{}` {how}", one.item.key)
    };
    let named: Vec<String> = missing.iter().take(N_NAMED).map(word).collect();
    if !named.is_empty() {
        out += &format!("; missing: {}", named.join(", "));
    }
    if missing.len() > N_NAMED {
        out += &format!(" and {} more", missing.len() - N_NAMED);
    }
    out
}

/// The cluster of a run with what `--profile` has of it.
pub(crate) fn of_run(args: &Args, cluster: Cluster) -> Result<Cluster, Failure> {
    match &args.profile {
        Some(path) => applied(path, cluster),
        None => Ok(cluster),
    }
}
