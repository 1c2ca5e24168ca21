//! Collectives as a device's program has them: which they are, who meets, how many bytes each device sends.

use phzc_cost::Collective;
use phzc_ir::device_groups::{Devices, listed};
use phzc_ir::ops::collective::started_leaves;
use phzc_ir::{Instr, Key, Opcode, Shape, View};

/// Message bytes of a collective on one device, in NCCL's convention.
pub fn message_bytes(view: &View) -> f64 {
    let operands = || (0..view.n_operands()).filter_map(|index| view.operand_shape(index));
    match view.instr.op {
        Opcode::AllGather => view.instr.shape.bytes(),
        Opcode::AllGatherStart => {
            let range = started_leaves(view.instr).unwrap_or_default();
            view.instr.shape.leaves()[range].iter().map(|leaf| leaf.bytes()).sum()
        }
        // The others are where it is read and written.
        Opcode::CollectivePermute | Opcode::CollectivePermuteStart | Opcode::RaggedAllToAll => {
            operands().next().map_or(0.0, Shape::bytes)
        }
        _ => operands().map(Shape::bytes).sum(),
    }
}

/// The collective of an opcode. A broadcast is one to many what a permute is one to one.
pub fn kind(op: Opcode) -> Option<Collective> {
    match op {
        Opcode::AllReduce | Opcode::AllReduceStart => Some(Collective::AllReduce),
        Opcode::AllGather | Opcode::AllGatherStart => Some(Collective::AllGather),
        Opcode::ReduceScatter => Some(Collective::ReduceScatter),
        Opcode::AllToAll | Opcode::RaggedAllToAll => Some(Collective::AllToAll),
        Opcode::CollectivePermute | Opcode::CollectivePermuteStart | Opcode::CollectiveBroadcast => {
            Some(Collective::Permute)
        }
        _ => None,
    }
}

/// The devices that meet in a collective; as its text has them, where that is no complete list.
pub fn groups(devices: Devices, instr: &Instr) -> Vec<Vec<usize>> {
    let found = match instr.attr(Key::SourceTargetPairs) {
        Some(_) => devices.pairs(instr),
        None => devices.groups(instr),
    };
    found.unwrap_or_else(|_| listed(instr))
}
