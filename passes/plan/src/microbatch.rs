//! Microbatches as a mesh axis: the batch is split over time as other dimensions are over devices.
//!
//! With the axis in the layouts, the rules that judge a sharded program judge microbatching too: a dimension
//! that runs over the batch is split, and a sum over the batch is an all-reduce over the axis, which is
//! gradient accumulation. What every microbatch needs, but is such a sum, cannot be had microbatch by
//! microbatch.

use crate::derive::{
    Facts, Phase, derive, header, is_move, is_naming, operand_origins, order, planned_comps,
};
use crate::strip::strip;
use crate::{partial, plan_note};
use phzc_analysis::batch::{batch_dims, gcd};
use phzc_analysis::graph::Graph;
use phzc_cost::Collective;
use phzc_ir::effects::has_side_effect;
use phzc_ir::{
    CompId, Diagnostic, InstrId, Key, Layout, MAX_AXES, Mesh, Module, Opcode, Result, Shape, Sharding, Value,
    notes,
};

/// The axis of the microbatches: the outermost.
pub const TIME: usize = 0;

/// A placed module as one stage on a mesh whose first axis is the microbatches; the stages go into a note of
/// their own. One microbatch is no axis.
///
/// # Errors
/// When the header cannot be read, stages have different meshes, there are too many axes, a change of layout
/// is said to run at a time when it cannot, or what a loop runs at another than the loop.
pub fn on_time_axis(placed: &Module) -> Result<Module> {
    on_time_axis_of(placed, &derive(placed)?)
}

/// The same of a module whose facts are known, with as many microbatches as they say.
///
/// # Errors
/// As [`on_time_axis`].
pub fn on_time_axis_of(placed: &Module, facts: &Facts) -> Result<Module> {
    if let Some(problem) = order::problems_of_moves(placed, facts).first() {
        return Err(Diagnostic::error(problem.message.clone()));
    }
    let header = &facts.header;
    let (mesh, n_parts) = (header.meshes[0].clone(), header.n_microbatches);
    if header.meshes.iter().any(|other| *other != mesh) {
        return Err(Diagnostic::error("the stages of the plan have different meshes"));
    }
    let sizes: Vec<i64> = std::iter::once(n_parts as i64).chain(mesh.sizes.iter().copied()).collect();
    // A mesh would drop the axes that are too many.
    if sizes.iter().filter(|&&size| size > 1).count() > MAX_AXES {
        return Err(Diagnostic::error("microbatches and the mesh have more than four axes together"));
    }
    let timed = Mesh::new(&sizes);
    let mut module = placed.clone();
    if n_parts > 1 {
        let layouts = layouts(placed, facts, &mesh);
        for (comp, found) in planned_comps(placed).into_iter().zip(layouts) {
            set_layouts(&mut module, comp, &found, &timed);
        }
        module.set_note(notes::MESH, &timed.to_string());
        module.set_attr("num_partitions", timed.n_devices().to_string());
    }
    flatten_stages(&mut module);
    Ok(module)
}

/// A placed module without its devices: one stage on a mesh that has the axis of the microbatches alone. The
/// stages go into a note of their own.
///
/// # Errors
/// When the header cannot be read.
pub fn on_time_axis_alone(placed: &Module) -> Result<Module> {
    let n_parts = header(placed)?.n_microbatches;
    let mut module = placed.clone();
    flatten_stages(&mut module);
    strip(&mut module);
    Ok(over_time(module, n_parts))
}

/// The same, but what the plan has added stays: copies that are made again, and changes of layout as
/// `copy`, which is what they are without devices.
///
/// # Errors
/// As [`on_time_axis_alone`].
pub fn on_time_axis_with_moves(placed: &Module) -> Result<Module> {
    let n_parts = header(placed)?.n_microbatches;
    let mut module = placed.clone();
    flatten_stages(&mut module);
    for comp in planned_comps(placed) {
        for instr in &mut module.comps[comp.index()].instrs {
            partial::set(instr, &[]);
            if is_move(instr) {
                instr.op = Opcode::Copy;
                instr.attrs.retain(|attr| attr.key != Key::CustomCallTarget);
            }
        }
    }
    Ok(over_time(module, n_parts))
}

