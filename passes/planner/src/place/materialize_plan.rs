//! The text of a candidate: the program in a stage's layouts, with the stage of every instruction.

use super::Problem;
use super::cut::mixed::Group;
use crate::shard::Solved;
use crate::shard::decision::Decision;
use crate::shard::model::{Input, Model};
use crate::shard::write_layouts::emit;
use phzc_cost::Cluster;
use phzc_ir::{CompId, InstrId, Module, notes};
use phzc_plan::derive::header;
use phzc_plan::plan_note;

/// The program in the layouts that were chosen from `input`, not yet cut; its phases may be tasks of their
/// own.
pub fn sharded(problem: &Problem, input: Input, solved: &Solved, in_tasks: bool) -> Module {
    let mut module = problem.subject.module(problem.plain).clone();
    let mut model = Model::new(input, &solved.mesh);
    emit(&mut module, &mut Decision::new(&mut model, &solved.choice.option));
    module.set_note(notes::MESH, &solved.mesh.to_string());
    note_tasks(&mut module, in_tasks);
    module
}

/// Notes whether phases are tasks of their own.
pub fn note_tasks(module: &mut Module, in_tasks: bool) {
    if in_tasks {
        plan_note::set(module, &[(plan_note::IN_TASKS, true.into())]);
    }
}

/// Notes the stages and the number of microbatches.
pub fn write(module: &mut Module, stages: &[Vec<usize>], n_stages: usize, n_microbatches: usize) {
    if n_stages > 1 {
        for comp in phzc_plan::derive::planned_comps(module) {
            note_stages(module, comp, &stages[comp.index()]);
        }
    }
    head(module, n_stages, n_microbatches);
}

/// The header's notes of a number of stages on equal meshes, and of microbatches.
pub fn head(module: &mut Module, n_stages: usize, n_microbatches: usize) {
    let mesh = module.note(notes::MESH).unwrap_or_default();
    head_of(module, &vec![mesh; n_stages], n_microbatches);
}

/// The header's notes of stages on these meshes, and of microbatches.
pub fn head_of(module: &mut Module, meshes: &[String], n_microbatches: usize) {
    if let [first, _, ..] = meshes {
        module.set_note(notes::MESH, first);
        let meshes: Vec<String> =
            meshes.iter().enumerate().map(|(at, mesh)| format!("{at}:{mesh}")).collect();
        module.set_note(notes::STAGES, &meshes.join(";"));
    }
    if meshes.len() > 1 {
        plan_note::remove(module, plan_note::IN_TASKS);
    }
    let counts = [("n_stages", meshes.len().into()), ("n_microbatches", n_microbatches.into())];
    plan_note::set(module, &counts);
}

/// The first device of every stage: those of one kind are one after the other.
pub fn first_devices(groups: &[Group], cluster: &Cluster) -> Vec<usize> {
    let mut next = cluster.first_devices();
    let mut take = |group: &Group| {
        let first = next[group.kind];
        next[group.kind] += group.n_devices;
        first
    };
    groups.iter().map(&mut take).collect()
}

/// Notes which device is the first of each device group, if they are not one after the other.
pub fn put_on(module: &mut Module, first_devices: &[usize]) {
    let header = header(module).expect("the header's notes are the planner's own");
    if header.firsts == first_devices {
        return;
    }
    let place = |(stage, mesh)| format!("{stage}:{mesh}@{}", first_devices[header.group(stage)]);
    let meshes: Vec<String> = header.meshes.iter().enumerate().map(place).collect();
    module.set_note(notes::STAGES, &meshes.join(";"));
}

fn note_stages(module: &mut Module, comp: CompId, stages: &[usize]) {
    let instrs = &mut module.comps[comp.index()].instrs;
    for (id, stage) in (0..instrs.len()).map(InstrId::new).zip(stages) {
        instrs[id.index()].set_note(notes::STAGE, &stage.to_string());
    }
}
