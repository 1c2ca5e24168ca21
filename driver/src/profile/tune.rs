//! `phzc tune`: plan, write what is missing, measure it, plan again, until no plan may be faster than the best
//! that was measured.
//!
//! The planner prices what was not measured by what is like it, and picks what looks cheapest: the more plans
//! it picks from, the more the pick is a lucky error. So the step of each round's plan is measured whole, and
//! the plan that is kept is the fastest of them, which the first one is among, and not the last that was
//! planned.

use super::folder::Folder;
use super::plans::Planning;
use super::{ProfileArgs, written};
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

/// The fastest plan that was measured.
struct Best {
    secs: f64,
    round: u32,
    module: Module,
}

/// Why the search ends.
enum End {
    Measured,
    NoneFaster,
    Rounds,
}

/// Does what the command line says.
pub(crate) fn run(args: &TuneArgs, io: &mut Io) -> Result<(), Failure> {
    let planning = Planning::load(&args.of, io)?;
    let mut best: Option<Best> = None;
    let mut end = End::Rounds;
    for round in 1..=args.rounds {
        if let Some(ended) = one_round(args, &planning, round, &mut best, io)? {
            end = ended;
            break;
        }
    }
    let Some(mut best) = best else { return Ok(()) };
    // They are by the prices of its round.
    plan_note::CLAIMS.iter().for_each(|claim| plan_note::remove(&mut best.module, claim));
    let path = args.of.output.join(PLAN);
    files::write(&path, &print(&best.module))?;
    let why = match end {
        End::Measured => "all that it and its rivals ask for is measured".to_owned(),
        End::NoneFaster => "no plan is predicted to be faster".to_owned(),
        End::Rounds => format!("{} are over; others may be faster", counted(args.rounds as usize, "round")),
    };
    let (time, name) = (secs(best.secs), path.display());
    say(io, &format!("the plan of round {} is kept, {time} per step: {why}\n{name}\n", best.round));
    Ok(())
}

/// Plans, measures what is missing, and keeps the plan if it is the fastest so far; whether that is the end.
fn one_round(
    args: &TuneArgs,
    planning: &Planning,
    round: u32,
    best: &mut Option<Best>,
    io: &mut Io,
) -> Result<Option<End>, Failure> {
    let mut folder = Folder::open(&args.of.output, &planning.cluster)?;
    let best_secs = best.as_ref().map_or(f64::INFINITY, |best| best.secs);
    let collected = planning.collect(folder.measured(), best_secs, io)?;
    say(io, &format!("round {round}: {} per step, {}\n", secs(collected.time_secs), collected.said));
    if collected.time_secs >= best_secs * (1.0 - LEAST_GAIN) {
        return Ok(Some(End::NoneFaster));
    }
    let n_new = folder.add(&collected, args.of.top)?;
    let n_missing = folder.n_missing();
    if n_missing > 0 {
        say(io, &format!("  {}, {n_missing} to measure\n", written(n_new)));
        folder = measure(args, &folder, planning)?;
    }
    let measured_secs = collected.step.as_ref().and_then(|step| folder.secs(step));
    let took_secs = measured_secs.unwrap_or(collected.time_secs);
    let how = if measured_secs.is_some() { "is measured to take" } else { "cannot be measured whole:" };
    say(io, &format!("  it {how} {}\n", secs(took_secs)));
    if took_secs < best_secs * (1.0 - LEAST_GAIN) {
        *best = Some(Best { secs: took_secs, round, module: collected.module });
    }
    Ok((n_missing == 0).then_some(End::Measured))
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
