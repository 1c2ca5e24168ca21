//! `--explain stages`: the best plan of every number of stages, and what makes another number the best.

use super::flip::{self, Cost};
use crate::compare::most_bytes;
use crate::summary::table;
use phzc_cost::Schedule;
use phzc_io::units::{bytes, percent, secs};
use phzc_ir::counted;
use phzc_passes::alternative::{Known, StageCount};
use phzc_passes::report::Plan;

/// The best plan that the search has come by with each number of stages, the chosen one first, and what is
/// known of numbers without one; then at what speed of communication and what memory another one is taken.
/// `asked` is what the option `stages` says, 0 for any number.
pub(crate) fn text(chosen: &Plan, counts: &[StageCount], asked: i64) -> String {
    let title = format!("why {}: {}\n", counted(chosen.stages.len(), "stage"), reason(chosen, counts, asked));
    if counts.is_empty() {
        return title;
    }
    let mut counts: Vec<&StageCount> = counts.iter().collect();
    counts.sort_by(|a, b| order(a, chosen).total_cmp(&order(b, chosen)).then(a.n_groups.cmp(&b.n_groups)));
    let header = [
        "stages",
        "groups",
        "microbatches",
        "schedule",
        "time",
        "more",
        "at least",
        "communication",
        "waiting",
        "memory",
        "place{\u{2026}}",
    ];
    let shown =
        table(&header, [0, 1, 2, 4, 5, 6, 7, 8, 9], counts.iter().map(|it| row(it, chosen)).collect());
    let others = counts.iter().filter(|it| !is_chosen(it, chosen));
    let others: Vec<(&StageCount, &Plan)> = others.filter_map(|it| Some((*it, plan(it)?))).collect();
    let flips: String = others.iter().filter_map(|(it, other)| speed(chosen, it, other)).collect();
    format!("{title}\n{shown}{}{flips}{}", remarks(&counts), memory(chosen, &others))
}

/// What restricts the number of stages, if anything does.
fn reason(chosen: &Plan, counts: &[StageCount], asked: i64) -> String {
    match counts {
        [] if chosen.stages.iter().any(|stage| stage.device.is_some()) => {
            "over several kinds of devices no numbers of stages are compared".to_owned()
        }
        [] => "the program was placed before, so no other number has been searched".to_owned(),
        _ if asked > 0 => {
            let groups = counted(asked as usize, "device group");
            format!(
                "the option `stages={asked}` allows plans on {groups} alone; leave it out to compare others"
            )
        }
        _ if chosen.n_given_layouts > 0 => {
            "the program comes with layouts for all devices, so it stays one stage".to_owned()
        }
        [_] => format!("there is no other number on {}", counted(chosen.n_devices, "device")),
        _ => {
            let kind = chosen.stages.iter().find_map(|stage| stage.device.as_ref());
            let of_kind = kind.map_or(String::new(), |kind| {
                format!(" on {} alone: over several kinds of devices none are compared", kind.name)
            });
            format!("the best plan that was evaluated of each number of stages{of_kind}")
        }
    }
}

fn plan(it: &StageCount) -> Option<&Plan> {
    match &it.known {
        Known::Plan(found) => Some(&found.plan),
        _ => None,
    }
}

/// Another form of the program may have a plan of as many stages that is a shade faster and much longer.
fn is_chosen(it: &StageCount, chosen: &Plan) -> bool {
    let (n_stages, schedule) = (chosen.stages.len(), chosen.schedule.parse::<Schedule>().unwrap_or_default());
    it.n_groups == schedule.n_groups(n_stages) && plan(it).is_some_and(|it| it.stages.len() == n_stages)
}

/// The chosen one, plans by their time, estimates, the rest.
fn order(it: &StageCount, chosen: &Plan) -> f64 {
    match &it.known {
        Known::Plan(_) if is_chosen(it, chosen) => 0.0,
        Known::Plan(found) => found.plan.time_secs,
        Known::About(secs) | Known::Over(secs) => 1e9 + secs,
        Known::None(_) | Known::Bound => f64::INFINITY,
    }
}

fn row(it: &StageCount, chosen: &Plan) -> Vec<String> {
    let least = if it.lower_bound_secs > 0.0 { secs(it.lower_bound_secs) } else { "-".to_owned() };
    let Known::Plan(found) = &it.known else {
        let mut row = vec!["-".to_owned(); 11];
        row[1] = it.n_groups.to_string();
        row[4] = estimate(&it.known);
        (row[6], row[10]) = (least, format!("stages={}", it.n_groups));
        return row;
    };
    let plan = if is_chosen(it, chosen) { chosen } else { &found.plan };
    // A bound over the layouts of `shard` may be a shade above the text that is written of them.
    let least = if it.lower_bound_secs > plan.time_secs { secs(plan.time_secs) } else { least };
    vec![
        plan.stages.len().to_string(),
        it.n_groups.to_string(),
        plan.n_microbatches.to_string(),
        if plan.stages.len() > 1 { plan.schedule.clone() } else { "-".to_owned() },
        secs(plan.time_secs),
        percent(plan.time_secs / chosen.time_secs - 1.0),
        least,
        secs(plan.breakdown.collective_secs),
        secs(plan.breakdown.bubble_secs),
        bytes(most_bytes(plan)),
        found.options.clone(),
    ]
}

/// What stands for the time of a plan that was not made.
fn estimate(known: &Known) -> String {
    match known {
        Known::About(estimated_secs) => format!("~ {}", secs(*estimated_secs)),
        Known::Over(estimated_secs) => format!("> {}", secs(*estimated_secs)),
        _ => "-".to_owned(),
    }
}

/// What the table's signs mean, and why numbers have no plan.
fn remarks(counts: &[&StageCount]) -> String {
    let is_estimated = |it: &&StageCount| matches!(it.known, Known::About(_) | Known::Over(_));
    let mut out = String::new();
    if counts.iter().any(is_estimated) {
        out += "~ and >: estimates, too slow to be evaluated\n";
    }
    for it in counts {
        if let Known::None(why) = &it.known {
            out += &format!("{}: no plan, {why}\n", counted(it.n_groups, "device group"));
        }
    }
    out
}

/// `4 stages`, `8 stages on 2 device groups`.
fn name(it: &StageCount, plan: &Plan) -> String {
    let n_stages = counted(plan.stages.len(), "stage");
    match it.n_groups == plan.stages.len() {
        true => n_stages,
        false => format!("{n_stages} on {}", counted(it.n_groups, "device group")),
    }
}

/// When another plan is as fast, by what the busiest devices of both do.
fn speed(chosen: &Plan, it: &StageCount, other: &Plan) -> Option<String> {
    let cost = |plan: &Plan| Cost { all_secs: plan.time_secs, moved_secs: plan.breakdown.collective_secs };
    let factor = flip::speed(cost(chosen), cost(other))?;
    Some(format!("{}: as fast {}, if nothing else changes\n", name(it, other), flip::text(factor)))
}

/// Below which memory the chosen plan no longer fits while another one does.
fn memory(chosen: &Plan, others: &[(&StageCount, &Plan)]) -> String {
    let needs = most_bytes(chosen);
    let Some((it, other)) = others.iter().find(|(_, other)| most_bytes(other) < needs) else {
        return String::new();
    };
    format!(
        "{}: the fastest of these where less than {} of a device can be used, and {} at least\n",
        name(it, other),
        bytes(needs),
        bytes(most_bytes(other))
    )
}
