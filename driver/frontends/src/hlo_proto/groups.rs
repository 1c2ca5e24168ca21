//! Devices as text: groups, pairs, meshes.

use super::message::{Instruction, MeshAxesReplicaGroupList, SourceTarget};
use phzc_ir::{Diagnostic, Result};

/// `1,2,3`.
pub(super) fn joined(list: &[i64]) -> String {
    list.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// The groups of a collective: `{{0,1},{2,3}}`, `[2,4]<=[8]` or over the axes of a mesh.
pub(super) fn groups(proto: &Instruction) -> Result<String> {
    if let Some(mesh) = &proto.mesh_axes_replica_group_list {
        return on_mesh(mesh);
    }
    if let Some(iota) = &proto.iota_collective_device_list {
        let order = transposed(&iota.iota_reshape_dims, &iota.iota_transpose_perm);
        return Ok(format!("[{},{}]<={order}", iota.num_replica_groups, iota.num_devices_per_group));
    }
    let listed =
        proto.collective_device_list.as_ref().map_or(&proto.replica_groups, |list| &list.replica_groups);
    let groups: Vec<String> =
        listed.iter().map(|group| format!("{{{}}}", joined(&group.replica_ids))).collect();
    Ok(format!("{{{}}}", groups.join(",")))
}

/// `[8]`, `[2,4]T(1,0)`.
pub(super) fn transposed(reshape: &[i64], perm: &[i32]) -> String {
    let is_plain = reshape.len() < 2;
    let perm: Vec<String> = perm.iter().map(i32::to_string).collect();
    let perm = if is_plain { String::new() } else { format!("T({})", perm.join(",")) };
    format!("[{}]{perm}", joined(reshape))
}

/// `mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'x'}`.
fn on_mesh(proto: &MeshAxesReplicaGroupList) -> Result<String> {
    let mesh = proto.mesh.as_ref().ok_or_else(|| Diagnostic::error("groups over a mesh without a mesh"))?;
    let axes: Vec<String> = mesh.axes.iter().map(|axis| format!("'{}'={}", axis.name, axis.size)).collect();
    let order = match &mesh.iota_transform {
        Some(iota) => {
            let perm: Vec<i32> = iota.transpose_perm.iter().map(|&axis| axis as i32).collect();
            format!(", device_ids=({})", transposed(&iota.reshape_dims, &perm))
        }
        None if mesh.device_ids.is_empty() => String::new(),
        None => format!(", device_ids=({})", joined(&mesh.device_ids)),
    };
    let mut used = Vec::new();
    for axis in &proto.axes {
        let name = usize::try_from(axis.mesh_axis_index).ok().and_then(|index| mesh.axes.get(index));
        let name = name.ok_or_else(|| Diagnostic::error("a group over an axis that the mesh lacks"))?;
        let part = axis.sub_axis_info.as_ref().map(|part| format!(":({}){}", part.pre_size, part.size));
        used.push(format!("'{}'{}", name.name, part.unwrap_or_default()));
    }
    Ok(format!("mesh[{}]{order} {{{}}}", axes.join(","), used.join(",")))
}

/// `{{0,1},{1,2}}`.
pub(super) fn pairs(list: &[SourceTarget]) -> String {
    let pairs: Vec<String> = list.iter().map(|pair| format!("{{{},{}}}", pair.source, pair.target)).collect();
    format!("{{{}}}", pairs.join(","))
}