/// One stage on the axis of the microbatches, in place of the layouts that there are.
fn over_time(mut module: Module, n_parts: usize) -> Module {
    for comp in planned_comps(&module) {
        let instrs = &mut module.comps[comp.index()].instrs;
        instrs.iter_mut().for_each(|instr| instr.attrs.retain(|attr| attr.key != Key::Sharding));
    }
    let (mesh, graph) = (Mesh::new(&[n_parts as i64]), Graph::build(&module));
    // One microbatch is no axis.
    let dims = if n_parts > 1 { batch_dims(&graph) } else { vec![0; graph.tensors.len()] };
    for comp in planned_comps(&module) {
        let leaf = |&tensor: &u32| over_batch(Layout::REPLICATED, dims[tensor as usize]);
        let values = graph.values[comp.index()].iter();
        let found: Vec<Vec<Layout>> = values.map(|leaves| leaves.iter().map(leaf).collect()).collect();
        set_layouts(&mut module, comp, &found, &mesh);
    }
    module.set_note(notes::MESH, &mesh.to_string());
    module.set_attr("num_partitions", n_parts.to_string());
    module
}

/// A layout with the axis of the microbatches on the first of these dimensions, a bit each.
fn over_batch(layout: Layout, batch: u64) -> Layout {
    layout.with(TIME, (batch != 0).then(|| batch.trailing_zeros() as usize))
}

/// The most microbatches that leave every device a whole sample of each: the greatest common divisor of the
/// sizes that devices have of the dimensions that run over the batch. Zero if there is no batch.
pub fn most_parts(sharded: &Module, facts: &Facts) -> i64 {
    let graph = Graph::build(sharded);
    let dims = batch_dims(&graph);
    let mesh = &facts.header.meshes[0];
    let local = |comp: CompId, id: InstrId, leaf: usize, tensor: u32| {
        let dim = dims[tensor as usize].trailing_zeros() as usize;
        let layout = facts.comps[comp.index()][id.index()].leaves[leaf].layout;
        graph.tensors[tensor as usize].dims[dim] / layout.tiles(dim, mesh)
    };
    let mut most = 0;
    for comp in planned_comps(sharded) {
        for (id, _) in sharded.comp(comp).iter() {
            for (leaf, &tensor) in graph.values[comp.index()][id.index()].iter().enumerate() {
                if dims[tensor as usize] != 0 {
                    most = gcd(most, local(comp, id, leaf, tensor));
                }
            }
        }
    }
    most
}

/// One stage; where each instruction ran stays in a note.
fn flatten_stages(module: &mut Module) {
    for comp in planned_comps(module) {
        for instr in &mut module.comps[comp.index()].instrs {
            let stage = instr.note(notes::STAGE).unwrap_or("0").to_owned();
            instr.remove_note(notes::STAGE);
            instr.set_note(notes::OF_STAGE, &stage);
        }
    }
    module.remove_note(notes::STAGES);
    module.remove_note(notes::REPLICAS);
    let mut plan = plan_note::read(module);
    plan.insert("n_microbatches".into(), 1.into());
    plan.insert("n_stages".into(), 1.into());
    // One stage has no order.
    plan.remove("schedule");
    module.set_note(notes::PLAN, &serde_json::Value::Object(plan).to_string());
}

/// Per planned computation and instruction: the layouts of its leaves with the axis of the microbatches.
fn layouts(placed: &Module, facts: &Facts, mesh: &Mesh) -> Vec<Vec<Vec<Layout>>> {
    let graph = Graph::build(placed);
    let dims = batch_dims(&graph);
    let timed = |leaf: Layout, tensor: u32| {
        let axes = (0..mesh.n_axes()).map(|axis| (axis + 1, leaf.dim_of(axis)));
        let shifted = axes.fold(Layout::REPLICATED, |layout, (axis, dim)| layout.with(axis, dim));
        over_batch(shifted, dims[tensor as usize])
    };
    let of_comp = |comp: CompId| {
        let values = facts.comps[comp.index()].iter().zip(&graph.values[comp.index()]);
        let leaves = values.map(|(own, tensors)| own.leaves.iter().zip(tensors));
        leaves.map(|it| it.map(|(leaf, &tensor)| timed(leaf.layout, tensor)).collect()).collect()
    };
    planned_comps(placed).into_iter().map(of_comp).collect()
}

