//! `phzc tune`: plan, write what is missing, measure it, plan again, until nothing that may matter is missing.

use super::folder::Folder;
use super::plans::Planning;
use super::{ProfileArgs, written};
use phzc_io::units::secs;
use phzc_io::{Failure, Io, process};
use phzc_ir::{Diagnostic, counted};

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
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}

/// Does what the command line says.
pub(crate) fn run(args: &TuneArgs, io: &mut Io) -> Result<(), Failure> {
    let planning = Planning::load(&args.of, io)?;
    for round in 1..=args.rounds {
        let mut folder = Folder::open(&args.of.output, &planning.cluster)?;
        let collected = planning.collect(folder.measured(), io)?;
        let n_new = folder.add(&collected, args.of.top)?;
        let n_missing = collected.entries.keys().filter(|key| !folder.is_done(key)).count();
        let took = format!("round {round}: {} per step, {}", secs(collected.time_secs), collected.said);
        if n_missing == 0 {
            say(io, &format!("{took}\nthe plan is stable: all that it and its rivals ask for is measured\n"));
            return Ok(());
        }
        say(io, &format!("{took}\n  {}, {} to measure\n", written(n_new), counted(n_missing, "entry")));
        process::run(&args.measure, &folder.path().display().to_string())?;
        let after = Folder::open(&args.of.output, &planning.cluster)?;
        if after.n_measured() == folder.n_measured() && !collected.entries.keys().any(|it| after.is_done(it))
        {
            let error = Diagnostic::error(format!("`{}` has measured nothing", args.measure));
            return Err(error.help("`--measure COMMAND` names another").into());
        }
    }
    say(io, &format!("ended after {}: more may be measured\n", counted(args.rounds as usize, "round")));
    Ok(())
}

fn say(io: &mut Io, text: &str) {
    let _ = io.stderr.write_all(text.as_bytes());
}
