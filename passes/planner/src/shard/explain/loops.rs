//! The loops of a block: where they run, and why an axis cannot split them.

use crate::shard::model::Model;
use crate::shard::strategies::{Menu, least_tiles};
use phzc_analysis::blocks::BlockId;
use phzc_analysis::classes::{ClassId, ClassMap};
use phzc_analysis::graph::{NodeId, TensorId};
use phzc_ir::{FactorKind, Module};
use phzc_pass::explanation::LoopFact;
use smallvec::SmallVec;

/// The loops of more than one iteration that the instruction has, or any of its block's if it has none.
pub(super) fn facts(
    module: &Module,
    model: &Model,
    node: NodeId,
    block: BlockId,
    menu: &Menu,
) -> Vec<LoopFact> {
    let blocks = model.input.blocks;
    let mut classes: SmallVec<[ClassId; 2]> = SmallVec::new();
    blocks.node_classes[node as usize].iter().for_each(|&class| blocks.classes.leaves(class, &mut classes));
    let fact = |&class: &ClassId| LoopFact {
        place: place(module, model, node, class),
        size: blocks.classes.size(class),
        refused: refused(module, model, (block, menu), class),
    };
    classes.iter().map(fact).collect()
}

/// Why each axis cannot split a loop; axes that can are left out.
fn refused(
    module: &Module,
    model: &Model,
    (block, menu): (BlockId, &Menu),
    class: ClassId,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for axis in 0..model.mesh.n_axes() {
        let position = menu.loops.iter().position(|&other| other == class);
        let is_used =
            |choice: usize| menu.strategies.iter().any(|strategy| strategy[axis] as usize == choice + 1);
        if !position.is_some_and(is_used) {
            found.push((model.mesh.axis_name(axis).to_owned(), reason(module, model, block, class, axis)));
        }
    }
    found
}

fn reason(module: &Module, model: &Model, block: BlockId, class: ClassId, axis: usize) -> String {
    let (size, n_devices) = (model.input.blocks.classes.size(class), model.mesh.sizes[axis]);
    if size % n_devices != 0 {
        return format!("{size} does not divide into {n_devices} parts");
    }
    if let Some((node, kind)) = blocking(model, block, class) {
        let name = name(module, model, node);
        return match kind {
            FactorKind::Permute => format!("`{name}` moves elements along it"),
            _ => format!("`{name}` needs it whole"),
        };
    }
    if let Some(tensor) = minor(model, block, class) {
        let name = name(module, model, model.input.graph.tensors[tensor as usize].def);
        return format!("it is the minor part of a dimension of `{name}`: its tiles would not be contiguous");
    }
    if least_tiles(model.input.graph, model.input.blocks, block, &[class]) != [0] {
        return "windows along it reach further than the next tile, or over tiles of another axis".to_owned();
    }
    "the block has more loops than are tried, or an op that reduces along several kinds of them".to_owned()
}

/// The first node of the block that cannot work on tiles of a loop.
fn blocking(model: &Model, block: BlockId, class: ClassId) -> Option<(NodeId, FactorKind)> {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    blocks.members[block as usize].iter().find_map(|&node| {
        let factors = graph.nodes[node as usize].rule.factors.iter().zip(&blocks.node_classes[node as usize]);
        let mut stuck =
            factors.filter(|(factor, _)| matches!(factor.kind, FactorKind::Permute | FactorKind::Replicate));
        let has = |whole: ClassId| {
            let mut leaves: SmallVec<[ClassId; 2]> = SmallVec::new();
            blocks.classes.leaves(whole, &mut leaves);
            leaves.contains(&class)
        };
        stuck.find(|&(_, &whole)| has(whole)).map(|(factor, _)| (node, factor.kind))
    })
}

/// The first tensor of the block in which a loop is not the major part of its dimension.
fn minor(model: &Model, block: BlockId, class: ClassId) -> Option<TensorId> {
    let is_minor = |map: &ClassMap| map.iter().any(|dim| dim.iter().skip(1).any(|&other| other == class));
    tensors(model, &model.input.blocks.members[block as usize])
        .find(|(_, map)| is_minor(map))
        .map(|(id, _)| id)
}

/// The tensors that nodes read and make, with their loops.
fn tensors<'m>(model: &'m Model, nodes: &'m [NodeId]) -> impl Iterator<Item = (TensorId, &'m ClassMap)> {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    nodes.iter().flat_map(move |&node| {
        let it = &graph.nodes[node as usize];
        let made = it.results.iter().map(move |&id| (id, blocks.def_map(id)));
        made.chain(it.operands.iter().enumerate().map(move |(slot, &id)| (id, blocks.use_map(node, slot))))
    })
}

fn place(module: &Module, model: &Model, node: NodeId, class: ClassId) -> String {
    let nodes = [node];
    let mut places = tensors(model, &nodes).filter_map(|(id, map)| {
        let dim = map.iter().position(|dim| dim.contains(&class))?;
        Some((id, dim))
    });
    match places.next() {
        Some((id, dim)) => {
            let name = name(module, model, model.input.graph.tensors[id as usize].def);
            format!("dimension {dim} of `{name}`")
        }
        None => format!("a loop of `{}`", name(module, model, node)),
    }
}

/// The name of a node's instruction.
pub(super) fn name(module: &Module, model: &Model, node: NodeId) -> String {
    let it = &model.input.graph.nodes[node as usize];
    module.comp(it.comp).instr(it.instr).name.to_string()
}
