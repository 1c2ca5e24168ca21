//! What a program's own shardings leave open, completed as GSPMD does: its propagation gives every value a
//! layout, its partitioner's choices every change of layout.

mod flow;
mod idle;
mod partition;
mod reshard;
mod spread;

use flow::{Cuts, Flow};
use partition::{Partition, partition};
use phzc_analysis::graph::{Graph, TensorId};
use phzc_ir::{Layout, MAX_AXES, Mesh, Module, Result, Tiling, notes};
use phzc_planner::fuse;
use phzc_planner::plan_state::flatten;
use phzc_planner::shard::given_layouts;
use spread::Propagation;

/// The note of a program that was lowered for Shardy.
const SHARDY_MESHES: &str = "xla.sdy.meshes";

/// The program with a sharding for every value and every change of layout written down, on a mesh of its own
/// shardings; the collectives that follow are those of GSPMD.
///
/// # Errors
/// A sharding that no mesh expresses; those of inlining.
pub fn complete(module: &Module, n_devices: i64) -> Result<Module> {
    let mut module = module.clone();
    flatten(&mut module)?;
    let graph = Graph::build(&module);
    let mesh = loop {
        let (mesh, mut given) = given_layouts(&module, &graph, n_devices)?;
        fix_ends(&module, &graph, &mut given);
        let flow = Flow::new(&module, &graph, &mesh);
        let mut propagation = Propagation::new(&flow, &given, outputs(&module, &graph, &mesh));
        propagation.is_shardy = module.note(SHARDY_MESHES).is_some();
        propagation.run();
        let Propagation { layouts, outputs, mut cuts, .. } = propagation;
        let partitions: Vec<Partition> =
            (0..graph.nodes.len()).map(|node| partition(&flow, node, &layouts)).collect();
        cuts.extend(partitions.iter().filter_map(|it| it.cut));
        if let Some(finer) = refined(&mesh, &cuts) {
            module.set_note(notes::MESH, &finer.to_string());
            continue;
        }
        reshard::write(&mut module, &flow, &layouts, &outputs, &partitions);
        break mesh;
    };
    module.set_note(notes::MESH, &mesh.to_string());
    module.set_note(notes::PARTITIONER, "gspmd");
    module.set_attr("num_partitions", n_devices.to_string());
    fuse::ensure_noted(&mut module)?;
    Ok(module)
}

/// Parameters, and a result that is one array, are whole on every device where the program does not shard
/// them, unless its header leaves them to the partitioner.
fn fix_ends(module: &Module, graph: &Graph, given: &mut [Option<Layout>]) {
    let is_left = |what: &str| {
        let key = format!("allow_spmd_sharding_propagation_to_{what}");
        module.attr(&key).is_some_and(|allowed| allowed.contains("true"))
    };
    let params = (0..given.len()).filter(|&id| graph.tensors[id].param.is_some() && !is_left("parameters"));
    let is_array = module.entry().root().shape.as_array().is_some() && !is_left("output");
    let result = graph.outputs.iter().map(|&id| id as usize).filter(|_| is_array);
    let ends: Vec<usize> = params.chain(result).collect();
    for id in ends {
        given[id].get_or_insert_default();
    }
}

/// The layouts of the program's results: what its root says, and else whole on every device, as XLA hands
/// results over that nobody has sharded.
fn outputs(module: &Module, graph: &Graph, mesh: &Mesh) -> Vec<(TensorId, Layout)> {
    let root = module.entry().root();
    let tilings: Vec<&Tiling> =
        root.sharding().map(|sharding| sharding.leaves(graph.outputs.len())).unwrap_or_default();
    let layout = |(at, &id): (usize, &TensorId)| {
        let rank = graph.tensors[id as usize].dims.len();
        let read = tilings.get(at).and_then(|tiling| Layout::from_tiling(tiling, rank, mesh));
        (id, read.unwrap_or_default())
    };
    graph.outputs.iter().enumerate().map(layout).collect()
}

/// A mesh in which the first axis of which only a part fits some loop is two axes.
fn refined(mesh: &Mesh, cuts: &Cuts) -> Option<Mesh> {
    let &(axis, part) = cuts.first().filter(|_| mesh.n_axes() < MAX_AXES)?;
    let mut sizes = mesh.sizes.to_vec();
    sizes.splice(axis..=axis, [part, mesh.sizes[axis] / part]);
    Some(Mesh::new(&sizes))
}

#[cfg(test)]
mod tests;
