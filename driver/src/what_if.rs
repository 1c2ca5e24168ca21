//! `phzc what-if PLAN --hbm 80GB`: the same plan on other hardware, and the program planned anew there.

mod hardware;

use crate::cluster;
use crate::compare::{self, Side, most_bytes};
use crate::planned::{Planned, Watch, type_text};
use crate::summary::{count, table};
use hardware::HardwareArgs;
use phzc_cost::Cluster;
use phzc_frontends::{Program, ReadArgs, load};
use phzc_io::units::{bytes, percent, secs};
use phzc_io::{Failure, Io, write_stdout};
use phzc_ir::{Diagnostic, Module, counted, notes};
use phzc_passes::check::memory::replay;
use phzc_passes::derive::is_planned;
use phzc_passes::report::Plan;
use phzc_passes::unplanned::unplanned;
use phzc_passes::{Pipeline, fuse};
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

    /// The program that PLAN is a plan of [default: PLAN without its layouts, loops as PLAN has them]
    #[arg(long, value_name = "MODEL")]
    pub program: Option<PathBuf>,

    /// Passes that plan anew [default: `dce,fuse,shard,place`, `fuse` with the options that it had]
    #[arg(long, value_name = "PIPELINE")]
    pub passes: Option<String>,

    /// Only price the same plan
    #[arg(long, conflicts_with_all = ["program", "passes"])]
    pub same: bool,

    /// How programs are read
    #[command(flatten)]
    pub read: ReadArgs,
}

/// A plan on some hardware, or why there is none.
type Outcome = phzc_ir::Result<Planned>;

/// Does what the command line says.
pub(crate) fn run(args: &WhatIfArgs, io: &mut Io) -> Result<(), Failure> {
    hardware::asked(&args.hardware).map_err(|error| Failure { code: 2, ..error.into() })?;
    let before = Planned::load(&args.plan, args.cluster.as_deref(), &args.read, io)?;
    if !is_planned(&before.module) {
        let error = Diagnostic::error(format!("`{}` has no plan of phzc", args.plan.display()));
        return Err(error.help("plan it first: `phzc MODEL -o PLAN`").into());
    }
    cluster::equal(&before.cluster)?;
    let cluster = args.hardware.apply(&before.cluster)?;
    let same = Planned::new(before.module.clone(), cluster.clone());
    let anew = match args.same {
        true => None,
        false => Some(plan_anew(args, &before.module, cluster, io)?),
    };
    write_stdout(io, &text(before, same, anew))
}

/// The program, planned on the changed cluster. What keeps it from being planned is an outcome; what is wrong
/// with files and options is an error.
fn plan_anew(args: &WhatIfArgs, plan: &Module, cluster: Cluster, io: &mut Io) -> Result<Outcome, Failure> {
    let module = match &args.program {
        Some(path) => {
            let Program { module, source, .. } = load(path, &args.read, io)?;
            let errors = phzc_ir::verify(&module);
            if !errors.is_empty() {
                return Err(Failure { code: 1, source: Some(source), errors });
            }
            of_plan(path, &module, plan, args.passes.is_some()).map_err(Failure::from)?;
            module
        }
        None => unplanned(plan)?,
    };
    Ok(Planned::anew(module, &pipeline(args, plan)?, cluster, &Watch::of(io)))
}

/// An error unless a program can be the one that was planned: it has most instructions of the plan, and the
/// same inputs, unless passes that the user names make them.
fn of_plan(path: &Path, module: &Module, plan: &Module, has_passes: bool) -> phzc_ir::Result<()> {
    let inputs = |module: &Module| -> Vec<String> {
        module.entry().params().into_iter().map(|id| type_text(module.entry().instr(id))).collect()
    };
    let (own, planned) = (inputs(module), inputs(plan));
    let n_alike = own.iter().zip(&planned).filter(|(a, b)| a == b).count();
    let why = match compare::few_shared(module, plan) {
        Some(few) => format!("{few} match by name, op and type"),
        None if !has_passes && n_alike < own.len().max(planned.len()) => {
            format!("{n_alike} of its {} are the plan's {}", counted(own.len(), "input"), planned.len())
        }
        None => return Ok(()),
    };
    let error = Diagnostic::error(format!("`{}` is not the program of this plan: {why}", path.display()));
    Err(error.help("give the program that was planned, or leave `--program` out"))
}

/// The passes that plan anew.
fn pipeline(args: &WhatIfArgs, plan: &Module) -> Result<Pipeline, Failure> {
    let read =
        |text: &str| phzc_passes::pipeline(text).map_err(|errors| Failure { code: 2, source: None, errors });
    let mut pipeline = read(args.passes.as_deref().unwrap_or("dce,fuse,shard,place"))?;
    let history = plan.note(notes::PASSES).and_then(|text| phzc_passes::pipeline(&text).ok());
    let fused = history.into_iter().flat_map(|it| it.steps).find(|step| step.pass.name == fuse::PASS.name);
    if let (None, Some(fused)) = (&args.passes, fused) {
        pipeline.steps[1] = fused;
    }
    Ok(pipeline)
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
    let Some(Planned { module, facts, cluster, plan }) = planned else {
        let mut row = vec!["-".to_owned(); 9];
        (row[0], row[8]) = (name.to_owned(), "no".to_owned());
        return row;
    };
    // The report's peak may be above what is needed; the judge's replay says whether it fits.
    let replayed = replay(module, facts, cluster).into_iter().map(|peak| peak.peak_bytes).fold(0.0, f64::max);
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
        if replayed <= plan.memory_limit_bytes { "yes" } else { "no" }.to_owned(),
    ]
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
