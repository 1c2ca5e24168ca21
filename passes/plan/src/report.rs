//! The result as figures: `plan.json`, and what the terminal's table is made of (schema:
//! docs/plan-schema.md).
//!
//! All times come from [`crate::derive`]'s facts and [`crate::pricing`]'s formulas; the planner's own claims
//! (`planned_secs`, `lower_bound_secs`, `gap`, `stop`) are passed on from the header's note. With `M`
//! microbatches an op on data runs `M` times on an `M`-th of the batch, a sum over microbatches once per step
//! ([`crate::derive::Nature`]).

mod asked;
mod breakdown;
mod costs;
mod crossings;
mod device;
mod json;
mod kernels;
mod ledger;
mod ops;
mod overlap;
mod parallelism;
pub mod price;
mod recompute;
mod reordered;
mod replicas;
mod sends;
mod step;
mod straggler;
mod tensors;
#[cfg(test)]
mod tests;
mod throughput;
mod trace;

pub use asked::{Asked, asked, asked_by};
pub use breakdown::Breakdown;
pub use costs::{Bound, Cost, InstrCosts, costs_of};
pub use crossings::crossings;
pub use device::StageDevice;
pub use json::{from_json, plan_json, to_json};
pub use kernels::{InstrKernel, instr_kernels};
pub use ledger::{Entry, Movement, ledger};
pub use parallelism::{ColumnsRows, Parallelism, SplitValue, Splits, columns_rows, layer_products};
pub use price::products_secs;
pub use recompute::{again, is_renaming};
pub use replicas::{Replica, ReplicaStage, ring_secs, whole_summed_bytes};
pub use step::{Step, StepEvent, TaskKind, When, step};
pub use straggler::Straggling;
pub use throughput::Throughput;
pub use trace::trace;

use crate::derive::{Facts, derive};
use crate::memory::memory_of;
use json::{is_none, is_zero, whole};
use parallelism::labels::Labels;
use phzc_analysis::graph::Graph;
use phzc_cost::{Cluster, Pipeline};
use phzc_ir::{Module, Result, notes};
use price::StagePrice;
use serde::{Deserialize, Serialize};

/// What a plan costs and where it puts things.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of this schema.
    pub schema: u32,
    /// Seconds of one step, by the final text.
    pub time_secs: f64,
    /// The part of them that comes after all microbatches.
    #[serde(skip)]
    pub once_secs: f64,
    /// What is said of slow devices: then `time_secs` is what is to be expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggling: Option<Straggling>,
    /// Seconds of one step, as the planner's model has them.
    pub planned_secs: Option<f64>,
    /// Seconds that no plan can beat, as the planner claims.
    pub lower_bound_secs: Option<f64>,
    /// How far `planned_secs` may be from the best: 0.1 is 10 %.
    pub gap: Option<f64>,
    /// Why the search stopped.
    pub stop: Option<String>,
    /// Devices that the plan uses.
    pub n_devices: usize,
    /// Usable memory of one device.
    #[serde(serialize_with = "whole")]
    pub memory_limit_bytes: f64,
    /// The cluster's name.
    pub cluster: String,
    /// Microbatches of one step.
    pub n_microbatches: usize,
    /// The order in which stages run them: `1f1b`, `gpipe`, `zero-bubble`, `interleaved:2`.
    pub schedule: String,
    /// Collectives that the plan does not mention and a partitioner would insert.
    pub n_implicit_collectives: u64,
    /// Instructions whose layouts the program or a pin has given: no plan is free to choose them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub n_given_layouts: usize,
    /// Seconds of a step as planned without them, where that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_secs: Option<f64>,
    /// Pipeline stages, first to last; of the first replica.
    pub stages: Vec<Stage>,
    /// The replicas of all stages, if there are several: each runs some of the microbatches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
    /// Communication, one entry per kind, axes and stage.
    pub collectives: Vec<CollectiveUse>,
    /// Where the time goes on the slowest stage.
    pub breakdown: Breakdown,
    /// Tokens or samples, and how much of the devices' peak is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// The largest tensors, those of one type and layout together.
    pub tensors: Vec<BigTensor>,
}

/// One pipeline stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// First and last device.
    pub devices: [usize; 2],
    /// The device group that holds it, where groups hold several stages each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    /// Its mesh: `x=2,y=4`; empty for one device.
    pub mesh: String,
    /// Its device, and that one's usable memory, where the cluster has several kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<StageDevice>,
    /// Instructions that it runs.
    pub n_instrs: usize,
    /// Seconds of one microbatch's forward part.
    pub forward_secs: f64,
    /// Seconds of one microbatch's backward part.
    pub backward_secs: f64,
    /// The part of `backward_secs` that does again what the forward part has done.
    pub recompute_secs: f64,
    /// The part of `backward_secs` that no other stage waits for, gradients of weights: a zero-bubble
    /// schedule puts it off.
    pub weight_gradient_secs: f64,
    /// Seconds of what is done once per step: gradients' reductions, the optimizer.
    pub update_secs: f64,
    /// Seconds of one microbatch over the boundary to the next stage, in either direction; none of the last
    /// stage.
    pub send_secs: f64,
    /// Microbatches whose activations it holds at once, by the schedule.
    pub n_in_flight: usize,
    /// Peak bytes on each device, with all stages that it holds.
    #[serde(serialize_with = "whole")]
    pub memory_bytes: f64,
    /// Bytes of parameters among them.
    #[serde(serialize_with = "whole")]
    pub parameter_bytes: f64,
    /// How it is parallel, in people's words; `None` where it has no product of the forward part.
    pub parallelism: Option<Parallelism>,
}

