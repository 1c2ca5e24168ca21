//! The plan as Aceso's runtime reads it (`reference/aceso.md`, section 10), written and read back.

use super::ProfilePlanArgs;
use super::models::{Family, Published};
use phzc_cost::aceso::{MAX_ZERO, Machine, OpChoice, PipelinePlan, PlanSchedule, StageChoice};
use phzc_io::Failure;
use phzc_io::files;
use phzc_io::render::Source;
use phzc_ir::{Diagnostic, Result, Span};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// No plan is larger.
const MAX_BYTES: u64 = 256 << 20;

/// What of a plan decides its cost.
#[derive(Deserialize)]
struct PlanJson {
    micro_batch_size: u32,
    num_gpus: Vec<usize>,
    model_parallel_size_of_each_op: Vec<Vec<u32>>,
    data_parallel_size_of_each_op: Vec<Vec<u32>>,
    recompute_ops: Vec<Vec<u32>>,
    algo_of_each_op: Vec<Vec<u32>>,
    /// Aceso's plans have neither.
    schedule: Option<String>,
    zero_of_each_op: Option<Vec<Vec<u32>>>,
}

/// The plan as text.
pub(crate) fn write(
    args: &ProfilePlanArgs,
    published: Option<&Published>,
    machine: &Machine,
    plan: &PipelinePlan,
) -> String {
    let mut text = Map::new();
    let mut set = |key: &str, value: Value| text.insert(key.to_owned(), value);
    let stages = &plan.stages;
    set("model_name", json!(args.model));
    set("model_size", json!(args.size));
    let n_layers = args.layers.or(published.and_then(|it| it.n_layers));
    n_layers.and_then(|n_layers| set("num_layers", json!(n_layers)));
    for (key, value) in published.map_or(&[][..], |it| it.shape) {
        set(key, json!(value));
    }
    set("global_batch_size", json!(machine.global_batch));
    set("micro_batch_size", json!(plan.microbatch));
    set("num_stages", json!(stages.len()));
    set("num_gpus", stages.iter().map(|it| it.n_devices).collect());
    set("checkpoint_activations", stages.iter().map(|it| it.ops.iter().any(|op| op.recompute)).collect());
    set("resharding_stages", stages.iter().map(is_mixed).collect());
    set("num_ops_in_each_stage", stages.iter().map(|it| it.ops.len()).collect());
    set("model_parallel_size_of_each_op", of_ops(stages, |op| op.tensor));
    set("data_parallel_size_of_each_op", of_ops(stages, |op| op.data));
    set("recompute_ops", of_ops(stages, |op| u32::from(op.recompute)));
    set("algo_of_each_op", of_ops(stages, |op| op.algo));
    if machine.own.is_some() {
        set("schedule", json!(plan.schedule.to_string()));
        set("zero_of_each_op", of_ops(stages, |op| op.zero));
    }
    format!("{:#}\n", Value::Object(text))
}

/// A number per operator, stage by stage.
fn of_ops(stages: &[StageChoice], value: fn(&OpChoice) -> u32) -> Value {
    stages.iter().map(|stage| stage.ops.iter().map(value).collect::<Value>()).collect()
}

/// Whether a stage's operators are split in more than one way.
fn is_mixed(stage: &StageChoice) -> bool {
    let split = |op: &OpChoice| (op.tensor, op.data, op.algo);
    stage.ops.windows(2).any(|pair| split(&pair[0]) != split(&pair[1]))
}

/// Reads a plan for a model.
pub(crate) fn read(
    path: &Path,
    machine: &Machine,
    family: Option<&Family>,
) -> std::result::Result<PipelinePlan, Failure> {
    let text = files::read(path, MAX_BYTES)?;
    let has_layouts = family.is_some_and(|it| it.has_layouts);
    let plan = parse(&text)
        .and_then(|plan| checked(plan, machine))
        .and_then(|plan| if has_layouts { Ok(plan) } else { unmixed(plan) });
    plan.map_err(|error| Failure::new(Some(Source { name: path.display().to_string(), text }), error))
}

fn parse(text: &str) -> Result<PlanJson> {
    serde_json::from_str(text).map_err(|error| {
        let lines: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = (lines + error.column().saturating_sub(1)).min(text.len());
        Diagnostic::error(format!("the plan cannot be read: {error}"))
            .at(Span::new(at, (at + 1).min(text.len().max(at))))
            .help("it is the JSON that Aceso's search writes")
    })
}