fn set_layouts(module: &mut Module, comp: CompId, layouts: &[Vec<Layout>], mesh: &Mesh) {
    for (instr, layouts) in module.comps[comp.index()].instrs.iter_mut().zip(layouts) {
        let mut sums = partial::read(instr, layouts.len()).unwrap_or_default();
        sums.iter_mut().for_each(|axes| *axes <<= TIME + 1);
        partial::set(instr, &sums);
        let tiling = |(shape, layout): (&Shape, &Layout)| {
            layout.to_tiling(shape.as_array().map_or(0, |array| array.rank()), mesh)
        };
        let mut tilings: Vec<_> = instr.shape.leaves().into_iter().zip(layouts).map(tiling).collect();
        let is_tuple = instr.shape.as_array().is_none();
        let sharding = match tilings.len() {
            1 if !is_tuple => Sharding::Single(tilings.remove(0)),
            _ => Sharding::Tuple(tilings),
        };
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    }
}

/// Whether each instruction of the entry comes after all microbatches: it is, or depends on, a sum over them.
/// `None` where loops sum over microbatches: their iterations would have to be taken apart to tell.
/// There have to be several microbatches: one has no axis.
///
/// # Errors
/// When a microbatch needs something that comes after all, or the batch cannot be split that way.
pub fn after_all(timed: &Module, facts: &Facts) -> Result<Option<Vec<bool>>> {
    if let Some(problem) = facts.problems.first() {
        return Err(split_error(timed, problem.comp, problem.instr, &problem.message));
    }
    let (comp, all) = (timed.entry(), &facts.comps[timed.entry.index()]);
    let (mut after, mut is_free) = (vec![false; all.len()], vec![false; all.len()]);
    for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr) && instr.op != Opcode::Parameter) {
        let own = &all[id.index()];
        // Every microbatch makes for itself what is made of constants alone.
        let is_given = |(maker, _): (InstrId, usize)| is_free[maker.index()];
        is_free[id.index()] = !has_side_effect(instr) && operand_origins(comp, instr).all(is_given);
        if is_free[id.index()] {
            continue;
        }
        let is_split = own.leaves.iter().any(|leaf| leaf.layout.dim_of(TIME).is_some());
        let waits = operand_origins(comp, instr).any(|(maker, _)| after[maker.index()]);
        let over_time = own.steps.iter().find(|step| step.axes >> TIME & 1 == 1);
        if over_time.is_some_and(|step| step.kind != Collective::AllReduce) || (waits && is_split) {
            return Err(split_error(timed, timed.entry, id, "every microbatch needs a sum over all of them"));
        }
        after[id.index()] = waits || over_time.is_some() || own.phase == Phase::Update;
    }
    let inner = planned_comps(timed).into_iter().filter(|&comp| comp != timed.entry);
    let mut steps = inner.flat_map(|comp| &facts.comps[comp.index()]).flat_map(|own| &own.steps);
    Ok((!steps.any(|step| step.axes >> TIME & 1 == 1)).then_some(after))
}

fn split_error(module: &Module, comp: CompId, id: InstrId, why: &str) -> Diagnostic {
    let instr = module.comp(comp).instr(id);
    let error =
        Diagnostic::error(format!("the program cannot run in microbatches because of `{}`", instr.name));
    let error = if instr.span == phzc_ir::Span::default() { error } else { error.at(instr.span) };
    error.note(None, why.to_owned()).help("plan with `place{microbatches=1}`")
}

#[cfg(test)]
mod tests;
