//! The pipeline that the command line asks for: `--passes`, with what other options add to its passes.

use crate::args::Args;
use phzc_io::Failure;
use phzc_io::render::Source;
use phzc_ir::{Diagnostic, Span};
use phzc_passes::shard::{self, pins};
use phzc_passes::{Pipeline, Step, accumulate, check, fuse, place, unpartition, unshard};

/// What `--explain` calls the number of stages.
pub(crate) const STAGES: &str = "stages";
/// What it calls the mesh.
pub(crate) const MESH: &str = "mesh";

/// Reads `--passes` and adds what other options ask of passes, which must be in the pipeline.
pub(crate) fn pipeline(args: &Args) -> Result<Pipeline, Failure> {
    let mut pipeline =
        phzc_passes::pipeline(&args.passes).map_err(|errors| wrong("--passes", &args.passes, errors))?;
    let asked = [
        ("--pin", shard::PASS.name, !args.pins.is_empty()),
        ("--explain", shard::PASS.name, args.explain.iter().any(|name| name != STAGES)),
        ("--attention", fuse::PASS.name, args.attention.is_some()),
        ("--top", place::PASS.name, args.top.is_some()),
        ("--gap", place::PASS.name, args.gap.is_some()),
        ("--straggler", place::PASS.name, args.straggler.is_some()),
    ];
    for (option, pass, _) in asked.iter().filter(|(.., is_given)| *is_given) {
        if !pipeline.steps.iter().any(|step| step.pass.name == *pass) {
            let error = Diagnostic::error(format!("`{option}` is about the pass `{pass}`, which is not run"));
            let error = error.help("add it: `--passes fuse,shard,place`");
            return Err(wrong("--passes", &args.passes, vec![error]));
        }
    }
    if let Some(names) = &args.ignore_shardings {
        unshard::pattern(names).map_err(|error| wrong("--ignore-shardings", names, vec![error]))?;
        let mut step = Step::new(&unshard::PASS);
        set(&mut step, "match", names);
        pipeline.steps.insert(0, step);
    }
    if args.unpartition {
        pipeline.steps.insert(0, Step::new(&unpartition::PASS));
    }
    if args.write_microbatches {
        pipeline.steps.push(Step::new(&accumulate::PASS));
        // Whole sums, which the loop carries, may need more memory than their parts.
        let is_judged = pipeline.steps.iter().any(|step| step.pass.name == check::PASS.name);
        pipeline.steps.extend(is_judged.then(|| Step::new(&check::PASS)));
    }
    for pin in &args.pins {
        pins::parse(pin).map_err(|error| wrong("--pin", pin, vec![error]))?;
        steps(&mut pipeline, shard::PASS.name).for_each(|step| add_pin(step, pin));
    }
    if let Some(how) = &args.attention {
        steps(&mut pipeline, fuse::PASS.name).for_each(|step| set(step, "attention", how));
    }
    let is_about_stages = args.explain.iter().any(|name| name == STAGES);
    if is_about_stages && steps(&mut pipeline, place::PASS.name).next().is_none() {
        let error = Diagnostic::error("`--explain stages` is about the pass `place`, which is not run");
        return Err(wrong("--passes", &args.passes, vec![error.help("add it: `--passes fuse,shard,place`")]));
    }
    if let Some(top) = args.top {
        place_with(args, &mut pipeline, ("top", "1"), "say how many plans to list", &top.to_string())?;
    }
    if let Some(gap) = &args.gap {
        let there = Span::new(0, gap.len().max(1));
        place::percent(gap).map_err(|error| wrong("--gap", gap, vec![error.at(there)]))?;
        place_with(args, &mut pipeline, ("gap", "0"), "say when the search ends", gap)?;
    }
    if let Some(it) = &args.straggler {
        place::straggler(it).map_err(|error| wrong("--straggler", it, vec![error]))?;
        place_with(args, &mut pipeline, ("straggler", "none"), "say how slow devices may be", it)?;
    }
    Ok(pipeline)
}

/// Sets an option of `place` that has an argument of the same name, unless it is set already: not what it is
/// by default.
fn place_with(
    args: &Args,
    pipeline: &mut Pipeline,
    (option, default): (&'static str, &str),
    purpose: &str,
    value: &str,
) -> Result<(), Failure> {
    let pass = place::PASS.name;
    if steps(pipeline, pass).any(|step| step.options.text(option) != default) {
        let error = Diagnostic::error(format!("`--{option}` and `{pass}{{{option}=…}}` {purpose}"));
        return Err(wrong("--passes", &args.passes, vec![error.help("leave one of them out")]));
    }
    steps(pipeline, pass).for_each(|step| set(step, option, value));
    Ok(())
}

/// The number of stages that a pipeline asks for; 0 is any.
pub(crate) fn n_stages_asked(pipeline: &Pipeline) -> i64 {
    let places = pipeline.steps.iter().filter(|step| step.pass.name == place::PASS.name);
    places.map(|step| step.options.int("stages")).max().unwrap_or(0)
}

/// The steps that run a pass.
pub(crate) fn steps<'p>(
    pipeline: &'p mut Pipeline,
    pass: &'static str,
) -> impl Iterator<Item = &'p mut Step> {
    pipeline.steps.iter_mut().filter(move |step| step.pass.name == pass)
}

/// Sets an option of a pass.
pub(crate) fn set(step: &mut Step, option: &'static str, value: &str) {
    step.options.values.insert(option, value.to_owned());
}

fn add_pin(step: &mut Step, pin: &str) {
    let pins = step.options.values.entry("pin").or_default();
    *pins = if pins.is_empty() { pin.to_owned() } else { format!("{pins}; {pin}") };
}

/// A wrong command line: the option, what stands in it, and what is wrong.
fn wrong(option: &str, text: &str, errors: Vec<Diagnostic>) -> Failure {
    let source = Source { name: option.to_owned(), text: text.to_owned() };
    Failure { code: 2, source: Some(source), errors }
}
