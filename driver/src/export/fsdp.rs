//! FSDP2 and `DTensor`: per parameter, its stage and the placement on every axis of the stage's mesh, JSON.
//!
//! Placements are `DTensor`'s: `Shard(dim)` and `Replicate()`, one per axis of `init_device_mesh`, major axis
//! first.

use super::Export;
use super::run::Run;
use phzc_cost::Schedule;
use phzc_ir::{InstrId, Mesh, Opcode};
use phzc_passes::batch::data;
use phzc_passes::derive::Phase;
use phzc_passes::graph::Graph;
use serde_json::{Map, Value, json};

/// The file, with what placements cannot say.
pub fn write(run: &Run) -> Export {
    let mut lost = Vec::new();
    if run.plan.stages.len() > 1 {
        let what =
            if run.schedule == Schedule::OneFOneB { String::new() } else { format!(" ({})", run.schedule) };
        lost.push(format!(
            "{} stages and the order of {} microbatches{what}: torch.distributed.pipelining runs them",
            run.plan.stages.len(),
            run.plan.n_microbatches
        ));
    }
    if run.recompute_share > 0.0 {
        lost.push("what is recomputed: torch.utils.checkpoint is called by the model".into());
    }
    lost.push("layouts of activations: they follow from the placements by DTensor's own rules".into());
    let meshes = &run.facts.header.meshes;
    let stages: Vec<Value> = meshes.iter().enumerate().map(|(at, mesh)| stage(run, at, mesh)).collect();
    let value = json!({
        "schema": 1,
        "program": run.program,
        "plan": run.headline(),
        "n_microbatches": run.plan.n_microbatches,
        "stages": stages,
        "parameters": parameters(run, true),
        "optimizer_states": parameters(run, false),
        "cannot_say": lost,
    });
    let text = serde_json::to_string_pretty(&value).expect("its keys are strings");
    // Placements say all else.
    Export { text: text + "\n", lost: Vec::new(), elsewhere: lost }
}

/// Devices and mesh of a stage, as `init_device_mesh` takes them.
fn stage(run: &Run, at: usize, mesh: &Mesh) -> Value {
    let names: Vec<&str> = (0..mesh.n_axes()).map(|axis| mesh.axis_name(axis)).collect();
    let zero = run.plan.stages[at].parallelism.as_ref().and_then(|it| it.zero_stage);
    json!({
        "devices": run.facts.header.devices(at),
        "mesh_dim_names": names,
        "mesh_shape": mesh.sizes.to_vec(),
        "reshard_after_forward": zero == Some(3),
    })
}

/// The entry's parameters but its data: those that the forward part reads, or the others, which are the
/// optimizer's.
fn parameters(run: &Run, is_forward: bool) -> Map<String, Value> {
    let (entry, graph) = (run.module.entry(), Graph::build(run.module));
    let data: Vec<InstrId> = data(&graph).map(|id| graph.tensors[id as usize].home.1).collect();
    let facts = &run.facts.comps[run.module.entry.index()];
    let mut is_read = vec![false; entry.instrs.len()];
    for (id, instr) in entry.iter().filter(|(id, _)| facts[id.index()].phase == Phase::Forward) {
        let others = instr.operands.iter().filter(|operand| **operand != id);
        others.for_each(|operand| is_read[operand.index()] = true);
    }
    let is_kept = |id: InstrId| is_read[id.index()] == is_forward && !data.contains(&id);
    let arrays = entry.iter().filter(|(id, instr)| instr.op == Opcode::Parameter && is_kept(*id));
    arrays.filter_map(|(id, instr)| Some((instr.name.to_string(), parameter(run, id)?))).collect()
}

fn parameter(run: &Run, id: InstrId) -> Option<Value> {
    let (entry, own) = (run.module.entry(), &run.facts.comps[run.module.entry.index()][id.index()]);
    let array = entry.instr(id).shape.as_array()?;
    let leaf = own.leaves.first()?;
    let mesh = &run.facts.header.meshes[leaf.stage];
    let place = |axis: usize| match leaf.layout.dim_of(axis) {
        Some(dim) => format!("Shard({dim})"),
        None => "Replicate()".to_owned(),
    };
    let placements: Vec<String> = (0..mesh.n_axes()).map(place).collect();
    Some(json!({
        "stage": leaf.stage,
        "shape": array.dims.to_vec(),
        "dtype": array.dtype.as_str(),
        "placements": placements,
    }))
}
