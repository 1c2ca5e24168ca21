//! A pipeline runs the forward part of a microbatch before its backward part: nothing of the first can read what the other makes.

use super::{Facts, Nature, Problem, is_naming, operand_origins};
use phzc_ir::Module;

/// Adds a problem for every instruction of a plan with several stages that reads what a later part of its microbatch makes.
pub fn check(module: &Module, facts: &mut Facts) {
    if facts.header.meshes.len() < 2 {
        return;
    }
    let (comp, all) = (module.entry(), &facts.comps[module.entry.index()]);
    let mut found = Vec::new();
    for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr)) {
        let own = &all[id.index()];
        let is_late = |&(maker, leaf): &(phzc_ir::InstrId, usize)| {
            let made = &all[maker.index()];
            made.phase > own.phase && made.natures.get(leaf) == Some(&Nature::Part)
        };
        if let Some((maker, _)) = operand_origins(comp, instr).find(is_late) {
            let message = format!(
                "`{}` reads `{}`, which a later part of the microbatch makes",
                instr.name,
                comp.instr(maker).name
            );
            found.push(Problem { comp: module.entry, instr: id, is_fatal: true, message });
        }
    }
    facts.problems.extend(found);
}
