//! Collectives that a device's program has as instructions of its own.

use super::Step;
use crate::collectives::{groups, kind, message_bytes};
use crate::pricing::AxisMask;
use phzc_cost::Collective;
use phzc_ir::device_groups::Devices;
use phzc_ir::{DType, Instr, Key, Mesh, Opcode, Shape, Value, View};
use std::collections::BTreeMap;

/// How a collective says who meets: the list, whether it has a channel, whether the list is of devices, and
/// whether it reduces or gathers.
type GroupsText<'m> = (&'m str, bool, bool, bool);

/// Reads who meets in collectives; programs have few different groups, so those seen are kept.
pub struct GroupAxes<'m> {
    devices: Devices,
    seen: BTreeMap<GroupsText<'m>, AxisMask>,
}

impl<'m> GroupAxes<'m> {
    /// Of a program that these devices run.
    pub fn new(devices: Devices) -> GroupAxes<'m> {
        GroupAxes { devices, seen: BTreeMap::new() }
    }

    /// The collective that an instruction is or starts, if any.
    pub fn collective(&mut self, view: &View<'m>, mesh: &Mesh) -> Option<Step> {
        let view = &wrapped(view).unwrap_or(*view);
        let kind = kind(view.instr.op)?;
        let operand = view.operand_shape(0).and_then(Shape::as_array);
        Some(Step {
            kind,
            axes: self.axes(view.instr, mesh),
            dtype: operand.map_or(DType::Pred, |array| array.dtype),
            bytes: message_bytes(view),
            is_implicit: false,
        })
    }

    /// The mesh axes along which the devices of a group, or sender and receiver, differ.
    fn axes(&mut self, instr: &'m Instr, mesh: &Mesh) -> AxisMask {
        let list = [Key::ReplicaGroups, Key::SourceTargetPairs].into_iter().find_map(|key| instr.attr(key));
        let list = if let Some(Value::Raw(text)) = list { &**text } else { "" };
        let is_flat = instr.attr(Key::UseGlobalDeviceIds) == Some(&Value::Bool(true));
        let joins = instr.attr(Key::ToApply).is_some() || kind(instr.op) == Some(Collective::AllGather);
        let key = (list, instr.int(Key::ChannelId).is_some(), is_flat, joins);
        let devices = self.devices;
        let axes = || groups(devices, instr).iter().fold(0, |mask, group| mask | axes_between(mesh, group));
        *self.seen.entry(key).or_insert_with(axes)
    }
}

/// The collective that an `async-start` wraps.
fn wrapped<'m>(view: &View<'m>) -> Option<View<'m>> {
    let comp = view.instr.comp(Key::Calls).filter(|_| view.instr.op == Opcode::AsyncStart)?;
    let instrs = &view.comp(comp).instrs;
    let instr = instrs.iter().find(|instr| kind(instr.op).is_some())?;
    Some(View { comps: view.comps, instrs, instr })
}

/// The axes along which some device lies elsewhere than the first.
fn axes_between(mesh: &Mesh, ids: &[usize]) -> AxisMask {
    let at = |id: usize, axis| mesh.coordinate(id as i64, axis);
    let differs = |axis: &usize| ids.iter().any(|&id| at(id, *axis) != at(ids[0], *axis));
    (0..mesh.n_axes()).filter(differs).fold(0, |mask, axis| mask | 1 << axis)
}
