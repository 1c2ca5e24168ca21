//! What a loop's forward trips compute for its backward trips alone, put where these read it.
//!
//! `lax.scan` writes factors of gradients (`1 - tanh(x)²`) into the forward loop's body, for its stacks.
//! Written layer by layer they belong to the backward part, as in a program without a loop: what reads a
//! value there can also have it computed again.

use phzc_analysis::graph::Graph;
use phzc_analysis::phase::{Phase, phases};
use phzc_ir::Module;

/// Moves every instruction of the backward part right before its first reader.
pub(super) fn put_backward_late(module: &mut Module) {
    let graph = Graph::build(module);
    let phases = phases(module, &graph);
    let entry = module.entry;
    let mut is_backward = vec![false; module.entry().instrs.len()];
    for (node, phase) in graph.nodes.iter().zip(phases) {
        if node.comp == entry && phase == Phase::Backward && !node.operands.is_empty() {
            is_backward[node.instr.index()] = true;
        }
    }
    // The place of the first reader; readers come after, so theirs are known.
    let comp = &mut module.comps[entry.index()];
    let mut first: Vec<usize> = vec![usize::MAX; comp.instrs.len()];
    let mut place: Vec<usize> = (0..comp.instrs.len()).collect();
    for (index, instr) in comp.instrs.iter().enumerate().rev() {
        if is_backward[index] && first[index] != usize::MAX {
            place[index] = first[index];
        }
        for operand in &instr.operands {
            first[operand.index()] = first[operand.index()].min(place[index]);
        }
    }
    let mut order: Vec<usize> = (0..place.len()).collect();
    order.sort_by_key(|&index| (place[index], index));
    comp.reorder(&order);
}
