//! The table of a plan whose stages are there several times: which devices run how many microbatches.

use super::{devices, table};
use phzc_io::units::{bytes, percent, secs};
use phzc_passes::report::{Plan, Replica, ReplicaStage};

/// A row per stage of each replica; nothing where there is one.
pub(super) fn text(plan: &Plan) -> String {
    if plan.replicas.is_empty() {
        return String::new();
    }
    let header = [
        "replica",
        "stage",
        "devices",
        "microbatches",
        "forward",
        "backward",
        "memory",
        "of limit",
        "gradients",
        "update",
    ];
    let rows = plan.replicas.iter().enumerate().flat_map(rows).collect();
    table(&header, 3..10, rows)
}

fn rows((at, replica): (usize, &Replica)) -> Vec<Vec<String>> {
    let row = |(index, stage): (usize, &ReplicaStage)| {
        let over = if stage.memory_share > 1.0 { " OVER" } else { "" };
        vec![
            at.to_string(),
            index.to_string(),
            devices(stage.devices, stage.device.as_ref()),
            replica.n_microbatches.to_string(),
            secs(stage.forward_secs),
            secs(stage.backward_secs),
            bytes(stage.memory_bytes),
            format!("{}{over}", percent(stage.memory_share)),
            secs(replica.pipeline_secs),
            secs(replica.once_secs),
        ]
    };
    replica.stages.iter().enumerate().map(row).collect()
}
