//! Follows values from instruction to instruction as the set of buffers that must be there to read them: an
//! allocated value is its own buffer, tuples and views are those of their operands, and what fusion keeps in
//! registers is read wherever all that it is made of is.

use super::buffers::{Buffer, Kind};
use phzc_ir::ops::collective::{is_done, started_leaves};
use phzc_ir::{CompId, Instr, InstrId, Key, Module, Opcode, aliased};
use phzc_plan::derive::{Facts, InstrFacts, Nature, element_start, is_naming, origin};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

/// Buffers that must be there for a value to be read.
type Roots = SmallVec<[u32; 2]>;

/// A walk through a computation.
pub struct Finder<'a> {
    module: &'a Module,
    facts: &'a Facts,
    comp: CompId,
    kinds: &'a [Kind],
    all: Vec<Buffer>,
    /// Per instruction and leaf.
    roots: Vec<Vec<Roots>>,
    /// What comes from another stage, by its maker, its leaf there and the stage that reads it.
    received: BTreeMap<(InstrId, usize, usize), u32>,
    /// Per instruction: whether it is made of constants alone, so that every task makes it for itself.
    is_free: Vec<bool>,
}

impl<'a> Finder<'a> {
    /// One that has not begun.
    pub fn new(module: &'a Module, facts: &'a Facts, comp: CompId, kinds: &'a [Kind]) -> Finder<'a> {
        let (all, roots, received, is_free) = (Vec::new(), Vec::new(), BTreeMap::new(), Vec::new());
        Finder { module, facts, comp, kinds, all, roots, received, is_free }
    }

    /// The buffers of the entry.
    pub fn entry(mut self) -> Vec<Buffer> {
        self.run();
        self.reuse_params();
        self.all
    }

    /// The buffers of a loop's or a branch's computation.
    pub fn callee(mut self) -> Vec<Buffer> {
        self.run();
        self.all
    }

    fn run(&mut self) {
        let computation = self.module.comp(self.comp);
        for (id, instr) in computation.iter() {
            let operands = self.operands(id, instr);
            if !is_naming(instr) {
                let read = operands.iter().flatten().copied().collect::<SmallVec<[u32; 8]>>();
                read.into_iter()
                    .for_each(|it| self.all[it as usize].is_read_by(self.kinds[id.index()], id.index()));
            }
            let roots = self.results(id, instr, operands);
            self.roots.push(roots);
            let is_free = instr.operands.iter().all(|operand| self.is_free[operand.index()]);
            self.is_free.push(instr.op != Opcode::Parameter && is_free);
        }
        for &it in self.roots[computation.root.index()].iter().flatten() {
            self.all[it as usize].is_output = true;
        }
    }

    fn own(&self, id: InstrId) -> &'a InstrFacts {
        &self.facts.comps[self.comp.index()][id.index()]
    }

    /// What an instruction runs on: loops and branches are all of the stage that runs them.
    fn stage(&self, id: InstrId) -> usize {
        if self.comp == self.module.entry { self.own(id).stage } else { 0 }
    }

    fn is_here(&self, stage: usize, id: InstrId, leaf: usize) -> bool {
        self.comp != self.module.entry || self.own(id).leaves[leaf].stage == stage
    }

    /// The buffers of each operand leaf, as the instruction's stage has them.
    fn operands(&mut self, id: InstrId, instr: &Instr) -> Vec<Roots> {
        let (stage, own) = (self.stage(id), self.own(id));
        let mut reads = own.reads.iter();
        let mut found = Vec::with_capacity(instr.operands.len());
        for &operand in &instr.operands {
            for leaf in 0..self.roots[operand.index()].len() {
                let read = reads.next().copied();
                let is_read_here = is_naming(instr) || self.is_here(stage, operand, leaf);
                found.push(match is_read_here {
                    true => self.roots[operand.index()][leaf].clone(),
                    false => self.receive((operand, leaf), stage, read),
                });
            }
        }
        found
    }

    /// A value of another stage, which this one gets once.
    fn receive(&mut self, (operand, leaf): (InstrId, usize), stage: usize, read: Option<f64>) -> Roots {
        let (maker, made) = origin(self.module.comp(self.comp), operand, leaf);
        let of = self.own(maker);
        let is_in_registers = self.is_free[maker.index()] && !of.in_memory;
        if is_in_registers {
            return Roots::new();
        }
        let nature = of.natures.get(made).copied().unwrap_or_default();
        let bytes = self.units(read.unwrap_or(of.bytes[made]), nature);
        let next = self.all.len() as u32;
        let it = *self.received.entry((maker, made, stage)).or_insert(next);
        if it == next {
            self.all.push(Buffer { stage, nature, ..Buffer::default() });
        }
        // Readers may want different parts of it: it is as large as the largest.
        let buffer = &mut self.all[it as usize];
        buffer.bytes = buffer.bytes.max(bytes);
        Roots::from_slice(&[it])
    }

    /// A microbatch has its part of what depends on data, times the number of microbatches.
    fn units(&self, bytes: f64, nature: Nature) -> f64 {
        if nature == Nature::Part { bytes } else { bytes * self.facts.header.n_microbatches as f64 }
    }

