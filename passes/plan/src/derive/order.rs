//! Whether every value is there before it is read, task by task.
//!
//! A task is a stage's forward or backward part for one microbatch, or the gradients of weights that a
//! zero-bubble schedule puts off. What every schedule promises about the tasks of one microbatch is
//! [`comes_before`]; the update comes after all microbatches. Tuples are seen through, leaf by leaf; what
//! passes a barrier is there once all that passes it is. Parameters are always there, and every task makes
//! for itself what is made of constants alone.

use super::origin::origin_by;
use super::{
    Facts, InstrFacts, Phase, Problem, deferred_by_schedule, is_move, is_naming, operand_origins,
    planned_comps, with_callees,
};
use phzc_cost::schedule::{Part, comes_before};
use phzc_ir::effects::has_side_effect;
use phzc_ir::{Instr, InstrId, Module, Opcode, notes};
use std::collections::BTreeMap;

/// When an instruction of the entry runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    /// In every task that reads it: it is made of constants alone.
    Free,
    /// It is a parameter.
    Given,
    /// In a stage's part, once per microbatch.
    Task(Part, usize),
    /// After all microbatches.
    After,
}

impl When {
    /// Whether a value that is made then can be read then.
    fn is_there(self, reader: When) -> bool {
        match (self, reader) {
            (When::Free | When::Given, _) | (_, When::After) => true,
            (When::After, _) | (_, When::Free | When::Given) => false,
            (When::Task(part, stage), When::Task(later, later_stage)) => {
                self == reader || comes_before((part, stage), (later, later_stage))
            }
        }
    }
}

/// What an instruction waits for: when that is made, and the first that is made then.
type Waits = BTreeMap<When, InstrId>;

/// A problem for every instruction that reads what is made later, and for every one in a loop or a branch
/// that says it runs at another time than what runs it.
pub fn problems(module: &Module, facts: &Facts) -> Vec<Problem> {
    let mut found: Vec<Problem> = early(module, facts).into_iter().map(|(problem, _)| problem).collect();
    found.extend(inside(module, facts));
    found
}

/// The same of changes of layout and of what reads them, which are no tasks of their own in the program of
/// one device.
pub fn problems_of_moves(module: &Module, facts: &Facts) -> Vec<Problem> {
    let is_asked = |problem: &Problem, read: InstrId| {
        [problem.instr, read].into_iter().any(|id| is_move(module.entry().instr(id)))
    };
    let found = early(module, facts).into_iter().filter(|(problem, read)| is_asked(problem, *read));
    found.map(|(problem, _)| problem).chain(inside(module, facts)).collect()
}

/// Per instruction that reads what is made later: that it does, and what it reads.
fn early(module: &Module, facts: &Facts) -> Vec<(Problem, InstrId)> {
    let is_put_off = deferred_by_schedule(module, facts);
    let mut order = Order { module, facts, when: Vec::new(), at_barriers: BTreeMap::new() };
    let mut found = Vec::new();
    for (id, instr) in module.entry().iter() {
        let waits = order.waits(instr);
        let when = order.when(id, instr, &waits, is_put_off[id.index()]);
        order.when.push(when);
        match instr.op {
            Opcode::OptBarrier => {
                order.at_barriers.insert(id, waits);
            }
            _ if is_naming(instr) => {}
            _ => found.extend(order.problem(id, instr, &waits)),
        }
    }
    found
}

struct Order<'a> {
    module: &'a Module,
    facts: &'a Facts,
    /// Per instruction of the entry.
    when: Vec<When>,
    at_barriers: BTreeMap<InstrId, Waits>,
}

