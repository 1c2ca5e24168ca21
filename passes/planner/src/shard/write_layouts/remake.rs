//! Copies of instructions whose values are made again in other layouts.

use super::Writer;
use crate::shard::remake::MadeOf;
use phzc_analysis::graph::TensorId;
use phzc_ir::{FusionKind, Instr, InstrId, Key, Layout, Sharding, Value, notes};
use smallvec::SmallVec;

impl Writer<'_, '_, '_> {
    /// A tensor made again in a layout, of the operand at `depth` of what it can be made again of.
    pub(super) fn remake(&mut self, tensor: TensorId, layout: Layout, depth: usize) -> InstrId {
        let row = self.decision.model.made_of[tensor as usize].clone();
        let mut layouts = vec![layout];
        for it in &row[..=depth] {
            layouts.push(self.decision.model.through(it, layouts[layouts.len() - 1]));
        }
        let moved = self.moved_on(&row[depth], layouts[depth + 1]);
        let ops = row[..=depth].iter().zip(&layouts).rev();
        ops.fold(moved, |operand, (it, &layout)| self.copy(it, operand, layout))
    }

    /// An operand as its reader reads it, brought on to another layout.
    fn moved_on(&mut self, it: &MadeOf, to: Layout) -> InstrId {
        let instr = self.decision.model.input.graph.nodes[it.reader as usize].instr;
        let (read, need) = (self.operand(instr, 0), self.decision.need(it.reader, 0));
        let steps = self.decision.model.steps(it.tensor, need.layout.into(), to.into());
        self.moved_by(it.tensor, read, steps)
    }

    /// A copy of an op that reads `operand` and makes its result in this layout.
    fn copy(&mut self, it: &MadeOf, operand: InstrId, layout: Layout) -> InstrId {
        let old = self.old().instr(self.decision.model.input.graph.nodes[it.reader as usize].instr);
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
