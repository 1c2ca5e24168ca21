//! Where each instruction of the entry lies on the chain that a pipeline cuts: its position in the forward
//! part.
//!
//! A forward instruction lies where it stands, but what it makes of weights alone, unless that is smaller
//! than they are, lies where it is read first: programs prepare weights anywhere. A backward one lies as late
//! as it can, that is where the gradients that it reads are made, but no later than where the forward part
//! reads its other operands for the last time: the gradient of a layer's weight is made where the layer is.
//! Positions never rise along the backward part, so that gradients only ever go to earlier stages. An update
//! lies where its gradient is made.

use phzc_ir::effects::has_side_effect;
use phzc_ir::{Instr, InstrId, Module, Opcode};
use phzc_plan::derive::{Facts, Nature, Phase, aliased, is_added, is_naming, operand_origins, origins};

/// An operand this much smaller than the largest one does not attract its reader.
const LIGHT: f64 = 1.0 / 16.0;

/// The position of every instruction of the entry.
pub fn positions(module: &Module, facts: &Facts) -> Vec<usize> {
    let mut finder = Finder::new(module, facts);
    finder.steps();
    finder.updates();
    finder.finish()
}

struct Finder<'a> {
    module: &'a Module,
    facts: &'a Facts,
    phases: Vec<Phase>,
    /// Whether it depends on constants only: then every stage can make it.
    is_free: Vec<bool>,
    /// Where each instruction lies; parameters and free values lie where they are read first.
    at: Vec<Option<usize>>,
    /// Per instruction: where the forward part reads it, first and last.
    read: Vec<Option<(usize, usize)>>,
}

/// What an instruction reads.
struct Operand {
    /// Where it is made, if that is known.
    at: Option<usize>,
    /// Up to where the forward part has it.
    until: Option<usize>,
    /// Bytes on one device; none of scalars and of what every stage can make.
    bytes: f64,
    phase: Phase,
    is_state: bool,
}

