//! Which values exist once per microbatch: activations do, parameters and gradient sums do not.
//!
//! The text holds the whole batch. With `M` microbatches a value that depends on the step's data is there `M`
//! times with an `M`-th of the bytes; one that the update phase reads, or that is an output, is summed up
//! over the microbatches; one that depends on parameters alone is made anew by every microbatch.

use super::read::element_start;
use super::{Facts, InstrFacts, Phase, aliased, control_flow, is_naming, operand_origins, origins};
use phzc_ir::{CompId, Computation, Instr, InstrId, Key, Module, Opcode};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// How a value relates to microbatches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Leaves that the update phase or the caller reads: sums over microbatches.
type Summed = BTreeSet<(InstrId, usize)>;

/// Fills in the nature of every value.
pub fn natures(module: &Module, facts: &mut Facts) {
    let data = data_params(module, &facts.comps[module.entry.index()]);
    let param = |id: InstrId, n_leaves| {
        SmallVec::from_elem(if data[id.index()] { Nature::Part } else { Nature::State }, n_leaves)
    };
    let results = vec![true; module.entry().root().shape.n_leaves()];
    Finder { module, facts }.comp(module.entry, &param, &results);
}

struct Finder<'a> {
    module: &'a Module,
    facts: &'a mut Facts,
}

impl Finder<'_> {
    /// Fills in the natures in a computation, given those of its parameters (by id and number of leaves) and
    /// which parts of its result are sums; returns those of its result.
    fn comp(
        &mut self,
        comp: CompId,
        params: &dyn Fn(InstrId, usize) -> Natures,
        results: &[bool],
    ) -> Natures {
        let computation = self.module.comp(comp);
        let summed = summed(computation, &self.facts.comps[comp.index()], results);
        for (id, instr) in computation.iter() {
            let n_leaves = instr.shape.n_leaves();
            let found = match instr.op {
                Opcode::Parameter => params(id, n_leaves),
                _ => {
                    let summed: Vec<bool> = (0..n_leaves).map(|leaf| summed.contains(&(id, leaf))).collect();
                    self.instr((comp, id), instr, &summed)
                }
            };
            self.facts.comps[comp.index()][id.index()].natures = found;
        }
        self.of(comp, computation.root)
    }

    fn of(&self, comp: CompId, id: InstrId) -> Natures {
        self.facts.comps[comp.index()][id.index()].natures.clone()
    }

    fn instr(&mut self, (comp, id): (CompId, InstrId), instr: &Instr, summed: &[bool]) -> Natures {
        let operands: Natures = instr.operands.iter().flat_map(|&operand| self.of(comp, operand)).collect();
        match instr.op {
            Opcode::Tuple | Opcode::OptBarrier => operands,
            Opcode::GetTupleElement => {
                let start = element_start(instr, &self.module.comp(comp).instr(instr.operands[0]).shape);
                operands.into_iter().skip(start).take(summed.len()).collect()
            }
            Opcode::While => self.carried(instr, operands, summed),
            Opcode::Conditional => self.branches(comp, instr, summed),
            _ if self.facts.comps[comp.index()][id.index()].phase == Phase::Update => {
                SmallVec::from_elem(Nature::Sum, summed.len())
            }
            _ => {
                let largest = operands.into_iter().max().unwrap_or_default();
                summed.iter().map(|&is_summed| result(largest, is_summed)).collect()
            }
        }
    }

    /// A carried value is what it starts as, or what an iteration makes of it: the more, until nothing
    /// changes.
    fn carried(&mut self, instr: &Instr, first: Natures, summed: &[bool]) -> Natures {
        let mut natures = first;
        loop {
            let before = natures.clone();
            for callee in control_flow(instr) {
                let is_body = instr.comp(Key::Body) == Some(callee);
                let after = self.comp(callee, &|_, _| before.clone(), if is_body { summed } else { &[] });
                if is_body {
                    natures.iter_mut().zip(after).for_each(|(nature, after)| *nature = after.max(*nature));
                }
            }
            natures.iter_mut().zip(summed).for_each(|(nature, &summed)| *nature = result(*nature, summed));
            if natures == before {
                return natures;
            }
        }
    }

    fn branches(&mut self, comp: CompId, instr: &Instr, summed: &[bool]) -> Natures {
        let choice = self.of(comp, instr.operands[0]).first().copied().unwrap_or_default();
        let mut natures: Natures = SmallVec::from_elem(choice, summed.len());
        for (callee, &operand) in control_flow(instr).into_iter().zip(instr.operands.iter().skip(1)) {
            let passed = self.of(comp, operand);
            let after = self.comp(callee, &|_, _| passed.clone(), summed);
            natures.iter_mut().zip(after).for_each(|(nature, after)| *nature = after.max(*nature));
        }
        natures.into_iter().zip(summed).map(|(nature, &summed)| result(nature, summed)).collect()
    }
}

/// What becomes of a value that is summed up.
fn result(nature: Nature, is_summed: bool) -> Nature {
    if nature == Nature::Part && is_summed { Nature::Sum } else { nature }
}

/// What the update phase reads, and the `results` that the caller sums up.
fn summed(comp: &Computation, facts: &[InstrFacts], results: &[bool]) -> Summed {
    let wanted = results.iter().enumerate().filter(|(_, is_summed)| **is_summed);
    let handed_over = origins(comp, comp.root);
    let mut summed: Summed = wanted.map(|(leaf, _)| handed_over[leaf]).collect();
    let is_update = |id: InstrId| facts[id.index()].phase == Phase::Update;
    for (_, instr) in comp.iter().filter(|(id, instr)| is_update(*id) && !is_naming(instr)) {
        summed.extend(operand_origins(comp, instr));
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
