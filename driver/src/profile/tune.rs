//! `phzc tune`: plan, write what is missing, measure it, plan again, until no plan may be faster than the
//! best that was measured.
//!
//! The planner prices what was not measured by what is like it, and picks what looks cheapest: the more plans
//! it picks from, the more the pick is a lucky error. So the step of each round's plan is measured whole, and
//! in the end those of all of them in turns. The plan that is kept is the fastest then, and the first one
//! unless another is faster by more than samples of the two differ.

mod choice;

use super::folder::Folder;
use super::plans::Planning;
use super::{ProfileArgs, unwritten, written};
use choice::Kept;
use phzc_io::units::secs;
use phzc_io::{Failure, Io, files, process};
use phzc_ir::{Diagnostic, Module, counted, print};
use phzc_passes::plan_note;

/// The file of the plan that is kept.
const PLAN: &str = "plan.ir";
/// The least part of a step that a plan must gain: measurements repeat no better.
const LEAST_GAIN: f64 = 0.01;

/// The arguments of `phzc tune`.
#[derive(Debug, clap::Args)]
pub struct TuneArgs {
    /// What is planned and where its profile is
    #[command(flatten)]
    pub of: ProfileArgs,

    /// The command that measures; the directory is its last argument
    #[arg(long, value_name = "COMMAND", default_value = "python3 -m phzc.measure")]
    pub measure: String,

    /// Rounds at most
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}

/// A plan of one round.
struct Tried {
    round: u32,
    module: Module,
    /// The entry that is its step, and its predicted time, which counts where no plan's step can be measured.
    step: Option<String>,
    predicted_secs: f64,
}

/// Why the search ends.
#[derive(Clone, Copy)]
enum End {
    Measured,
    NoneFaster,
    Rounds,
}

/// Does what the command line says.
pub(crate) fn run(args: &TuneArgs, io: &mut Io) -> Result<(), Failure> {
    let planning = Planning::load(&args.of, io)?;
    let mut tried: Vec<Tried> = Vec::new();
    let mut end = End::Rounds;
    for round in 1..=args.rounds {
        if let Some(ended) = one_round(args, &planning, round, &mut tried, io)? {
            end = ended;
            break;
        }
    }
    let folder = compared(args, &planning, &tried, io)?;
    match choice::kept(&tried, &folder) {
        Some(kept) => keep(args, kept, end, io),
        None => Ok(()),
    }
}

/// Measures the steps of all plans in turns, and says what they take.
fn compared(args: &TuneArgs, planning: &Planning, tried: &[Tried], io: &mut Io) -> Result<Folder, Failure> {
    let mut folder = Folder::open(&args.of.output, &planning.cluster)?;
    let steps = choice::steps(tried, &folder);
    if steps.len() > 1 {
        folder.ask_again(steps)?;
        process::run(&args.measure, &folder.path().display().to_string())?;
        folder = Folder::open(&args.of.output, &planning.cluster)?;
        folder.ask_again(Vec::new())?;
        say(io, &choice::table(tried, &folder));
    }
    Ok(folder)
}

/// Writes the plan that is kept, without the planner's claims, which are by the prices of its round.
fn keep(args: &TuneArgs, kept: Kept, end: End, io: &mut Io) -> Result<(), Failure> {
    let (path, mut module) = (args.of.output.join(PLAN), kept.of.module.clone());
    plan_note::CLAIMS.iter().for_each(|claim| plan_note::remove(&mut module, claim));
    files::write(&path, &print(&module))?;
    let ended = match end {
        End::Measured => "all that it and its rivals ask for is measured".to_owned(),
        End::NoneFaster => "no plan is predicted to be faster".to_owned(),
        End::Rounds => format!("{} are over; others may be faster", counted(args.rounds as usize, "round")),
    };
    let (round, time) = (kept.of.round, secs(kept.secs));
    let why = kept.why.map_or(String::new(), |why| format!("{why}; "));
    say(
        io,
        &format!("the plan of round {round} is kept, {time} per step: {why}{ended}\n{}\n", path.display()),
    );
    Ok(())
}

/// Plans, and measures what is missing; whether that is the end.
fn one_round(
    args: &TuneArgs,
    planning: &Planning,
    round: u32,
    tried: &mut Vec<Tried>,
    io: &mut Io,
) -> Result<Option<End>, Failure> {
    let mut folder = Folder::open(&args.of.output, &planning.cluster)?;
    let best_secs = choice::fastest(tried, &folder).map_or(f64::INFINITY, |(_, secs)| secs);
    // The first plan is that of formulas alone: no other one is kept that is not faster.
    let measured = folder.measured().filter(|_| round > 1);
    let collected = planning.collect(measured, best_secs, io)?;
    say(io, &format!("round {round}: {} per step, {}\n", secs(collected.time_secs), collected.said));
    say(io, &unwritten(&collected));
    if collected.time_secs >= best_secs * (1.0 - LEAST_GAIN) {
        return Ok(Some(End::NoneFaster));
    }
    let n_new = folder.add(&collected, args.of.top)?;
    let n_missing = folder.n_missing();
    if n_missing > 0 {
        say(io, &format!("  {}, {n_missing} to measure\n", written(n_new)));
        folder = measure(args, &folder, planning)?;
    }
    if let Some(step_secs) = collected.step.as_ref().and_then(|step| folder.secs(step)) {
        say(io, &format!("  it is measured to take {}\n", secs(step_secs)));
    }
    let (module, step, predicted_secs) = (collected.module, collected.step, collected.time_secs);
    tried.push(Tried { round, module, step, predicted_secs });
    Ok((n_missing == 0 && round > 1).then_some(End::Measured))
}

/// Runs the command that measures, and reads what it has written.
fn measure(args: &TuneArgs, before: &Folder, planning: &Planning) -> Result<Folder, Failure> {
    process::run(&args.measure, &before.path().display().to_string())?;
    let after = Folder::open(&args.of.output, &planning.cluster)?;
    if after.n_missing() == before.n_missing() {
        let error = Diagnostic::error(format!("`{}` has measured nothing", args.measure));
        return Err(error.help("`--measure COMMAND` names another").into());
    }
    Ok(after)
}

fn say(io: &mut Io, text: &str) {
    let _ = io.stderr.write_all(text.as_bytes());
}
