//! Attention: products of queries and keys, a softmax over the keys, products of that with values; and the
//! gradients of all of these.
//!
//! ```text
//! s = dot(q, k);  e = exp(s - max(s));  p = e / sum(e);  o = dot(p, v)      forward
//! dv = dot(p, do);  dp = dot(do, v);  ds = p (dp - sum(p dp));  dq = dot(ds, k);  dk = dot(ds, q)
//! ```
//!
//! Found by the data's flow alone: what the scores become, element by element, by row, transposed or
//! reshaped, up to products with other values, and what is made for these instructions alone, such as
//! masks. It is an attention if an exponential of the scores is summed over the keys and multiplied by
//! something, and if the products have batches, as products with weights have none. One loop over chunks of
//! keys, with a running maximum and sum, is an attention per chunk.

mod axes;
mod causal;
mod flow;
#[cfg(test)]
mod tests;

use crate::phase::Phase;
use causal::is_causal;
use flow::{Flow, Node};
use phzc_ir::effects::has_side_effect;
use phzc_ir::{
    AttentionLoop, AttentionNote, AttentionProduct, CompId, Computation, FactorKind, InstrId, Module, Opcode,
    Reducer, View,
};
use std::collections::{BTreeMap, BTreeSet};

/// An attention of a computation.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Where it is.
    pub comp: CompId,
    /// Its instructions, in program order.
    pub members: Vec<Member>,
    /// Whether a query sees the keys before it only.
    pub is_causal: bool,
    /// Why no kernel can do all of it.
    pub left: Option<String>,
}

/// An instruction of an attention.
#[derive(Clone, Debug)]
pub struct Member {
    /// Which.
    pub id: InstrId,
    /// Whether it makes a value per query and key.
    pub is_scores: bool,
    /// Whether that is made of scores; masks are not.
    pub is_derived: bool,
    /// What the loops run over if it is a product.
    pub loops: Option<[AttentionLoop; 3]>,
    /// Whether it is the product with values.
    pub is_output: bool,
}

impl Attention {
    /// The note of a member in an attention of this number.
    pub fn note(&self, member: &Member, number: u32, phase: Phase) -> AttentionNote {
        // The product with values is the forward kernel's, also where the backward part computes it again.
        let (is_gradient, is_causal) = (phase != Phase::Forward && !member.is_output, self.is_causal);
        let product = member.loops.map(|loops| AttentionProduct { loops, is_gradient, is_causal });
        AttentionNote { number, product }
    }
}

/// The attentions of a computation, in program order; `phases` are those of its instructions.
pub fn attentions(module: &Module, comp: CompId, phases: &[Phase]) -> Vec<Attention> {
    let computation = module.comp(comp);
    let readers = readers(computation);
    // What is part of one already, and what depends on constants only: whoever reads that makes it.
    let mut is_taken: Vec<bool> = constants(computation);
    let noted = computation.iter().filter(|(_, instr)| AttentionNote::of(instr).is_some());
    noted.for_each(|(id, _)| is_taken[id.index()] = true);
    let mut found = Vec::new();
    for (id, _) in computation.iter().filter(|(_, instr)| instr.op == Opcode::Dot) {
        let around = (computation, &readers[..], &is_taken[..]);
        let flows = [1, 0].into_iter().filter(|_| !is_taken[id.index()]);
        let mut flows = flows.filter_map(|keys| Flow::from(around, id, keys));
        let Some(flow) = flows.find(|flow| is_attention(module, comp, flow)) else { continue };
        let attention = attention(computation, comp, &flow, phases);
        attention.members.iter().for_each(|member| is_taken[member.id.index()] = true);
        found.push(attention);
    }
    found
}

/// Whether each instruction depends on constants only.
fn constants(comp: &Computation) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(comp.instrs.len());
    for instr in &comp.instrs {
        let is_source = matches!(instr.op, Opcode::Constant | Opcode::Iota);
        let is_made = !instr.operands.is_empty() && !has_side_effect(instr);
        found.push(is_source || is_made && instr.operands.iter().all(|operand| found[operand.index()]));
    }
    found
}

fn readers(comp: &Computation) -> Vec<Vec<InstrId>> {
    let mut readers: Vec<Vec<InstrId>> = vec![Vec::new(); comp.instrs.len()];
    for (id, instr) in comp.iter() {
        instr.operands.iter().for_each(|operand| readers[operand.index()].push(id));
    }
    readers
}