impl Order<'_> {
    /// The values that an instruction reads, and all that passes a barrier with them.
    fn waits(&self, instr: &Instr) -> Waits {
        let entry = self.module.entry();
        let mut found = Waits::new();
        for &operand in &instr.operands {
            for leaf in 0..entry.instr(operand).shape.n_leaves() {
                let passed = |id: InstrId| {
                    for (&when, &maker) in self.at_barriers.get(&id).into_iter().flatten() {
                        found.entry(when).or_insert(maker);
                    }
                };
                let (maker, _) = origin_by(entry, operand, leaf, passed);
                found.entry(self.when[maker.index()]).or_insert(maker);
            }
        }
        found
    }

    fn when(&self, id: InstrId, instr: &Instr, waits: &Waits, is_put_off: bool) -> When {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        let is_free = !has_side_effect(instr) && waits.keys().all(|&when| when == When::Free);
        match own.phase {
            _ if instr.op == Opcode::Parameter => When::Given,
            _ if is_free || is_naming(instr) => When::Free,
            Phase::Forward => When::Task(Part::Forward, own.stage),
            Phase::Backward if is_put_off => When::Task(Part::WeightGradient, own.stage),
            Phase::Backward => When::Task(Part::Backward, own.stage),
            Phase::Update => When::After,
        }
    }

    fn problem(&self, id: InstrId, instr: &Instr, waits: &Waits) -> Option<(Problem, InstrId)> {
        let own = self.when[id.index()];
        let (&when, &maker) = waits.iter().find(|(when, _)| !when.is_there(own))?;
        let is_read = operand_origins(self.module.entry(), instr).any(|(other, _)| other == maker);
        let verb = if is_read { "reads" } else { "waits at a barrier for" };
        let message = format!("{} {verb} {}{}", self.describe(id), self.describe(maker), remedy(own, when));
        Some((Problem { comp: self.module.entry, instr: id, is_fatal: true, message }, maker))
    }

    fn describe(&self, id: InstrId) -> String {
        let own = &self.facts.comps[self.module.entry.index()][id.index()];
        let name = &self.module.entry().instr(id).name;
        match self.when[id.index()] {
            When::Task(Part::WeightGradient, stage) => format!("`{name}` (stage {stage}, weight gradient)"),
            _ => placed(name, own),
        }
    }
}

/// Why what is made then cannot be read then, and what to do.
fn remedy(reader: When, maker: When) -> &'static str {
    match (reader, maker) {
        (_, When::After) => {
            ", but the update runs once, after all microbatches: say `phzc.phase=\"upd\"` of the reader, or an earlier phase of what it reads"
        }
        (When::Task(Part::Forward, _), When::Task(Part::Forward, _)) => {
            " of the same microbatch, but forward goes from the first stage to the last: say a later `phzc.stage` of the reader, or an earlier one of what it reads"
        }
        (When::Task(Part::Forward, _), _) => {
            " of the same microbatch, but its forward parts run before its backward parts: say `phzc.phase=\"bwd\"` of the reader, or `fwd` of what it reads"
        }
        _ => {
            " of the same microbatch, but backward goes from the last stage to the first: say an earlier `phzc.stage` of the reader, or a later one of what it reads"
        }
    }
}

/// Instructions of loops and branches that name another stage or phase than the instruction of the entry that
/// runs them.
fn inside(module: &Module, facts: &Facts) -> Vec<Problem> {
    let entry = module.entry;
    let all = module.entry().iter().map(|(id, _)| Some(id)).collect();
    let runs: Vec<Vec<Option<InstrId>>> = with_callees(module, all);
    let mut found = Vec::new();
    for comp in planned_comps(module).into_iter().filter(|&comp| comp != entry) {
        let own = &facts.comps[comp.index()];
        let mut is_free: Vec<bool> = Vec::with_capacity(own.len());
        for (id, instr) in module.comp(comp).iter() {
            is_free.push(is_made_of_constants(instr, &is_free));
            let Some(by) = runs[comp.index()][id.index()] else { continue };
            let (own, runner) = (&own[id.index()], &facts.comps[entry.index()][by.index()]);
            let other = |key: &str, is_other: bool| is_other && instr.note(key).is_some();
            let is_other = other(notes::STAGE, own.stage != runner.stage)
                || other(notes::PHASE, own.phase != runner.phase);
            if is_other && !is_naming(instr) && !is_free[id.index()] && instr.op != Opcode::Parameter {
                let (inner, outer) =
                    (placed(&instr.name, own), placed(&module.entry().instr(by).name, runner));
                let message = format!(
                    "{inner} is run by {outer}: all that a loop or a branch runs is one task, say its stage and phase"
                );
                found.push(Problem { comp, instr: id, is_fatal: true, message });
            }
        }
    }
    found
}

/// Whether an instruction is made of constants alone, if that is known of those before it.
pub fn is_made_of_constants(instr: &Instr, is_free: &[bool]) -> bool {
    instr.op != Opcode::Parameter
        && !has_side_effect(instr)
        && instr.operands.iter().all(|operand| is_free[operand.index()])
}

/// An instruction with its stage and phase.
pub fn placed(name: &str, own: &InstrFacts) -> String {
    let phase = match own.phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Update => "update",
    };
    format!("`{name}` (stage {}, {phase})", own.stage)
}
