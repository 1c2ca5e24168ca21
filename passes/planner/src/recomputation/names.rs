//! Tuples and barriers of the program: in which stages their elements are made and read.

use super::stage;
use phzc_ir::{Computation, InstrId};
use phzc_plan::derive::{is_naming, operand_origins, origin_by};

/// Per instruction: whether it names values that are made, and read, in one stage only. Of others no element
/// can be made anew for one stage: all elements of a barrier wait for each other.
pub fn in_one_stage(comp: &Computation) -> Vec<bool> {
    let mut span = vec![(usize::MAX, 0); comp.instrs.len()];
    let mut add = |id: InstrId, stage: usize| {
        let (first, last) = &mut span[id.index()];
        (*first, *last) = ((*first).min(stage), (*last).max(stage));
    };
    for (id, instr) in comp.iter() {
        if is_naming(instr) {
            operand_origins(comp, instr).for_each(|(maker, _)| add(id, stage(comp.instr(maker))));
            continue;
        }
        for &operand in &instr.operands {
            for leaf in 0..comp.instr(operand).shape.n_leaves() {
                origin_by(comp, operand, leaf, |name| add(name, stage(instr)));
            }
        }
    }
    span.into_iter().map(|(first, last)| first >= last).collect()
}
