//! Which node takes which part of a new plan: those of whose states it holds most, over all nodes together.

use super::held::{Held, common};
use pathfinding::kuhn_munkres::kuhn_munkres;
use pathfinding::matrix::Matrix;
use phzc_cost::Cluster;
use rayon::prelude::*;

/// A node of the new cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The place of its kind.
    pub kind: usize,
    /// Its first device.
    pub first: usize,
    /// Its devices.
    pub n_devices: usize,
    /// The first of the devices that it was in the old plan; none of an empty node.
    pub was: Option<usize>,
}

/// All nodes of a cluster, in the order of their devices, as if they were empty.
pub fn slots(cluster: &Cluster) -> Vec<Slot> {
    let kinds = cluster.kinds().zip(cluster.first_devices()).enumerate();
    let of_kind = |(kind, (nodes, first)): (usize, (&Cluster, usize))| {
        let (per_node, n_devices) = (nodes.per_node(), nodes.n_devices());
        let starts = (0..n_devices).step_by(per_node);
        starts.map(move |at| Slot {
            kind,
            first: first + at,
            n_devices: per_node.min(n_devices - at),
            was: None,
        })
    };
    kinds.flat_map(of_kind).collect()
}

/// Per node of the plan, the node that takes its part: by the Hungarian method, within each kind.
pub(super) fn assigned(held: &[(Option<Held>, Held)], slots: &[Slot]) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..slots.len()).collect();
    let kinds = slots.iter().map(|slot| slot.kind).max().map_or(0, |last| last + 1);
    for kind in 0..kinds {
        let own: Vec<usize> = (0..slots.len()).filter(|&at| slots[at].kind == kind).collect();
        let of_role = |&role: &usize| -> Vec<i64> {
            // Of nodes that hold as much, each keeps its place.
            let weight = |&slot: &usize| {
                2 * kept_bytes(held, slots[role], slots[slot]) as i64 + i64::from(role == slot)
            };
            own.iter().map(weight).collect()
        };
        let rows: Vec<Vec<i64>> = own.par_iter().map(of_role).collect();
        let Ok(weights) = Matrix::from_rows(rows) else { continue };
        let (_, chosen) = kuhn_munkres(&weights);
        own.iter().zip(chosen).for_each(|(&role, slot)| nodes[role] = own[slot]);
    }
    nodes
}

/// Bytes that a node need not be sent if it takes the part of another.
fn kept_bytes(held: &[(Option<Held>, Held)], role: Slot, slot: Slot) -> f64 {
    let Some(was) = slot.was.filter(|_| role.n_devices == slot.n_devices) else { return 0.0 };
    let kept = |(before, after): &(Option<Held>, Held)| {
        let Some(before) = before else { return 0.0 };
        let of_device = |at: usize| {
            let parts = before.tile(was + at).zip(after.tile(role.first + at));
            parts.map_or(0.0, |(before, after)| common(&before, &after))
        };
        after.bytes_per_element * (0..role.n_devices).map(of_device).sum::<f64>()
    };
    held.iter().map(kept).sum()
}

/// Per device of the new plan, the device of the old one that it was.
pub(super) fn devices(slots: &[Slot], nodes: &[usize]) -> Vec<Option<usize>> {
    let n_devices = slots.iter().map(|slot| slot.first + slot.n_devices).max().unwrap_or(0);
    let mut was = vec![None; n_devices];
    for (role, &node) in slots.iter().zip(nodes) {
        let same = role.n_devices.min(slots[node].n_devices);
        (0..same).for_each(|at| was[role.first + at] = slots[node].was.map(|first| first + at));
    }
    was
}
