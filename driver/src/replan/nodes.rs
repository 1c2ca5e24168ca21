//! Which nodes of the old cluster the nodes of the new one are.

use phzc_cost::Cluster;
use phzc_ir::Diagnostic;
use phzc_passes::moving::{Slot, slots};

/// The nodes of a new cluster: of each device and size of nodes, the first are the old one's first, each
/// once.
pub(super) fn continued(old: &Cluster, to: &Cluster) -> Vec<Slot> {
    let what = |cluster: &Cluster, slot: &Slot| {
        let nodes = cluster.around(slot.first);
        (nodes.accelerator.name.clone(), slot.n_devices)
    };
    let mut left = slots(old);
    let mut nodes = slots(to);
    for slot in &mut nodes {
        let same = left.iter().position(|other| what(old, other) == what(to, slot));
        slot.was = same.map(|at| left.remove(at).first);
    }
    nodes
}

/// What is left of a cluster without the nodes of some devices.
pub(super) fn without(old: &Cluster, lost: &[usize]) -> phzc_ir::Result<(Cluster, Vec<Slot>)> {
    let all = slots(old);
    if let Some(device) = lost.iter().find(|device| **device >= old.n_all_devices()) {
        let message = format!("`--lost {device}`: `{}` has {} devices", old.name, old.n_all_devices());
        return Err(Diagnostic::error(message).help("devices are numbered from 0"));
    }
    let is_left =
        |slot: &&Slot| !lost.iter().any(|&it| (slot.first..slot.first + slot.n_devices).contains(&it));
    let left: Vec<Slot> = all.iter().filter(is_left).copied().collect();
    if left.is_empty() {
        return Err(
            Diagnostic::error("no node is left").help("name fewer devices, or the new cluster: `--to`")
        );
    }
    let n_kinds = old.kinds().count();
    let counts = |kind: usize| left.iter().filter(|slot| slot.kind == kind).count();
    let to = old.with_nodes(&(0..n_kinds).map(counts).collect::<Vec<_>>())?;
    let mut nodes = slots(&to);
    nodes.iter_mut().zip(left).for_each(|(slot, known)| slot.was = Some(known.first));
    Ok((to, nodes))
}
