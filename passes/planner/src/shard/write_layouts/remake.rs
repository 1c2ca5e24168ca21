//! Copies of instructions whose values are made again in other layouts.

use super::Writer;
use phzc_analysis::graph::TensorId;
use phzc_ir::{FusionKind, Instr, InstrId, Key, Layout, Sharding, Value, notes};
use smallvec::SmallVec;

impl Writer<'_, '_, '_> {
    /// A value made again in a layout, of what stands `depth` ops before its maker's operand.
    pub(super) fn remake(&mut self, tensor: TensorId, layout: Layout, depth: usize) -> InstrId {
        let it = self.decision.model.made_of[tensor as usize][0];
        let instr = self.decision.model.input.graph.nodes[it.reader as usize].instr;
        let to = self.decision.model.through(&it, layout);
        let operand = match depth {
            0 => {
                // As its maker reads it, and on from there.
                let (read, need) = (self.operand(instr, 0), self.decision.need(it.reader, 0));
                let steps = self.decision.model.steps(it.tensor, need.layout.into(), to.into());
                self.moved_by(it.tensor, read, steps)
            }
            _ => self.remake(it.tensor, to, depth - 1),
        };
        let old = self.old().instr(instr);
        let mut copy = Instr { operands: SmallVec::from_slice(&[operand]), ..old.clone() };
        copy.name = self.fresh(&format!("{}.again", old.name));
        let tiling = self.tiling_of(layout, &old.shape);
        copy.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Single(tiling))));
        copy.set_note(notes::REMADE, &old.name);
        // What is made wherever it is read, as a broadcast is, stays with what it is made of.
        let is_part = old.op.def().fusion == FusionKind::Free;
        for key in [notes::BLOCK, notes::PHASE] {
            let reader = self.reader.filter(|_| !is_part || key == notes::PHASE);
            let text = reader.and_then(|id| self.old().instr(id).note(key));
            text.into_iter().for_each(|text| copy.set_note(key, text));
        }
        self.push(copy)
    }
}
