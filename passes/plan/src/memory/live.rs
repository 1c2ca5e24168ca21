//! Last readers of the values of one computation, leaf by leaf.

use crate::derive::{InstrFacts, Phase, element_start, is_made_of_constants, is_naming, origin};
use phzc_ir::ops::collective::{is_done, started_leaves};
use phzc_ir::{CompId, Computation, Instr, InstrId, Key, Module, Opcode};
use std::collections::BTreeMap;
use std::ops::Range;

/// Values are numbered by instruction, then by leaf.
#[derive(Debug)]
pub struct Live {
    starts: Vec<usize>,
    /// Per value: the last instruction that needs its buffer; the number of instructions for results.
    pub ends: Vec<usize>,
    /// Per value: the last phase in which an instruction needs its buffer. The text need not have phases one
    /// after the other.
    pub phases: Vec<Phase>,
    /// Per value: the operand's value whose buffer it is, if it has none of its own.
    aliases: Vec<Option<usize>>,
    /// Per value: the last loop that passes its buffer on as it is, and so cannot write over it.
    pub passed_on: Vec<Option<usize>>,
    /// Values that another stage reads.
    pub arrivals: Vec<Arrival>,
}

/// A value that a stage gets from another.
#[derive(Debug)]
pub struct Arrival {
    /// Its instruction.
    pub maker: InstrId,
    /// Its leaf.
    pub leaf: usize,
    /// The stage that reads it.
    pub stage: usize,
    /// Bytes that one device of that stage reads: the most that a reader wants.
    pub bytes: f64,
    /// The first reader there.
    pub first: usize,
    /// The last instruction that needs it, under whatever name.
    pub last: usize,
    /// The last phase in which one needs it.
    pub phase: Phase,
}

impl Live {
    /// The values of an instruction.
    pub fn values(&self, id: InstrId) -> Range<usize> {
        self.starts[id.index()]..self.starts[id.index() + 1]
    }

    /// The instruction that makes a value.
    pub fn maker(&self, value: usize) -> InstrId {
        InstrId::new(self.starts.partition_point(|&start| start <= value) - 1)
    }

    /// The value whose buffer this one is.
    pub fn buffer(&self, mut value: usize) -> usize {
        while let Some(operand) = self.aliases[value] {
            value = operand;
        }
        value
    }
}

/// Liveness of a computation.
pub fn live(module: &Module, comp: CompId, facts: &[InstrFacts]) -> Live {
    let computation = module.comp(comp);
    let mut starts = vec![0];
    facts.iter().for_each(|own| starts.push(starts[starts.len() - 1] + own.leaves.len()));
    let n_values = starts[facts.len()];
    let (ends, phases) = (vec![0; n_values], vec![Phase::Update; n_values]);
    let (aliases, passed_on) = (vec![None; n_values], vec![None; n_values]);
    let mut live = Live { starts, ends, phases, aliases, passed_on, arrivals: Vec::new() };
    for id in (0..facts.len()).map(InstrId::new) {
        live.needed(id, (id.index(), facts[id.index()].phase));
    }
    live.needed(computation.root, (facts.len(), Phase::Update));
    let (mut arrivals, is_remade) = (BTreeMap::new(), remade(computation, facts));
    for (id, instr) in computation.iter().rev() {
        live.read(module, comp, facts, (id, instr));
        arrive(&live, (module, comp), (id, instr), (facts, &is_remade), &mut arrivals);
    }
    live.arrivals = arrivals.into_values().collect();
    for (id, _) in computation.iter().filter(|(_, instr)| instr.op == Opcode::While) {
        for value in live.values(id).filter(|&value| live.aliases[value].is_some()) {
            let buffer = live.buffer(value);
            live.passed_on[buffer] = Some(id.index());
        }
    }
    live
}

