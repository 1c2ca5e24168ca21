//! A program that has a plan already keeps it: what was asked for must agree with it.

use super::control::history;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Mesh, Module, Result, counted};
use phzc_pass::pass::Options;
use phzc_plan::derive::header;

/// Checks that the plan is for this cluster's devices and, if the user named a mesh, for that mesh; that what
/// is pinned and forbidden was so when it was made.
///
/// # Errors
/// When they differ, or the plan's notes cannot be read.
pub(super) fn agrees(
    module: &Module,
    cluster: &Cluster,
    options: &Options,
    wanted: Option<&Mesh>,
) -> Result<()> {
    let header = header(module)?;
    let (planned, there) = (header.n_devices(), cluster.n_devices());
    if cluster.is_unlike() {
        header.fits(cluster)?;
    } else if planned != there {
        let (planned, there) = (counted(planned, "device"), counted(there, "device"));
        let message = format!("the program has a plan for {planned}, but `{}` has {there}", cluster.name);
        let help = "plan the original program, or name the cluster that this plan is for";
        return Err(Diagnostic::error(message).help(help));
    }
    // Stages have meshes of their own, made from the one that was asked for.
    let was_asked = |option: &str| history(module, option).iter().any(|asked| asked == options.text(option));
    if wanted.is_some_and(|mesh| !header.meshes.contains(mesh) && !was_asked("mesh")) {
        let found = header.meshes.first().map(Mesh::to_string).unwrap_or_default();
        let asked = options.text("mesh");
        let message = format!("the program has a plan on the mesh `{found}`, not on `{asked}`");
        return Err(Diagnostic::error(message).help("plan the original program, or drop the mesh option"));
    }
    for option in ["pin", "forbid"] {
        if !options.text(option).is_empty() && !was_asked(option) {
            let message = format!("the program has a plan already, made without this `{option}`");
            return Err(Diagnostic::error(message).help("plan the original program"));
        }
    }
    Ok(())
}
