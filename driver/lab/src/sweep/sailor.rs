//! `phzc sweep --cost sailor`: the fastest plan on a fixed number of devices by Sailor's cost model, from its
//! measured layers and links (docs/sweep.md).

mod file;
mod labels;
mod search;
mod sized;

use super::SweepArgs;
use phzc_cost::sailor::{Cost, Part, Plan, Request};
use phzc_io::render::Source;
use phzc_io::units::secs;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::Diagnostic;
use serde::Serialize;

/// A plan as it is written down.
#[derive(Serialize)]
struct Told {
    step_secs: f64,
    /// Seconds that no plan of those that are searched beats.
    bound_secs: f64,
    usd: f64,
    copies: usize,
    micro_batch: usize,
    stages: Vec<ToldStage>,
}

/// A stage: its layers, and the copies on each kind of device with the devices of one.
#[derive(Serialize)]
struct ToldStage {
    layers: usize,
    copies: Vec<(String, usize, usize)>,
}

/// Does what the command line says.
pub(super) fn run(args: &SweepArgs, io: &mut Io) -> Result<(), Failure> {
    let text = files::read(&args.fleet, files::MAX_CLUSTER_BYTES)?;
    let source = || Some(Source { name: args.fleet.display().to_string(), text: text.clone() });
    let is_sweep =
        args.output.is_some() || args.part.is_some() || args.html.is_some() || !args.merge.is_empty();
    if is_sweep || !["time", "pareto"].contains(&args.objective.as_str()) {
        let error = Diagnostic::error("`--cost sailor` plans one request for time");
        return Err(error
            .help("leave out `-o`, `--part`, `--merge`, `--html`, `--objective`; `--max-price` is fine")
            .into());
    }
    let folder = args.fleet.parent().unwrap_or(std::path::Path::new("."));
    let request = file::parse(&text, folder).map_err(|error| Failure::new(source(), error))?;
    let found = search::best(&request, args.max_price);
    let is_late = |cost: &Cost| args.max_time.is_some_and(|most| cost.step_secs > most);
    let Some((plan, cost)) = found.plan.filter(|(_, cost)| !is_late(cost)) else {
        let error = Diagnostic::error("no plan fits within these limits");
        return Err(error.help("allow more devices, time or money").into());
    };
    let told = told(&request, &plan, cost, found.bound_secs);
    let text = if args.json {
        serde_json::to_string(&told).expect("its numbers are finite") + "\n"
    } else {
        shown(&told)
    };
    write_stdout(io, &text)
}

fn told(request: &Request, plan: &Plan, cost: Cost, bound_secs: f64) -> Told {
    let of = |part: &Part| (request.kinds[part.kind].device.clone(), part.copies, part.tensor);
    let stages = plan
        .stages
        .iter()
        .map(|stage| ToldStage { layers: stage.n_layers, copies: stage.parts.iter().map(of).collect() });
    let copies = plan.stages.first().map_or(0, |stage| stage.parts.iter().map(|part| part.copies).sum());
    let micro_batch = plan.micro_batch;
    let stages = stages.collect();
    Told { step_secs: cost.step_secs, bound_secs, usd: cost.usd, copies, micro_batch, stages }
}

/// A line for the step, and one per stage.
fn shown(told: &Told) -> String {
    let gap = 100.0 * (told.step_secs - told.bound_secs) / told.step_secs;
    let mut text = format!(
        "step {}, {:.4} USD, gap {gap:.2} %: {} copies, microbatches of {}\n",
        secs(told.step_secs),
        told.usd,
        told.copies,
        told.micro_batch
    );
    for (index, stage) in told.stages.iter().enumerate() {
        let copy =
            |(device, copies, tensor): &(String, usize, usize)| format!("{copies} x {tensor} {device}");
        let copies: Vec<String> = stage.copies.iter().map(copy).collect();
        text += &format!("  stage {index}: {:2} layers on {}\n", stage.layers, copies.join(" + "));
    }
    text
}