impl Live {
    /// Extends the lives of an instruction's operands.
    fn read(&mut self, module: &Module, comp: CompId, facts: &[InstrFacts], (id, instr): (InstrId, &Instr)) {
        let own = self.values(id);
        let operands: Vec<usize> = instr.operands.iter().flat_map(|&operand| self.values(operand)).collect();
        for (index, &operand) in operands.iter().enumerate() {
            if let Naming::Leaf(leaf) = own_leaf(module, comp, instr, index, &facts[id.index()]) {
                self.aliases[own.start + leaf] = Some(operand);
            }
            if let Some(end) = self.end_of_read(module, comp, facts, (id, instr), index) {
                (self.ends[operand], self.phases[operand]) = later(self.end(operand), end);
            }
        }
    }

    fn needed(&mut self, id: InstrId, (end, phase): (usize, Phase)) {
        for value in self.values(id) {
            (self.ends[value], self.phases[value]) = (end, phase);
        }
    }

    fn end(&self, value: usize) -> (usize, Phase) {
        (self.ends[value], self.phases[value])
    }

    /// The last instruction, and phase, that needs the `index`-th leaf of an instruction's operands for what
    /// that makes of it; none if it makes nothing of it.
    fn end_of_read(
        &self,
        module: &Module,
        comp: CompId,
        facts: &[InstrFacts],
        (id, instr): (InstrId, &Instr),
        index: usize,
    ) -> Option<(usize, Phase)> {
        let (own, here) = (self.values(id), (id.index(), facts[id.index()].phase));
        match own_leaf(module, comp, instr, index, &facts[id.index()]) {
            Naming::Leaf(leaf) => Some(self.end(own.start + leaf)),
            Naming::All => own.map(|value| self.end(value)).reduce(later),
            // An element is none of the other parts.
            Naming::Nothing => (instr.op != Opcode::GetTupleElement).then_some(here),
        }
    }
}

fn later(a: (usize, Phase), b: (usize, Phase)) -> (usize, Phase) {
    (a.0.max(b.0), a.1.max(b.1))
}

impl Live {
    /// Per value: whether some instruction of a kind needs its buffer, on the stage that makes it.
    pub fn read_by(
        &self,
        module: &Module,
        comp: CompId,
        facts: &[InstrFacts],
        is_reader: &[bool],
    ) -> Vec<bool> {
        let mut found = vec![false; self.ends.len()];
        for (id, instr) in module.comp(comp).iter().rev() {
            let own = self.values(id);
            let operands = instr.operands.iter().flat_map(|&operand| {
                let stages = facts[operand.index()].leaves.iter().map(|leaf| leaf.stage);
                self.values(operand).zip(stages)
            });
            for (index, (operand, stage)) in operands.enumerate() {
                let is_here = is_naming(instr) || facts[id.index()].stage == stage;
                let is_named = match own_leaf(module, comp, instr, index, &facts[id.index()]) {
                    Naming::Leaf(leaf) => found[own.start + leaf],
                    Naming::All => own.clone().any(|value| found[value]),
                    Naming::Nothing => false,
                };
                found[operand] |= is_here && (is_named || is_reader[id.index()]);
            }
        }
        found
    }
}

/// What an instruction's value is to the `index`-th leaf of its operands.
enum Naming {
    /// This leaf is the same buffer.
    Leaf(usize),
    /// It is computed from it later, where its readers are.
    All,
    /// It is made from it here.
    Nothing,
}

fn own_leaf(module: &Module, comp: CompId, instr: &Instr, index: usize, own: &InstrFacts) -> Naming {
    match instr.op {
        Opcode::Tuple | Opcode::OptBarrier => Naming::Leaf(index),
        Opcode::AddDependency if index == 0 => Naming::Leaf(0),
        Opcode::GetTupleElement => {
            let start = element_start(instr, &module.comp(comp).instr(instr.operands[0]).shape);
            index
                .checked_sub(start)
                .filter(|&leaf| leaf < own.leaves.len())
                .map_or(Naming::Nothing, Naming::Leaf)
        }
        _ if let Some(own) = started_leaves(instr) => started(instr, own, index),
        _ if let Some(named) = done(module.comp(comp), instr, index) => named,
        Opcode::While if is_passed_on(module, instr, index) => Naming::Leaf(index),
        Opcode::While | Opcode::Conditional => Naming::Nothing,
        _ if !own.in_memory => Naming::All,
        _ if !own.is_allocated && own.leaves.len() == 1 && index == 0 => Naming::Leaf(0),
        _ => Naming::Nothing,
    }
}

