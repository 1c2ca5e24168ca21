//! What a comparison does not see: inputs that no output depends on, outputs that depend on no input.
//!
//! An output that is the same in two runs, all of whose inputs differ, is constant. An input has an effect
//! if, changed, it changes what a chain of readers makes of it up to an output, all else being equal. All
//! chains are run together, as one program on recorded values. Inputs that fail are changed in the whole
//! program, together and in halves.

#[cfg(test)]
mod tests;

use phzc_ir::eval::{Options, Value, run};
use phzc_ir::ops::control::control_comps;
use phzc_ir::{Computation, Instr, InstrId, Key, Module, Opcode, Payload, Result, Shape, View, flops};
use std::collections::{BTreeMap, BTreeSet};

/// How often the whole program is run for inputs that seem to have no effect.
const MAX_RUNS: usize = 8;
/// A chain through a loop or a branch, or through a comparison, which loses most changes, costs as much as
/// this much work more.
const DETOUR_WORK: f64 = 1e12;

/// What a comparison says nothing about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dark {
    /// Outputs that do not change with any input.
    pub constant_outputs: Vec<usize>,
    /// Inputs that no output depends on, in order.
    pub idle_inputs: Vec<IdleInput>,
}

/// An input that no output depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleInput {
    /// Its number among the parameters.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: Idleness,
}

/// Why an input seems to have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idleness {
    /// Nothing that leads to an output reads it.
    Unread,
    /// With another value of it all outputs are the same.
    NoEffect,
    /// A chain of its readers loses it, and the whole program was run often enough for others.
    NotFound,
}

/// A program, and for each of its inputs a chain of readers up to an output.
pub struct Chains<'a> {
    module: &'a Module,
    /// Per parameter: the instructions from its reader to an output; none if the parameter is an output.
    chains: Vec<Vec<InstrId>>,
    is_read: Vec<bool>,
    /// What is recorded of a run: ends of chains, and what chains read besides.
    recorded: Vec<InstrId>,
}

impl<'a> Chains<'a> {
    /// Finds the cheapest chain of each input.
    pub fn of(module: &'a Module) -> Chains<'a> {
        let entry = module.entry();
        let ways = Ways::of(module);
        let chains: Vec<Vec<InstrId>> = entry.params().into_iter().map(|id| ways.from(entry, id)).collect();
        let mut recorded = BTreeSet::new();
        for (&param, chain) in entry.params().iter().zip(&chains) {
            let own: BTreeSet<InstrId> = chain.iter().copied().chain([param]).collect();
            let operands = chain.iter().flat_map(|&id| &entry.instr(id).operands);
            recorded.extend(operands.filter(|id| !own.contains(id)));
            recorded.extend(chain.last());
        }
        let is_read = |&id: &InstrId| ways.is_read(id) || id == entry.root;
        let is_read = entry.params().iter().map(is_read).collect();
        Chains { module, chains, is_read, recorded: recorded.into_iter().collect() }
    }

    /// Runs the program; returns its result, and what was recorded.
    ///
    /// # Errors
    /// An instruction that cannot be evaluated.
    pub fn run(&self, given: &[Value], options: &Options) -> Result<(Value, Vec<Value>)> {
        let root = self.module.entry().root;
        let instrs = self.module.entry().instrs.clone();
        let outputs = [&[root], &self.recorded[..]].concat();
        let Value::Tuple(mut parts) = run(&with_entry(self.module, instrs, &outputs), given, options)? else {
            return Ok((Value::Token, Vec::new()));
        };
        let recorded = parts.split_off(1);
        Ok((parts.pop().unwrap_or(Value::Token), recorded))
    }

    /// The inputs that no output depends on: those of which `other` values change nothing.
    ///
    /// `made` and `recorded` are of a run on `given`.
    ///
    /// # Errors
    /// An instruction that cannot be evaluated.
    pub fn idle_inputs(
        &self,
        (given, other): (&[Value], &[Value]),
        (made, recorded): (&Value, &[Value]),
        options: &Options,
    ) -> Result<Vec<IdleInput>> {
        let arrives = self.arrives(other, recorded, options)?;
        let lost: Vec<usize> = (0..given.len()).filter(|&at| self.is_read[at] && !arrives[at]).collect();
        let mut trials = Trials { module: self.module, given, other, made, options, n_runs: 0 };
        let found = trials.idle(&lost)?;
        let entry = self.module.entry();
        let idle = |index: usize| {
            let why = if self.is_read[index] { *found.get(&index)? } else { Idleness::Unread };
            Some(IdleInput { index, name: entry.instr(entry.params()[index]).name.to_string(), why })
        };
        Ok((0..given.len()).filter_map(idle).collect())
    }

    /// Whether each input's change comes to the end of its chain.
    fn arrives(&self, other: &[Value], recorded: &[Value], options: &Options) -> Result<Vec<bool>> {
        let entry = self.module.entry();
        let mut writer = Writer { instrs: Vec::new(), given: Vec::new() };
        let at: BTreeMap<InstrId, usize> =
            self.recorded.iter().enumerate().map(|(at, &id)| (id, at)).collect();
        let mut shared: BTreeMap<InstrId, InstrId> = BTreeMap::new();
        let mut ends = Vec::new();
        for ((&param, chain), other) in entry.params().iter().zip(&self.chains).zip(other) {
            let mut own = BTreeMap::from([(param, writer.param(entry.instr(param), other.clone()))]);
            for &id in chain {
                let mut instr = entry.instr(id).clone();
                for operand in &mut instr.operands {
                    let known = own.get(operand).copied();
                    *operand = known.unwrap_or_else(|| {
                        let old = *operand;
                        let value = || recorded[at[&old]].clone();
                        *shared.entry(old).or_insert_with(|| writer.param(entry.instr(old), value()))
                    });
                }
                own.insert(id, writer.push(instr));
            }
            ends.extend(chain.last().map(|id| own[id]));
        }
        let made = run(&with_entry(self.module, writer.instrs, &ends), &writer.given, options)?;
        let Value::Tuple(made) = made else { return Ok(vec![true; other.len()]) };
        let mut made = made.into_iter();
        let mut arrives = |chain: &Vec<InstrId>| {
            let Some(end) = chain.last() else { return true };
            made.next().is_some_and(|made| made.digest() != recorded[at[end]].digest())
        };
        Ok(self.chains.iter().map(&mut arrives).collect())
    }
}

/// Instructions with the values of their parameters.
struct Writer {
    instrs: Vec<Instr>,
    given: Vec<Value>,
}

impl Writer {
    fn push(&mut self, mut instr: Instr) -> InstrId {
        let id = InstrId::new(self.instrs.len());
        instr.name = format!("chain.{}", id.index()).into();
        self.instrs.push(instr);
        id
    }

