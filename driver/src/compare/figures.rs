//! The figures of two plans, as a table of what differs.

use super::signed;
use crate::summary::{count, table};
use phzc_io::units::{bytes, percent, secs};
use phzc_passes::report::{Plan, Stage, Throughput};

/// Stages that are listed.
const MAX_STAGES: usize = 8;

/// The whole step, then the stages, if there are as many.
pub(super) fn text(a: &Plan, b: &Plan) -> String {
    let rows: Vec<Vec<String>> = rows(a, b).into_iter().filter(|row| row[1] != row[2]).collect();
    let whole = table(&["", "A", "B", "B - A"], [1, 2, 3], rows);
    [whole, stages(a, b)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn rows(a: &Plan, b: &Plan) -> Vec<Vec<String>> {
    let both = |name: &str, of: &dyn Fn(&Plan) -> String| vec![name.to_owned(), of(a), of(b), String::new()];
    let timed = |name: &str, of: &dyn Fn(&Plan) -> f64| {
        let more = signed(of(b) - of(a), secs);
        vec![name.to_owned(), secs(of(a)), secs(of(b)), more]
    };
    vec![
        both("cluster", &|it| it.cluster.clone()),
        both("devices", &|it| it.n_devices.to_string()),
        both("stages", &|it| it.stages.len().to_string()),
        both("meshes", &meshes),
        both("microbatches", &|it| it.n_microbatches.to_string()),
        both("schedule", &|it| it.schedule.clone()),
        timed("time per step", &|it| it.time_secs),
        timed("  compute", &|it| it.breakdown.compute_secs),
        timed("  memory traffic", &|it| it.breakdown.memory_bound_secs),
        timed("  communication", &|it| it.breakdown.collective_secs),
        timed("  waiting", &|it| it.breakdown.bubble_secs),
        both("tokens per second", &|it| rate(it, |of| of.tokens_per_sec)),
        both("samples per second", &|it| rate(it, |of| of.samples_per_sec)),
        both("MFU", &|it| share(it, |of| of.mfu)),
        both("HFU", &|it| share(it, |of| of.hfu)),
        vec![
            "memory of a device".to_owned(),
            bytes(most_bytes(a)),
            bytes(most_bytes(b)),
            signed(most_bytes(b) - most_bytes(a), bytes),
        ],
        both("  of the limit", &|it| percent(it.most_memory_share())),
    ]
}

fn meshes(plan: &Plan) -> String {
    let mut meshes: Vec<&str> = plan.stages.iter().map(|stage| &*stage.mesh).collect();
    meshes.dedup();
    let shown: Vec<&str> = meshes.into_iter().map(|it| if it.is_empty() { "-" } else { it }).collect();
    shown.join(" ")
}

fn rate(plan: &Plan, of: fn(&Throughput) -> Option<f64>) -> String {
    plan.throughput.as_ref().and_then(of).map_or_else(|| "-".to_owned(), count)
}

fn share(plan: &Plan, of: fn(&Throughput) -> Option<f64>) -> String {
    plan.throughput.as_ref().and_then(of).map_or_else(|| "-".to_owned(), percent)
}

/// Bytes of the fullest device.
pub(crate) fn most_bytes(plan: &Plan) -> f64 {
    let replicas = plan.replicas.iter().flat_map(|it| &it.stages).map(|stage| stage.memory_bytes);
    plan.stages.iter().map(|stage| stage.memory_bytes).chain(replicas).fold(0.0, f64::max)
}

/// The stages that take longest more or less; nothing where there is one stage, or not as many.
fn stages(a: &Plan, b: &Plan) -> String {
    if a.stages.len() != b.stages.len() || a.stages.len() < 2 {
        return String::new();
    }
    let busy = |plan: &Plan, stage: &Stage| {
        plan.pipeline().n_microbatches as f64 * (stage.forward_secs + stage.backward_secs) + stage.update_secs
    };
    let pairs = a.stages.iter().zip(&b.stages).enumerate();
    let mut found: Vec<(f64, Vec<String>)> = pairs
        .map(|(index, (x, y))| {
            let (before, after) = (busy(a, x), busy(b, y));
            let row = vec![
                index.to_string(),
                if x.mesh == y.mesh { x.mesh.clone() } else { format!("{} -> {}", x.mesh, y.mesh) },
                secs(before),
                secs(after),
                signed(after - before, secs),
                signed(y.memory_bytes - x.memory_bytes, bytes),
            ];
            (after - before, row)
        })
        .filter(|(_, row)| row[2] != row[3] || row[1].contains(" -> "))
        .collect();
    found.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    let rows = found.into_iter().take(MAX_STAGES).map(|(_, row)| row).collect();
    table(&["stage", "mesh", "busy in A", "busy in B", "B - A", "memory"], [0, 2, 3, 4, 5], rows)
}