    /// The buffers of each leaf of an instruction's value.
    fn results(&mut self, id: InstrId, instr: &Instr, operands: Vec<Roots>) -> Vec<Roots> {
        let (own, n_leaves) = (self.own(id), self.own(id).leaves.len());
        match instr.op {
            Opcode::Tuple | Opcode::OptBarrier => operands,
            Opcode::AddDependency => operands.into_iter().take(n_leaves).collect(),
            Opcode::GetTupleElement => {
                let start = element_start(instr, &self.module.comp(self.comp).instr(instr.operands[0]).shape);
                operands.into_iter().skip(start).take(n_leaves).collect()
            }
            _ if let Some(started) = started_leaves(instr) => self.started(id, started, &operands),
            op if is_done(op) => {
                let start = self.module.comp(self.comp).instr(instr.operands[0]);
                let own = started_leaves(start).unwrap_or(0..n_leaves);
                let mut handed: Vec<Roots> = operands.into_iter().skip(own.start).take(n_leaves).collect();
                handed.resize(n_leaves, Roots::new());
                handed
            }
            Opcode::While => {
                let carried = operands.into_iter().enumerate();
                carried.map(|(leaf, before)| self.carried(id, leaf, before)).collect()
            }
            Opcode::Conditional => (0..n_leaves).map(|leaf| self.made(id, leaf)).collect(),
            _ if own.is_allocated => (0..n_leaves).map(|leaf| self.made(id, leaf)).collect(),
            _ if own.in_memory => vec![operands.into_iter().next().unwrap_or_default(); n_leaves],
            _ => {
                let mut all: Roots = operands.into_iter().flatten().collect();
                all.sort_unstable();
                all.dedup();
                vec![all; n_leaves]
            }
        }
    }

    /// A `-start` makes its result, and carries its operands' buffers until its `-done`.
    fn started(&mut self, id: InstrId, own: Range<usize>, operands: &[Roots]) -> Vec<Roots> {
        let carried = |leaf: usize| if own.start > 0 { leaf } else { leaf.wrapping_sub(own.end) };
        let n_leaves = self.own(id).leaves.len();
        let leaf = |leaf: usize| match operands.get(carried(leaf)) {
            _ if own.contains(&leaf) => self.made(id, leaf),
            Some(roots) => roots.clone(),
            None => Roots::new(),
        };
        (0..n_leaves).map(leaf).collect()
    }

    /// A loop makes what it changes; the rest is what it starts from.
    fn carried(&mut self, id: InstrId, leaf: usize, before: Roots) -> Roots {
        if !is_passed_on(self.module, self.module.comp(self.comp).instr(id), leaf) {
            return self.made(id, leaf);
        }
        before.iter().for_each(|&it| self.all[it as usize].passed_on = Some(id.index()));
        before
    }

    /// A buffer of its own.
    fn made(&mut self, id: InstrId, leaf: usize) -> Roots {
        let (own, is_param) = (self.own(id), self.module.comp(self.comp).instr(id).op == Opcode::Parameter);
        let nature = own.natures.get(leaf).copied().unwrap_or_default();
        let is_data = nature == Nature::Part && self.facts.header.n_microbatches > 1;
        let mut buffer = Buffer {
            stage: self.stage(id),
            bytes: self.units(own.bytes[leaf], nature),
            maker: (!is_param).then_some(id.index()),
            nature,
            is_param,
            is_permanent: is_param && !is_data && self.comp == self.module.entry,
            ..Buffer::default()
        };
        if !is_param {
            buffer.is_read_by(self.kinds[id.index()], id.index());
        }
        self.all.push(buffer);
        Roots::from_slice(&[self.all.len() as u32 - 1])
    }

    /// Outputs that are written over the parameter that they replace have no buffer of their own.
    fn reuse_params(&mut self) {
        let root = self.module.entry().root;
        for alias in aliased(self.module) {
            let output = &self.roots[root.index()][alias.output];
            let param = &self.roots[alias.param.index()][alias.leaf];
            let (&[output], &[param]) = (output.as_slice(), param.as_slice()) else { continue };
            if self.is_dead(&self.all[param as usize], &self.all[output as usize]) {
                self.all[output as usize].bytes = 0.0;
            }
        }
    }

    /// Whether nothing reads a parameter after the output is made.
    fn is_dead(&self, param: &Buffer, output: &Buffer) -> bool {
        let Some(maker) = output.maker.filter(|_| !param.is_output) else { return false };
        let kind = self.kinds[maker];
        // Tasks come again with every microbatch.
        let is_once = kind == Kind::Update || self.facts.header.n_microbatches == 1;
        param.end().is_none_or(|end| is_once && end <= (kind, maker))
    }
}

/// Whether a loop's body returns a carried leaf as it got it.
fn is_passed_on(module: &Module, instr: &Instr, leaf: usize) -> bool {
    let Some(body) = instr.comp(Key::Body).map(|body| module.comp(body)) else { return false };
    let (maker, made) = origin(body, body.root, leaf);
    body.instr(maker).op == Opcode::Parameter && made == leaf
}
