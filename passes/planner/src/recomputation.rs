//! Writes into the text what the backward part computes again: copies of forward instructions, before their
//! first reader.
//!
//! ```text
//! a = f(x)                             a = f(x)
//! …                                    …
//! d = g(e, a), phase "bwd"      →      b = opt-barrier((x, e));  a.again = f(b.0);  d = g(e, a.again)
//! ```
//!
//! As in `jax.checkpoint`, what the copies read passes a barrier together with a gradient: else XLA would see
//! the same work twice, do it once, and save the value after all. What comes from another stage needs none.

mod names;
mod token;
mod twins;

use indexmap::IndexMap;
use names::in_one_stage;
use phzc_ir::edit::Names;
use phzc_ir::{
    Attr, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Sharding, Tiling, TilingKind,
    Value, notes,
};
use phzc_plan::derive::{Phase, is_naming, origin};
use phzc_plan::partial;
use phzc_plan::report::is_renaming;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use token::narrowest;
use twins::twins;

/// What is to be done, per instruction of the entry.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Whether the backward part computes its value again.
    pub is_again: Vec<bool>,
    /// Whether its value depends on the step's data.
    pub is_data: Vec<bool>,
    /// Whether its value has no memory of its own, for who reads it makes it.
    pub is_free: Vec<bool>,
}

impl Marks {
    /// Who computes something again makes what is free for itself: behind a barrier it would take memory.
    fn with_free(&self, comp: &Computation) -> Marks {
        let mut found = self.clone();
        for (id, instr) in comp.iter().rev().filter(|(_, instr)| !is_naming(instr)) {
            for maker in instr.operands.iter().map(|&operand| origin(comp, operand, 0).0) {
                let is_near = stage(comp.instr(maker)) == stage(instr);
                found.is_again[maker.index()] |=
                    found.is_again[id.index()] && self.is_free[maker.index()] && is_near;
            }
        }
        found
    }
}

/// Makes the backward part of the entry compute again what is marked: array-shaped instructions of the
/// forward part. Per instruction of the new entry: the old one that it is, or that is the first to read it.
pub fn rewrite(module: &mut Module, marks: &Marks) -> Vec<InstrId> {
    let entry = &mut module.comps[module.entry.index()];
    let instrs = std::mem::take(&mut entry.instrs);
    let old =
        Computation { name: entry.name.clone(), instrs, root: entry.root, thread: entry.thread.clone() };
    let marks = marks.with_free(&old);
    let mut writer = Writer {
        old: &old,
        marks: &marks,
        twins: twins(&old, &marks.is_data),
        is_local: in_one_stage(&old),
        out: Vec::with_capacity(2 * old.instrs.len()),
        map: vec![None; old.instrs.len()],
        copies: IndexMap::default(),
        held: IndexMap::default(),
        latest: IndexMap::default(),
        names: Names::of(&old),
    };
    let mut readers = Vec::with_capacity(2 * old.instrs.len());
    for (id, instr) in old.iter() {
        if writer.map[id.index()].is_none() {
            writer.instr(id, instr);
        }
        readers.resize(writer.out.len(), id);
    }
    entry.root = writer.written(old.root);
    let out = writer.out;
    let mut instrs: Vec<Option<Instr>> = old.instrs.into_iter().map(Some).collect();
    let made = |made: Made| match made {
        Made::New(instr) => *instr,
        Made::Old(id, operands) => {
            Instr { operands, ..instrs[id.index()].take().expect("each is written once") }
        }
    };
    entry.instrs = out.into_iter().map(made).collect();
    readers
}

/// An instruction of the new text.
enum Made {
    /// One of the old text, with other operands.
    Old(InstrId, SmallVec<[InstrId; 3]>),
    New(Box<Instr>),
}

struct Writer<'a> {
    old: &'a Computation,
    marks: &'a Marks,
    /// What the backward part moves for itself, by the forward part's movement.
    twins: IndexMap<InstrId, InstrId, FxBuildHasher>,
    /// Whether an instruction names values of one stage only.
    is_local: Vec<bool>,
    /// The new instructions.
    out: Vec<Made>,
    /// Old ids to new ones, of what is written.
    map: Vec<Option<InstrId>>,
    /// Copies of old instructions.
    copies: IndexMap<InstrId, InstrId, FxBuildHasher>,
    /// What copies read, behind a barrier.
    held: IndexMap<InstrId, InstrId, FxBuildHasher>,
    /// Per stage: the last array that its backward part has made so far.
    latest: IndexMap<usize, InstrId, FxBuildHasher>,
    names: Names,
}

