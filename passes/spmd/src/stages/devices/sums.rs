//! Sums over microbatches and devices: left undone where they are added to, done where they are read.

use super::{Kept, Said, as_move, lay};
use crate::stages::split::{Piece, Source, Split};
use phzc_ir::edit::Names;
use phzc_ir::{Computation, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload, Sharding, Value};
use phzc_plan::derive::is_move;
use phzc_plan::partial;
use phzc_plan::pricing::axes_of;
use smallvec::SmallVec;

impl Kept<'_> {
    /// Leaves sums that are reduced late undone in the modules that add to them, and does them in those that
    /// read them.
    pub(super) fn sums(&self, module: &mut Module, split: &Split, piece: &Piece) {
        let mesh = &self.meshes[piece.task.stage];
        let comp = module.entry.index();
        let entry = &mut module.comps[comp];
        let params = entry.params();
        for (&source, param) in piece.inputs.iter().zip(params) {
            let Source::Accumulator(sum) = source else { continue };
            let id = split.sums[sum];
            let Some(own) = self.late(split, id) else { continue };
            summand(&mut entry.instrs[param.index()], own, mesh);
            match piece.sums.contains(&sum) {
                true => leave(entry, &split.local.entry().instr(id).name, own, mesh),
                false => reduce(entry, param, own, mesh),
            }
        }
        say_of_results(entry);
    }

    /// What is said of a sum if it is reduced late: an addition whose summands the cut has made.
    fn late(&self, split: &Split, id: InstrId) -> Option<Said> {
        let entry = split.local.entry();
        let (instr, part) = (entry.instr(id), entry.instr(entry.instr(id).operands[0]));
        let reducer = split.local.comp(instr.comp(Key::ToApply)?).root().op;
        let own = self.of(&entry.name, &instr.name).filter(|own| own.late != 0)?;
        (reducer == Opcode::Add && self.of(&entry.name, &part.name).is_none()).then_some(own)
    }
}

/// Says that each device has a summand.
fn summand(instr: &mut Instr, own: Said, mesh: &Mesh) {
    let layout = axes_of(own.late).fold(own.layout, |layout: Layout, axis| layout.with(axis, None));
    lay(instr, layout, mesh);
    partial::set(instr, &[own.partial | own.late]);
}

/// Adds summands to summands.
fn leave(entry: &mut Computation, name: &str, own: Said, mesh: &Mesh) {
    let Some(at) = entry.instrs.iter().position(|instr| &*instr.name == name) else { return };
    for id in entry.instrs[at].operands.clone() {
        summand(&mut entry.instrs[id.index()], own, mesh);
    }
    summand(&mut entry.instrs[at], own, mesh);
}

/// Does a sum that is a parameter, for all that read it but changes of layout, which do it themselves.
fn reduce(entry: &mut Computation, param: InstrId, own: Said, mesh: &Mesh) {
    let whole = InstrId::new(entry.instrs.len());
    let mut n_readers = 0;
    for instr in entry.instrs.iter_mut().filter(|instr| !is_move(instr)) {
        for operand in instr.operands.iter_mut().filter(|operand| **operand == param) {
            (*operand, n_readers) = (whole, n_readers + 1);
        }
    }
    if n_readers == 0 {
        return;
    }
    let given = entry.instr(param);
    let mut made = Instr {
        name: Names::of(entry).derive(&given.name, "whole"),
        operands: SmallVec::from_slice(&[param]),
        payload: Payload::None,
        attrs: Vec::new(),
        ..given.clone()
    };
    as_move(&mut made);
    lay(&mut made, own.layout, mesh);
    partial::set(&mut made, &[own.partial]);
    let first = entry.instrs.iter().position(|instr| instr.op != Opcode::Parameter).unwrap_or_default();
    entry.insert_before(vec![(InstrId::new(first), made)]);
}

/// Says of each result what its maker says: how it lies, and over what it is partial.
fn say_of_results(entry: &mut Computation) {
    let root = entry.root().clone();
    let Some(Sharding::Tuple(mut tilings)) = root.sharding().cloned() else { return };
    let mut axes = vec![0; tilings.len()];
    for (at, &operand) in root.operands.iter().enumerate() {
        let made = entry.instr(operand);
        axes[at] = partial::read(made, 1).map_or(0, |axes| axes[0]);
        if let (true, Some(Sharding::Single(tiling))) = (axes[at] != 0, made.sharding()) {
            tilings[at] = tiling.clone();
        }
    }
    let own = &mut entry.instrs[entry.root.index()];
    own.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
    partial::set(own, &axes);
}
