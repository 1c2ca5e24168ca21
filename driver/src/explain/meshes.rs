//! `--explain mesh`: the best layouts found on each mesh of all devices, or what they take at least.

use crate::summary::table;
use phzc_io::units::{bytes, percent, secs};
use phzc_ir::counted;
use phzc_passes::alternative::OnMesh;
use phzc_passes::report::Plan;

/// The meshes in `shard`'s order: by their bounds until those are above the best layouts.
pub(crate) fn text(plan: &Plan, all: &[OnMesh]) -> String {
    let best_secs = all.iter().filter_map(|it| it.best).map(|[secs, _]| secs).fold(f64::INFINITY, f64::min);
    let mut meshes: Vec<&str> = plan.stages.iter().map(|stage| &*stage.mesh).collect();
    meshes.dedup();
    let title = format!("why the mesh {}", meshes.join("; "));
    if all.is_empty() {
        return format!("{title}: the layouts were given, so no other mesh has been searched\n");
    }
    // The final text may be a shade faster than `shard` prices its layouts.
    let is_own = |it: &OnMesh| plan.stages.len() == 1 && plan.stages[0].mesh == it.mesh;
    let found_secs = |it: &OnMesh| if is_own(it) { plan.time_secs } else { f64::INFINITY };
    let rows = all.iter().map(|it| row(it, best_secs, found_secs(it))).collect();
    let shown = table(&["mesh", "time", "more", "at least", "memory"], [1, 2, 3, 4], rows);
    format!(
        "{title}: {}\n\n{shown}{}",
        reason(plan, all),
        "no time: the bound is above the best layouts of another mesh\n"
            .repeat(usize::from(all.iter().any(is_beaten)))
    )
}

fn is_beaten(it: &OnMesh) -> bool {
    it.best.is_none()
}

fn reason(plan: &Plan, all: &[OnMesh]) -> String {
    let devices = counted(plan.n_devices, "device");
    match (plan.stages.len(), all.len()) {
        (_, 1) => format!("no other mesh of {devices} is allowed"),
        (1, _) => format!("the best layouts of each mesh of {devices}, as `shard` prices them"),
        _ => {
            format!("the best layouts of each mesh of {devices} as one stage; stages on fewer have their own")
        }
    }
}

fn row(it: &OnMesh, best_secs: f64, found_secs: f64) -> Vec<String> {
    let mut row = vec!["-".to_owned(); 5];
    row[0].clone_from(&it.mesh);
    row[3] = secs(it.lower_bound_secs.min(found_secs));
    if let Some([time_secs, memory_bytes]) = it.best {
        row[1] = secs(time_secs);
        row[2] = percent(time_secs / best_secs - 1.0);
        row[4] = bytes(memory_bytes);
    }
    row
}