    /// A parameter in an instruction's place.
    fn param(&mut self, like: &Instr, value: Value) -> InstrId {
        let payload = Payload::Parameter(self.given.len() as u32);
        self.given.push(value);
        let (shape, span) = (like.shape.clone(), like.span);
        let (name, operands, attrs) = ("".into(), [].into_iter().collect(), Vec::new());
        self.push(Instr { name, op: Opcode::Parameter, operands, shape, payload, attrs, span })
    }
}

/// Runs of the whole program with some inputs changed.
struct Trials<'a> {
    module: &'a Module,
    given: &'a [Value],
    other: &'a [Value],
    made: &'a Value,
    options: &'a Options,
    n_runs: usize,
}

impl Trials<'_> {
    /// Which of these inputs change nothing, and which are not known to.
    fn idle(&mut self, inputs: &[usize]) -> Result<BTreeMap<usize, Idleness>> {
        let all = |why: Idleness| inputs.iter().map(|&index| (index, why)).collect();
        if inputs.is_empty() {
            return Ok(BTreeMap::new());
        }
        if self.n_runs == MAX_RUNS {
            return Ok(all(Idleness::NotFound));
        }
        self.n_runs += 1;
        let mut changed = self.given.to_vec();
        inputs.iter().for_each(|&index| changed[index] = self.other[index].clone());
        if run(self.module, &changed, self.options)?.digest() == self.made.digest() {
            return Ok(all(Idleness::NoEffect));
        }
        if inputs.len() == 1 {
            return Ok(BTreeMap::new());
        }
        let (first, second) = inputs.split_at(inputs.len() / 2);
        let mut found = self.idle(first)?;
        found.extend(self.idle(second)?);
        Ok(found)
    }
}

/// What is done next to each leaf of each instruction of the entry, so that the least work leads to the
/// result: the reader, and the leaf of its result.
struct Ways {
    next: Vec<Vec<Option<(InstrId, usize)>>>,
}

