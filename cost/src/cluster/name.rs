//! Names of clusters: `<device>-<per node>[x<nodes>]`.

use super::{Cluster, Counts, too_large};
use crate::accelerator::{Accelerator, Node};
use crate::library;
use phzc_ir::{Diagnostic, Result};

/// The cluster that `name` means.
pub(super) fn resolve(name: &str) -> Result<Cluster> {
    if let Some(text) = library::cluster_text(name) {
        return Cluster::from_toml(text);
    }
    if let Some(device) = library::find_accelerator(name) {
        return Err(no_count(name, device));
    }
    let (base, counts) = split(name)?;
    match library::cluster_text(base) {
        Some(text) => resized(name, Cluster::from_toml(text)?, counts),
        None => usual(name, library::accelerator(base)?, counts),
    }
}

/// A cluster file with other counts.
fn resized(name: &str, cluster: Cluster, counts: Counts) -> Result<Cluster> {
    Cluster { name: name.to_owned(), ..cluster }.with_counts(counts.per_node, counts.nodes)
}

/// Nodes of the kind that the accelerator usually sits in.
fn usual(name: &str, accelerator: &Accelerator, counts: Counts) -> Result<Cluster> {
    let node = accelerator.node.as_ref().ok_or_else(super::no_network)?;
    if counts.per_node > node.max_devices {
        return Err(overfull(name, accelerator, node, counts));
    }
    Cluster::build(name.to_owned(), accelerator.clone(), counts, node.levels.clone())
}

/// The device and the counts of `name`.
fn split(name: &str) -> Result<(&str, Counts)> {
    let is_counts = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let Some((base, counts)) = name.rsplit_once('-').filter(|(_, counts)| is_counts(counts)) else {
        let error = library::unknown_device(name);
        return Err(meant(name).map_or(error.clone(), |it| error.help(format!("did you mean `{it}`?"))));
    };
    let (per_node, nodes) = counts.split_once('x').unwrap_or((counts, "1"));
    Ok((base, Counts { per_node: number(name, per_node)?, nodes: number(name, nodes)? }))
}

/// What `h100x8` is for: a device, then how many.
fn meant(name: &str) -> Option<String> {
    let at = name.char_indices().filter(|&(_, c)| c == 'x').map(|(at, _)| at);
    let split = at.map(|at| (name[..at].trim_end_matches('-'), &name[at + 1..]));
    let is_count = |text: &str| text.split('x').all(|n| n.parse::<usize>().is_ok());
    let mut found =
        split.filter(|(device, counts)| library::find_accelerator(device).is_some() && is_count(counts));
    found.next().map(|(device, counts)| format!("{device}-{counts}"))
}

fn number(name: &str, digits: &str) -> Result<usize> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let message = format!("expected `<device>-<per node>x<nodes>` as in `a100-8x4`, found `{name}`");
        return Err(Diagnostic::error(message));
    }
    match digits.parse() {
        Ok(0) => Err(Diagnostic::error(format!("a cluster needs at least one device, found `{name}`"))),
        Ok(number) => Ok(number),
        Err(_) => Err(too_large(name)),
    }
}

fn no_count(name: &str, device: &Accelerator) -> Diagnostic {
    let message = format!("`{name}` names a device but not how many ({})", device.description);
    Diagnostic::error(message)
        .help(format!("`{name}-8` is one node of 8 of them, `{name}-8x4` is four such nodes"))
}

fn overfull(name: &str, device: &Accelerator, node: &Node, counts: Counts) -> Diagnostic {
    let Counts { per_node, nodes } = counts;
    let limit = node.max_devices;
    let n_nodes = per_node.div_ceil(limit).saturating_mul(nodes);
    let message =
        format!("a node holds at most {limit} devices of `{}`, found {per_node} in `{name}`", device.name);
    Diagnostic::error(message)
        .help(format!("write `{}-{limit}x{n_nodes}`, or describe the network in a cluster file", device.name))
}
