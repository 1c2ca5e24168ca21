//! Which tensors are written to memory, and which are alive when most memory is in use.

use super::kernels;
use phzc_analysis::blocks::Blocks;
use phzc_analysis::graph::{Graph, Node, NodeId, TensorId};
use phzc_analysis::phase::Phase;
use phzc_ir::flops::{Runs, multiplicities};
use phzc_ir::{AttentionNote, CompId, FusionKind, Key, Module, Opcode};
use phzc_plan::derive::{is_move, planned_comps};
use phzc_plan::pricing::{Reader, is_exact, is_materialised};
use std::collections::BTreeSet;

/// What a node does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Does {
    /// Its opcode, if it is an instruction.
    pub op: Option<Opcode>,
    /// The fused attention that it is part of.
    pub attention: Option<AttentionNote>,
    /// Whether its products are to be exact.
    pub is_exact: bool,
}

/// What every node does; a program's own change of layout is a view.
pub fn deeds(module: &Module, graph: &Graph) -> Vec<Does> {
    let does = |(id, node): (NodeId, &Node)| {
        let instr = module.comp(node.comp).instr(node.instr);
        let op = graph.opcode(module, id).map(|op| if is_move(instr) { Opcode::Bitcast } else { op });
        Does { op, attention: op.and_then(|_| AttentionNote::of(instr)), is_exact: is_exact(instr) }
    };
    (0..).zip(&graph.nodes).map(does).collect()
}

impl Does {
    /// A node as who reads this one's value.
    fn read_by(&self, reader: &Does, is_same_region: bool) -> Reader {
        let op = reader.op.unwrap_or(Opcode::Tuple);
        Reader::new(op, is_same_region, [self.attention, reader.attention])
    }
}

/// How often the conditions of loops run a kernel in one step: each is one, unless it only names a value.
pub fn condition_runs(module: &Module) -> f64 {
    let runs = multiplicities(module, Runs::Trips);
    let of_loops = planned_comps(module).into_iter().flat_map(|comp| &module.comp(comp).instrs);
    let conditions: BTreeSet<CompId> = of_loops.filter_map(|instr| instr.comp(Key::Condition)).collect();
    let computes = |comp: &CompId| module.comp(*comp).root().op.def().fusion == FusionKind::Loop;
    conditions.into_iter().filter(computes).map(|comp| runs[comp.index()]).sum()
}

/// Per tensor: whether it is in memory (`pricing::is_materialised` and `::stored_for_less`); a view is where
/// its source is.
pub fn stored(graph: &Graph, regions: &[Phase], ops: &[Does]) -> Vec<bool> {
    let all = stored_but(graph, regions, ops, &[]);
    let costly = kernels::costly(graph, regions, ops, &all);
    stored_but(graph, regions, ops, &costly)
}

/// The same, with the nodes whose results are in memory whoever reads them.
fn stored_but(graph: &Graph, regions: &[Phase], ops: &[Does], costly: &[bool]) -> Vec<bool> {
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|&output| is_output[output as usize] = true);
    let mut is_stored = vec![true; graph.tensors.len()];
    for (id, node) in graph.nodes.iter().enumerate() {
        let Some(op) = ops[id].op else { continue };
        for &result in &node.results {
            let uses = graph.tensors[result as usize].uses.iter();
            let reader = |&(reader, _): &(NodeId, u32)| {
                ops[id].read_by(&ops[reader as usize], regions[reader as usize] == regions[id])
            };
            let output = is_output[result as usize].then_some(Reader::OF_RESULTS);
            let is_view = op.def().fusion == FusionKind::View
                && node.operands.first().is_some_and(|&operand| is_stored[operand as usize]);
            // A scalar constant is part of the instruction that reads it.
            let is_immediate = op == Opcode::Constant && graph.tensors[result as usize].dims.is_empty();
            let is_costly = costly.get(id).is_some_and(|costly| *costly);
            let is_in_attention = ops[id].attention.is_some();
            let is_read = || is_materialised(op, is_in_attention, uses.map(reader).chain(output));
            is_stored[result as usize] = !is_immediate && (is_view || is_costly || is_read());
        }
    }
    is_stored
}

/// Per node: where it fuses, which is its phase where that is a task of its own, or where attention has a
/// kernel in either phase. What depends on constants only has no note of one.
pub fn regions(graph: &Graph, blocks: &Blocks, ops: &[Does], in_tasks: bool) -> Vec<Phase> {
    let attentive = graph.nodes.iter().zip(ops).filter(|(_, does)| does.attention.is_some());
    let apart: BTreeSet<CompId> = attentive.map(|(node, _)| node.comp).collect();
    let region = |(node, phase): (&Node, &Phase)| {
        let is_free = node.results.iter().all(|&result| graph.tensors[result as usize].is_free);
        let phase = if is_free { Phase::Forward } else { *phase };
        if in_tasks || apart.contains(&node.comp) { phase } else { phase.in_one_task() }
    };
    graph.nodes.iter().zip(&blocks.phases).map(region).collect()
}

