//! `--explain stages`: the best plan of every number of stages, and what makes another number the best.

use super::flip::{self, Cost};
use crate::compare::most_bytes;
use crate::summary::table;
use phzc_io::units::{bytes, percent, secs};
use phzc_ir::counted;
use phzc_passes::alternative::Alternative;
use phzc_passes::report::Plan;

/// Plans that the search is asked to keep for it.
pub(crate) const N_KEPT: u32 = 16;

/// The best plan of each number of stages that the search has kept, the chosen one first; then at what speed
/// of communication and what memory another one is taken, where that is known.
pub(crate) fn text(all: &[Alternative]) -> String {
    let mut best: Vec<&Alternative> = Vec::new();
    for one in all {
        if best.iter().all(|other| other.plan.stages.len() != one.plan.stages.len()) {
            best.push(one);
        }
    }
    let Some(chosen) = best.first().map(|it| &it.plan) else {
        return "why so many stages: the search has kept no plan\n".to_owned();
    };
    let n_stages = counted(chosen.stages.len(), "stage");
    if best.len() == 1 {
        return format!(
            "why {n_stages}: of {} kept no other number has a plan that fits\n",
            counted(all.len(), "plan")
        );
    }
    let header = [
        "stages",
        "microbatches",
        "schedule",
        "time",
        "more",
        "communication",
        "waiting",
        "memory",
        "place{\u{2026}}",
    ];
    let rows = best.iter().map(|it| row(it, chosen)).collect();
    let shown = table(&header, [0, 1, 3, 4, 5, 6, 7], rows);
    let flips: String = best[1..].iter().filter_map(|it| speed(chosen, &it.plan)).collect();
    format!(
        "why {n_stages}: the best plan of each number of stages\n\n{shown}{flips}{}",
        memory(chosen, &best[1..])
    )
}

fn row(it: &Alternative, chosen: &Plan) -> Vec<String> {
    let plan = &it.plan;
    vec![
        plan.stages.len().to_string(),
        plan.n_microbatches.to_string(),
        if plan.stages.len() > 1 { plan.schedule.clone() } else { "-".to_owned() },
        secs(plan.time_secs),
        percent(plan.time_secs / chosen.time_secs - 1.0),
        secs(plan.breakdown.collective_secs),
        secs(plan.breakdown.bubble_secs),
        bytes(most_bytes(plan)),
        it.options.clone(),
    ]
}

/// When another plan is as fast, by what the busiest devices of both do.
fn speed(chosen: &Plan, other: &Plan) -> Option<String> {
    let cost = |plan: &Plan| Cost { all_secs: plan.time_secs, moved_secs: plan.breakdown.collective_secs };
    let factor = flip::speed(cost(chosen), cost(other))?;
    let n_stages = counted(other.stages.len(), "stage");
    Some(format!("{n_stages}: as fast {}, if nothing else changes\n", flip::text(factor)))
}

/// Below which memory the chosen plan no longer fits while another one does.
fn memory(chosen: &Plan, others: &[&Alternative]) -> String {
    let needs = most_bytes(chosen);
    let Some(other) = others.iter().find(|it| most_bytes(&it.plan) < needs) else { return String::new() };
    format!(
        "{}: the fastest of these where less than {} of a device can be used, and {} at least\n",
        counted(other.plan.stages.len(), "stage"),
        bytes(needs),
        bytes(most_bytes(&other.plan))
    )
}
