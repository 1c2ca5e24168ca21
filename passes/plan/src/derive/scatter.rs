//! Reduce-scatters: an all-reduce whose value only a slice reads, which XLA's ReduceScatterCreator joins.

use super::ops::is_move;
use super::{InstrFacts, Step};
use crate::pricing::{AxisMask, axes_of};
use phzc_cost::Collective;
use phzc_ir::{Computation, InstrId, Layout, MAX_AXES, Mesh};

/// Who reads each value of a computation.
pub struct Readers(Vec<Vec<InstrId>>);

impl Readers {
    /// The readers; the root's is whoever runs the computation.
    pub fn of(comp: &Computation) -> Readers {
        let mut readers: Vec<Vec<InstrId>> = vec![Vec::new(); comp.instrs.len()];
        for (id, instr) in comp.iter() {
            instr.operands.iter().for_each(|operand| readers[operand.index()].push(id));
        }
        readers[comp.root.index()].push(comp.root);
        Readers(readers)
    }

    /// The only reader of a value, if there is one.
    pub fn only(&self, id: InstrId) -> Option<InstrId> {
        if let [reader] = self.0[id.index()][..] { Some(reader) } else { None }
    }
}

/// Turns all-reduces over the axes that a chain of slices, the value's only readers, splits it on.
///
/// What one of them scatters is less for the next: the first works on the whole message.
pub fn join(comp: &Computation, facts: &mut [InstrFacts], meshes: &[Mesh]) {
    let readers = Readers::of(comp);
    for id in (0..comp.instrs.len()).map(InstrId::new) {
        // A movement that does a sum is just what it says.
        let is_open = !is_move(comp.instr(id));
        if is_open && facts[id.index()].steps.iter().any(|step| step.kind == Collective::AllReduce) {
            let split = sliced_axes(comp, facts, &readers, id);
            let own = &mut facts[id.index()];
            let is_joined =
                |step: &&mut Step| step.kind == Collective::AllReduce && step.axes & split == step.axes;
            let mut n_tiles = 1.0;
            for step in own.steps.iter_mut().filter(is_joined) {
                step.kind = Collective::ReduceScatter;
                step.bytes /= n_tiles;
                n_tiles *=
                    axes_of(step.axes).map(|axis| meshes[own.stage].sizes[axis] as f64).product::<f64>();
            }
        }
    }
}

/// Axes on which slices, one after the other and each the only reader of the last, split a value.
fn sliced_axes(comp: &Computation, facts: &[InstrFacts], readers: &Readers, made: InstrId) -> AxisMask {
    let Some(from) = facts[made.index()].leaves.first() else { return 0 };
    let to = sliced_layout(comp, facts, readers, made);
    let is_new = |axis: usize| from.layout.dim_of(axis).is_none() && to.dim_of(axis).is_some();
    (0..MAX_AXES).map(|axis| AxisMask::from(is_new(axis)) << axis).sum()
}

/// The layout that slices, one after the other and each the only reader of the last, leave of a value.
pub fn sliced_layout(comp: &Computation, facts: &[InstrFacts], readers: &Readers, made: InstrId) -> Layout {
    let mut at = made;
    while let Some(reader) = readers.only(at) {
        // The root is its own reader.
        if reader == at
            || !is_move(comp.instr(reader))
            || !facts[reader.index()].steps.is_empty()
            || facts[reader.index()].leaves.is_empty()
        {
            break;
        }
        at = reader;
    }
    facts[at.index()].leaves.first().map(|leaf| leaf.layout).unwrap_or_default()
}