/// Per tensor: whether its late readers need it in memory even if the backward part may make any value of the
/// forward part again, next to who reads it.
pub fn stored_whatever_is_again(
    graph: &Graph,
    blocks: &Blocks,
    ops: &[Does],
    is_stored: &[bool],
) -> Vec<bool> {
    let phase = |node: NodeId| blocks.phases[node as usize];
    let is_needed = graph.tensors.iter().enumerate().map(|(id, tensor)| {
        let is_late = tensor.uses.iter().any(|&(reader, _)| phase(reader) != Phase::Forward);
        let own = &ops[tensor.def as usize];
        let near = tensor.uses.iter().map(|&(reader, _)| own.read_by(&ops[reader as usize], true));
        let is_own = own.op.is_none_or(|op| is_materialised(op, own.attention.is_some(), near));
        is_stored[id] && (phase(tensor.def) != Phase::Forward || !is_late || is_own)
    });
    is_needed.collect()
}

/// What no plan can do without in memory: what is needed whatever is made again, and what forward stores for
/// its own readers, be it read or made again later.
pub fn stored_by_all(
    graph: &Graph,
    (blocks, regions): (&Blocks, &[Phase]),
    ops: &[Does],
    is_stored: &[bool],
    is_needed: &[bool],
) -> Vec<bool> {
    let is_kept = kept(graph, blocks, is_stored, is_needed);
    let mut is_in_memory = is_needed.to_vec();
    for (id, node) in graph.nodes.iter().enumerate().filter(|(id, _)| is_kept[*id]) {
        let Some(op) = ops[id].op.filter(|_| blocks.phases[id] == Phase::Forward) else { continue };
        let is_view = op.def().fusion == FusionKind::View
            && node.operands.first().is_some_and(|&operand| is_in_memory[operand as usize]);
        for &result in node.results.iter().filter(|&&result| is_stored[result as usize]) {
            let kept = graph.tensors[result as usize].uses.iter().filter(|(reader, _)| {
                is_kept[*reader as usize] && blocks.phases[*reader as usize] == Phase::Forward
            });
            let reader = |&(reader, _): &(NodeId, u32)| {
                let is_same_region = regions[reader as usize] == regions[id];
                ops[id].read_by(&ops[reader as usize], is_same_region)
            };
            let is_in_attention = ops[id].attention.is_some();
            is_in_memory[result as usize] |=
                is_view || is_materialised(op, is_in_attention, kept.map(reader));
        }
    }
    is_in_memory
}

/// Per node: whether it runs where its own phase has it, whatever is made again: something that runs needs
/// what it makes.
fn kept(graph: &Graph, blocks: &Blocks, is_stored: &[bool], is_needed: &[bool]) -> Vec<bool> {
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|&output| is_output[output as usize] = true);
    let mut is_kept = vec![true; graph.nodes.len()];
    for (id, node) in graph.nodes.iter().enumerate().rev() {
        let is_wanted = |&result: &TensorId| {
            let is_remade = is_stored[result as usize] && !is_needed[result as usize];
            let mut readers = graph.tensors[result as usize].uses.iter().map(|&(reader, _)| reader as usize);
            is_output[result as usize]
                || readers.any(|it| is_kept[it] && (blocks.phases[it] == Phase::Forward || !is_remade))
        };
        is_kept[id] = blocks.phases[id] != Phase::Forward || node.results.iter().any(is_wanted);
    }
    is_kept
}

/// Who reads for a value that is made again: the first node after the forward part that needs it, and the
/// bytes that it reads at least.
pub type Remade = Option<(NodeId, f64)>;