/// All collectives of one kind over the same axes in one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveUse {
    /// HLO's name, or `send` between stages.
    pub kind: String,
    /// Names of the mesh axes.
    pub axes: Vec<String>,
    /// The stage (that sends).
    pub stage: usize,
    /// How often in one step.
    pub count: u64,
    /// Message bytes on one device in one step (NCCL's convention).
    #[serde(serialize_with = "whole")]
    pub bytes: f64,
    /// Seconds in one step.
    pub time_secs: f64,
    /// The part of them that runs beside computation and takes no time: of asynchronous collectives.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden_secs: f64,
}

/// Tensors of one type and layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BigTensor {
    /// The first one's name.
    pub name: String,
    /// Its type: `bf16[1024,4096]`.
    pub shape: String,
    /// The mesh axes on each dimension: `[x,-]`.
    pub layout: String,
    /// Its stage.
    pub stage: usize,
    /// How many there are.
    pub count: usize,
    /// Bytes of one of them on one device.
    #[serde(serialize_with = "whole")]
    pub bytes: f64,
}

/// The figures of a planned module.
///
/// # Errors
/// When the header's notes cannot be read.
pub fn plan(module: &Module, cluster: &Cluster) -> Result<Plan> {
    Ok(plan_of(module, &derive(module)?, cluster))
}

/// The figures of facts that are known already.
pub fn plan_of(module: &Module, facts: &Facts, cluster: &Cluster) -> Plan {
    let mut plan = figures_of(module, facts, cluster);
    // The program of one device has no layouts, and its batch is a part.
    let graph = (!facts.header.is_local).then(|| Graph::build(module));
    let whole = graph.as_ref().map(|graph| (graph, Labels::new(module, graph)));
    let whole = whole.as_ref().map(|(graph, labels)| (*graph, labels));
    if let Some((graph, labels)) = whole {
        parallelism::fill(module, facts, (graph, labels), &mut plan.stages);
    }
    plan.throughput = Some(throughput::throughput(module, facts, cluster, &plan, whole));
    plan
}

/// The same without what only people read: how stages are parallel, what they get done.
pub fn figures_of(module: &Module, facts: &Facts, cluster: &Cluster) -> Plan {
    let first = figures_of_one(module, facts, cluster);
    let all = match facts.header.replicas.is_empty() {
        true => vec![first],
        false => replicas::each(first, module, facts, cluster),
    };
    straggler::expected(replicas::joined(&all, facts), &all)
}

/// Those of the replica that the header is of.
fn figures_of_one(module: &Module, facts: &Facts, cluster: &Cluster) -> Plan {
    let prices = price::stages(module, facts, cluster);
    let sends = sends::sends(module, facts, cluster);
    let header = &facts.header;
    let n_implicit = price::n_implicit(facts);
    let (time_secs, breakdown) = time(facts, &prices, &sends);
    let mut collectives: Vec<CollectiveUse> = prices
        .iter()
        .enumerate()
        .flat_map(|(stage, price)| price.collective_uses(stage, &facts.header.meshes[stage]))
        .collect();
    collectives.extend(sends.uses.iter().cloned());
    Plan {
        schema: 1,
        time_secs,
        once_secs: once_secs(facts, &prices, &sends),
        straggling: straggler::of(facts, &prices, &update_secs(&prices, &sends)),
        planned_secs: header.figure("planned_secs"),
        lower_bound_secs: header.figure("lower_bound_secs"),
        gap: gap(header.figure("planned_secs"), header.figure("lower_bound_secs")),
        stop: header.plan.get("stop").and_then(|stop| stop.as_str()).map(str::to_owned),
        n_devices: header.n_devices(),
        memory_limit_bytes: cluster.accelerator.usable_bytes(),
        cluster: cluster.name.clone(),
        n_microbatches: header.n_microbatches,
        schedule: facts.header.schedule.to_string(),
        n_implicit_collectives: n_implicit,
        n_given_layouts: n_given_layouts(module),
        free_secs: None,
        stages: stages(module, facts, cluster, (&prices, &sends)),
        replicas: Vec::new(),
        collectives,
        breakdown,
        throughput: None,
        tensors: tensors::largest(module, facts),
    }
}

/// The instructions that were sharded before anything was planned.
fn n_given_layouts(module: &Module) -> usize {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    instrs.filter(|instr| instr.note(notes::GIVEN).is_some()).count()
}