/// Whether an exponential of scores is summed over the keys, and multiplied by values or their gradients.
fn is_attention(module: &Module, comp: CompId, flow: &Flow) -> bool {
    let is_sum = |(&id, node): (&InstrId, &Node)| {
        let is_row = node.is_late && node.axes.is_some() && !node.is_scores();
        is_row && adds_scores(&View::new(module, comp, id), flow)
    };
    let is_product = |node: &Node| node.is_late && node.loops.is_some() && node.axes.is_none();
    flow.nodes.iter().any(is_sum) && flow.nodes.values().any(is_product)
}

/// Whether an instruction adds scores up.
fn adds_scores(view: &View, flow: &Flow) -> bool {
    if view.instr.op != Opcode::Reduce
        || !flow.nodes.get(&view.instr.operands[0]).is_some_and(Node::is_scores)
    {
        return false;
    }
    let rule = (view.instr.op.def().rule)(view);
    rule.factors.iter().any(|it| it.kind == FactorKind::Reduce(Reducer::Add))
}

fn attention(comp: &Computation, id: CompId, flow: &Flow, phases: &[Phase]) -> Attention {
    let members = members(comp, flow);
    let name = |id: InstrId| &comp.instr(id).name;
    let read = flow.stranger.map(|id| format!("its scores are read by `{}`", name(id)));
    let between = || {
        let id = between(comp, flow, &members, phases)?;
        Some(format!("`{}` is made of its values and read by it", name(id)))
    };
    let left = read.or_else(between);
    Attention { comp: id, is_causal: is_masked(comp, &members), members, left }
}

fn members(comp: &Computation, flow: &Flow) -> Vec<Member> {
    let mut ids: Vec<InstrId> = flow.nodes.keys().copied().filter(|&id| flow.is_member(id)).collect();
    ids.sort_unstable();
    // What the product of a gradient and values becomes.
    let mut is_of_gradients = BTreeSet::new();
    let mut member = |id: InstrId| {
        let node = &flow.nodes[&id];
        let (is_scores, loops) = (node.is_scores(), node.loops);
        let is_made = comp.instr(id).operands.iter().any(|operand| is_of_gradients.contains(operand));
        let is_gradient = is_made || loops.is_some() && !node.is_derived;
        is_of_gradients.extend(is_gradient.then_some(id));
        let sums = loops.map(|[_, _, sums]| sums);
        let is_output = sums == Some(AttentionLoop::Keys) && !is_scores && !is_gradient;
        Member { id, is_scores, is_derived: node.is_derived, loops, is_output }
    };
    ids.into_iter().map(&mut member).collect()
}

/// Whether scores are combined with a mask that lets a query see the keys before it only.
fn is_masked(comp: &Computation, members: &[Member]) -> bool {
    let derived: BTreeSet<InstrId> =
        members.iter().filter(|member| member.is_derived).map(|member| member.id).collect();
    let combines =
        |op: Opcode| matches!(op, Opcode::Select | Opcode::Add | Opcode::Multiply | Opcode::Minimum);
    derived.iter().map(|&id| comp.instr(id)).filter(|instr| combines(instr.op)).any(|instr| {
        let mut others = instr.operands.iter().filter(|operand| !derived.contains(operand));
        others.any(|&mask| is_causal(comp, mask))
    })
}

/// An instruction between two members of one phase that is no member: no kernel could wait for it.
fn between(comp: &Computation, flow: &Flow, members: &[Member], phases: &[Phase]) -> Option<InstrId> {
    [Phase::Forward, Phase::Backward].into_iter().find_map(|phase| {
        let is_here = |id: InstrId| flow.is_member(id) && phases[id.index()] == phase;
        let mut own = members.iter().map(|member| member.id).filter(|&id| is_here(id));
        let first = own.next()?;
        // Per instruction that is made of members: the first on the way.
        let mut outside: BTreeMap<InstrId, InstrId> = BTreeMap::new();
        for id in (first.index()..=own.next_back()?.index()).map(InstrId::new) {
            let operands = &comp.instr(id).operands;
            let from = operands.iter().find_map(|operand| outside.get(operand).copied());
            let is_made = || operands.iter().any(|&operand| is_here(operand));
            match from {
                Some(from) if is_here(id) => return Some(from),
                None if is_here(id) || !is_made() => {}
                from => drop(outside.insert(id, from.unwrap_or(id))),
            }
        }
        None
    })
}