/// A `-start` carries its operands' buffers beside its result.
fn started(instr: &Instr, own: Range<usize>, index: usize) -> Naming {
    let leaf = if own.start > 0 { index } else { own.end + index };
    let is_carried = !own.contains(&leaf) && leaf < instr.shape.n_leaves();
    if is_carried { Naming::Leaf(leaf) } else { Naming::Nothing }
}

/// A `-done` hands out the result of its `-start`.
fn done(comp: &Computation, instr: &Instr, index: usize) -> Option<Naming> {
    let start = comp.instr(*instr.operands.first()?);
    let own = started_leaves(start).filter(|_| is_done(instr.op))?;
    let leaf =
        index.checked_sub(own.start).filter(|&leaf| own.contains(&index) && leaf < instr.shape.n_leaves());
    Some(leaf.map_or(Naming::Nothing, Naming::Leaf))
}

/// Whether a loop's body returns a carried leaf as it got it.
pub fn is_passed_on(module: &Module, instr: &Instr, leaf: usize) -> bool {
    let Some(body) = instr.comp(Key::Body).map(|body| module.comp(body)) else { return false };
    let (root, parts) = (body.root(), instr.shape.parts());
    let is_flat = parts.iter().all(|part| part.parts().is_empty());
    if root.op != Opcode::Tuple || !is_flat || leaf >= root.operands.len() {
        return false;
    }
    let element = body.instr(root.operands[leaf]);
    let is_param = |id: &InstrId| body.instr(*id).op == Opcode::Parameter;
    element.op == Opcode::GetTupleElement
        && element.int(Key::Index) == Some(leaf as i64)
        && element.operands.first().is_some_and(is_param)
}

/// Per instruction: whether every stage makes it in registers for itself, of constants alone.
fn remade(comp: &Computation, facts: &[InstrFacts]) -> Vec<bool> {
    let mut is_free: Vec<bool> = Vec::with_capacity(facts.len());
    comp.instrs.iter().for_each(|instr| is_free.push(is_made_of_constants(instr, &is_free)));
    is_free.iter().zip(facts).map(|(is_free, own)| *is_free && !own.in_memory).collect()
}

/// Notes the operands that come from another stage; readers are met last to first.
fn arrive(
    live: &Live,
    (module, comp): (&Module, CompId),
    (id, instr): (InstrId, &Instr),
    (facts, is_remade): (&[InstrFacts], &[bool]),
    found: &mut BTreeMap<(usize, usize), Arrival>,
) {
    if is_naming(instr) {
        return;
    }
    let own = &facts[id.index()];
    let leaves =
        instr.operands.iter().flat_map(|&it| (0..facts[it.index()].leaves.len()).map(move |leaf| (it, leaf)));
    for (index, (operand, leaf)) in leaves.enumerate() {
        let (maker, leaf) = origin(module.comp(comp), operand, leaf);
        let made = &facts[maker.index()];
        if made.leaves[leaf].stage == own.stage || is_remade[maker.index()] {
            continue;
        }
        let bytes = own.reads.get(index).copied().unwrap_or(made.bytes[leaf]);
        let here = (id.index(), own.phase);
        let (last, phase) = live.end_of_read(module, comp, facts, (id, instr), index).unwrap_or(here);
        let (first, stage) = (id.index(), own.stage);
        let arrival = Arrival { maker, leaf, stage, bytes, first, last, phase };
        let known = found.entry((live.values(maker).start + leaf, stage)).or_insert(arrival);
        known.first = first;
        (known.last, known.phase) = later((known.last, known.phase), (last, phase));
        known.bytes = known.bytes.max(bytes);
    }
}

#[cfg(test)]
mod tests;
