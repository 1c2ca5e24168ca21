//! Writes the step: the batch cut into microbatches, the loop over them, the update.

use super::Plan;
use super::body::{self, State};
use super::build::{Build, Rows, lies, type_of};
use super::layouts::{self, complete};
use super::parts::{Cut, Parts};
use crate::pad::mask::neutral;
use crate::rebuild::plain;
use phzc_ir::{
    Attr, CompId, Computation, DType, Diagnostic, Instr, InstrId, Key, Layout, Module, Opcode, Result, Value,
    notes,
};
use phzc_opt::dce::remove_dead;
use phzc_plan::derive::{Leaf, control_flow, is_move, origin};
use phzc_plan::plan_note::{self, ACCUMULATED, CLAIMS};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The phase of the loop over the microbatches, as of loops that a program has already.
const PHASE: &str = "fwd";

/// The program of a plan in which the parts run microbatch by microbatch.
///
/// # Errors
/// When a sum is of a kind that has no neutral number.
pub fn module(plan: &Plan, parts: &Parts) -> Result<Module> {
    let mut module = plan.local.clone();
    module.put_entry_last();
    let rows = Rows { n: plan.facts.header.n_microbatches as i64, by_place: parts.by_place };
    let build = Build::new(plan.local, plan.mesh());
    let mut step = Step { plan, parts, rows, build, partial: BTreeMap::new() };
    step.parameters();
    let (state, start) = step.state()?;
    let [condition, body] = ["condition", "body"].map(|part| free_name(&module, part));
    module.comps.pop();
    let at = [module.comps.len(), module.comps.len() + 1].map(CompId::new);
    module.comps.push(body::condition(&state, condition, rows.n, plan));
    module.comps.push(body::body(plan, parts, &state, (body, rows)));
    let looped = step.looped(&state, start, at);
    step.results(looped);
    module.comps.push(step.finished());
    Ok(with_header(module, plan.placed, at[1]))
}

/// A name that no computation has.
fn free_name(module: &Module, part: &str) -> Box<str> {
    let is_taken = |name: &str| module.comps.iter().any(|comp| &*comp.name == name);
    let names =
        (0..).map(|n| if n == 0 { format!("microbatch.{part}") } else { format!("microbatch.{part}.{n}") });
    names.into_iter().find(|name| !is_taken(name)).unwrap_or_default().into()
}

/// The computations under the header of the plan, of which one batch is left.
fn with_header(mut module: Module, placed: &Module, body: CompId) -> Module {
    module.entry = CompId::new(module.comps.len() - 1);
    module.attrs.clone_from(&placed.attrs);
    let n = plan_note::read(placed).get("n_microbatches").cloned().unwrap_or_default();
    plan_note::set(&mut module, &[("n_microbatches", 1.into()), (ACCUMULATED, n)]);
    let claims = CLAIMS.into_iter().chain(["fits", "gap"]);
    claims.for_each(|claim| plan_note::remove(&mut module, claim));
    in_one_phase(&mut module, body);
    remove_dead(&mut module);
    module
}

/// Everything that the loop over the microbatches runs is in the loop's phase.
fn in_one_phase(module: &mut Module, body: CompId) {
    let mut work = vec![body];
    while let Some(comp) = work.pop() {
        let instrs = &mut module.comps[comp.index()].instrs;
        for instr in instrs.iter_mut().filter(|instr| instr.note(notes::PHASE).is_some()) {
            instr.set_note(notes::PHASE, PHASE);
        }
        work.extend(module.comp(comp).instrs.iter().flat_map(control_flow));
    }
}

struct Step<'a> {
    plan: &'a Plan<'a>,
    parts: &'a Parts,
    rows: Rows,
    build: Build<'a>,
    /// What stands for each sum before it is summed over devices.
    partial: BTreeMap<InstrId, InstrId>,
}