impl<'a> Finder<'a> {
    fn new(module: &'a Module, facts: &'a Facts) -> Finder<'a> {
        let comp = module.entry();
        let is_free = free(module);
        let phases = phases(module, facts, &is_free);
        let mut read: Vec<Option<(usize, usize)>> = vec![None; comp.instrs.len()];
        for (id, instr) in
            comp.iter().rev().filter(|(id, instr)| phases[id.index()] == Phase::Forward && !is_naming(instr))
        {
            let here = (id.index(), id.index());
            let here = read[id.index()].filter(|_| is_prepared(module, facts, id)).unwrap_or(here);
            for (maker, _) in operand_origins(comp, instr) {
                let (first, last) = read[maker.index()].get_or_insert(here);
                (*first, *last) = ((*first).min(here.0), (*last).max(here.1));
            }
        }
        let first = |id: InstrId| read[id.index()].map(|read| read.0);
        let at = (0..comp.instrs.len())
            .map(InstrId::new)
            .map(|id| first(id).filter(|_| is_prepared(module, facts, id)));
        Finder { module, facts, phases, is_free, at: at.collect(), read }
    }

    /// Instructions that compute, in program order.
    fn computing(&self) -> impl DoubleEndedIterator<Item = (InstrId, &'a Instr)> + use<'a> {
        let is_free = self.is_free.clone();
        let computes = move |(id, instr): &(InstrId, &Instr)| {
            !is_naming(instr) && instr.op != Opcode::Parameter && !is_free[id.index()]
        };
        self.module.entry().iter().filter(computes)
    }

    /// Places the forward and the backward part.
    fn steps(&mut self) {
        for (id, instr) in self.computing() {
            let at = match self.phases[id.index()] {
                Phase::Forward => self.at[id.index()].unwrap_or(id.index()),
                Phase::Backward => self.backward(&self.operands(instr)),
                Phase::Update => continue,
            };
            self.set(id, instr, at);
        }
    }

    /// Places the update: each new parameter where the old one is, all else where it is read, or its gradient
    /// made.
    fn updates(&mut self) {
        let comp = self.module.entry();
        let (aliased, handed_over) = (aliased(self.module), origins(comp, comp.root));
        let is_update: Vec<bool> = self.phases.iter().map(|&phase| phase == Phase::Update).collect();
        for alias in &aliased {
            let (maker, _) = handed_over[alias.output];
            if is_update[maker.index()] && self.read[alias.param.index()].is_some() {
                self.at[maker.index()] = self.at[alias.param.index()];
            }
        }
        for (id, instr) in self.computing().rev().filter(|(id, _)| is_update[id.index()]).collect::<Vec<_>>()
        {
            let Some(at) = self.at[id.index()] else { continue };
            for (maker, _) in operand_origins(comp, instr).filter(|(maker, _)| is_update[maker.index()]) {
                lower(&mut self.at[maker.index()], at);
            }
        }
        for (id, instr) in self.computing().filter(|(id, _)| is_update[id.index()]).collect::<Vec<_>>() {
            let at = self.at[id.index()].unwrap_or_else(|| self.update(&self.operands(instr)));
            self.set(id, instr, at);
        }
        for alias in &aliased {
            let (maker, _) = handed_over[alias.output];
            self.at[alias.param.index()] = self.at[maker.index()].or(self.at[alias.param.index()]);
        }
    }

    /// Puts an instruction somewhere, and what it reads that is nowhere yet.
    fn set(&mut self, id: InstrId, instr: &Instr, at: usize) {
        self.at[id.index()] = Some(at);
        for (maker, _) in operand_origins(self.module.entry(), instr) {
            self.at[maker.index()].get_or_insert(at);
        }
    }

    fn operands(&self, instr: &Instr) -> Vec<Operand> {
        operand_origins(self.module.entry(), instr).map(|(maker, leaf)| self.operand(maker, leaf)).collect()
    }

    fn operand(&self, maker: InstrId, leaf: usize) -> Operand {
        let made = &self.facts.comps[self.module.entry.index()][maker.index()];
        let shape = &self.module.entry().instr(maker).shape;
        let is_array = shape
            .leaves()
            .get(leaf)
            .is_some_and(|leaf| leaf.as_array().is_some_and(|array| array.n_elements() > 1.0));
        let at = self.at[maker.index()];
        Operand {
            at,
            until: self.read[maker.index()].map(|read| read.1).or(at),
            bytes: if is_array && !self.is_free[maker.index()] {
                made.bytes.get(leaf).copied().unwrap_or(0.0)
            } else {
                0.0
            },
            phase: self.phases[maker.index()],
            is_state: made.natures.get(leaf) == Some(&Nature::State),
        }
    }

    fn backward(&self, operands: &[Operand]) -> usize {
        let largest = operands.iter().map(|operand| operand.bytes).fold(0.0, f64::max);
        let limit = |operand: &Operand| match operand.phase {
            Phase::Backward | Phase::Update => operand.at,
            Phase::Forward
                if operand.bytes > 0.0 && (operand.is_state || operand.bytes >= LIGHT * largest) =>
            {
                operand.until
            }
            Phase::Forward => None,
        };
        operands.iter().filter_map(limit).min().unwrap_or_else(|| self.last_forward())
    }

    fn update(&self, operands: &[Operand]) -> usize {
        let arrays =
            || operands.iter().filter(|operand| operand.bytes > 0.0).filter_map(|operand| operand.at);
        arrays().min().or_else(|| operands.iter().filter_map(|operand| operand.at).min()).unwrap_or(0)
    }

    fn last_forward(&self) -> usize {
        self.phases.iter().rposition(|&phase| phase == Phase::Forward).unwrap_or(0)
    }

    /// Free values lie where they are read first, names where the first of what they name does.
    fn finish(mut self) -> Vec<usize> {
        let comp = self.module.entry();
        for (id, instr) in comp.iter().rev().filter(|(id, _)| self.is_free[id.index()]) {
            let at = self.at[id.index()].unwrap_or_default();
            operand_origins(comp, instr).for_each(|(maker, _)| lower(&mut self.at[maker.index()], at));
        }
        for (id, instr) in comp.iter().filter(|(_, instr)| is_naming(instr)) {
            let named = operand_origins(comp, instr).filter_map(|(maker, _)| self.at[maker.index()]);
            self.at[id.index()] = named.min();
        }
        self.at.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// Whether the forward part makes it of weights alone, or it is one. What is smaller than what it is made of
/// stays with that: it is cheaper to send.
fn is_prepared(module: &Module, facts: &Facts, id: InstrId) -> bool {
    let (comp, own) = (module.entry(), &facts.comps[module.entry.index()][id.index()]);
    let elements = |instr: &Instr| instr.shape.as_array().map_or(0.0, |array| array.n_elements());
    let instr = comp.instr(id);
    own.natures.iter().all(|nature| *nature == Nature::State)
        && !has_side_effect(instr)
        && instr.operands.iter().all(|&operand| elements(comp.instr(operand)) <= elements(instr))
}

fn lower(at: &mut Option<usize>, to: usize) {
    *at = Some(at.map_or(to, |at| at.min(to)));
}

/// Whether each instruction of the entry depends on constants only.
pub fn free(module: &Module) -> Vec<bool> {
    let comp = module.entry();
    let mut is_free = vec![false; comp.instrs.len()];
    for (id, instr) in comp.iter() {
        is_free[id.index()] = instr.op != Opcode::Parameter
            && !has_side_effect(instr)
            && operand_origins(comp, instr).all(|(maker, _)| is_free[maker.index()]);
    }
    is_free
}

/// The phase of every instruction; that of a reshard, and of what is made of weights alone, is its first
/// reader's.
fn phases(module: &Module, facts: &Facts, is_free: &[bool]) -> Vec<Phase> {
    let comp = module.entry();
    let noted = &facts.comps[module.entry.index()];
    let mut phases: Vec<Phase> = noted.iter().map(|own| own.phase).collect();
    let mut first: Vec<Option<Phase>> = vec![None; comp.instrs.len()];
    for (id, instr) in comp.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
        let is_moved = is_added(instr) || is_free[id.index()];
        let is_prepared = instr.op != Opcode::Parameter && is_prepared(module, facts, id);
        phases[id.index()] =
            first[id.index()].filter(|_| is_moved || is_prepared).unwrap_or(phases[id.index()]);
        for (maker, _) in operand_origins(comp, instr) {
            let earliest = &mut first[maker.index()];
            *earliest = Some(earliest.map_or(phases[id.index()], |phase| phase.min(phases[id.index()])));
        }
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_plan::derive::derive;

    #[test]
    fn what_is_made_of_a_weight_lies_with_its_reader_but_a_norm_with_the_weight() {
        let text = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  scale = f32[8] parameter(2)
  wide = f32[8,8] broadcast(scale), dimensions={1}
  zero = f32[] constant(0)
  h = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  square = f32[8,8] multiply(w, w)
  norm = f32[] reduce(square, zero), dimensions={0,1}, to_apply=add
  y = f32[8,8] multiply(h, wide)
  loss = f32[] reduce(y, zero), dimensions={0,1}, to_apply=add
  all = f32[] add(loss, norm)
  ROOT out = (f32[8,8], f32[8], f32[]) tuple(w, scale, all)
}";
        let module = phzc_ir::parse(text).expect("a legal program");
        let at = positions(&module, &derive(&module).expect("no notes"));
        let index = |name: &str| {
            module.entry().instrs.iter().position(|instr| &*instr.name == name).expect("it is there")
        };
        for (name, wanted) in
            [("wide", "y"), ("scale", "y"), ("square", "norm"), ("norm", "norm"), ("w", "h")]
        {
            assert_eq!(at[index(name)], index(wanted), "{name}");
        }
    }
}
