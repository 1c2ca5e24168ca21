//! What of a step runs once per microbatch, and what after all of them.

use super::Plan;
use crate::rebuild::Leaf;
use phzc_ir::{Computation, Diagnostic, Instr, InstrId, Layout, Opcode, Result};
use phzc_plan::derive::{is_naming, operand_origins, origin};
use phzc_plan::microbatch::TIME;
use std::collections::{BTreeMap, BTreeSet};

/// A value of the whole batch, of which a microbatch has a part.
#[derive(Clone, Copy)]
pub struct Cut {
    /// The value in the step of one microbatch.
    pub value: Leaf,
    /// The dimension that runs over the batch; none for what every microbatch has whole.
    pub dim: Option<usize>,
    /// How it lies.
    pub layout: Layout,
}

/// The parts of a step. What is the same for every microbatch may be in both.
pub struct Parts {
    /// The instructions that run once per microbatch.
    pub body: Vec<bool>,
    /// Those that run once per step.
    pub after: Vec<bool>,
    /// The sums over the microbatches: all-reduces.
    pub sums: Vec<InstrId>,
    /// The leaves of the program's result that have a part per microbatch.
    pub joined: Vec<Cut>,
    /// What the loop reads of the program's parameters.
    pub given: Vec<Cut>,
    /// Whether the program looks samples up by their place in the batch.
    pub by_place: bool,
}

impl Parts {
    /// Takes the step of one microbatch apart.
    ///
    /// # Errors
    /// When what comes after all microbatches reads a value of one.
    pub fn of(plan: &Plan) -> Result<Parts> {
        let entry = plan.local.entry();
        let varies = varies(plan);
        let is_sum = |id: &InstrId| entry.instr(*id).op == Opcode::AllReduce;
        let results: Vec<Leaf> =
            (0..entry.root().shape.n_leaves()).map(|leaf| origin(entry, entry.root, leaf)).collect();
        let is_part = |(id, _): &Leaf| varies[id.index()] && entry.instr(*id).op != Opcode::Parameter;
        let after = needed(entry, results.iter().copied().filter(|leaf| !is_part(leaf)));
        if let Some(id) =
            ids(entry).find(|id| after[id.index()] && varies[id.index()] && !is_given(entry, *id))
        {
            let instr = entry.instr(id);
            let message = format!("the update needs `{}` of all microbatches", instr.name);
            return Err(Diagnostic::error(message).at(instr.span).help("plan with `place{microbatches=1}`"));
        }
        let sums: Vec<InstrId> = ids(entry).filter(is_sum).filter(|id| after[id.index()]).collect();
        let joined = results.iter().enumerate().filter(|(_, leaf)| is_part(leaf));
        let root = plan.placed.entry().root;
        let joined: BTreeMap<Leaf, Cut> =
            joined.map(|(at, &leaf)| (leaf, cut(plan, leaf, (root, at)))).collect();
        let summed = sums.iter().flat_map(|&sum| operand_origins(entry, entry.instr(sum)));
        let body = needed(entry, summed.chain(joined.keys().copied()));
        let given = given(plan, &body, &sums);
        let by_place = ids(entry).any(|id| body[id.index()] && entry.instr(id).op == Opcode::PartitionId);
        Ok(Parts { body, after, sums, joined: joined.into_values().collect(), given, by_place })
    }

    /// Whether the loop runs an instruction.
    pub fn runs_in_body(&self, id: InstrId, instr: &Instr) -> bool {
        self.body[id.index()] && !stands_for_another(instr)
    }

    /// Whether the update does.
    pub fn runs_after(&self, id: InstrId, instr: &Instr) -> bool {
        self.after[id.index()] && !stands_for_another(instr)
    }
}

/// Whether an instruction is there already: a parameter, a sum, the number of the microbatch.
fn stands_for_another(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::Parameter | Opcode::AllReduce | Opcode::PartitionId)
}

fn ids(entry: &Computation) -> impl Iterator<Item = InstrId> + use<> {
    (0..entry.instrs.len()).map(InstrId::new)
}

fn is_given(entry: &Computation, id: InstrId) -> bool {
    entry.instr(id).op == Opcode::Parameter
}

/// How a value lies and is cut that is this leaf of an instruction of the plan.
fn cut(plan: &Plan, value: Leaf, (id, leaf): Leaf) -> Cut {
    let entry = plan.placed.entry.index();
    let layout = plan.facts.comps[entry][id.index()].leaves.get(leaf).map(|leaf| leaf.layout);
    let dim = plan.timed_facts.comps[entry][id.index()].leaves.get(leaf);
    let dim = dim.and_then(|leaf| leaf.layout.dim_of(TIME));
    Cut { value, dim, layout: layout.unwrap_or_default() }
}

/// Whether each instruction's value differs from microbatch to microbatch.
fn varies(plan: &Plan) -> Vec<bool> {
    let (entry, given) = (plan.local.entry(), plan.placed.entry().params());
    let mut varies: Vec<bool> = Vec::with_capacity(entry.instrs.len());
    for (_, instr) in entry.iter() {
        let differs = match (instr.op, instr.param_number()) {
            (_, Some(number)) => {
                let n_leaves = instr.shape.n_leaves();
                let is_cut = |leaf| {
                    let own = (given[number as usize], leaf);
                    cut(plan, own, own).dim.is_some()
                };
                (0..n_leaves).any(is_cut)
            }
            (Opcode::PartitionId, _) => true,
            (Opcode::AllReduce, _) => false,
            _ => instr.operands.iter().any(|operand| varies[operand.index()]),
        };
        varies.push(differs);
    }
    varies
}

/// The instructions that some values need; sums over the microbatches are there already.
fn needed(entry: &Computation, values: impl Iterator<Item = Leaf>) -> Vec<bool> {
    let mut needed = vec![false; entry.instrs.len()];
    let mut work: Vec<Leaf> = values.collect();
    while let Some((id, _)) = work.pop() {
        let instr = entry.instr(id);
        if !std::mem::replace(&mut needed[id.index()], true) && instr.op != Opcode::AllReduce {
            work.extend(operand_origins(entry, instr));
        }
    }
    needed
}

/// The leaves of parameters that the loop reads.
fn given(plan: &Plan, body: &[bool], sums: &[InstrId]) -> Vec<Cut> {
    let (entry, params) = (plan.local.entry(), plan.placed.entry().params());
    let runs = |(id, instr): &(InstrId, &Instr)| (body[id.index()] && !is_naming(instr)) || sums.contains(id);
    let read = entry.iter().filter(runs).flat_map(|(_, instr)| operand_origins(entry, instr));
    let read: BTreeSet<Leaf> = read.filter(|(id, _)| is_given(entry, *id)).collect();
    let of_plan = |(id, leaf): Leaf| {
        let number = entry.instr(id).param_number().unwrap_or_default();
        cut(plan, (id, leaf), (params[number as usize], leaf))
    };
    read.into_iter().map(of_plan).collect()
}
