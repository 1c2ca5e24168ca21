//! Collectives that a device's program has as instructions of its own.

use super::Step;
use crate::pricing::AxisMask;
use phzc_cost::Collective;
use phzc_ir::{DType, Key, Mesh, Opcode, Shape, Value, View};

/// The collective that an instruction is, if it is one.
pub fn collective(view: &View, mesh: &Mesh) -> Option<Step> {
    let kind = kind(view.instr.op)?;
    let operand = view.operand_shape(0).and_then(Shape::as_array);
    let source = if kind == Collective::AllGather { Some(&view.instr.shape) } else { view.operand_shape(0) };
    Some(Step {
        kind,
        axes: axes(view, mesh),
        dtype: operand.map_or(DType::Pred, |array| array.dtype),
        bytes: source.map_or(0.0, Shape::bytes),
        is_implicit: false,
    })
}

/// The collective of an opcode.
pub fn kind(op: Opcode) -> Option<Collective> {
    match op {
        Opcode::AllReduce => Some(Collective::AllReduce),
        Opcode::AllGather => Some(Collective::AllGather),
        Opcode::ReduceScatter => Some(Collective::ReduceScatter),
        Opcode::AllToAll => Some(Collective::AllToAll),
        Opcode::CollectivePermute => Some(Collective::Permute),
        _ => None,
    }
}

/// The mesh axes along which the devices of a group, or sender and receiver, differ.
fn axes(view: &View, mesh: &Mesh) -> AxisMask {
    let text =
        [Key::ReplicaGroups, Key::SourceTargetPairs].into_iter().find_map(|key| match view.instr.attr(key) {
            Some(Value::Raw(text)) => Some(text),
            _ => None,
        });
    let groups = text.map_or("", |text| &**text).split('}');
    groups.fold(0, |mask, group| {
        let ids = group.trim_matches(['{', ',', ' ']).split(',');
        let ids: Vec<i64> = ids.filter_map(|id| id.trim().parse().ok()).collect();
        mask | axes_between(mesh, &ids)
    })
}

/// The axes along which some device lies elsewhere than the first.
fn axes_between(mesh: &Mesh, ids: &[i64]) -> AxisMask {
    let differs =
        |axis: &usize| ids.iter().any(|&id| mesh.coordinate(id, *axis) != mesh.coordinate(ids[0], *axis));
    (0..mesh.n_axes()).filter(differs).fold(0, |mask, axis| mask | 1 << axis)
}