impl Writer<'_> {
    fn instr(&mut self, id: InstrId, instr: &Instr) {
        let mut operands = instr.operands.clone();
        let is_backward = self.is_backward(instr);
        let may_copy = is_backward && (self.is_local[id.index()] || !is_naming(instr));
        let again = |&operand: &InstrId| self.again_for(instr, operand).filter(|_| may_copy);
        let again: Vec<Option<InstrId>> = instr.operands.iter().map(again).collect();
        self.copy(again.iter().flatten().copied().collect(), instr);
        for (at, &operand) in instr.operands.iter().enumerate() {
            operands[at] = again[at].map_or_else(|| self.written(operand), |maker| self.copies[&maker]);
        }
        self.keep(id, operands);
        if is_backward && !is_naming(instr) && !matches!(instr.shape, Shape::Tuple(_)) {
            self.latest.insert(stage(instr), id);
        }
    }

    /// Writes an old instruction.
    fn keep(&mut self, id: InstrId, operands: SmallVec<[InstrId; 3]>) {
        self.out.push(Made::Old(id, operands));
        self.map[id.index()] = Some(InstrId::new(self.out.len() - 1));
    }

    /// Where an old instruction is now.
    fn written(&self, id: InstrId) -> InstrId {
        self.map[id.index()].expect("what is read is written")
    }

    /// Writes a movement of the backward part, and those that it needs, before its turn.
    fn move_early(&mut self, id: InstrId) {
        if self.map[id.index()].is_none() {
            let operands = self.old.instr(id).operands.clone();
            operands.iter().for_each(|&operand| self.move_early(operand));
            let operands = operands.iter().map(|&operand| self.written(operand)).collect();
            self.keep(id, operands);
        }
    }

    /// Whether an instruction runs in the backward part; what only names values, where one of them is made.
    fn is_backward(&self, instr: &Instr) -> bool {
        let is_so = |instr: &Instr| Phase::parse(instr.note(notes::PHASE)) == Phase::Backward;
        let maker = |&operand: &InstrId| self.old.instr(origin(self.old, operand, 0).0);
        if is_naming(instr) { instr.operands.iter().map(maker).any(is_so) } else { is_so(instr) }
    }

    /// The instruction that runs again to make an operand, if one does.
    fn again(&self, operand: InstrId) -> Option<InstrId> {
        let is_array = !matches!(self.old.instr(operand).shape, Shape::Tuple(_));
        let (maker, _) = origin(self.old, operand, 0);
        (is_array && self.marks.is_again[maker.index()]).then_some(maker)
    }

    /// The same for a reader, or a copy of it: the backward part of an earlier stage is not waited for.
    fn again_for(&self, reader: &Instr, operand: InstrId) -> Option<InstrId> {
        self.again(operand).filter(|maker| stage(reader) <= stage(self.old.instr(*maker)))
    }

    /// Copies instructions, and those that they need.
    fn copy(&mut self, mut todo: Vec<InstrId>, reader: &Instr) {
        let mut wanted = BTreeSet::new();
        while let Some(id) = todo.pop() {
            if !self.copies.contains_key(&id) && wanted.insert(id) {
                let instr = self.old.instr(id);
                todo.extend(self.reads(id).iter().filter_map(|&operand| self.again_for(instr, operand)));
            }
        }
        if !wanted.is_empty() {
            self.hold(&wanted, reader);
        }
        for id in wanted {
            let (instr, reads) = (self.old.instr(id), self.reads(id));
            let moved: Vec<InstrId> =
                reads.iter().filter_map(|operand| self.twins.get(operand)).copied().collect();
            moved.into_iter().for_each(|twin| self.move_early(twin));
            let operands = reads.iter().map(|&operand| self.operand(instr, operand)).collect();
            let made = match self.equal(id) {
                Some(equal) => self.operand(instr, equal),
                None => {
                    let name = self.names.derive(&instr.name, "again");
                    let mut new = Instr { operands, name, ..instr.clone() };
                    new.set_note(notes::PHASE, "bwd");
                    self.push(new)
                }
            };
            self.copies.insert(id, made);
        }
    }

    /// What a copy of an instruction reads.
    fn reads(&self, id: InstrId) -> SmallVec<[InstrId; 3]> {
        let operands = || self.old.instr(id).operands.clone();
        self.equal(id).map_or_else(operands, |equal| [equal].into_iter().collect())
    }

    /// The value that an instruction makes, in the same layout, where all that was done to it since has been
    /// undone. XLA's converter to StableHLO folds that, and puts the layout of the result on the barrier that
    /// the value passes.
    fn equal(&self, id: InstrId) -> Option<InstrId> {
        let is_equal = |a: &Instr, b: &Instr| {
            a.shape == b.shape
                && a.sharding() == b.sharding()
                && a.note(notes::PARTIAL) == b.note(notes::PARTIAL)
        };
        let (instr, mut at) = (self.old.instr(id), id);
        while self.again_for(instr, at).is_some() && is_renaming(self.old, at) {
            at = self.old.instr(at).operands[0];
            if is_equal(instr, self.old.instr(at)) {
                return Some(at);
            }
        }
        None
    }

    /// What a copy reads for an operand.
    fn operand(&self, instr: &Instr, operand: InstrId) -> InstrId {
        let copy = self.again_for(instr, operand).map(|maker| self.copies[&maker]);
        let held = self.held.get(&operand).copied().filter(|_| self.is_held(instr, operand));
        let own = self.twins.get(&operand).copied().unwrap_or(operand);
        copy.or(held).unwrap_or_else(|| self.written(own))
    }

    /// Whether what a copy reads has to pass a barrier: data that lies in its stage.
    fn is_held(&self, instr: &Instr, operand: InstrId) -> bool {
        let (maker, _) = origin(self.old, operand, 0);
        !matches!(self.old.instr(operand).shape, Shape::Tuple(_))
            && self.marks.is_data[maker.index()]
            && stage(self.old.instr(maker)) == stage(instr)
    }

    /// Puts what copies read, as far as it is not there yet, behind a barrier with a gradient that the reader
    /// waits for.
    fn hold(&mut self, wanted: &BTreeSet<InstrId>, reader: &Instr) {
        let mut inputs: Vec<InstrId> = Vec::new();
        for &id in wanted {
            let instr = self.old.instr(id);
            for operand in self.reads(id) {
                let is_new = self.again_for(instr, operand).is_none() && self.is_held(instr, operand);
                if is_new && !self.held.contains_key(&operand) && !inputs.contains(&operand) {
                    inputs.push(operand);
                }
            }
        }
        if inputs.is_empty() {
            return;
        }
        let like = self.old.instr(*wanted.first().expect("something runs again")).clone();
        let gradient = reader.operands.iter().copied().find(|&operand| self.is_gradient(&like, operand));
        let gradient = gradient.or_else(|| self.latest.get(&stage(&like)).copied());
        let gradient = gradient.map(|id| narrowest(self.old, id, |operand| self.is_gradient(&like, operand)));
        let mut all: Vec<InstrId> = inputs.iter().copied().chain(gradient).collect();
        if let [only] = all[..] {
            // XLA's converter to StableHLO refuses the sharding of a tuple of one.
            all.push(only);
        }
        let barrier = self.barrier(&all, &like);
        for (index, &operand) in inputs.iter().enumerate() {
            let mut element = self.element(&like, barrier, self.old.instr(operand));
            element.set_attr(Key::Index, Value::Int(index as i64));
            let made = self.push(element);
            self.held.insert(operand, made);
        }
    }

    /// Whether an operand of the reader is a gradient that the stage of `like` has made.
    fn is_gradient(&self, like: &Instr, operand: InstrId) -> bool {
        let maker = self.old.instr(origin(self.old, operand, 0).0);
        !matches!(self.old.instr(operand).shape, Shape::Tuple(_))
            && Phase::parse(maker.note(notes::PHASE)) == Phase::Backward
            && stage(maker) == stage(like)
    }

    /// A tuple of old values, and the barrier that they pass together.
    fn barrier(&mut self, values: &[InstrId], like: &Instr) -> InstrId {
        let old: Vec<&Instr> = values.iter().map(|&value| self.old.instr(value)).collect();
        let shape = Shape::Tuple(old.iter().map(|instr| instr.shape.clone()).collect());
        let tilings = old.iter().map(|instr| tiling(instr)).collect();
        let sums: Vec<_> =
            old.iter().flat_map(|instr| partial::read(instr, 1).expect("the plan's own note")).collect();
        let operands = values.iter().map(|&value| self.written(value)).collect();
        let mut tuple = self.plain(like, Opcode::Tuple, shape);
        tuple.operands = operands;
        tuple.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
        partial::set(&mut tuple, &sums);
        let made = self.push(tuple.clone());
        let name = self.names.derive(&like.name, "barrier");
        self.push(Instr { op: Opcode::OptBarrier, operands: [made].into_iter().collect(), name, ..tuple })
    }

    /// An element of a barrier.
    fn element(&mut self, like: &Instr, barrier: InstrId, of: &Instr) -> Instr {
        let mut element = self.plain(like, Opcode::GetTupleElement, of.shape.clone());
        element.operands = [barrier].into_iter().collect();
        if let Some(sharding) = of.attr(Key::Sharding) {
            element.set_attr(Key::Sharding, sharding.clone());
        }
        let sums = partial::read(of, 1).expect("the plan's own note");
        partial::set(&mut element, &sums);
        element
    }

    /// An instruction of the backward part beside a copy of `like`.
    fn plain(&mut self, like: &Instr, op: Opcode, shape: Shape) -> Instr {
        let mut new = Instr {
            name: self.names.derive(&like.name, "held"),
            op,
            operands: [].into_iter().collect(),
            shape,
            payload: Payload::None,
            attrs: Vec::<Attr>::new(),
            span: like.span,
        };
        new.set_note(notes::PHASE, "bwd");
        if let Some(stage) = like.note(notes::STAGE) {
            new.set_note(notes::STAGE, stage);
        }
        new
    }

    fn push(&mut self, instr: Instr) -> InstrId {
        self.out.push(Made::New(Box::new(instr)));
        InstrId::new(self.out.len() - 1)
    }
}

/// The stage that is noted.
fn stage(instr: &Instr) -> usize {
    instr.note(notes::STAGE).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// How an array lies; whole, if nothing says so.
fn tiling(instr: &Instr) -> Tiling {
    let tilings = instr.sharding().map(|sharding| sharding.leaves(1)).unwrap_or_default();
    let whole = || Tiling { kind: TilingKind::Replicated, suffix: None };
    tilings.first().map_or_else(whole, |tiling| (*tiling).clone())
}

#[cfg(test)]
mod tests;