fn checked(plan: PlanJson, machine: &Machine) -> Result<PipelinePlan> {
    let lists =
        [&plan.model_parallel_size_of_each_op, &plan.data_parallel_size_of_each_op, &plan.recompute_ops];
    let lengths = |of: &[Vec<u32>]| of.iter().map(Vec::len).collect::<Vec<_>>();
    let own = lengths(&plan.algo_of_each_op);
    if lists.iter().any(|list| lengths(list) != own) || plan.num_gpus.len() != own.len() || own.contains(&0) {
        return Err(Diagnostic::error(
            "the plan's lists of operators are not of one length, or a stage has none",
        ));
    }
    if !(1..=machine.global_batch).contains(&plan.micro_batch_size) {
        let message = format!(
            "{} samples of a microbatch, of {} of a step",
            plan.micro_batch_size, machine.global_batch
        );
        return Err(Diagnostic::error(message).help("give --global-batch as in the plan"));
    }
    for (stage, &n_devices) in plan.num_gpus.iter().enumerate() {
        let degrees =
            plan.model_parallel_size_of_each_op[stage].iter().zip(&plan.data_parallel_size_of_each_op[stage]);
        if degrees.map(|(&tensor, &data)| u64::from(tensor) * u64::from(data)).any(|n| n != n_devices as u64)
        {
            return Err(Diagnostic::error(format!(
                "an operator of stage {stage} is not split over its {n_devices} devices"
            )));
        }
    }
    let (schedule, zero) = own_choices(&plan, machine, &own)?;
    let n_ops: usize = own.iter().sum();
    if n_ops != machine.chain.len() {
        let message = format!("the plan has {n_ops} operators, the model {}", machine.chain.len());
        return Err(Diagnostic::error(message).help("give --layers as in the plan"));
    }
    let mut start = 0;
    let stages = (0..own.len()).map(|stage| {
        let op = |at: usize| OpChoice {
            tensor: plan.model_parallel_size_of_each_op[stage][at],
            data: plan.data_parallel_size_of_each_op[stage][at],
            algo: plan.algo_of_each_op[stage][at],
            recompute: plan.recompute_ops[stage][at] > 0,
            zero: zero.get(stage).map_or(0, |zero| zero[at]),
        };
        start += own[stage];
        let ops = (0..own[stage]).map(op).collect();
        StageChoice { start: start - own[stage], n_devices: plan.num_gpus[stage], ops }
    });
    Ok(PipelinePlan { microbatch: plan.micro_batch_size, schedule, stages: stages.collect() })
}

/// The plan if no stage changes its degrees: what that takes is not known for its model.
fn unmixed(plan: PipelinePlan) -> Result<PipelinePlan> {
    let changes = |stage: &StageChoice| {
        stage.ops.windows(2).any(|pair| (pair[0].tensor, pair[0].data) != (pair[1].tensor, pair[1].data))
    };
    match plan.stages.iter().position(changes) {
        Some(stage) => {
            Err(Diagnostic::error(format!("operators of stage {stage} are split in different ways"))
                .help("what changes of layout inside a stage take is known for gpt and resnet only"))
        }
        None => Ok(plan),
    }
}

/// Per stage and operator: its ZeRO stage.
type Zero = Vec<Vec<u32>>;

/// What only the own cost knows of a plan, the lengths of its lists of operators given.
fn own_choices(plan: &PlanJson, machine: &Machine, lengths: &[usize]) -> Result<(PlanSchedule, Zero)> {
    let schedule: PlanSchedule = plan.schedule.as_deref().map_or(Ok(PlanSchedule::default()), str::parse)?;
    let zero = plan.zero_of_each_op.clone().unwrap_or_default();
    let is_new = schedule != PlanSchedule::default() || zero.iter().flatten().any(|&zero| zero > 0);
    if is_new && machine.own.is_none() {
        let message = "the plan has a schedule or shared state that Aceso's cost does not know";
        return Err(Diagnostic::error(message).help("give --cost own"));
    }
    let is_one_length = zero.iter().map(Vec::len).eq(lengths.iter().copied());
    if !zero.is_empty() && (!is_one_length || zero.iter().flatten().any(|&zero| zero > MAX_ZERO)) {
        let message = "`zero_of_each_op` has another length than the other lists, or a stage above 3";
        return Err(Diagnostic::error(message));
    }
    let groups = &plan.num_gpus;
    let n_groups = groups.len() / schedule.n_chunks();
    let repeats = n_groups > 0
        && groups.len().is_multiple_of(schedule.n_chunks())
        && groups.iter().enumerate().all(|(at, &n)| n == groups[at % n_groups]);
    if !repeats {
        let message = format!("{} stages on {groups:?} devices are not {schedule}", groups.len());
        return Err(
            Diagnostic::error(message).help("every device of an interleaved pipeline has as many stages")
        );
    }
    Ok((schedule, zero))
}
