//! One run: read, parse, run the passes, write.

use crate::args::{Args, Command};
use crate::dumps::Dumps;
use crate::emit::{self, Known, Made};
use crate::planned::egress_usd;
use crate::{
    alternatives, arch, cluster, controls, convert, diff, eval, explain, fleet, generate, given, help, hints,
    price, profile, programs, replan, shell, summary, verify, what_if,
};
use phzc_cost::Cluster;
use phzc_frontends::{Program, load};
use phzc_io::render::{Source, render};
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::{Diagnostic, Module};
use phzc_lab::{calibrate, choose, devices, phaze_plan, profile_plan, validate};
use phzc_passes::derive::{Facts, derive, is_planned};
use phzc_passes::manager::{self, Hooks};
use phzc_passes::partitioned::partitioned;
use phzc_passes::pass::Interrupt;
use phzc_passes::report::Plan;
use phzc_passes::{Context, Done, Pipeline, estimate, report, unpartition};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

/// Does what the command line says.
pub(crate) fn run(args: &Args, io: &mut Io) -> Result<(), Failure> {
    match &args.command {
        Some(Command::Arch(args)) => return arch::run(args, io),
        Some(Command::Calibrate(args)) => return calibrate::run(args, io),
        Some(Command::Choose(args)) => return choose::run(args, io),
        Some(Command::Completions(args)) => return shell::completions(args, io),
        Some(Command::Convert(args)) => return convert::run(args, io),
        Some(Command::Devices(args)) => return devices::run(args, io),
        Some(Command::Diff(args)) => return diff::run(args, io),
        Some(Command::Eval(args)) => return eval::run(args, io),
        Some(Command::Gen(args)) => return generate::run(args, io),
        Some(Command::Man(args)) => return shell::man(args, io),
        Some(Command::PhazePlan(args)) => return phaze_plan::run(args, io),
        Some(Command::Price(args)) => return price::run(args, io),
        Some(Command::Profile(args)) => return profile::run(args, io),
        Some(Command::ProfilePlan(args)) => return profile_plan::run(args, io),
        Some(Command::Replan(args)) => return replan::run(args, io),
        Some(Command::Sweep(args)) => return fleet::run(args, io),
        Some(Command::Tune(args)) => return profile::tune::run(args, io),
        Some(Command::Validate(args)) if args.programs => return programs::run(args, io),
        Some(Command::Validate(args)) => return validate::run(args, io),
        Some(Command::Verify(args)) => return verify::run(args, io),
        Some(Command::WhatIf(args)) => return what_if::run(args, io),
        None => {}
    }
    match (&args.help_passes, &args.model) {
        (Some(name), _) => match help::text(name) {
            Ok(text) => write_stdout(io, &text),
            Err(error) => Err(Failure { code: 2, ..error.into() }),
        },
        (None, Some(model)) => plan(args, model, io),
        (None, None) => Err(Diagnostic::error("no program is given").into()),
    }
}

fn plan(args: &Args, model: &Path, io: &mut Io) -> Result<(), Failure> {
    let pipeline = controls::pipeline(args)?;
    emit::check(args)?;
    hints::check_model(model)?;
    let Program { module, source, .. } = load(model, &args.read, io)?;
    match compile(args, &pipeline, module, &source, io) {
        Ok(((emitted, said), json)) => {
            say(args, io, &render(None, &said, io.color));
            // The figures of a program that cannot be written are of no use.
            emit::write(args, &emitted, io)?;
            let plan = args.plan.iter().zip(&json);
            Ok(plan.into_iter().try_for_each(|(path, json)| files::write(path, json))?)
        }
        Err(Failure { code, source: None, errors }) => Err(Failure { code, source: Some(source), errors }),
        Err(failure) => Err(failure),
    }
}

