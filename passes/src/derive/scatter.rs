//! Reduce-scatters: an all-reduce whose value only a slice reads, which XLA's ReduceScatterCreator joins.

use super::{InstrFacts, Step};
use crate::pricing::AxisMask;
use phzc_cost::Collective;
use phzc_ir::{Computation, InstrId, Key, MAX_AXES, Opcode};

/// Turns all-reduces over the axes that a chain of slices, the value's only readers, splits it on.
pub fn join(comp: &Computation, facts: &mut [InstrFacts]) {
    let mut readers: Vec<Vec<InstrId>> = vec![Vec::new(); comp.instrs.len()];
    for (id, instr) in comp.iter() {
        instr.operands.iter().for_each(|operand| readers[operand.index()].push(id));
    }
    // The root is read by whoever runs the computation.
    readers[comp.root.index()].push(comp.root);
    for id in (0..comp.instrs.len()).map(InstrId::new) {
        if facts[id.index()].steps.iter().any(|step| step.kind == Collective::AllReduce) {
            let split = sliced_axes(comp, facts, &readers, id);
            let is_joined =
                |step: &&mut Step| step.kind == Collective::AllReduce && step.axes & split == step.axes;
            facts[id.index()]
                .steps
                .iter_mut()
                .filter(is_joined)
                .for_each(|step| step.kind = Collective::ReduceScatter);
        }
    }
}

/// Axes on which slices, one after the other and each the only reader of the last, split a value.
fn sliced_axes(
    comp: &Computation,
    facts: &[InstrFacts],
    readers: &[Vec<InstrId>],
    made: InstrId,
) -> AxisMask {
    let (mut at, mut split) = (made, 0);
    while let [reader] = readers[at.index()][..] {
        let instr = comp.instr(reader);
        let is_move = instr.op == Opcode::CustomCall && instr.word(Key::CustomCallTarget) == Some("Sharding");
        if !is_move || !facts[reader.index()].steps.is_empty() {
            break;
        }
        let (Some(from), Some(to)) = (facts[at.index()].leaves.first(), facts[reader.index()].leaves.first())
        else {
            break;
        };
        let is_new = |axis: usize| from.layout.dim_of(axis).is_none() && to.layout.dim_of(axis).is_some();
        split |= (0..MAX_AXES).map(|axis| AxisMask::from(is_new(axis)) << axis).sum::<AxisMask>();
        at = reader;
    }
    split
}
