//! Which devices talk to which: replica groups and permutations of a mesh.
//!
//! A device's number is its partition id: its mesh coordinates read row-major, the last axis' devices being
//! neighbours. Groups of a collective differ in the coordinates of its axes alone and list them row-major, so
//! that the order in a group is the order of tiles.

use phzc_ir::Mesh;
use phzc_plan::pricing::{AxisMask, axes_of};
use std::collections::BTreeMap;

/// The tile that each device holds, as the axes that split each dimension, major to minor.
///
/// A [`phzc_ir::Layout`] lists a dimension's axes in mesh order; while values move they may lie otherwise.
pub type Order = Vec<Vec<usize>>;

/// `{{0,1},{2,3}}`: the groups of a collective over these axes.
pub fn groups_text(axes: AxisMask, mesh: &Mesh) -> String {
    let groups: Vec<String> = groups(axes, mesh).iter().map(|group| braced(group)).collect();
    format!("{{{}}}", groups.join(","))
}

fn groups(axes: AxisMask, mesh: &Mesh) -> Vec<Vec<i64>> {
    let is_first = |device: &i64| axes_of(axes).all(|axis| mesh.coordinate(*device, axis) == 0);
    let along = |devices: Vec<i64>, axis: usize| -> Vec<i64> {
        let steps = (0..mesh.sizes[axis]).map(|step| step * mesh.stride(axis));
        devices.iter().flat_map(|device| steps.clone().map(move |step| device + step)).collect()
    };
    (0..mesh.n_devices()).filter(is_first).map(|first| axes_of(axes).fold(vec![first], along)).collect()
}

fn braced(items: &[i64]) -> String {
    let items: Vec<String> = items.iter().map(i64::to_string).collect();
    format!("{{{}}}", items.join(","))
}

/// `{{0,0},{1,4},…}`: from which device to which the tiles go when they are to lie as `to` says.
///
/// Every device sends to one and receives from one; a device that holds what it needs keeps it.
pub fn pairs_text(from: &Order, to: &Order, mesh: &Mesh) -> String {
    let tiles = |order| (0..mesh.n_devices()).map(move |device| tile(device, order, mesh));
    let (held, needed): (Vec<_>, Vec<_>) = (tiles(from).collect(), tiles(to).collect());
    let keeps = |device: &usize| held[*device] == needed[*device];
    let mut holders: BTreeMap<&[i64], Vec<usize>> = BTreeMap::new();
    for device in (0..held.len()).rev().filter(|device| !keeps(device)) {
        holders.entry(&held[device]).or_default().push(device);
    }
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (target, wanted) in needed.iter().enumerate() {
        let source = match keeps(&target) {
            true => Some(target),
            false => holders.get_mut(&**wanted).and_then(Vec::pop),
        };
        pairs.extend(source.map(|source| (source, target)));
    }
    pairs.sort_unstable();
    let pairs = pairs.into_iter().map(|(source, target)| braced(&[source as i64, target as i64]));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// `{{0,1},{1,2},…}`: from each device to its neighbour along an axis, not around its end.
pub fn neighbours_text(axis: usize, step: i64, mesh: &Mesh) -> String {
    let has_next = |device: &i64| (0..mesh.sizes[axis]).contains(&(mesh.coordinate(*device, axis) + step));
    let pair = |device: i64| braced(&[device, device + step * mesh.stride(axis)]);
    let pairs: Vec<String> = (0..mesh.n_devices()).filter(has_next).map(pair).collect();
    format!("{{{}}}", pairs.join(","))
}

/// The index of a device's tile in each dimension.
fn tile(device: i64, order: &Order, mesh: &Mesh) -> Vec<i64> {
    let digit = |index, &axis: &usize| index * mesh.sizes[axis] + mesh.coordinate(device, axis);
    order.iter().map(|axes| axes.iter().fold(0, digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_differ_in_the_axes_and_list_them_row_major() {
        let mesh = Mesh::new(&[2, 2, 2]);
        assert_eq!(groups_text(0b100, &mesh), "{{0,1},{2,3},{4,5},{6,7}}");
        assert_eq!(groups_text(0b001, &mesh), "{{0,4},{1,5},{2,6},{3,7}}");
        assert_eq!(groups_text(0b101, &mesh), "{{0,1,4,5},{2,3,6,7}}");
    }

    #[test]
    fn permutations_are_bijections_that_keep_what_they_can() {
        let mesh = Mesh::new(&[2, 2]);
        let split = |axes: &[usize]| vec![axes.to_vec()];
        assert_eq!(pairs_text(&split(&[0, 1]), &split(&[1, 0]), &mesh), "{{0,0},{1,2},{2,1},{3,3}}");
        assert_eq!(pairs_text(&split(&[0]), &split(&[1]), &mesh), "{{0,0},{1,2},{2,1},{3,3}}");
    }
}