/// The planner's plan against the planner's bound: the report's own time is of another model.
fn gap(planned_secs: Option<f64>, lower_bound_secs: Option<f64>) -> Option<f64> {
    let (planned, bound) = (planned_secs?, lower_bound_secs?);
    let gap = (planned - bound) / planned;
    // Rounding, as in the passes: such a plan's `stop` is `optimal`.
    Some(if gap > 1e-9 { gap } else { 0.0 })
}

fn stages(
    module: &Module,
    facts: &Facts,
    cluster: &Cluster,
    (prices, sends): (&[StagePrice], &sends::Sends),
) -> Vec<Stage> {
    let memory = memory_of(module, facts, cluster);
    let again = recompute::secs(module, facts, cluster);
    let header = &facts.header;
    let in_flight = pipeline(facts, prices, sends).in_flight(header.schedule);
    let stage = |(index, price): (usize, &StagePrice)| Stage {
        devices: header.devices(index),
        group: header.interleaving().map(|_| header.group(index)),
        mesh: header.meshes[index].to_string(),
        device: cluster.is_unlike().then(|| StageDevice::of(header.around(cluster, index))),
        n_instrs: price.n_instrs,
        forward_secs: price.forward_secs,
        backward_secs: price.backward_secs,
        recompute_secs: again[index].min(price.backward_secs),
        weight_gradient_secs: price.weight_secs.min(price.backward_secs),
        update_secs: price.update_secs + sends.over_replicas.secs[index],
        send_secs: sends.boundary_secs.get(index).copied().unwrap_or(0.0),
        n_in_flight: in_flight[index],
        memory_bytes: memory.stages[index].peak_bytes,
        parameter_bytes: memory.stages[index].parameter_bytes,
        parallelism: None,
    };
    prices.iter().enumerate().map(stage).collect()
}

/// The times of one microbatch on each stage and between stages.
pub fn pipeline_of(module: &Module, facts: &Facts, cluster: &Cluster) -> Pipeline {
    let prices = price::stages(module, facts, cluster);
    pipeline(facts, &prices, &sends::sends(module, facts, cluster))
}

/// The same of what is priced already.
fn pipeline(facts: &Facts, prices: &[StagePrice], sends: &sends::Sends) -> Pipeline {
    Pipeline {
        forward_secs: prices.iter().map(|price| price.forward_secs).collect(),
        backward_secs: prices.iter().map(|price| price.backward_secs).collect(),
        weight_secs: prices.iter().map(|price| price.weight_secs.min(price.backward_secs)).collect(),
        send_secs: sends.boundary_secs.clone(),
        n_microbatches: facts.header.n_own_microbatches(),
    }
}

/// Per stage, the seconds of what is done once per step: the update, and what it sends once.
fn update_secs(prices: &[StagePrice], sends: &sends::Sends) -> Vec<f64> {
    let once = sends.once_secs.iter().chain(&[0.0]);
    let all = prices.iter().zip(once).zip(&sends.over_replicas.secs);
    all.map(|((price, send), sum)| price.update_secs + send + sum).collect()
}

/// Seconds of what is done once per step, on the device group that takes longest for it.
fn once_secs(facts: &Facts, prices: &[StagePrice], sends: &sends::Sends) -> f64 {
    of_groups(facts, &update_secs(prices, sends)).into_iter().fold(0.0, f64::max)
}

/// Per device group: the sum of its stages' figures.
fn of_groups(facts: &Facts, of_stages: &[f64]) -> Vec<f64> {
    let sum = |group| facts.header.stages_of(group).map(|stage| of_stages[stage]).sum();
    (0..facts.header.n_groups()).map(sum).collect()
}

/// Seconds of a step, and where they go on the device group that is busy longest.
fn time(facts: &Facts, prices: &[StagePrice], sends: &sends::Sends) -> (f64, Breakdown) {
    let (pipeline, n_times) = (pipeline(facts, prices, sends), facts.header.n_own_microbatches() as f64);
    let time_secs = pipeline.step_secs(facts.header.schedule) + once_secs(facts, prices, sends);
    let busy: Vec<f64> = pipeline.stage_secs().iter().map(|secs| secs * n_times).collect();
    let busy = of_groups(facts, &busy);
    let slowest = (0..busy.len()).max_by(|&a, &b| busy[a].total_cmp(&busy[b]).then(b.cmp(&a))).unwrap_or(0);
    let (mut parts, mut send_secs) = (Breakdown::default(), 0.0);
    for stage in facts.header.stages_of(slowest) {
        parts.add(&prices[stage].breakdown);
        parts.collective_secs += sends.over_replicas.secs[stage];
        send_secs += 2.0 * n_times * sends.boundary_secs.get(stage).copied().unwrap_or(0.0);
    }
    let sum = parts.compute_secs + parts.memory_bound_secs + parts.collective_secs;
    let idle_secs = if prices.len() > 1 { (time_secs - sum).max(0.0) } else { 0.0 };
    // Sends that run beside computing take no time.
    let send_secs = send_secs.min(idle_secs);
    parts.collective_secs += send_secs;
    parts.bubble_secs = idle_secs - send_secs;
    (time_secs, parts)
}
