//! Plans in a few lines each, and what distinguishes them.

use phzc_cost::aceso::{Machine, PipelinePlan, StageChoice};
use phzc_io::Failure;
use phzc_ir::Diagnostic;
use phzc_solver::chain::profiled::Found;

/// All plans, the best first.
pub(super) fn plans(machine: &Machine, found: &[Found]) -> Result<String, Failure> {
    let mut text = String::new();
    for (at, own) in found.iter().enumerate() {
        if found.len() > 1 {
            text += &format!("{}plan {} of {}", if at > 0 { "\n" } else { "" }, at + 1, found.len());
            text += &match at {
                0 => "\n".to_owned(),
                _ => format!(": {}\n", differences(&found[0].plan, &own.plan)),
            };
        }
        text += &summary(machine, &own.plan, Some(own))?;
    }
    Ok(text)
}

/// A plan in a few lines.
pub(super) fn summary(
    machine: &Machine,
    plan: &PipelinePlan,
    found: Option<&Found>,
) -> Result<String, Failure> {
    let Some(cost) = machine.price(plan) else {
        return Err(Diagnostic::error("the plan splits an operator in a way that was not measured").into());
    };
    let mut text = format!("step {:.3} ms, memory {:.1} of {} MiB", cost.ms, cost.mib, machine.limit_mib);
    if cost.mib > machine.limit_mib {
        text += ", does not fit";
    }
    if let Some(found) = found {
        let gap = 100.0 * (1.0 - found.bound_ms / cost.ms).max(0.0);
        let stop = if found.is_limited { ", stop=limit" } else { "" };
        text += &format!(", at least {:.3} ms (gap {gap:.2} %{stop})", found.bound_ms);
        text += if found.is_alike { ", operators of a stage of the same degrees" } else { "" };
    }
    text += &format!("\nmicrobatch {}, {} stages", plan.microbatch, plan.stages.len());
    if machine.own.is_some() {
        text += &own_terms(machine, plan);
    }
    text += "\nstage  devices  operators        tensor x data    recomputed  ms/microbatch     MiB\n";
    let stages = (0..plan.stages.len()).map(|stage| row(machine, plan, stage));
    text.extend(stages);
    Ok(text)
}

/// What the own cost adds: the schedule, ZeRO, the replay, and what happens once a step.
fn own_terms(machine: &Machine, plan: &PipelinePlan) -> String {
    let zero = listed(plan, |stage| format!("{}", stage.ops[0].zero));
    let added = (0..plan.stages.len()).filter_map(|stage| machine.added_ms(plan, stage)).fold(0.0, f64::max);
    let replayed_ms = machine.replayed_ms(plan).unwrap_or_default();
    format!(
        ", {}, ZeRO {zero}; {replayed_ms:.3} ms replayed; gradients and optimizer up to {added:.3} ms a step",
        plan.schedule
    )
}

fn row(machine: &Machine, plan: &PipelinePlan, at: usize) -> String {
    let stage = &plan.stages[at];
    let own = machine.price_stage(plan, at).unwrap_or_default();
    let range = format!("{}..{}", stage.start, stage.start + stage.ops.len());
    let n_recomputed = n_recomputed(stage);
    let (degrees, n) = (degrees(stage), stage.n_devices);
    format!("{at:5} {n:8}  {range:<15}  {degrees:<15} {n_recomputed:11} {:14.3} {:7.0}\n", own.ms, own.mib)
}

fn n_recomputed(stage: &StageChoice) -> usize {
    stage.ops.iter().filter(|op| op.recompute).count()
}

/// Tensor- and data-parallel degrees in turn.
fn degrees(stage: &StageChoice) -> String {
    let mut all: Vec<String> = stage.ops.iter().map(|op| format!("{}x{}", op.tensor, op.data)).collect();
    all.dedup();
    all.join(" ")
}

/// A property of all stages: once if they agree.
fn listed(plan: &PipelinePlan, value: impl Fn(&StageChoice) -> String) -> String {
    let mut all: Vec<String> = plan.stages.iter().map(value).collect();
    if all.iter().all(|own| *own == all[0]) {
        all.truncate(1);
    }
    all.join(",")
}

/// The first operators of all stages but the first.
fn cuts(plan: &PipelinePlan) -> String {
    let starts: Vec<String> = plan.stages.iter().skip(1).map(|stage| stage.start.to_string()).collect();
    if starts.is_empty() { "nowhere".to_owned() } else { starts.join(",") }
}

/// What distinguishes a plan from the first one.
fn differences(first: &PipelinePlan, other: &PipelinePlan) -> String {
    type Property = (&'static str, fn(&PipelinePlan) -> String);
    let properties: [Property; 8] = [
        ("stages", |plan| plan.stages.len().to_string()),
        ("devices", |plan| listed(plan, |stage| stage.n_devices.to_string())),
        ("microbatch", |plan| plan.microbatch.to_string()),
        ("schedule", |plan| plan.schedule.to_string()),
        ("tensor x data", |plan| listed(plan, degrees)),
        ("ZeRO", |plan| listed(plan, |stage| stage.ops[0].zero.to_string())),
        ("recomputed operators", |plan| plan.stages.iter().map(n_recomputed).sum::<usize>().to_string()),
        ("cut before", cuts),
    ];
    let differs = properties.iter().filter_map(|(name, value)| {
        let (own, of_first) = (value(other), value(first));
        (own != of_first).then(|| format!("{name} {own} (first: {of_first})"))
    });
    differs.collect::<Vec<_>>().join("; ")
}
