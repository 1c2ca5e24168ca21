//! Which values go from module to module, and the modules that read and make them.

use super::layouts::Layouts;
use super::when::{Part, Task, When};
use super::write;
use crate::rebuild::Leaf;
use phzc_ir::{Diagnostic, InstrId, Module, Opcode, Result, Shape};
use phzc_plan::derive::{is_naming, operand_origins, origin};
use std::collections::{BTreeMap, BTreeSet};

/// Where a module's parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A leaf of the program's parameter.
    Program(u32, Leaf),
    /// What another module has made.
    Made(Leaf),
    /// The sum so far, or after all microbatches.
    Accumulator(usize),
    /// The number of the microbatch.
    Microbatch,
}

/// One module.
#[derive(Clone, Debug)]
pub struct Piece {
    /// What it is.
    pub task: Task,
    /// Parameters, in order.
    pub inputs: Vec<Source>,
    /// Values of its result, in order; the sums that it adds to follow.
    pub outputs: Vec<Leaf>,
    /// Accumulators that it adds to.
    pub sums: Vec<usize>,
    /// Its program.
    pub module: Module,
}

/// The step of one microbatch, cut.
pub struct Split<'a> {
    /// The program of one microbatch, in which all-reduces sum over microbatches.
    pub local: &'a Module,
    /// The layouts of the plan.
    pub layouts: Layouts<'a>,
    /// When each instruction of its entry runs.
    pub when: Vec<When>,
    /// The instruction of each accumulator.
    pub sums: Vec<InstrId>,
    /// The tasks that read each value that another one makes.
    pub readers: BTreeMap<Leaf, BTreeSet<Task>>,
}

impl<'a> Split<'a> {
    /// Finds out what goes where.
    pub fn new(local: &'a Module, layouts: Layouts<'a>, when: Vec<When>) -> Split<'a> {
        let entry = local.entry();
        let is_sum = |id: &InstrId| matches!(when[id.index()], When::Sum(_));
        let sums = (0..when.len()).map(InstrId::new).filter(is_sum).collect();
        let mut readers: BTreeMap<Leaf, BTreeSet<Task>> = BTreeMap::new();
        for (id, instr) in entry.iter().filter(|(_, instr)| !is_naming(instr)) {
            let (When::In(task) | When::Sum(task)) = when[id.index()] else { continue };
            for (maker, leaf) in operand_origins(entry, instr) {
                if matches!(when[maker.index()], When::In(other) if other != task) {
                    readers.entry((maker, leaf)).or_default().insert(task);
                }
            }
        }
        Split { local, layouts, when, sums, readers }
    }

    /// The leaves of the program's result.
    pub fn results(&self) -> Vec<Leaf> {
        let entry = self.local.entry();
        (0..entry.root().shape.n_leaves()).map(|leaf| origin(entry, entry.root, leaf)).collect()
    }

    /// The shape of a leaf.
    pub fn shape(&self, (maker, leaf): Leaf) -> &'a Shape {
        self.local.entry().instr(maker).shape.leaves()[leaf]
    }

    /// The task that makes a value which is neither given nor a sum; constants that are results go to an
    /// update.
    fn home(&self, (maker, _): Leaf) -> Option<Task> {
        match self.when[maker.index()] {
            When::In(task) => Some(task),
            When::Anywhere => Some(Task { stage: 0, part: Part::Update(0) }),
            When::Given | When::Sum(_) => None,
        }
    }

    /// Where a value comes from in a module that does not make it.
    pub fn source(&self, leaf: Leaf) -> Source {
        let instr = self.local.entry().instr(leaf.0);
        match self.when[leaf.0.index()] {
            When::Given => Source::Program(instr.param_number().unwrap_or_default(), leaf),
            When::Sum(_) => Source::Accumulator(self.sums.partition_point(|&sum| sum < leaf.0)),
            _ if instr.op == Opcode::PartitionId => Source::Microbatch,
            _ => Source::Made(leaf),
        }
    }

    /// The modules, stage by stage; those that nobody needs are left out.
    ///
    /// # Errors
    /// When something else than an array would go from one to another.
    pub fn pieces(&self) -> Result<Vec<Piece>> {
        let outputs = self.outputs();
        let mut tasks: BTreeSet<Task> = outputs.keys().copied().collect();
        tasks.extend(self.sums.iter().filter_map(|sum| self.summing(*sum)));
        let none = Vec::new();
        tasks.into_iter().map(|task| self.piece(task, outputs.get(&task).unwrap_or(&none).clone())).collect()
    }

    /// The values that each module returns, in program order.
    fn outputs(&self) -> BTreeMap<Task, Vec<Leaf>> {
        let results: Vec<Leaf> = self.results();
        let all: BTreeSet<Leaf> = self.readers.keys().copied().chain(results).collect();
        let mut found: BTreeMap<Task, Vec<Leaf>> = BTreeMap::new();
        for leaf in all {
            if let Some(task) = self.home(leaf) {
                found.entry(task).or_default().push(leaf);
            }
        }
        found
    }

    fn summing(&self, sum: InstrId) -> Option<Task> {
        match self.when[sum.index()] {
            When::Sum(task) => Some(task),
            _ => None,
        }
    }

    fn piece(&self, task: Task, outputs: Vec<Leaf>) -> Result<Piece> {
        let is_own = |&at: &usize| self.summing(self.sums[at]) == Some(task);
        let sums: Vec<usize> = (0..self.sums.len()).filter(is_own).collect();
        let (needed, inputs) = self.needs(task, &outputs, &sums);
        if let Some(leaf) = inputs.iter().find_map(|source| self.no_array(*source)) {
            let instr = self.local.entry().instr(leaf.0);
            let message = format!("`{}` is no array, but goes from one module to another", instr.name);
            return Err(Diagnostic::error(message).at(instr.span).help("plan with `place{stages=1}`"));
        }
        let module = write::module(self, task, &needed, &inputs, &outputs, &sums);
        Ok(Piece { task, inputs, outputs, sums, module })
    }

    fn no_array(&self, source: Source) -> Option<Leaf> {
        let (Source::Made(leaf) | Source::Program(_, leaf)) = source else { return None };
        self.shape(leaf).as_array().is_none().then_some(leaf)
    }

    /// The instructions that a module runs, and what it reads.
    fn needs(&self, task: Task, outputs: &[Leaf], sums: &[usize]) -> (Vec<bool>, Vec<Source>) {
        let entry = self.local.entry();
        let mut needed = vec![false; entry.instrs.len()];
        let mut inputs: BTreeSet<Source> = sums.iter().map(|&sum| Source::Accumulator(sum)).collect();
        let summed = sums.iter().flat_map(|&sum| operand_origins(entry, entry.instr(self.sums[sum])));
        let mut work: Vec<Leaf> = outputs.iter().copied().chain(summed).collect();
        while let Some(leaf) = work.pop() {
            let (instr, when) = (entry.instr(leaf.0), self.when[leaf.0.index()]);
            let is_free = when == When::Anywhere && instr.op != Opcode::PartitionId;
            if !is_free && when != When::In(task) {
                inputs.insert(self.source(leaf));
            } else if !std::mem::replace(&mut needed[leaf.0.index()], true) {
                work.extend(operand_origins(entry, instr));
            }
        }
        (needed, inputs.into_iter().collect())
    }
}