/// What is to be written of the planned program, and its figures; dumps and warnings on the way, the summary
/// at the end.
fn compile(
    args: &Args,
    pipeline: &Pipeline,
    mut module: Module,
    source: &Source,
    io: &mut Io,
) -> Result<(Made, Option<String>), Failure> {
    let cluster = profile::of_run(args, cluster::choose(args.cluster.as_deref(), &module)?)?;
    let pipeline = &given::unmapped(pipeline, &module);
    let dumps = Dumps::open(args, pipeline)?;
    let explain = in_shard(&args.explain, &module);
    let wants_artifacts = dumps.is_some();
    let (progress, requests) = (io.progress, io.interrupt);
    let (is_requested, has_plan) = (|| requests.is_requested(), || requests.has_result());
    let interrupt = Interrupt { is_requested: &is_requested, has_plan: &has_plan };
    let mut cx = Context { progress, interrupt, explain, wants_artifacts, ..Context::new(&cluster) };
    cx.warnings.extend(cluster::changed(&module, &cluster, pipeline)?);
    let original = given::is_possible(&module, pipeline).then(|| module.clone());
    let is_recovered = pipeline.steps.iter().any(|step| step.pass.name == unpartition::PASS.name);
    let before = (is_recovered && partitioned(&module).is_some()).then(|| as_it_was(&module, &cluster));
    let ran = run_passes(&mut module, pipeline, &mut cx, dumps.as_ref(), io);
    (io.progress)("");
    let warnings = render(Some(source), &cx.warnings, io.color);
    say(args, io, &warnings);
    let secs_per_pass = ran?;
    let (priced, said) = priced(args, pipeline, &module, &cluster)?;
    say(args, io, &render(Some(source), said.as_slice(), io.color));
    let plan = priced.as_ref().map(|priced| {
        let without_given = |plan: &Plan| {
            let original = original.filter(|_| plan.n_given_layouts > 0);
            original.and_then(|it| given::free_secs(it, pipeline, &cx))
        };
        reported(priced, &cluster, without_given)
    });
    (io.progress)("");
    if let Some(plan) = &plan {
        cx.artifacts.insert("plan.json".to_owned(), report::to_json(plan));
        say(args, io, &summary::plan(plan, &given::text(plan, &module)));
        let egress_usd = priced.as_ref().map_or(0.0, |(facts, module)| egress_usd(module, facts, &cluster));
        say(args, io, &summary::idle(plan, &cluster));
        say(args, io, &summary::price(plan, &cluster, egress_usd));
        priced.iter().for_each(|(facts, priced)| say(args, io, &profile::summary(priced, facts, &cluster)));
        before.iter().for_each(|before| say(args, io, &summary::before(before, plan)));
    }
    let of_plan = priced.as_ref().zip(plan.as_ref());
    explained(args, pipeline, of_plan, &mut cx, io);
    ranked(&mut cx, io);
    if let Some(dumps) = &dumps {
        cx.artifacts.iter().try_for_each(|(name, text)| dumps.artifact(name, text))?;
    }
    say(args, io, &summary::passes(&secs_per_pass));
    let priced = priced.as_ref().zip(plan.as_ref()).map(|((facts, priced), plan)| (facts, priced, plan));
    let made = emit::emit(args, &module, &Known { priced, alternatives: &cx.alternatives }, &cluster)?;
    Ok((made, cx.artifacts.swap_remove("plan.json")))
}

/// A program as it is priced, and its facts.
type Priced<'m> = (Facts, Cow<'m, Module>);

/// The program as it is priced, if it has a plan or is partitioned, or if `estimate`, `--plan` or a trace ask
/// for figures; with what `estimate` has not yet said of that. What is written stays the user's.
fn priced<'m>(
    args: &Args,
    pipeline: &Pipeline,
    module: &'m Module,
    cluster: &Cluster,
) -> phzc_ir::Result<(Option<Priced<'m>>, Option<Diagnostic>)> {
    let is_estimated = pipeline.steps.iter().any(|step| step.pass.name == estimate::PASS.name);
    let partitioned = partitioned(module);
    let is_asked = args.plan.is_some() || args.emit.needs_figures() || is_estimated || partitioned.is_some();
    let (priced, said) = match is_planned(module) {
        true => (Cow::Borrowed(module), None),
        false if is_asked => {
            partitioned.map(|it| it.fits(module, cluster)).transpose()?;
            let (priced, said) = estimate::priced(module, cluster)?;
            (Cow::Owned(priced), said.filter(|_| !is_estimated))
        }
        false => return Ok((None, None)),
    };
    let facts = derive(&priced)?;
    facts.header.fits(cluster)?;
    Ok((Some((facts, priced)), said))
}

