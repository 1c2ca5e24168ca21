//! `phzc phaze-plan`: places a chain of layers on devices as Phaze's solver does, from its JSON to its JSON.
//!
//! See docs/phaze-plan.md.

mod locate;

use phzc_cost::phaze::read::InstanceText;
use phzc_cost::phaze::{Instance, Plan};
use phzc_io::render::Source;
use phzc_io::{Failure, Io, deliver, files, json};
use phzc_ir::{Diagnostic, Result, counted};
use phzc_solver::chain::phaze::best;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// No problem is larger.
const MAX_BYTES: u64 = 256 << 20;

/// The arguments of `phzc phaze-plan`.
#[derive(Debug, clap::Args)]
pub struct PhazePlanArgs {
    /// The problem: the JSON that Phaze's solver hands to its device placement; `-` is standard input
    #[arg(value_name = "INPUT")]
    pub input: PathBuf,

    /// File for the plan's JSON [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The plan as Phaze writes it: keys in the alphabet's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanText {
    data_parallel_degree: usize,
    final_time_per_batch: f64,
    fixed_strategy_time_per_batch: Option<f64>,
    stages: Vec<StageText>,
    tensor_parallel_degree: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StageText {
    devices_for_stage: usize,
    nodes: Vec<i64>,
}

/// Does what the command line says.
pub fn run(args: &PhazePlanArgs, io: &mut Io) -> std::result::Result<(), Failure> {
    let text = read(&args.input, io)?;
    let result = parse(&text).and_then(|instance| {
        let found = best(&instance).ok_or_else(|| nothing_fits(&instance))?;
        Ok((instance, found))
    });
    let (instance, (plan, secs)) = match result {
        Ok(found) => found,
        Err(error) => {
            let name = args.input.display().to_string();
            return Err(Failure::new(Some(Source { name, text }), error));
        }
    };
    // Nothing is left to be done when stderr does not take the summary.
    let _ = io.stderr.write_all(summary(&instance, &plan, secs).as_bytes());
    deliver(args.output.as_deref(), &text_of(&instance, &plan, secs), io)
}

fn read(path: &Path, io: &mut Io) -> Result<String> {
    match path == Path::new("-") {
        true => {
            let name = "standard input";
            files::text(files::read_from(&mut *io.stdin, name, MAX_BYTES)?, name, MAX_BYTES)
        }
        false => files::read(path, MAX_BYTES),
    }
}

fn parse(text: &str) -> Result<Instance> {
    let help = "docs/phaze-plan.md lists the keys; numbers are finite, times and sizes at least 0";
    let input: InstanceText = json::read(text, "the problem", help)?;
    input.instance().map_err(|misfit| {
        let error = misfit.error;
        match locate::span(text, &misfit.path) {
            Some(span) => error.at(span),
            None => error,
        }
    })
}

/// Why there is no plan: a layer that fits nowhere, or the pipeline that the others need.
fn nothing_fits(instance: &Instance) -> Diagnostic {
    let help = "give more memory or devices, a wider tensor-parallel split, or smaller microbatches";
    let n_layers = instance.chains[0].layers.len();
    let fits = |at: usize| {
        let mut costs = instance.chains.iter().map(|chain| instance.stage(chain, at..at + 1));
        costs.any(|cost| cost.max_stages > 0 && cost.n_devices <= instance.n_devices)
    };
    let devices = counted(instance.n_devices, "device");
    let message = match (0..n_layers).find(|&at| !fits(at)) {
        Some(at) => format!(
            "no plan fits: layer {} alone needs more than {} bytes of memory or more than {devices}",
            instance.chains[0].layers[at].id, instance.memory_bytes
        ),
        None => format!("no split into stages fits on {devices} of {} bytes", instance.memory_bytes),
    };
    Diagnostic::error(message).help(help)
}

fn summary(instance: &Instance, plan: &Plan, secs: f64) -> String {
    let per_pipeline: usize = plan.stages.iter().map(|stage| stage.n_devices).sum();
    let expert = match (instance.expert, instance.expert_secs()) {
        (None, _) => "none is given".to_owned(),
        (Some(_), None) => "does not fit".to_owned(),
        (Some(_), Some(secs)) => format!("{secs:.6} s"),
    };
    format!(
        "step {secs:.6} s (expert plan: {expert}): {} of {} at width {}, {} of {} devices\n",
        counted(plan.data_parallel, "pipeline"),
        counted(plan.stages.len(), "stage"),
        instance.chains[plan.chain].width,
        per_pipeline * plan.data_parallel,
        instance.n_devices
    )
}

fn text_of(instance: &Instance, plan: &Plan, secs: f64) -> String {
    let chain = &instance.chains[plan.chain];
    let stages = plan.stages.iter().map(|stage| StageText {
        devices_for_stage: stage.n_devices,
        nodes: chain.layers[stage.layers.clone()].iter().map(|layer| layer.id).collect(),
    });
    let plan = PlanText {
        data_parallel_degree: plan.data_parallel,
        final_time_per_batch: secs,
        fixed_strategy_time_per_batch: instance.expert_secs(),
        stages: stages.collect(),
        tensor_parallel_degree: chain.width,
    };
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    plan.serialize(&mut serializer).expect("numbers and lists are JSON");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}
