//! Attention as one kernel: notes what belongs to it, and has the backward part make scores again.
//!
//! ```text
//! p = softmax(dot(q, k))                    p = softmax(dot(q, k))                              all of it
//! o = dot(p, v)                             o = dot(p, v)                           phzc.attention="0…"
//! …                                   →     …
//! dv = dot(p, do)                           b = opt-barrier((q, k, …, do))
//!                                           p.again = softmax(dot(b.q, b.k))
//!                                           dv = dot(p.again, b.do)
//! ```
//!
//! What has one value per query (maxima, sums) stays saved, as kernels save it; so does a mask that is made
//! of random bits, for the bits would take more.

use crate::plan_state::PlanState;
use crate::recomputation::{Marks, rewrite};
use phzc_analysis::attention::{Attention, Member, attentions};
use phzc_analysis::block_notes;
use phzc_analysis::graph::{NodeKind, Tensor};
use phzc_analysis::phase::Phase;
use phzc_ir::{AttentionNote, CompId, FusionKind, Instr, InstrId, Key, Module, Opcode, notes};
use phzc_plan::derive::planned_comps;
use std::collections::{BTreeMap, BTreeSet};

/// The attentions of a program, by computation, then in program order.
pub(super) fn found(state: &PlanState) -> Vec<Attention> {
    let phases = phases(state);
    let of = |comp: CompId| attentions(&state.program, comp, &phases[comp.index()]);
    planned_comps(&state.program).into_iter().flat_map(of).collect()
}

/// The attentions, one per line.
pub(super) fn list(module: &Module, found: &[Attention]) -> String {
    let line = |(number, it): (usize, &Attention)| {
        let name = |member: &Member| format!(" {}", module.comp(it.comp).instr(member.id).name);
        let causal = if it.is_causal { ", causal" } else { "" };
        let left = it.left.as_ref().map_or(String::new(), |why| format!(", left as written ({why})"));
        format!("attention {number}{causal}{left}:{}\n", it.members.iter().map(name).collect::<String>())
    };
    found.iter().enumerate().map(line).collect()
}

/// Notes attentions and has the backward part compute scores again; says whether there are any.
pub(super) fn write(module: &mut Module, state: &PlanState, found: &[Attention]) -> bool {
    let phases = phases(state);
    let fused: Vec<&Attention> = found.iter().filter(|it| it.left.is_none()).collect();
    for (number, &it) in (first_free(module)..).zip(&fused) {
        for member in &it.members {
            let note = it.note(member, number, phases[it.comp.index()][member.id.index()]);
            let instr = &mut module.comps[it.comp.index()].instrs[member.id.index()];
            instr.set_note(notes::ATTENTION, &note.to_string());
        }
    }
    let entry = fused.iter().filter(|it| it.comp == module.entry);
    let again: BTreeSet<InstrId> = entry.flat_map(|it| again(state, it, &phases[it.comp.index()])).collect();
    recompute(module, state, &again);
    !fused.is_empty()
}

/// The number of the next attention.
fn first_free(module: &Module) -> u32 {
    let noted = module.comps.iter().flat_map(|comp| &comp.instrs).filter_map(AttentionNote::of);
    noted.map(|note| note.number + 1).max().unwrap_or(0)
}

/// The phase of every instruction.
fn phases(state: &PlanState) -> Vec<Vec<Phase>> {
    let comps = &state.program.comps;
    let mut found: Vec<Vec<Phase>> =
        comps.iter().map(|comp| vec![Phase::Forward; comp.instrs.len()]).collect();
    let ops = state.graph.nodes.iter().zip(&state.blocks.phases);
    for (node, &phase) in ops.filter(|(node, _)| node.kind == NodeKind::Op) {
        found[node.comp.index()][node.instr.index()] = phase;
    }
    found
}