/// Per tensor that is in memory unless it is made again ([`stored_whatever_is_again`]): it is read then, or
/// what of its operands is in memory; where none is, what these are made of, if no other copy reads that.
pub fn remade(graph: &Graph, blocks: &Blocks, is_stored: &[bool], is_needed: &[bool]) -> Vec<Remade> {
    let bytes = |id: TensorId| match graph.tensors[id as usize].is_free {
        true => 0.0,
        false => graph.tensors[id as usize].bytes,
    };
    let mut least = vec![0.0_f64; graph.tensors.len()];
    let mut is_of_copy = vec![false; graph.tensors.len()];
    let mut found = vec![None; graph.tensors.len()];
    for node in &graph.nodes {
        let (mut direct, mut deepest, mut is_shared) = (0.0, 0.0_f64, false);
        for (slot, &operand) in node.operands.iter().enumerate() {
            let is_first = !node.operands[..slot].contains(&operand);
            direct += if is_needed[operand as usize] && is_first { bytes(operand) } else { 0.0 };
            deepest = deepest.max(least[operand as usize]);
            is_shared |= is_of_copy[operand as usize];
        }
        let read = if is_shared { direct } else { direct.max(deepest) };
        for &result in &node.results {
            let at = result as usize;
            let is_remade = is_stored[at] && !is_needed[at];
            least[at] = if is_needed[at] { bytes(result) } else { deepest.min(bytes(result)) };
            is_of_copy[at] = !is_needed[at] && (is_remade || is_shared);
            let uses = graph.tensors[at].uses.iter().map(|&(reader, _)| reader);
            let late = uses.filter(|&reader| blocks.phases[reader as usize] != Phase::Forward).min();
            found[at] = late.filter(|_| is_remade).map(|reader| (reader, read.min(bytes(result))));
        }
    }
    found
}

/// Per tensor: whether it is alive at the node where stored bytes peak (whole tensors, one device).
///
/// Parameters live throughout; an output that reuses a parameter's buffer needs none of its own.
/// A tensor that forward makes and backward reads is alive in between, which is what a memory
/// limit acts on.
pub fn live_at_peak(graph: &Graph, is_stored: &[bool], ops: &[Does]) -> Vec<bool> {
    let last_use = last_uses(graph);
    let mut is_alias = vec![false; graph.tensors.len()];
    graph.aliases.iter().for_each(|&(output, param)| is_alias[output as usize] = output != param);
    let is_view = |id: usize| {
        ops[graph.tensors[id].def as usize]
            .op
            .is_some_and(|op| matches!(op.def().fusion, FusionKind::View | FusionKind::Free))
    };
    let counts = |id: usize| is_stored[id] && !is_alias[id] && !is_view(id);
    let mut change = vec![0.0; graph.nodes.len() + 1];
    for (id, tensor) in graph.tensors.iter().enumerate().filter(|(id, _)| counts(*id)) {
        let start = if tensor.param.is_some() { 0 } else { tensor.def };
        change[start as usize] += tensor.bytes;
        change[last_use[id] as usize + 1] -= tensor.bytes;
    }
    let (mut peak, mut most, mut now) = (0, f64::NEG_INFINITY, 0.0);
    for (node, delta) in change.iter().enumerate().take(graph.nodes.len()) {
        now += delta;
        if now > most {
            (peak, most) = (node as NodeId, now);
        }
    }
    let is_live = graph.tensors.iter().enumerate().map(|(id, tensor)| {
        counts(id) && (tensor.param.is_some() || (tensor.def <= peak && last_use[id] >= peak))
    });
    is_live.collect()
}