impl Step<'_> {
    /// The program's parameters, which are whole.
    fn parameters(&mut self) {
        let placed = self.plan.placed.entry();
        for (own, whole) in self.plan.local.entry().params().into_iter().zip(placed.params()) {
            let id = self.build.step.push(placed.instr(whole).clone());
            self.build.step.made.insert(own, id);
        }
    }

    /// What the loop carries, and its first value.
    fn state(&mut self) -> Result<(State, InstrId)> {
        let mut first = vec![self.build.full((DType::S32, &[]), "0", Layout::REPLICATED)];
        let mut leaves = vec![Leaf::default()];
        for &sum in &self.parts.sums {
            let instr = self.plan.local.entry().instr(sum);
            leaves.push(layouts::of(instr, self.plan.mesh()));
            first.push(self.empty_sum(instr)?);
        }
        for cut in &self.parts.joined {
            leaves.push(lies(cut.dim.map_or(cut.layout, |dim| self.rows.apart(cut, dim))));
            first.push(self.empty_result(cut));
        }
        for cut in &self.parts.given {
            leaves.push(lies(cut.dim.map_or(cut.layout, |dim| self.rows.apart(cut, dim))));
            first.push(self.given(cut));
        }
        let shapes = first.iter().map(|id| self.build.step.instrs[id.index()].shape.clone()).collect();
        let start = self.build.tuple("microbatches", first, &leaves);
        Ok((State { shapes, leaves }, start))
    }

    fn empty_sum(&mut self, instr: &Instr) -> Result<InstrId> {
        let (dtype, dims) = type_of(&instr.shape);
        let none = || {
            let message =
                format!("`{}` reduces over the microbatches in a way that starts from no number", instr.name);
            Diagnostic::error(message).at(instr.span).help("plan with `place{microbatches=1}`")
        };
        let literal = self.plan.reduction(instr).and_then(|reducer| neutral(dtype, reducer));
        let layout = layouts::of(instr, self.plan.mesh()).layout;
        Ok(self.build.full((dtype, &dims), &literal.ok_or_else(none)?, layout))
    }

    fn empty_result(&mut self, cut: &Cut) -> InstrId {
        let shape = self.plan.local.entry().instr(cut.value.0).shape.leaves()[cut.value.1];
        let (dtype, dims) = type_of(shape);
        let literal = if dtype == DType::Pred { "false" } else { "0" };
        let dim = cut.dim.unwrap_or_default();
        self.build.full((dtype, &self.rows.dims(&dims, dim)), literal, self.rows.apart(cut, dim))
    }

    /// What the loop reads: the batch in two dimensions, all else as it is.
    fn given(&mut self, cut: &Cut) -> InstrId {
        let whole = self.build.step.leaf(cut.value);
        let Some(dim) = cut.dim else { return whole };
        let whole = self.build.moved(whole, (cut.layout, self.rows.joint(cut)), "all-gather");
        let mut part = self.build.dims(whole);
        part[dim] /= self.rows.n;
        self.build.reshape(whole, &self.rows.dims(&part, dim), self.rows.apart(cut, dim))
    }

    fn looped(&mut self, state: &State, start: InstrId, [condition, body]: [CompId; 2]) -> InstrId {
        let attrs = vec![
            Attr { key: Key::Condition, value: Value::Comp(condition) },
            Attr { key: Key::Body, value: Value::Comp(body) },
        ];
        let name = self.build.step.names.free("microbatches");
        let operands = SmallVec::from_slice(&[start]);
        let mut instr = Instr { operands, attrs, ..plain(name, Opcode::While, state.shape()) };
        instr.set_note(notes::PHASE, PHASE);
        self.build.add(instr, &state.leaves)
    }

    /// What the loop has made stands for the sums and results of the step.
    fn results(&mut self, looped: InstrId) {
        let (entry, mesh) = (self.plan.local.entry(), self.plan.mesh());
        for (at, &sum) in self.parts.sums.iter().enumerate() {
            let instr = entry.instr(sum);
            let id = self.build.element(looped, at + 1, layouts::of(instr, mesh));
            let element = &mut self.build.step.instrs[id.index()];
            element.name = instr.name.clone();
            for note in [notes::PHASE, notes::BLOCK] {
                instr.note(note).into_iter().for_each(|text| element.set_note(note, text));
            }
            let done = self.summed(instr, id);
            self.build.step.leaves.insert((sum, 0), done);
            self.partial.insert(sum, id);
        }
        for (at, cut) in self.parts.joined.iter().enumerate() {
            let (dim, joint) = (cut.dim.unwrap_or_default(), self.rows.joint(cut));
            let apart = lies(self.rows.apart(cut, dim));
            let id = self.build.element(looped, self.parts.sums.len() + at + 1, apart);
            let mut dims = self.build.dims(id);
            dims.remove(self.rows.counter(dim));
            dims[dim] *= self.rows.n;
            let id = self.build.reshape(id, &dims, joint);
            let id = self.build.moved(id, (joint, cut.layout), "slice");
            self.build.step.leaves.insert(cut.value, id);
        }
    }

    /// A sum over the microbatches, summed over the devices too as far as the plan's value is.
    fn summed(&mut self, instr: &Instr, id: InstrId) -> InstrId {
        let (entry, all) = (self.plan.placed.entry, &self.plan.facts.comps);
        let planned = self.plan.placed.entry().iter().find(|(_, other)| other.name == instr.name);
        let leaf = planned.and_then(|(planned, _)| all[entry.index()][planned.index()].leaves.first());
        let own = layouts::of(instr, self.plan.mesh());
        match leaf.filter(|leaf| leaf.partial != own.partial) {
            Some(&leaf) => self.build.reduced(id, leaf),
            None => id,
        }
    }

    /// The entry, with the update.
    fn finished(mut self) -> Computation {
        let (entry, placed) = (self.plan.local.entry(), self.plan.placed.entry());
        for (id, instr) in entry.iter().filter(|(id, instr)| self.parts.runs_after(*id, instr)) {
            self.build.step.instr(id, instr);
            // A change of layout does a sum on its way, as a reduce-scatter.
            if let Some(&partial) = instr.operands.first().and_then(|id| self.partial.get(id))
                && is_move(instr)
            {
                let made = self.build.step.made[&id];
                self.build.step.instrs[made.index()].operands[0] = partial;
            }
        }
        let n_leaves = placed.root().shape.n_leaves();
        let leaves: Vec<InstrId> =
            (0..n_leaves).map(|leaf| self.build.step.leaf(origin(entry, entry.root, leaf))).collect();
        let whole = placed.root();
        let root = self.build.step.nested(&whole.shape, &mut leaves.into_iter(), &whole.name);
        let mut instrs = self.build.step.instrs;
        if instrs[root.index()].op == Opcode::Tuple && whole.op == Opcode::Tuple {
            instrs[root.index()].name = whole.name.clone();
            instrs[root.index()].attrs.clone_from(&whole.attrs);
        }
        complete(&mut instrs);
        Computation { name: placed.name.clone(), instrs, root, thread: None }
    }
}
