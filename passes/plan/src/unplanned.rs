//! The program that a plan is of, for those who plan it anew.

use crate::derive::Facts;
use crate::report::again;
use crate::strip::strip;
use phzc_ir::{InstrId, Module, notes};

/// The program that a plan is of: no note of a pass, no layout but those that were given, nothing done again.
/// What only fed what the backward part did again is dead.
pub fn unplanned(plan: &Module, facts: &Facts) -> Module {
    let mut module = plan.clone();
    read_originals(&mut module, facts);
    strip(&mut module);
    let mut is_given = false;
    for instr in module.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        is_given |= instr.note(notes::GIVEN).is_some();
        OF_INSTRS.iter().for_each(|note| instr.remove_note(note));
    }
    OF_HEADER.iter().for_each(|note| module.remove_note(note));
    if !is_given {
        module.attrs.retain(|attr| &*attr.key != "num_partitions");
    }
    module
}

/// Makes all that reads what the plan has the backward part do again read the forward part's value. What the
/// program itself does again has names of its own.
fn read_originals(module: &mut Module, facts: &Facts) {
    let comp = module.comp(module.entry);
    let is_ours = |id: &InstrId| comp.instr(*id).name.split('.').any(|part| part == "again");
    let mut first: Vec<InstrId> = (0..comp.instrs.len()).map(InstrId::new).collect();
    for (id, original) in again(module, facts).into_iter().filter(|(id, _)| is_ours(id)) {
        first[id.index()] = original;
    }
    for instr in &mut module.comps[module.entry.index()].instrs {
        instr.operands.iter_mut().for_each(|operand| *operand = first[operand.index()]);
    }
}

/// What passes that plan note of instructions.
const OF_INSTRS: [&str; 5] = [notes::STRATEGY, notes::BLOCK, notes::PHASE, notes::GIVEN, notes::ATTENTION];
/// What they note in the header.
const OF_HEADER: [&str; 6] =
    [notes::PASSES, notes::CLUSTER, notes::PLAN, notes::MESH, notes::STAGES, notes::REPLICAS];

#[cfg(test)]
mod tests {
    use super::unplanned;
    use crate::derive::derive;

    #[test]
    fn layouts_notes_and_what_was_done_again_are_gone() {
        let plan = r#"HloModule m, num_partitions=2, frontend_attributes={phzc.mesh="x=2",phzc.plan="{}"}
            ENTRY e {
                x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
                a = f32[8] negate(x), frontend_attributes={phzc.block="0"}
                g = f32[8] tanh(a), frontend_attributes={phzc.phase="bwd"}
                t = (f32[8], f32[8]) tuple(x, g), frontend_attributes={phzc.phase="bwd"}
                b = (f32[8], f32[8]) opt-barrier(t), frontend_attributes={phzc.phase="bwd"}
                h = f32[8] get-tuple-element(b), index=0, frontend_attributes={phzc.phase="bwd"}
                a.again = f32[8] negate(h), frontend_attributes={phzc.phase="bwd"}
                ROOT d = f32[8] multiply(g, a.again), frontend_attributes={phzc.phase="bwd"}
            }"#;
        let plan = phzc_ir::parse(plan).expect("legal");
        let module = unplanned(&plan, &derive(&plan).expect("its notes are legal"));
        let text = phzc_ir::print(&module);
        assert!(text.contains("multiply(g, a)"), "{text}");
        assert!(["phzc.", "sharding", "num_partitions"].iter().all(|word| !text.contains(word)), "{text}");
    }
}