/// The last node that needs each tensor; outputs and parameters are needed to the end.
fn last_uses(graph: &Graph) -> Vec<NodeId> {
    let end = graph.nodes.len().saturating_sub(1) as NodeId;
    let last = |tensor: &phzc_analysis::graph::Tensor| {
        tensor.uses.iter().map(|&(node, _)| node).max().unwrap_or(tensor.def)
    };
    let mut ends: Vec<NodeId> = graph
        .tensors
        .iter()
        .map(|tensor| if tensor.param.is_some() { end } else { last(tensor).max(tensor.def) })
        .collect();
    graph.outputs.iter().for_each(|&output: &TensorId| ends[output as usize] = end);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::text::parse;

    /// A product `h`, of which `a`, and of that `b`; backward reads all three.
    const PROGRAM: &str = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
        ENTRY e {
        x = f32[64,32] parameter(0)
        w = f32[32,64] parameter(1)
        h = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        a = f32[64,64] tanh(h)
        b = f32[64,64] multiply(a, a)
        loss = f32[64,64] add(b, a)
        ab = f32[64,64] multiply(loss, b)
        g = f32[64,64] multiply(ab, a)
        dw = f32[32,64] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        new = f32[32,64] subtract(w, dw)
        ROOT out = (f32[32,64]) tuple(new)
    }";

    /// The program's graph, its blocks with all after the loss as backward, and tensors by name.
    fn graph() -> (Module, Graph, Blocks) {
        let module = parse(PROGRAM).expect("legal");
        let graph = Graph::build(&module);
        let mut blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
        let first = graph.tensors[tensor(&module, &graph, "ab")].def as usize;
        for (node, phase) in blocks.phases.iter_mut().enumerate() {
            *phase = if node >= first { Phase::Backward } else { Phase::Forward };
        }
        (module, graph, blocks)
    }

    fn tensor(module: &Module, graph: &Graph, name: &str) -> usize {
        let (id, _) = module.entry().iter().find(|(_, instr)| &*instr.name == name).expect("it is there");
        graph.values[module.entry.index()][id.index()][0] as usize
    }

    #[test]
    fn a_copy_reads_what_it_is_made_of_unless_another_copy_does() {
        let (module, graph, blocks) = graph();
        let at = |name: &str| tensor(&module, &graph, name);
        let is_stored = vec![true; graph.tensors.len()];
        let mut is_needed = is_stored.clone();
        (is_needed[at("a")], is_needed[at("b")]) = (false, false);
        let found = remade(&graph, &blocks, &is_stored, &is_needed);
        let bytes = |name: &str| found[at(name)].map(|(_, bytes)| bytes);
        assert_eq!([bytes("h"), bytes("a"), bytes("b")], [None, Some(64.0 * 64.0 * 4.0), Some(0.0)]);
    }

    #[test]
    fn forward_stores_what_a_product_of_it_reads_unless_only_copies_need_that() {
        let (module, graph, blocks) = graph();
        let at = |name: &str| tensor(&module, &graph, name);
        let mut ops = deeds(&module, &graph);
        let is_stored = vec![true; graph.tensors.len()];
        let mut is_needed = is_stored.clone();
        (is_needed[at("a")], is_needed[at("b")]) = (false, false);
        let regions = regions(&graph, &blocks, &ops, true);
        let stored = |ops: &[Does], is_needed: &[bool]| {
            let found = stored_by_all(&graph, (&blocks, &regions), ops, &is_stored, is_needed);
            [found[at("a")], found[at("b")]]
        };
        assert_eq!(stored(&ops, &is_needed), [false, false]);
        ops[graph.tensors[at("loss")].def as usize].op = Some(Opcode::Dot);
        assert_eq!(stored(&ops, &is_needed), [true, true]);
        is_needed[at("loss")] = false;
        assert_eq!(stored(&ops, &is_needed), [false, false]);
    }

    #[test]
    fn most_is_alive_where_forward_hands_over_to_backward() {
        let module = parse(PROGRAM).expect("legal");
        let graph = Graph::build(&module);
        let ops = deeds(&module, &graph);
        let is_stored = vec![true; graph.tensors.len()];
        let alive = live_at_peak(&graph, &is_stored, &ops);
        let entry = module.entry();
        let names = entry.iter().filter(|(id, _)| {
            let tensors = &graph.values[module.entry.index()][id.index()];
            tensors.len() == 1 && alive[tensors[0] as usize]
        });
        let names: Vec<&str> = names.map(|(_, instr)| &*instr.name).collect();
        // At `loss` there are `a`, `b` and it; at `ab` that too, and `h` is gone since `a`.
        assert_eq!(names, ["x", "w", "a", "b", "loss", "ab"]);
        let last: Vec<NodeId> = last_uses(&graph);
        let node = |name: &str| {
            let at = entry.instrs.iter().position(|instr| &*instr.name == name).expect("it is there");
            graph.tensors[graph.values[module.entry.index()][at][0] as usize].def
        };
        let last_of = |name: &str| {
            let at = entry.instrs.iter().position(|instr| &*instr.name == name).expect("it is there");
            last[graph.values[module.entry.index()][at][0] as usize]
        };
        assert_eq!([last_of("h"), last_of("a"), last_of("b")], [node("a"), node("g"), node("ab")]);
        let end = graph.nodes.len() as NodeId - 1;
        assert_eq!([last_of("x"), last_of("w"), last_of("new")], [end; 3]);
    }

    #[test]
    fn a_loop_s_condition_runs_once_more_than_its_body_unless_it_names_a_value() {
        let runs = |condition: &str| {
            let text = format!(
                "HloModule m
                body {{ p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
                v = f32[4] get-tuple-element(p), index=1 one = s32[] constant(1) next = s32[] add(i, one)
                w = f32[4] add(v, v) ROOT t = (s32[], f32[4]) tuple(next, w) }}
                condition {{ p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
                n = s32[] constant(6) {condition} }}
                ENTRY e {{ zero = s32[] constant(0) x = f32[4] parameter(0)
                init = (s32[], f32[4]) tuple(zero, x)
                out = (s32[], f32[4]) while(init), condition=condition, body=body
                ROOT y = f32[4] get-tuple-element(out), index=1 }}"
            );
            condition_runs(&parse(&text).expect("legal"))
        };
        assert_eq!(runs("ROOT c = pred[] compare(i, n), direction=LT"), 7.0);
    }
}
