//! Which values exist once per microbatch: activations do, parameters and gradient sums do not.
//!
//! The text holds the whole batch. With `M` microbatches a value that depends on the step's data is there `M`
//! times with an `M`-th of the bytes; one that the update phase reads, or that is an output, is summed up over
//! the microbatches; one that depends on parameters alone is made anew by every microbatch.

use super::read::element_start;
use super::{Facts, InstrFacts, Phase, aliased, control_flow, is_naming, planned_comps};
use phzc_ir::{CompId, InstrId, Module, Opcode};
use smallvec::SmallVec;

/// How a value relates to microbatches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nature {
    /// Parameters, and what depends on them alone.
    #[default]
    State,
    /// Made once per step, from sums over all microbatches.
    Sum,
    /// A part of it per microbatch.
    Part,
}

type Natures = SmallVec<[Nature; 1]>;

/// Fills in the nature of every value.
pub fn natures(module: &Module, facts: &mut Facts) {
    let comps = planned_comps(module);
    let mut passed: Vec<Option<Natures>> = vec![None; module.comps.len()];
    let data = data_params(module, &facts.comps[module.entry.index()]);
    let is_summed: Vec<Vec<bool>> = (0..module.comps.len())
        .map(|index| summed(module, CompId::new(index), &facts.comps[index]))
        .collect();
    // Callers come after callees, so their parameters are known when the callee is met.
    for comp in comps.into_iter().rev() {
        let mut own: Vec<Natures> = Vec::new();
        for (id, instr) in module.comp(comp).iter() {
            let found = match passed[comp.index()].clone().filter(|_| instr.op == Opcode::Parameter) {
                Some(natures) => natures,
                None if instr.op == Opcode::Parameter => {
                    let is_data = comp == module.entry && data[id.index()];
                    SmallVec::from_elem(
                        if is_data { Nature::Part } else { Nature::State },
                        instr.shape.n_leaves(),
                    )
                }
                None => natures_of(module, facts, comp, id, &own, is_summed[comp.index()][id.index()]),
            };
            for callee in control_flow(instr) {
                passed[callee.index()] = Some(found.clone());
            }
            own.push(found);
        }
        for (instr, found) in facts.comps[comp.index()].iter_mut().zip(own) {
            instr.natures = found;
        }
    }
}

fn natures_of(
    module: &Module,
    facts: &Facts,
    comp: CompId,
    id: InstrId,
    own: &[Natures],
    is_summed: bool,
) -> Natures {
    let (computation, all) = (module.comp(comp), &facts.comps[comp.index()]);
    let instr = computation.instr(id);
    let operands = || instr.operands.iter().flat_map(|operand| own[operand.index()].iter().copied());
    let n_leaves = instr.shape.n_leaves();
    match instr.op {
        Opcode::Tuple | Opcode::OptBarrier | Opcode::While => operands().collect(),
        Opcode::GetTupleElement => {
            let start = element_start(instr, &computation.instr(instr.operands[0]).shape);
            operands().skip(start).take(n_leaves).collect()
        }
        _ => {
            let largest = operands().max().unwrap_or_default();
            let is_sum = all[id.index()].phase == Phase::Update || (largest == Nature::Part && is_summed);
            SmallVec::from_elem(if is_sum { Nature::Sum } else { largest }, n_leaves)
        }
    }
}

/// Per instruction, whether the update phase or the caller reads its value.
fn summed(module: &Module, comp: CompId, facts: &[InstrFacts]) -> Vec<bool> {
    let computation = module.comp(comp);
    let mut summed = vec![false; computation.instrs.len()];
    if facts.is_empty() {
        return summed;
    }
    if comp == module.entry {
        summed[computation.root.index()] = true;
    }
    for (id, instr) in computation.iter().rev() {
        let is_read = facts[id.index()].phase == Phase::Update && !is_naming(instr);
        if is_read || (is_naming(instr) && summed[id.index()]) {
            instr.operands.iter().for_each(|operand| summed[operand.index()] = true);
        }
    }
    summed
}

/// Per instruction of the entry: a parameter that no output replaces and that no update reads is data.
fn data_params(module: &Module, facts: &[InstrFacts]) -> Vec<bool> {
    let entry = module.entry();
    let mut data: Vec<bool> = entry.instrs.iter().map(|instr| instr.op == Opcode::Parameter).collect();
    aliased(module).iter().for_each(|alias| data[alias.param.index()] = false);
    for (id, instr) in entry.iter().filter(|(id, _)| facts[id.index()].phase == Phase::Update) {
        let is_one_of_many = instr.op == Opcode::Tuple && id == entry.root;
        instr.operands.iter().filter(|_| !is_one_of_many).for_each(|operand| data[operand.index()] = false);
    }
    data
}
