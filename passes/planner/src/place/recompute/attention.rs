//! What lies between the two products of attention.

use phzc_ir::{FusionKind, InstrId, Module};
use phzc_plan::derive::{Facts, Nature, Phase};

/// Whether each instruction of the entry is attention's: the forward product of two activations, queries and
/// keys, and what is made of it up to another such product, its weights times the values. A product with
/// weights, experts' too, ends it.
pub fn attention_core(module: &Module, facts: &Facts) -> Vec<bool> {
    let (comp, own) = (module.entry(), &facts.comps[module.entry.index()]);
    let is_data = |id: &InstrId| own[id.index()].natures.contains(&Nature::Part);
    let mut is_after = vec![false; comp.instrs.len()];
    let mut is_core = vec![false; comp.instrs.len()];
    let mut ends: Vec<InstrId> = Vec::new();
    for (id, instr) in comp.iter().filter(|(id, _)| own[id.index()].phase == Phase::Forward) {
        let is_product = instr.op.def().fusion == FusionKind::Matrix;
        let follows = instr.operands.iter().any(|operand| is_after[operand.index()]);
        let is_of_data = is_product && instr.operands.iter().all(is_data);
        if is_of_data && follows {
            ends.push(id);
        }
        is_after[id.index()] = if is_product { is_of_data && !follows } else { follows };
    }
    while let Some(id) = ends.pop() {
        for &operand in comp.instr(id).operands.iter().filter(|operand| is_after[operand.index()]) {
            if !std::mem::replace(&mut is_core[operand.index()], true) {
                ends.push(operand);
            }
        }
    }
    is_core
}