impl Ways {
    fn of(module: &Module) -> Ways {
        let entry = module.entry();
        let mut work: Vec<Vec<Option<f64>>> =
            entry.instrs.iter().map(|instr| vec![None; instr.shape.n_leaves()]).collect();
        let mut next: Vec<Vec<_>> = work.iter().map(|leaves| vec![None; leaves.len()]).collect();
        work[entry.root.index()].fill(Some(0.0));
        for (id, instr) in entry.iter().rev() {
            let own = own_work(module, id);
            for (at, &operand) in instr.operands.iter().enumerate() {
                for (leaf, made) in made_of(entry, (id, at), &work[id.index()]) {
                    let Some(after) = work[id.index()][made] else { continue };
                    let best = &mut work[operand.index()][leaf];
                    if best.is_none_or(|best| after + own < best) {
                        *best = Some(after + own);
                        next[operand.index()][leaf] = Some((id, made));
                    }
                }
            }
        }
        Ways { next }
    }

    /// The readers from the first leaf of an instruction that leads to the result to that; it is left out if
    /// it is a tuple.
    fn from(&self, entry: &Computation, id: InstrId) -> Vec<InstrId> {
        let next = |&(id, leaf): &(InstrId, usize)| self.next[id.index()][leaf];
        let start = self.next[id.index()].iter().copied().find(Option::is_some).flatten();
        let all = std::iter::successors(start, next).map(|(id, _)| id);
        all.filter(|&id| id != entry.root || entry.root().op != Opcode::Tuple).collect()
    }

    fn is_read(&self, id: InstrId) -> bool {
        self.next[id.index()].iter().any(Option::is_some)
    }
}

/// Leaves of an operand, each with the leaf of the reader's result that it is handed on as, or has a part in:
/// of several the one from which, by `work`, the least leads to the result.
fn made_of(
    entry: &Computation,
    (reader, operand): (InstrId, usize),
    work: &[Option<f64>],
) -> Vec<(usize, usize)> {
    let instr = entry.instr(reader);
    let shape = |id: InstrId| &entry.instr(id).shape;
    let n_read = shape(instr.operands[operand]).n_leaves();
    match instr.op {
        Opcode::Tuple => {
            let before: usize = instr.operands[..operand].iter().map(|&id| shape(id).n_leaves()).sum();
            (0..n_read).map(|leaf| (leaf, before + leaf)).collect()
        }
        Opcode::OptBarrier => (0..n_read).map(|leaf| (leaf, leaf)).collect(),
        Opcode::GetTupleElement => {
            let index = instr.int(Key::Index).unwrap_or(0) as usize;
            let start = shape(instr.operands[0]).part_starts().get(index).copied().unwrap_or(0);
            (0..instr.shape.n_leaves()).map(|leaf| (start + leaf, leaf)).collect()
        }
        _ => {
            let known = (0..work.len()).filter_map(|made| Some((work[made]?, made)));
            let nearest = known.min_by(|a, b| a.0.total_cmp(&b.0));
            nearest.map_or(Vec::new(), |(_, made)| (0..n_read).map(|leaf| (leaf, made)).collect())
        }
    }
}

/// What a chain through an instruction costs.
fn own_work(module: &Module, id: InstrId) -> f64 {
    let instr = module.entry().instr(id);
    let own = flops::work(&View::new(module, module.entry, id));
    let is_detour = instr.op == Opcode::Compare || !control_comps(instr).is_empty();
    1.0 + own.flops + own.bytes + if is_detour { DETOUR_WORK } else { 0.0 }
}

/// The module with other instructions in its entry, of which it returns a tuple.
fn with_entry(module: &Module, mut instrs: Vec<Instr>, outputs: &[InstrId]) -> Module {
    let shapes = outputs.iter().map(|id| instrs[id.index()].shape.clone()).collect();
    instrs.push(Instr {
        name: "outputs.all".into(),
        op: Opcode::Tuple,
        operands: outputs.iter().copied().collect(),
        shape: Shape::Tuple(shapes),
        payload: Payload::None,
        attrs: Vec::new(),
        span: module.entry().root().span,
    });
    let root = InstrId::new(instrs.len() - 1);
    let comps = module.comps.iter().enumerate().map(|(index, comp)| match index == module.entry.index() {
        true => {
            Computation { name: comp.name.clone(), instrs: std::mem::take(&mut instrs), root, thread: None }
        }
        false => comp.clone(),
    });
    let comps = comps.collect();
    let attrs = module.attrs.iter().filter(|attr| !ENTRY_ATTRS.contains(&&*attr.key)).cloned().collect();
    Module { name: module.name.clone(), attrs, tables: module.tables.clone(), comps, entry: module.entry }
}

/// Attributes that are about the entry's parameters and results.
const ENTRY_ATTRS: [&str; 2] = ["input_output_alias", "entry_computation_layout"];
