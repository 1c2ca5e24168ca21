//! Values that a plan may be forbidden to gather: weights before they are used (ZeRO-3, FSDP), updated ones
//! (ZeRO-1 and 2).
//!
//! ZeRO (Rajbhandari et al., SC 2020) keeps in parts what every replica would hold whole. Each kind shows in
//! one gather: of a weight where it is read, or of what replaces it where it is handed over.

use super::model::Input;
use phzc_analysis::batch::has_batch;
use phzc_analysis::graph::{Graph, Node, NodeKind};
use phzc_ir::Layout;

/// Per tensor: whether it may not be gathered.
pub(super) fn ungathered(input: &Input) -> Vec<bool> {
    let (graph, forbid) = (input.graph, input.forbid);
    let mut found = match forbid.forbids_zero(3) {
        true => made_of_weights(graph),
        false => vec![false; graph.tensors.len()],
    };
    if forbid.forbids_zero(1) {
        let has_batch = has_batch(graph);
        let states = graph.aliases.iter().filter(|(_, param)| !has_batch[*param as usize]);
        states.for_each(|&(output, _)| found[output as usize] = true);
    }
    found
}

/// Whether a movement makes some dimension less split than it was.
pub(super) fn gathers(source: Layout, target: Layout, n_axes: usize) -> bool {
    (0..n_axes).any(|axis| source.dim_of(axis).is_some() && target.dim_of(axis).is_none())
}

/// Per tensor: whether it is a parameter that does not run over the batch, or made of one by what changes its
/// form, element by element or slice by slice, as loops over stacked layers do.
fn made_of_weights(graph: &Graph) -> Vec<bool> {
    let has_batch = has_batch(graph);
    let is_param = |id: usize| graph.tensors[id].param.is_some() && !has_batch[id];
    // What a loop carries is taken for a weight until its body turns out to make something else of it.
    let mut found: Vec<bool> = (0..graph.tensors.len())
        .map(|id| is_param(id) || graph.nodes[graph.tensors[id].def as usize].kind != NodeKind::Source)
        .collect();
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for node in graph.nodes.iter().filter(|node| node.kind != NodeKind::Source) {
            let is_weight = is_form_of_weights(graph, node, &found);
            for &result in node.results.iter().filter(|_| !is_weight) {
                is_changed |= std::mem::replace(&mut found[result as usize], false);
            }
        }
    }
    found
}

/// Whether a node makes weights of weights, and of scalars such as a layer's number.
fn is_form_of_weights(graph: &Graph, node: &Node, found: &[bool]) -> bool {
    let large = || node.operands.iter().filter(|&&id| !graph.tensors[id as usize].is_scalar());
    !node.is_contraction && large().next().is_some() && large().all(|&id| found[id as usize])
}

#[cfg(test)]
mod tests {
    use crate::testing::{EXAMPLES, passed, slow_8};
    use phzc_analysis::graph::Graph;
    use phzc_ir::{Module, Opcode, parse, print};
    use phzc_opt::inline::flatten;

    /// Two layers whose batch is large for their weights: every kind of ZeRO pays.
    const STEP: &str = include_str!("../../../../tests/golden/shard/zero3.ir");

    /// One layer with momentum.
    const ONE: &str = include_str!("../../../../tests/golden/shard/zero2.ir");

    fn plan(program: &str, options: &str) -> Module {
        passed(program, &format!("fuse,shard{{mesh=8{options}}}"), &slow_8()).expect("it has a plan")
    }

    /// What is gathered, by name.
    fn gathered(module: &Module) -> Vec<&str> {
        let all = module.comps.iter().flat_map(|comp| comp.instrs.iter().map(move |instr| (comp, instr)));
        let gathers = all.filter(|(_, instr)| instr.note("phzc.move") == Some("all-gather"));
        gathers.map(|(comp, instr)| &*comp.instr(instr.operands[0]).name).collect()
    }

    #[test]
    fn weights_are_not_gathered_where_zero_3_is_forbidden() {
        assert_eq!(gathered(&plan(STEP, "")), ["w1", "w2"]);
        let without = plan(STEP, ",forbid=zero3");
        assert!(gathered(&without).iter().all(|name| !["w1", "w2"].contains(name)), "{}", print(&without));
    }

    #[test]
    fn weights_that_many_microbatches_read_are_kept_whole() {
        let parts = |n_microbatches: usize| {
            let passes = format!("fuse,shard,place{{stages=1,microbatches={n_microbatches}}}");
            passed(STEP, &passes, &slow_8()).expect("it has a plan")
        };
        assert!(gathered(&parts(1)).contains(&"w1"), "{}", print(&parts(1)));
        let kept = parts(8);
        let weights = gathered(&kept).into_iter().filter(|name| name.starts_with('w'));
        assert!(
            weights.clone().count() > 0 && weights.clone().all(|name| name[2..].starts_with('n')),
            "{}",
            print(&kept)
        );
    }

    #[test]
    fn replicas_update_all_that_they_hold_where_zero_1_is_forbidden() {
        let whole = |forbid: &str| plan(ONE, &format!(",pin={{^w$=[-,-]}}{forbid}"));
        assert_eq!(gathered(&whole("")), ["wn"]);
        let without = whole(",forbid=zero1");
        assert!(!gathered(&without).contains(&"wn"), "{}", print(&without));
    }

    #[test]
    fn a_loop_s_weights_are_weights() {
        let (_, scan) = EXAMPLES.iter().find(|(name, _)| *name == "gpt_scan").expect("an example");
        let mut module = parse(scan).expect("a legal program");
        flatten(&mut module).expect("an example can be flattened");
        let graph = Graph::build(&module);
        let found = super::made_of_weights(&graph);
        let entry = module.entry;
        let is_slice = |id: &usize| {
            let (comp, instr, _) = graph.tensors[*id].home;
            comp != entry && module.comp(comp).instr(instr).op == Opcode::DynamicSlice
        };
        let n_slices = (0..found.len()).filter(|id| is_slice(id) && found[*id]).count();
        // Twelve weights per layer going forward, and those that gradients of activations are made of going
        // back.
        assert_eq!(n_slices, 18);
    }
}
