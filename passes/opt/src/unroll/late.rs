//! What a loop's forward trips compute for its backward trips alone, put where these read it.
//!
//! `lax.scan` writes factors of gradients (`1 - tanh(x)²`) into the forward loop's body, for its stacks.
//! Written layer by layer they belong to the backward part, as in a program without a loop: what reads a
//! value there can also have it computed again.

use phzc_analysis::graph::Graph;
use phzc_analysis::phase::{Phase, phases};
use phzc_ir::Module;

/// Moves every instruction of the backward part to the place of its first reader, where they stay in order.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_a_gradient_stands_where_it_is_read() {
        let text = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
            ENTRY e {
            x = f32[8,4] parameter(0)  w = f32[4,4] parameter(1)
            h = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            t = f32[8,4] tanh(h)
            factor = f32[8,4] multiply(t, t)
            o = f32[8,4] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            g = f32[8,4] dot(o, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
            d = f32[8,4] multiply(g, factor)
            dw = f32[4,4] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
            n = f32[4,4] subtract(w, dw)
            ROOT r = (f32[4,4], f32[8,4]) tuple(n, o) }";
        let mut module = phzc_ir::parse(text).expect("legal");
        put_backward_late(&mut module);
        let names: Vec<&str> = module.entry().instrs.iter().map(|instr| &*instr.name).collect();
        assert_eq!(names, ["x", "w", "h", "t", "o", "factor", "g", "d", "dw", "n", "r"]);
        assert_eq!(phzc_ir::verify(&module), []);
    }
}
