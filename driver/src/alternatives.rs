//! `--top`: the best plans side by side, with what distinguishes them and the options that ask for each.

use crate::summary::table;
use phzc_io::units::{bytes, percent, secs};
use phzc_passes::alternative::Alternative;

/// The table, the best plan first.
pub(crate) fn text(all: &[Alternative]) -> String {
    let header = [
        "#",
        "stages",
        "mesh",
        "microbatches",
        "schedule",
        "again",
        "time",
        "more",
        "memory",
        "communication",
        "waiting",
        "place{…}",
    ];
    let best_secs = all.first().map_or(0.0, |best| best.plan.time_secs);
    let rows = all.iter().enumerate().map(|(at, one)| row(at, one, best_secs)).collect();
    table(&header, [0, 1, 3, 6, 7, 8, 9, 10], rows)
}

fn row(at: usize, one: &Alternative, best_secs: f64) -> Vec<String> {
    let (plan, parts) = (&one.plan, &one.plan.breakdown);
    let most_bytes = plan.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max);
    let all_secs = parts.compute_secs + parts.memory_bound_secs + parts.collective_secs + parts.bubble_secs;
    let share = |secs: f64| percent(if all_secs > 0.0 { secs / all_secs } else { 0.0 });
    let mut meshes: Vec<&str> = plan.stages.iter().map(|stage| &*stage.mesh).collect();
    meshes.dedup();
    vec![
        (at + 1).to_string(),
        plan.stages.len().to_string(),
        meshes.join(" "),
        plan.n_microbatches.to_string(),
        if plan.stages.len() > 1 { plan.schedule.clone() } else { "-".to_owned() },
        if one.is_again { "yes" } else { "no" }.to_owned(),
        secs(plan.time_secs),
        percent(plan.time_secs / best_secs - 1.0),
        bytes(most_bytes),
        share(parts.collective_secs),
        share(parts.bubble_secs),
        one.options.clone(),
    ]
}
