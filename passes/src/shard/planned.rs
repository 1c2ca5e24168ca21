//! A program that has a plan already keeps it: what was asked for must agree with it.

use crate::derive::header;
use crate::manager::PASSES_NOTE;
use crate::pipeline::Pipeline;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Mesh, Module, Result, counted};

/// Checks that the plan is for this cluster's devices and, if the user named a mesh, for that mesh.
///
/// # Errors
/// When they differ, or the plan's notes cannot be read.
pub(super) fn agrees(module: &Module, cluster: &Cluster, wanted: Option<(&str, &Mesh)>) -> Result<()> {
    let header = header(module)?;
    let (planned, there) = (header.n_devices(), cluster.n_devices());
    if planned != there {
        let (planned, there) = (counted(planned, "device"), counted(there, "device"));
        let message = format!("the program has a plan for {planned}, but `{}` has {there}", cluster.name);
        let help = "plan the original program, or name the cluster that this plan is for";
        return Err(Diagnostic::error(message).help(help));
    }
    match wanted {
        Some((text, mesh)) if !header.meshes.contains(mesh) && !was_asked(module, text) => {
            let found = header.meshes.first().map(Mesh::to_string).unwrap_or_default();
            let message = format!("the program has a plan on the mesh `{found}`, not on `{text}`");
            Err(Diagnostic::error(message).help("plan the original program, or drop the mesh option"))
        }
        _ => Ok(()),
    }
}

/// Whether an earlier run was given this mesh: stages have meshes of their own, made from it.
fn was_asked(module: &Module, mesh: &str) -> bool {
    let history = module.note(PASSES_NOTE).and_then(|text| Pipeline::parse(&text).ok()).unwrap_or_default();
    let shards = history.steps.iter().filter(|step| step.pass.name == super::PASS.name);
    shards.map(|step| step.options.text("mesh")).any(|asked| asked == mesh)
}
