//! The header of a device's program: its number of partitions, its entry's shapes, and the notes.

use phzc_ir::{InstrId, Module, Shape, Tiling, notes};
use phzc_plan::derive::Facts;

/// Rewrites the header of `lowered`, and notes the layouts of whole values on entry parameters and root.
pub fn write(lowered: &mut Module, module: &Module, facts: &Facts) {
    let mesh = &facts.header.meshes[0];
    lowered.set_attr("num_partitions", mesh.n_devices().to_string());
    lowered.attrs.retain(|attr| !attr.key.starts_with("allow_spmd_sharding_propagation"));
    if lowered.attr("entry_computation_layout").is_some() {
        let text = entry_layout(lowered);
        lowered.set_attr("entry_computation_layout", text);
    }
    let old = module.entry();
    let entry = lowered.entry.index();
    let root = (old.root, lowered.comps[entry].root);
    let params = old.params().into_iter().zip(lowered.comps[entry].params());
    for (before, after) in params.chain([root]) {
        let note = global_layouts(module, facts, before);
        lowered.comps[entry].instrs[after.index()].set_note(notes::GLOBAL, &note);
    }
    lowered.set_note(notes::SPMD, &mesh.to_string());
}

/// `{devices=[2,1]<=[2]}, {replicated}`: one layout per leaf.
fn global_layouts(module: &Module, facts: &Facts, id: InstrId) -> String {
    let shapes = module.entry().instr(id).shape.leaves();
    let leaves = &facts.comps[module.entry.index()][id.index()].leaves;
    let tiling = |(shape, leaf): (&&Shape, &phzc_plan::derive::Leaf)| {
        let rank = shape.as_array().map_or(0, |array| array.rank());
        leaf.layout.to_tiling(rank, &facts.header.meshes[leaf.stage])
    };
    let all: Vec<String> = shapes.iter().zip(leaves).map(tiling).map(|it: Tiling| it.to_string()).collect();
    all.join(", ")
}

/// `{(f32[2]{0}, f32[])->f32[2]{0}}`.
fn entry_layout(module: &Module) -> String {
    let entry = module.entry();
    let params: Vec<String> =
        entry.params().iter().map(|&id| phzc_ir::text::shape_text(&entry.instr(id).shape)).collect();
    format!("{{({})->{}}}", params.join(", "), phzc_ir::text::shape_text(&entry.root().shape))
}
