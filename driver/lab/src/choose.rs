//! `phzc choose`: chooses one strategy per node of a graph within a limit on memory at every time, as the
//! contest on intra-operator parallelism poses it.
//!
//! See docs/choose.md.

pub mod instance;

use phzc_io::render::Source;
use phzc_io::{Failure, Io, deliver, files};
use phzc_ir::Diagnostic;
use phzc_solver::choose::{Choice, Limits, choose};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// No instance is larger, unpacked.
const MAX_BYTES: u64 = 2 << 30;

/// What messages call the input `-`.
const STDIN: &str = "standard input";

/// The arguments of `phzc choose`.
#[derive(Debug, clap::Args)]
pub struct ChooseArgs {
    /// Instances of the contest, as JSON, gzipped or not; `-` is standard input
    #[arg(value_name = "INSTANCE", required = true)]
    pub inputs: Vec<PathBuf>,

    /// Print one JSON object per instance
    #[arg(long)]
    pub json: bool,

    /// Choose as if memory had no limit
    #[arg(long)]
    pub unlimited: bool,

    /// File for the strategy of each node, as a JSON list; for one instance
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What is printed about one instance.
#[derive(Serialize)]
struct Line<'l> {
    instance: &'l str,
    feasible: bool,
    cost: Option<f64>,
    lower_bound: Option<f64>,
    /// `(cost - lower_bound) / cost`.
    gap: Option<f64>,
    peak_usage: f64,
    cpu_secs: f64,
}

/// Does what the command line says.
pub fn run(args: &ChooseArgs, io: &mut Io) -> Result<(), Failure> {
    if args.output.is_some() && args.inputs.len() > 1 {
        let error = Diagnostic::error("`--output` takes the strategies of one instance");
        return Err(Failure::new(None, error.help("run each instance by itself")));
    }
    args.inputs.iter().try_for_each(|input| one(args, input, io))
}

fn one(args: &ChooseArgs, input: &Path, io: &mut Io) -> Result<(), Failure> {
    let text = match input == Path::new("-") {
        true => files::text(files::read_from(&mut *io.stdin, STDIN, MAX_BYTES)?, STDIN, MAX_BYTES)?,
        false => files::read(input, MAX_BYTES)?,
    };
    let before = cpu_secs();
    let (name, mut problem) = match instance::read(&text) {
        Ok(found) => found,
        Err(error) => {
            return Err(Failure::new(Some(Source { name: input.display().to_string(), text }), error));
        }
    };
    drop(text);
    if args.unlimited {
        problem.memory_limit = None;
    }
    (io.progress)(&format!("choosing strategies of {name}"));
    let found = choose(&problem, &Limits::default());
    (io.progress)("");
    let choice = found.as_ref().ok();
    let line = Line {
        instance: &name,
        feasible: choice.is_some(),
        cost: choice.map(|choice| choice.cost),
        lower_bound: choice.map(|choice| choice.lower_bound),
        gap: choice.map(Choice::gap),
        peak_usage: match &found {
            Ok(choice) => choice.memory,
            Err(infeasible) => infeasible.least_memory,
        },
        cpu_secs: cpu_secs() - before,
    };
    if let (Some(path), Some(choice)) = (&args.output, choice) {
        let text = serde_json::to_string(&choice.option).expect("a list of numbers is JSON");
        deliver(Some(path), &format!("{text}\n"), io)?;
    }
    deliver(None, &text_of(&line, args.json), io)
}

fn text_of(line: &Line, is_json: bool) -> String {
    if is_json {
        return format!("{}\n", serde_json::to_string(line).expect("names and numbers are JSON"));
    }
    let name = line.instance;
    match (line.cost, line.lower_bound, line.gap) {
        (Some(cost), Some(bound), Some(gap)) => format!(
            "{name}: cost {cost}, at least {bound:.0}, gap {:.3} %, peak usage {}, {:.1} CPU s\n",
            100.0 * gap,
            line.peak_usage,
            line.cpu_secs
        ),
        _ => format!(
            "{name}: no choice found; {} bytes at least, {:.1} CPU s\n",
            line.peak_usage, line.cpu_secs
        ),
    }
}

/// Seconds of processor time that this process has taken, all threads together.
fn cpu_secs() -> f64 {
    // Fields 14 and 15 of /proc/self/stat, in ticks of 10 ms; 0 where there is no such file.
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
