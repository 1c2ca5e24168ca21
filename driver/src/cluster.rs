//! Which hardware is meant: the command line says it, else the program's own note, else it is the default.

use phzc_cost::{Cluster, DEFAULT_CLUSTER, chosen_nodes};
use phzc_io::render::Source;
use phzc_io::{Failure, files};
use phzc_ir::{Diagnostic, Module, notes};
use phzc_passes::derive::is_planned;
use phzc_passes::partitioned::partitioned;
use phzc_passes::{Pipeline, place, shard};
use std::path::Path;

/// The cluster to plan for.
pub(crate) fn choose(asked: Option<&str>, module: &Module) -> Result<Cluster, Failure> {
    if let Some(name) = asked {
        let (path, parts) = chosen_nodes(name);
        if let Some((whole, counts)) = path.split_once('[').filter(|_| !Path::new(path).exists()) {
            let message = format!("expected numbers of nodes after `{whole}`, found `[{counts}`");
            let help = format!("write one for each of its kinds, as in `{whole}[2,1]` of two kinds");
            return Err(Diagnostic::error(message).help(help).into());
        }
        let joined = path.split('+').find(|part| part.ends_with(".toml") && *part != path);
        if let Some(file) = joined.filter(|_| !Path::new(path).exists()) {
            let error = Diagnostic::error(format!("`{file}` is a file, and `+` joins names of nodes"));
            return Err(error.help("describe all kinds in one file, each in its `[[nodes]]`").into());
        }
        let is_file = path.ends_with(".toml") || path.contains(['/', '\\']);
        if !is_file {
            return Ok(Cluster::named(name)?);
        }
        let whole = from_file(Path::new(path))?;
        return Ok(parts.iter().try_fold(whole, |cluster, counts| cluster.with_nodes(counts))?);
    }
    match module.note(notes::CLUSTER) {
        None => Ok(usual(module)?),
        Some(noted) => Cluster::named(&noted).map_err(|_| unknown_note(&noted).into()),
    }
}

/// The cluster that a plan was made for, where the command line says which that is.
///
/// # Errors
/// One with another name.
pub(crate) fn choose_own(asked: Option<&str>, plan: &Module) -> Result<Cluster, Failure> {
    let cluster = choose(asked, plan)?;
    match plan.note(notes::CLUSTER).filter(|noted| *noted != cluster.name) {
        None => Ok(cluster),
        Some(noted) => {
            let message =
                format!("the plan was made for `{noted}`, and `{}` is another cluster", cluster.name);
            let counts = noted.find('[').map_or("", |at| &noted[at..]);
            let help =
                format!("`--cluster` is the hardware that it was made for: `FILE.toml{counts}`, or a name");
            Err(Diagnostic::error(message).help(help).into())
        }
    }
}

/// The same, where only equal devices are taken.
pub(crate) fn choose_equal(asked: Option<&str>, module: &Module) -> Result<Cluster, Failure> {
    let cluster = choose(asked, module)?;
    equal(&cluster)?;
    Ok(cluster)
}

/// Whether a cluster's devices are equal.
pub(crate) fn equal(cluster: &Cluster) -> phzc_ir::Result<()> {
    if !cluster.is_unlike() {
        return Ok(());
    }
    let message = format!("`{}` has several kinds of devices, here they must be equal", cluster.name);
    Err(Diagnostic::error(message)
        .help("name one kind of its nodes; `phzc MODEL --cluster` plans over all of them"))
}

/// A warning when the program was planned for another cluster; an error when the planners would go on from
/// its plan, whose layouts and times are that cluster's.
pub(crate) fn changed(
    module: &Module,
    cluster: &Cluster,
    pipeline: &Pipeline,
) -> phzc_ir::Result<Option<Diagnostic>> {
    let other = module.note(notes::CLUSTER).filter(|noted| *noted != cluster.name);
    let Some(noted) = other.filter(|_| is_planned(module)) else { return Ok(None) };
    let message = format!("the program was planned for `{noted}`, and is now for `{}`", cluster.name);
    let plans = |name: &str| [shard::PASS.name, place::PASS.name].contains(&name);
    if pipeline.steps.iter().any(|step| plans(step.pass.name)) {
        let help = "plan the original program; `--passes estimate` tells what this plan takes there";
        return Err(Diagnostic::error(message).help(help));
    }
    Ok(Some(Diagnostic::warning(message)))
}

/// The default; for a program that is partitioned already, as many devices of its kind as it is for.
fn usual(module: &Module) -> phzc_ir::Result<Cluster> {
    let usual = Cluster::named(DEFAULT_CLUSTER)?;
    let n_devices = partitioned(module).map_or(usual.n_devices(), |it| it.devices.n_devices());
    if n_devices == usual.n_devices() {
        return Ok(usual);
    }
    let per_node = (1..=usual.n_devices()).rev().find(|n| n_devices.is_multiple_of(*n)).unwrap_or(1);
    let kind = DEFAULT_CLUSTER.rsplit_once('-').map_or(DEFAULT_CLUSTER, |(kind, _)| kind);
    with_nodes_of(kind, per_node, n_devices / per_node)
}

/// The cluster that is named so: `a100-8`, `a100-8x4`.
///
/// # Errors
/// When there is none.
pub(crate) fn with_nodes_of(device: &str, per_node: usize, n_nodes: usize) -> phzc_ir::Result<Cluster> {
    match n_nodes {
        1 => Cluster::named(&format!("{device}-{per_node}")),
        _ => Cluster::named(&format!("{device}-{per_node}x{n_nodes}")),
    }
}

fn unknown_note(noted: &str) -> Diagnostic {
    let error =
        Diagnostic::error(format!("the program was planned for `{noted}`, which is no built-in cluster"));
    let counts = noted.find('[').map_or("", |at| &noted[at..]);
    error.help(format!("say `--cluster FILE.toml{counts}` with the file that describes it"))
}

/// The cluster that a file describes.
pub(crate) fn from_file(path: &Path) -> Result<Cluster, Failure> {
    let text = files::read(path, files::MAX_CLUSTER_BYTES)?;
    let cluster = Cluster::from_toml(&text).and_then(with_own_name);
    cluster.map_err(|error| Failure::new(Some(Source { name: path.display().to_string(), text }), error))
}

/// A program carries the name of its cluster only, so one name must not mean two things.
fn with_own_name(cluster: Cluster) -> phzc_ir::Result<Cluster> {
    match Cluster::named(&cluster.name) {
        Ok(known) if known != cluster => {
            let error =
                Diagnostic::error(format!("`{}` is the name of another, built-in cluster", cluster.name));
            Err(error.help("give this one a name of its own"))
        }
        _ => Ok(cluster),
    }
}