/// What is said of a plan, with what it would take by the same search `without_given` layouts.
fn reported(
    (facts, priced): &Priced,
    cluster: &Cluster,
    without_given: impl FnOnce(&Plan) -> Option<f64>,
) -> Plan {
    let mut plan = report::plan_of(priced, facts, cluster);
    plan.free_secs = without_given(&plan);
    plan
}

/// How long a partitioned program takes as it stands, on its devices of the cluster; or why that is not
/// known.
fn as_it_was(module: &Module, cluster: &Cluster) -> phzc_ir::Result<report::Plan> {
    partitioned(module).map(|it| it.fits(module, cluster)).transpose()?;
    let (priced, _) = estimate::priced(module, cluster)?;
    let facts = derive(&priced)?;
    facts.header.fits(cluster)?;
    Ok(report::plan_of(&priced, &facts, cluster))
}

/// The names that `shard` is to explain: of a collective, the value that it moves.
fn in_shard(names: &[String], module: &Module) -> Vec<String> {
    let instrs = || module.comps.iter().flat_map(|comp| &comp.instrs);
    let is_there = |name: &str| instrs().any(|instr| *instr.name == *name);
    let asked = names.iter().filter(|name| ![controls::STAGES, controls::MESH].contains(&&***name));
    let mut found: Vec<String> = asked
        .map(|name| explain::movement::moved(name).filter(|_| !is_there(name)).unwrap_or(name).to_owned())
        .collect();
    let mut seen = BTreeSet::new();
    found.retain(|name| seen.insert(name.clone()));
    found
}

/// Prints what was to be explained, and keeps it. It was asked for, so `--quiet` does not mean it.
fn explained(
    args: &Args,
    pipeline: &Pipeline,
    of_plan: Option<(&Priced, &Plan)>,
    cx: &mut Context,
    io: &mut Io,
) {
    let mut parts = Vec::new();
    if let Some(((facts, priced), plan)) = of_plan {
        let is_about_stages = args.explain.iter().any(|name| name == controls::STAGES);
        let n_asked = controls::n_stages_asked(pipeline);
        parts.extend(is_about_stages.then(|| explain::stages::text(plan, &cx.stage_counts, n_asked)));
        let is_about_mesh = args.explain.iter().any(|name| name == controls::MESH);
        parts.extend(is_about_mesh.then(|| explain::meshes::text(plan, &cx.meshes)));
        let moves = args.explain.iter();
        parts.extend(moves.filter_map(|it| explain::movement::text(it, (priced, facts), cx.cluster, plan)));
    }
    parts.extend((!cx.explanations.is_empty()).then(|| explain::text(&cx.explanations)));
    if !parts.is_empty() {
        let text = parts.join("\n");
        let _ = io.stderr.write_all(text.as_bytes());
        cx.artifacts.insert("explain.txt".to_owned(), text);
    }
}

/// Prints the plans that were asked for besides the best, and keeps the list.
fn ranked(cx: &mut Context, io: &mut Io) {
    if !cx.alternatives.is_empty() {
        let text = alternatives::text(&cx.alternatives) + "\n";
        let _ = io.stderr.write_all(text.as_bytes());
        cx.artifacts.insert("plans.txt".to_owned(), text);
    }
}

/// To standard error, unless the user wants quiet.
fn say(args: &Args, io: &mut Io, text: &str) {
    if !args.quiet {
        // A message that cannot be shown is no reason to lose the plan.
        let _ = io.stderr.write_all(text.as_bytes());
    }
}

/// Runs the passes; how long each took.
fn run_passes(
    module: &mut Module,
    pipeline: &Pipeline,
    cx: &mut Context,
    dumps: Option<&Dumps>,
    io: &Io,
) -> Result<Vec<(&'static str, f64)>, Failure> {
    let (mut secs_per_pass, hardware) = (Vec::new(), cx.cluster);
    let mut observer = |done: Done| {
        secs_per_pass.extend(done.step.map(|step| (step.pass.name, done.secs)));
        dumps.map_or(Ok(()), |dumps| dumps.write(&done, hardware))
    };
    let mut hooks = Hooks { observer: &mut observer, clock: io.clock };
    let ran = manager::run(module, pipeline, cx, &mut hooks);
    ran.map(|()| secs_per_pass).map_err(|errors| Failure { code: 1, source: None, errors })
}
