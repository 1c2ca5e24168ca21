//! Tuples whose leaves are needed otherwise than they are written: loops, branches and the root hand such on.

use super::Writer;
use crate::shard::sharding_request::Want;
use phzc_analysis::graph::TensorId;
use phzc_ir::{Attr, Instr, InstrId, Key, Opcode, Payload, Shape, Sharding, Value};
use phzc_plan::partial;
use smallvec::SmallVec;

impl Writer<'_, '_, '_> {
    /// What is needed of leaves that are written otherwise.
    fn others(&self, leaves: &[TensorId], needs: &[Option<Want>]) -> Vec<Option<Want>> {
        let graph = self.decision.model.input.graph;
        let other = |(&tensor, need): (&TensorId, &Option<Want>)| {
            let (need, written) = ((*need)?, self.decision.written(tensor));
            // Zeros are summands as they are.
            let is_free = graph.tensors[tensor as usize].is_free;
            let need = if is_free { Want { partial: 0, ..need } } else { need };
            (need != written).then_some(need)
        };
        leaves.iter().zip(needs).map(other).collect()
    }

    /// A tuple (old id `old`, new id `new`) with its leaves in the layouts `needs`.
    pub(super) fn tuple(&mut self, old: InstrId, new: InstrId, needs: &[Option<Want>]) -> InstrId {
        let leaves = self.leaves(old);
        let needs = self.others(&leaves, needs);
        if needs.iter().all(Option::is_none) {
            return new;
        }
        if !matches!(self.out[new.index()].shape, Shape::Tuple(_)) {
            return self.reshard(leaves[0], new, needs[0].unwrap_or_default());
        }
        let source = self.out[new.index()].clone();
        let (operands, wanted) = self.parts(new, &source, &leaves, &needs);
        let rank = |part: &Shape| part.as_array().map_or(0, |array| array.rank());
        let mesh = &self.decision.model.mesh;
        let parts = wanted.iter().zip(source.shape.parts());
        let tilings = parts.map(|(want, part)| want.layout.to_tiling(rank(part), mesh)).collect();
        let mut tuple = Instr {
            name: self.fresh(&format!("{}.in", source.name)),
            op: Opcode::Tuple,
            operands,
            attrs: Vec::new(),
            payload: Payload::None,
            ..source
        };
        tuple.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
        partial::set(&mut tuple, &wanted.iter().map(|want| want.partial).collect::<Vec<_>>());
        let made = self.push(tuple);
        if self.out[new.index()].op == Opcode::Tuple {
            self.replaced.push((new, made));
        }
        made
    }

    /// The parts of the tuple `new`, brought to where they are needed, and how they lie there.
    fn parts(
        &mut self,
        new: InstrId,
        source: &Instr,
        leaves: &[TensorId],
        needs: &[Option<Want>],
    ) -> (SmallVec<[InstrId; 3]>, Vec<Want>) {
        let (mut operands, mut wanted) = (SmallVec::new(), Vec::new());
        for (index, (part, &tensor)) in source.shape.parts().iter().zip(leaves).enumerate() {
            let value = match source.op {
                Opcode::Tuple => source.operands[index],
                _ => self.element(new, index, part, tensor),
            };
            let need = needs[index].unwrap_or(self.decision.written(tensor));
            operands.push(self.reshard(tensor, value, need));
            wanted.push(need);
        }
        (operands, wanted)
    }

    fn element(&mut self, tuple: InstrId, index: usize, part: &Shape, tensor: TensorId) -> InstrId {
        let source = &self.out[tuple.index()];
        let (base, span) = (format!("{}.{index}", source.name), source.span);
        let tiling = self.tiling(tensor, part);
        let attrs = vec![
            Attr { key: Key::Index, value: Value::Int(index as i64) },
            Attr { key: Key::Sharding, value: Value::Sharding(Box::new(Sharding::Single(tiling))) },
        ];
        let mut instr = Instr {
            name: self.fresh(&base),
            op: Opcode::GetTupleElement,
            operands: SmallVec::from_slice(&[tuple]),
            shape: part.clone(),
            payload: Payload::None,
            attrs,
            span,
        };
        partial::set(&mut instr, &[self.decision.partial[tensor as usize]]);
        self.push(instr)
    }

    /// A loop body, a branch or the entry hands its root over in given layouts.
    pub(super) fn root(&mut self) {
        let Some(needs) = self.needs.get(&(self.comp, None)).cloned() else { return };
        let old = self.old().root;
        self.reader = None;
        let new = self.tuple(old, self.map[old.index()], &needs);
        self.map[old.index()] = new;
    }
}
