//! Weights that copies share out (ZeRO-3, FSDP): how each is stored, whatever the planner would choose.

use super::degrees::Degrees;
use super::planned::axes;
use phzc_ir::Module;
use phzc_passes::derive::{Facts, Phase};
use phzc_passes::graph::{Graph, TensorId};
use phzc_passes::report::{ColumnsRows, Splits};
use std::collections::BTreeSet;

/// The weights that the forward part reads and the update replaces, by name, and their layouts: split by
/// tensor parallelism as products read them, and over all copies along the first other dimension that
/// divides. What has no such dimension is left to the planner.
pub fn stored(
    module: &Module,
    facts: &Facts,
    degrees: &Degrees,
    splits: &ColumnsRows,
) -> Vec<(String, String)> {
    let graph = Graph::build(module);
    let weights: BTreeSet<TensorId> = graph.aliases.iter().map(|&(_, param)| param).collect();
    let weights = weights.into_iter().filter(|&id| is_read_forward(facts, &graph, id));
    weights
        .filter_map(|id| Some((name(module, &graph, id), layout(module, &graph, id, degrees, splits)?)))
        .collect()
}

fn name(module: &Module, graph: &Graph, id: TensorId) -> String {
    let (comp, instr, _) = graph.tensors[id as usize].home;
    module.comp(comp).instr(instr).name.to_string()
}

fn is_read_forward(facts: &Facts, graph: &Graph, id: TensorId) -> bool {
    graph.tensors[id as usize].uses.iter().any(|&(reader, _)| {
        let node = &graph.nodes[reader as usize];
        let own = facts.comps[node.comp.index()].get(node.instr.index());
        own.is_some_and(|own| own.phase == Phase::Forward)
    })
}

/// `[tensor,data]`.
fn layout(
    module: &Module,
    graph: &Graph,
    id: TensorId,
    degrees: &Degrees,
    splits: &ColumnsRows,
) -> Option<String> {
    let sizes = &graph.tensors[id as usize].dims;
    let split = split(module, graph, id, splits).unwrap_or_else(|| vec![Splits::Nothing; sizes.len()]);
    let is_expert = split.contains(&Splits::Expert);
    let has = |name: &str| axes(degrees).into_iter().find(|(own, _)| *own == name);
    let holders = ["data", "expert", "context"].into_iter().filter(|name| !is_expert || *name != "expert");
    let holders: Vec<(&str, usize)> = holders.filter_map(has).collect();
    let n_holders = holders.iter().map(|(_, size)| *size as i64).product::<i64>();
    let is_shared = |(dim, size): (usize, &i64)| split[dim] == Splits::Nothing && size % n_holders == 0;
    let shared = sizes.iter().enumerate().position(is_shared).filter(|_| n_holders > 1)?;
    let dims = split.iter().enumerate().map(|(dim, split)| match split {
        _ if dim == shared => holders.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("+"),
        Splits::Tensor if has("tensor").is_some() => "tensor".to_owned(),
        Splits::Expert if has("expert").is_some() => "expert".to_owned(),
        _ => "-".to_owned(),
    });
    Some(format!("[{}]", dims.collect::<Vec<_>>().join(",")))
}

/// How products split a weight that they read as it is, or converted.
fn split(module: &Module, graph: &Graph, id: TensorId, splits: &ColumnsRows) -> Option<Vec<Splits>> {
    let tensor = &graph.tensors[id as usize];
    let results = tensor.uses.iter().flat_map(|&(reader, _)| &graph.nodes[reader as usize].results);
    let same = results.copied().filter(|&it| graph.tensors[it as usize].dims == tensor.dims);
    let names: Vec<String> = [id].into_iter().chain(same).map(|id| name(module, graph, id)).collect();
    let own = splits.weights.iter().find(|weight| names.contains(&weight.name));
    own.map(|weight| weight.dims.clone())
}
