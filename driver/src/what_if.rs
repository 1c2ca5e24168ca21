//! `phzc what-if PLAN --hbm 80GB`: the same plan on other hardware, and the program planned anew there.

mod anew;
mod hardware;

pub(crate) use anew::{Anew, AnewArgs, Outcome};
pub(crate) use hardware::HardwareArgs;

use crate::cluster;
use crate::compare::{self, Side, most_bytes};
use crate::planned::{Planned, Unpriced, Watch, legal_program};
use crate::summary::{count, table};
use phzc_frontends::ReadArgs;
use phzc_io::units::{bytes, percent, secs};
use phzc_io::{Failure, Io, write_stdout};
use phzc_ir::Diagnostic;
use phzc_passes::check::memory::replay;
use phzc_passes::derive::is_planned;
use phzc_passes::report::Plan;
use std::path::{Path, PathBuf};

/// The arguments of `phzc what-if`.
#[derive(Debug, clap::Args)]
pub struct WhatIfArgs {
    /// A planned program: what `phzc MODEL -o PLAN` wrote
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// The hardware that PLAN was made for [default: PLAN's own]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// What changes
    #[command(flatten)]
    pub hardware: HardwareArgs,

    /// Only price the same plan
    #[arg(long, conflicts_with_all = ["program", "passes"])]
    pub same: bool,

    /// What is planned anew
    #[command(flatten)]
    pub anew: AnewArgs,
}

/// Does what the command line says.
pub(crate) fn run(args: &WhatIfArgs, io: &mut Io) -> Result<(), Failure> {
    hardware::asked(&args.hardware).map_err(|error| Failure { code: 2, ..error.into() })?;
    let before = read_plan(&args.plan, args.cluster.as_deref(), &args.anew.read, io)?;
    cluster::equal(&before.cluster)?;
    let cluster = args.hardware.apply(&before.cluster)?;
    let same = Planned::new(before.module.clone(), cluster.clone());
    let anew = match args.same {
        true => None,
        false => {
            let anew = Anew::new(&args.anew, &before, io)?;
            Some(anew.on(&cluster, &anew.pipeline, &Watch::of(io)))
        }
    };
    write_stdout(io, &text(before.priced(), same, anew))
}

/// Reads a plan.
///
/// # Errors
/// A file that is none, a cluster that is too small.
pub(crate) fn read_plan(
    path: &Path,
    cluster: Option<&str>,
    read: &ReadArgs,
    io: &mut Io,
) -> Result<Unpriced, Failure> {
    let (module, source) = legal_program(path, read, io)?;
    if !is_planned(&module) {
        let error = Diagnostic::error(format!("`{}` has no plan of phzc", path.display()));
        return Err(error.help("plan it first: `phzc MODEL -o PLAN`").into());
    }
    let cluster = cluster::choose_own(cluster, &module)?;
    Unpriced::new(module, cluster).map_err(|error| Failure::new(Some(source), error))
}

fn text(before: Planned, same: Outcome, anew: Option<Outcome>) -> String {
    let mut rows = vec![row("as planned", Some(&before)), row("the same plan", same.as_ref().ok())];
    rows.extend(anew.as_ref().map(|anew| row("planned anew", anew.as_ref().ok())));
    let header = ["", "cluster", "devices", "time", "throughput", "MFU", "memory", "of limit", "fits"];
    let mut out = table(&header, [2, 3, 4, 5, 6, 7], rows) + "\n";
    out += &gained("the same plan", &before.plan, &same);
    let base = same.unwrap_or(before);
    let Some(anew) = anew else { return out };
    out += &gained("planning anew", &base.plan, &anew);
    if let Ok(anew) = anew {
        let [a, b] = [("the plan as it was", base), ("planned anew", anew)]
            .map(|(name, planned)| Side::of_program(format!("{name}, on {}", planned.plan.cluster), planned));
        out += &format!("\n{}", compare::text(&a, &b));
    }
    out
}

fn row(name: &str, planned: Option<&Planned>) -> Vec<String> {
    let Some(planned) = planned else {
        let mut row = vec!["-".to_owned(); 9];
        (row[0], row[8]) = (name.to_owned(), "no".to_owned());
        return row;
    };
    let plan = &planned.plan;
    let done = plan.throughput.unwrap_or_default();
    let rate = [(done.tokens_per_sec, "tokens/s"), (done.samples_per_sec, "samples/s")];
    let rate = rate.into_iter().find_map(|(rate, unit)| Some(format!("{} {unit}", count(rate?))));
    let most = most_bytes(plan);
    vec![
        name.to_owned(),
        plan.cluster.clone(),
        plan.n_devices.to_string(),
        secs(plan.time_secs),
        rate.unwrap_or_else(|| "-".to_owned()),
        done.mfu.map_or_else(|| "-".to_owned(), percent),
        bytes(most),
        percent(most / plan.memory_limit_bytes),
        if fits(planned) { "yes" } else { "no" }.to_owned(),
    ]
}

/// Whether a plan fits into memory. The report's peak may be above what is needed; the judge's replay says.
pub(crate) fn fits(Planned { module, facts, cluster, plan }: &Planned) -> bool {
    if cluster.is_unlike() {
        return plan.most_memory_share() <= 1.0;
    }
    (0..facts.header.n_replicas()).all(|at| {
        let peaks = replay(module, &facts.of_replica(at), cluster);
        peaks.into_iter().all(|peak| peak.peak_bytes <= plan.memory_limit_bytes)
    })
}

/// What a change of hardware, or of the plan, saves; or why it cannot be.
fn gained(what: &str, before: &Plan, after: &Outcome) -> String {
    let after = match after {
        Ok(after) => after.plan.time_secs,
        Err(error) => {
            let help: String = error.help.iter().map(|help| format!("; {help}")).collect();
            return format!("{what}: not there, {}{help}\n", error.message);
        }
    };
    let off = after - before.time_secs;
    match percent(off.abs() / before.time_secs) {
        none if none == percent(0.0) => format!("{what}: takes as long\n"),
        share => {
            let how = if off > 0.0 { "more" } else { "less" };
            format!("{what}: {} ({share}) {how} per step\n", secs(off.abs()))
        }
    }
}
