//! Which nodes of the old cluster the nodes of the new one are.

use crate::cluster;
use phzc_cost::Cluster;
use phzc_ir::Diagnostic;
use phzc_passes::moving::{Slot, slots};

/// The nodes of a new cluster: of each device, size and offer of nodes, then of each device and size whatever
/// the offer, the first are the old one's first, each once.
pub(super) fn continued(old: &Cluster, to: &Cluster) -> Vec<Slot> {
    let (mut left, mut nodes) = (slots(old), slots(to));
    for is_any_offer in [false, true] {
        for slot in nodes.iter_mut().filter(|slot| slot.was.is_none()) {
            let own = to.around(slot.first);
            let is_same = |other: &Slot| {
                let nodes = old.around(other.first);
                let is_offered = is_any_offer || nodes.offer() == own.offer();
                nodes.accelerator.name == own.accelerator.name
                    && other.n_devices == slot.n_devices
                    && is_offered
            };
            let same = left.iter().position(is_same);
            slot.was = same.map(|at| left.remove(at).first);
        }
    }
    nodes
}

/// A changed cluster by the name of the old one with other numbers of nodes, if that means the same.
pub(super) fn known_by_name(old: &Cluster, to: Cluster) -> Cluster {
    let device = old.name.rsplit_once('-').map_or(&*old.name, |(device, _)| device);
    let known = cluster::with_nodes_of(device, to.per_node(), to.n_nodes()).ok();
    known.filter(|known| *known == to.clone().named_as(known.name.clone())).unwrap_or(to)
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
