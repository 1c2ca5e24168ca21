//! The text of a candidate: the program in a stage's layouts, with the stage of every instruction.

use super::Problem;
use crate::shard::Solved;
use crate::shard::decision::Decision;
use crate::shard::emit::emit;
use crate::shard::model::{Input, Model};
use phzc_ir::{CompId, InstrId, Module};

/// The program in the layouts that were chosen from `input`, not yet cut.
pub fn sharded(problem: &Problem, input: Input, solved: &Solved) -> Module {
    let mut module = problem.subject.module(problem.plain).clone();
    let mut model = Model::new(input, &solved.mesh);
    emit(&mut module, &mut Decision::new(&mut model, &solved.choice.option));
    module.set_note("phzc.mesh", &solved.mesh.to_string());
    module
}

/// Notes the stages and the number of microbatches.
pub fn write(module: &mut Module, stages: &[Vec<usize>], n_stages: usize, n_microbatches: usize) {
    if n_stages > 1 {
        for comp in crate::derive::planned_comps(module) {
            note_stages(module, comp, &stages[comp.index()]);
        }
    }
    head(module, n_stages, n_microbatches);
}

/// The header's notes of a number of stages on equal meshes, and of microbatches.
pub fn head(module: &mut Module, n_stages: usize, n_microbatches: usize) {
    if n_stages > 1 {
        let mesh = module.note("phzc.mesh").unwrap_or_default();
        let meshes: Vec<String> = (0..n_stages).map(|stage| format!("{stage}:{mesh}")).collect();
        module.set_note("phzc.stages", &meshes.join(";"));
    }
    super::note::set(module, &[("n_stages", n_stages.into()), ("n_microbatches", n_microbatches.into())]);
}

fn note_stages(module: &mut Module, comp: CompId, stages: &[usize]) {
    let instrs = &mut module.comps[comp.index()].instrs;
    for (id, stage) in (0..instrs.len()).map(InstrId::new).zip(stages) {
        instrs[id.index()].set_note("phzc.stage", &stage.to_string());
    }
}
