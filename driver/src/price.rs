//! `phzc price`: what a program takes in the degrees that a training stack's command line asks for.
//!
//! The degrees become a mesh, layouts of data, weights and sums on it, and a cut between layers; what they
//! leave open the planner chooses. Layouts are chosen on the devices of one stage, for the whole program, as
//! if these had the memory of all stages.

mod arguments;
mod degrees;
mod dims;
mod doubts;
mod planned;
mod shared;
mod target;

use crate::cluster;
use crate::{remarks, summary};
use arguments::Arguments;
use phzc_cost::Cluster;
use phzc_frontends::{Program, ReadArgs, load};
use phzc_io::render::{Source, render};
use phzc_io::{Failure, Io, deliver, files};
use phzc_passes::check::memory::replay;
use phzc_passes::derive::derive;
use phzc_passes::report;
use planned::{Priced, Refused};
use std::path::PathBuf;
use target::Target;

/// The arguments of `phzc price`.
#[derive(Debug, clap::Args)]
pub struct PriceArgs {
    /// Program of a training step, in any format that is read; `-` is standard input
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,

    /// Megatron-LM's arguments, or `@FILE`: a file of them, such as `--emit megatron` writes
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true, required_unless_present = "target")]
    pub megatron: Option<String>,

    /// Search the stack's configurations for the fastest plan that they can say
    #[arg(long, value_name = "STACK", conflicts_with = "megatron")]
    pub target: Option<Target>,

    /// Hardware: `h100-8x64` is 64 nodes of 8, or a file `my.toml` [default: the program's own, else a100-8]
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,

    /// How the program is read
    #[command(flatten)]
    pub read: ReadArgs,

    /// File for the planned program
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// File for the plan's figures as JSON (docs/plan-schema.md)
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
}

/// Does what the command line says.
pub(crate) fn run(args: &PriceArgs, io: &mut Io) -> Result<(), Failure> {
    args.output.iter().chain(&args.plan).try_for_each(|path| files::check_parent(path))?;
    let given = args.megatron.as_deref().map(asked).transpose()?;
    let Program { module, source, .. } = load(&args.model, &args.read, io)?;
    let cluster = cluster::choose_equal(args.cluster.as_deref(), &module)?;
    let refused = |error, given: Option<&Source>| match (error, given) {
        (Refused::Arguments(error), Some(given)) => wrong(given, error),
        (Refused::Arguments(error), None) => error.into(),
        (Refused::Program(errors), _) => Failure { code: 1, source: Some(source), errors },
    };
    let target = args.target.unwrap_or(Target::Megatron);
    let Some((given, asked)) = given else {
        let search = target::Search::new(target, &module, &cluster, io).and_then(target::Search::fastest);
        let (found, n_priced) = search.map_err(|error| refused(error, None))?;
        let text = target::text(target, (&found, n_priced), &module, &cluster, io);
        return write(args, &found.priced, &text, &cluster, io);
    };
    let priced = planned::planned(module, &asked, &cluster, io);
    let priced = priced.map_err(|error| refused(error, Some(&given)))?;
    write(args, &priced, &asked.remarks(), &cluster, io)
}

/// Writes what was planned, and the summary with further lines.
fn write(
    args: &PriceArgs,
    priced: &Priced,
    more: &str,
    cluster: &Cluster,
    io: &mut Io,
) -> Result<(), Failure> {
    (io.progress)("");
    let facts = derive(&priced.module)?;
    let mut plan = report::plan_of(&priced.module, &facts, cluster);
    // The report's peak may be above what is needed, and a cut that is given may need all there is.
    let peaks = replay(&priced.module, &facts, cluster);
    for (index, stage) in plan.stages.iter_mut().enumerate() {
        stage.memory_bytes = stage.memory_bytes.min(peaks[facts.header.group(index)].peak_bytes);
    }
    let _ = io.stderr.write_all(render(None, &priced.said, io.color).as_bytes());
    if let Some(path) = &args.output {
        deliver(Some(path), &remarks::with_facts(&priced.module, &facts, cluster), io)?;
    }
    args.plan.iter().try_for_each(|path| files::write(path, &report::to_json(&plan)))?;
    phzc_io::write_stdout(io, &(summary::plan(&plan, "") + more))
}

/// What is asked for, and its text.
fn asked(text: &str) -> Result<(Source, Arguments), Failure> {
    let given = source(text)?;
    let asked = Arguments::parse(&given.text).map_err(|error| wrong(&given, error))?;
    Ok((given, asked))
}

/// The arguments, or what a file has of them.
fn source(text: &str) -> Result<Source, Failure> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(Source { name: "--megatron".to_owned(), text: text.to_owned() });
    };
    let text = files::read(std::path::Path::new(path), arguments::MAX_BYTES)?;
    Ok(Source { name: path.to_owned(), text: arguments::of_script(&text) })
}

fn wrong(given: &Source, error: phzc_ir::Diagnostic) -> Failure {
    let source = Source { name: given.name.clone(), text: given.text.clone() };
    Failure { code: 2, source: Some(source), errors: vec![error] }
}