/// What the backward part computes again: the scores that it reads, and what they are made of.
fn again(state: &PlanState, attention: &Attention, phases: &[Phase]) -> BTreeSet<InstrId> {
    let comp = state.program.comp(attention.comp);
    let members: BTreeMap<InstrId, &Member> = attention.members.iter().map(|it| (it.id, it)).collect();
    let saved = saved(state, attention);
    let is_scores = |id: &InstrId| {
        let is_forward = phases[id.index()] == Phase::Forward;
        is_forward && !saved.contains(id) && members.get(id).is_some_and(|member| member.is_scores)
    };
    let backward = members.keys().filter(|id| phases[id.index()] != Phase::Forward);
    let mut todo: Vec<InstrId> = backward.flat_map(|&id| comp.instr(id).operands.iter().copied()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = todo.pop() {
        if is_scores(&id) && found.insert(id) {
            todo.extend(&comp.instr(id).operands);
        }
    }
    found
}

/// Masks that are made of something as large that has to be saved, such as random bits.
fn saved(state: &PlanState, attention: &Attention) -> BTreeSet<InstrId> {
    let comp = state.program.comp(attention.comp);
    let is_made = |id: &InstrId| {
        let (instr, tensor) = (comp.instr(*id), tensor(state, attention.comp, *id));
        let is_free = tensor.is_none_or(|tensor| tensor.is_free);
        let is_part = attention.members.iter().any(|member| member.id == *id);
        instr.op != Opcode::Parameter && instr.op.def().fusion != FusionKind::Free && !is_free && !is_part
    };
    let mut found = BTreeSet::new();
    for member in attention.members.iter().filter(|it| it.is_scores && !it.is_derived && it.loops.is_none()) {
        let instr = comp.instr(member.id);
        let is_large = |id: &InstrId| comp.instr(*id).shape.bytes() >= instr.shape.bytes();
        let mut operands = instr.operands.iter();
        if operands.any(|id| found.contains(id) || is_made(id) && is_large(id)) {
            found.insert(member.id);
        }
    }
    found
}

fn tensor(state: &PlanState, comp: CompId, id: InstrId) -> Option<&Tensor> {
    let tensors = &state.graph.values[comp.index()][id.index()];
    tensors.first().map(|&tensor| &state.graph.tensors[tensor as usize])
}

/// What is computed again, and what that needs.
fn marks(module: &Module, state: &PlanState, again: &BTreeSet<InstrId>) -> Marks {
    let is_data = |id| tensor(state, module.entry, id).is_some_and(|tensor| !tensor.is_free);
    let mut marks = Marks::default();
    for (id, instr) in module.entry().iter() {
        marks.is_again.push(again.contains(&id));
        marks.is_data.push(is_data(id));
        // Behind a barrier, a mask that is repeated for all heads would take memory.
        marks.is_free.push(is_data(id) && instr.op.def().fusion == FusionKind::Free);
    }
    marks
}

/// Has the backward part of the entry compute instructions again, as parts of its own kernels.
fn recompute(module: &mut Module, state: &PlanState, again: &BTreeSet<InstrId>) {
    if again.is_empty() {
        return;
    }
    let marks = marks(module, state, again);
    let has_shardings = module.entry().instrs.iter().any(|instr| instr.sharding().is_some());
    let known: BTreeSet<Box<str>> = module.entry().instrs.iter().map(|instr| instr.name.clone()).collect();
    // The rewriter reads phases in the text.
    block_notes::note(module, &state.graph, &state.blocks);
    rewrite(module, &marks);
    for comp in &mut module.comps {
        comp.instrs.iter_mut().for_each(block_notes::remove);
    }
    let entry = &mut module.comps[state.program.entry.index()];
    for instr in entry.instrs.iter_mut().filter(|instr| !known.contains(&instr.name)) {
        if !has_shardings {
            instr.attrs.retain(|attr| attr.key != Key::Sharding);
        }
        as_gradient(instr);
    }
}

/// Has a product that is computed again be one of the backward kernel.
fn as_gradient(instr: &mut Instr) {
    let Some(mut note) = AttentionNote::of(instr) else { return };
    note.product = note.product.map(|product| phzc_ir::AttentionProduct { is_gradient: true, ..product });
    instr.set_note(notes::ATTENTION, &note.to_string());
}
