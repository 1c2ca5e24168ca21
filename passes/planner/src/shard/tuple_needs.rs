//! In which layouts tuples are handed over: what loops carry, what branches return, outputs that reuse
//! parameters' buffers.

use super::decision::Decision;
use super::sharding_request::Want;
use indexmap::IndexMap;
use phzc_analysis::graph::NodeId;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{CompId, InstrId, Key, Module, Opcode};

/// How tuples have to be handed over: (computation, position) to one per leaf.
/// The position is a loop, for its operand, or the root (`None`).
pub type TupleNeeds = IndexMap<(CompId, Option<InstrId>), Vec<Option<Want>>>;

/// Of loops, branches and the entry's outputs.
pub fn tuple_needs(
    module: &Module,
    decision: &Decision,
    leaf_nodes: &IndexMap<(CompId, InstrId), Vec<NodeId>>,
) -> TupleNeeds {
    let graph = decision.model.input.graph;
    let mut needs = TupleNeeds::new();
    for (&(comp, id), nodes) in leaf_nodes {
        let instr = module.comp(comp).instr(id);
        let carried: Vec<Option<Want>> =
            nodes.iter().map(|&node| Some(decision.written(graph.nodes[node as usize].results[0]))).collect();
        if instr.op == Opcode::While {
            needs.insert((comp, Some(id)), carried.clone());
            instr
                .comp(Key::Body)
                .into_iter()
                .for_each(|body| drop(needs.insert((body, None), carried.clone())));
        } else {
            control_comps(instr)
                .into_iter()
                .for_each(|branch| drop(needs.insert((branch, None), carried.clone())));
        }
    }
    let mut outputs: Vec<Option<Want>> = vec![None; graph.outputs.len()];
    for &(output, param) in &graph.aliases {
        let positions = graph.outputs.iter().enumerate().filter(|&(_, &other)| other == output);
        positions.for_each(|(leaf, _)| outputs[leaf] = Some(decision.written(param)));
    }
    needs.insert((module.entry, None), outputs);
    needs
}
