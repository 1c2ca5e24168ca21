//! The plan's layouts and changes of layout on the step of one microbatch.

use phzc_cost::Collective;
use phzc_ir::{
    Computation, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Shape, Sharding, Tiling, Value, notes,
};
use phzc_plan::derive::{Facts, InstrFacts, Leaf, Step, element_start, is_move, planned_comps};
use phzc_plan::partial;
use phzc_plan::pricing::axes_of;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// The module with its own name noted on every instruction, for [`write`].
pub fn with_sources(timed: &Module) -> Module {
    let mut module = timed.clone();
    for instr in module.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        let name = instr.name.clone();
        instr.set_note(notes::SOURCE, &name);
    }
    module
}

/// Puts the layouts of a plan on the step of one microbatch, and the changes of layout back.
pub fn write(local: &mut Module, placed: &Module, facts: &Facts) {
    let mesh = &facts.header.meshes[0];
    let sums = gradients(local);
    for comp in planned_comps(placed) {
        let mut of_plan = Planned::of(placed, facts, comp.index());
        if comp == placed.entry {
            of_plan.sum_up_after_all(&sums);
        }
        let own = local.comps.iter_mut().find(|own| own.name == of_plan.comp.name);
        let Some(own) = own else { continue };
        let leaves: Vec<Vec<Leaf>> = (0..own.instrs.len()).map(|at| of_plan.leaves(own, at, mesh)).collect();
        for (instr, leaves) in own.instrs.iter_mut().zip(leaves) {
            of_plan.restore_move(instr);
            set(instr, &leaves, mesh);
        }
    }
    for instr in local.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        [notes::SOURCE, notes::OF_STAGE, notes::GLOBAL].into_iter().for_each(|note| instr.remove_note(note));
    }
}

/// The names of the sums over the microbatches whose summands nothing else reads.
fn gradients(local: &Module) -> BTreeSet<Box<str>> {
    let entry = local.entry();
    let is_addition = |instr: &Instr| {
        let reducer = instr.comp(Key::ToApply).map(|comp| local.comp(comp).root().op);
        instr.op == Opcode::AllReduce && reducer == Some(Opcode::Add)
    };
    let is_made_for_it = |instr: &Instr| {
        let summand = entry.instr(instr.operands[0]);
        summand.name != instr.name && summand.note(notes::SOURCE) == Some(&*instr.name)
    };
    let sums = entry.instrs.iter().filter(|instr| is_addition(instr) && is_made_for_it(instr));
    sums.map(|instr| instr.name.clone()).collect()
}

/// A computation of the plan.
struct Planned<'a> {
    comp: &'a Computation,
    facts: &'a [InstrFacts],
    leaves: Vec<SmallVec<[Leaf; 1]>>,
    ids: BTreeMap<&'a str, InstrId>,
}

impl<'a> Planned<'a> {
    fn of(placed: &'a Module, facts: &'a Facts, index: usize) -> Planned<'a> {
        let comp = &placed.comps[index];
        let ids = comp.iter().map(|(id, instr)| (&*instr.name, id)).collect();
        let facts = &facts.comps[index];
        Planned { comp, facts, leaves: facts.iter().map(|own| own.leaves.clone()).collect(), ids }
    }

    /// Leaves sums over devices undone that are sums over the microbatches too: the plan does them once.
    fn sum_up_after_all(&mut self, sums: &BTreeSet<Box<str>>) {
        for (id, _) in self.comp.iter().filter(|(_, instr)| sums.contains(&instr.name)) {
            let reducing =
                |step: &&Step| [Collective::AllReduce, Collective::ReduceScatter].contains(&step.kind);
            let steps = self.facts[id.index()].steps.iter().filter(reducing);
            let axes = steps.fold(0, |axes, step| axes | step.axes);
            if let [leaf] = &mut self.leaves[id.index()][..] {
                let is_free = |&axis: &usize| leaf.layout.dim_of(axis).is_none();
                leaf.partial |= axes_of(axes).filter(is_free).fold(0, |axes, axis| axes | 1 << axis);
            }
        }
    }

    /// The instruction that something is made for.
    fn source(&self, instr: &Instr) -> Option<InstrId> {
        self.ids.get(instr.note(notes::SOURCE).unwrap_or(&instr.name)).copied()
    }

    /// How each leaf of an instruction lies: as in the plan, if it is there; a tile is cut where its array
    /// lies; what else is made for an instruction lies as that does.
    fn leaves(&self, own: &Computation, at: usize, mesh: &Mesh) -> Vec<Leaf> {
        let instr = &own.instrs[at];
        let source = self.source(instr);
        let is_itself = source.is_some_and(|id| self.comp.instr(id).name == instr.name);
        let source = match instr.op {
            Opcode::DynamicSlice if !is_itself => self.source(own.instr(instr.operands[0])),
            _ => source,
        };
        let shapes = instr.shape.leaves();
        let found = source.map(|id| (self.comp.instr(id).shape.leaves(), &self.leaves[id.index()]));
        let Some((before, leaves)) = found.filter(|(before, _)| before.len() == shapes.len()) else {
            return vec![Leaf::default(); shapes.len()];
        };
        let own = shapes.into_iter().zip(before).zip(leaves);
        own.map(|((shape, before), leaf)| fitting(shape, before, *leaf, is_itself, mesh)).collect()
    }

    /// Makes a change of layout of what stands for one.
    fn restore_move(&self, instr: &mut Instr) {
        let Some(id) = self.source(instr) else { return };
        let planned = self.comp.instr(id);
        if planned.name == instr.name && is_move(planned) {
            instr.op = Opcode::CustomCall;
            instr.attrs.clone_from(&planned.attrs);
        }
    }
}

/// A layout of another array as far as one of this shape can have it.
fn fitting(shape: &Shape, before: &Shape, leaf: Leaf, is_itself: bool, mesh: &Mesh) -> Leaf {
    let (Some(array), Some(other)) = (shape.as_array(), before.as_array()) else { return Leaf::default() };
    if array.rank() != other.rank() || !leaf.layout.divides(&array.dims, mesh) {
        return Leaf::default();
    }
    // Another array of the same sizes is the summand of a sum over the microbatches.
    let is_summand = is_itself || array.dims == other.dims;
    Leaf { partial: if is_summand { leaf.partial } else { 0 }, ..leaf }
}

/// Writes how each leaf of an instruction lies.
pub fn set(instr: &mut Instr, leaves: &[Leaf], mesh: &Mesh) {
    let sums: Vec<u8> = leaves.iter().map(|leaf| leaf.partial).collect();
    let shapes: Vec<Shape> = instr.shape.leaves().into_iter().cloned().collect();
    let rank = |shape: &Shape| shape.as_array().map_or(0, |array| array.rank());
    let tilings = shapes.iter().zip(leaves).map(|(shape, leaf)| leaf.layout.to_tiling(rank(shape), mesh));
    let tilings: Vec<Tiling> = tilings.collect();
    write_tilings(instr, tilings);
    partial::set(instr, &sums);
}

/// How the array of an instruction lies.
pub fn of(instr: &Instr, mesh: &Mesh) -> Leaf {
    let rank = instr.shape.as_array().map_or(0, |array| array.rank());
    let layout = match instr.sharding() {
        Some(Sharding::Single(tiling)) => Layout::from_tiling(tiling, rank, mesh),
        _ => None,
    };
    let partial = partial::read(instr, 1).map_or(0, |axes| axes[0]);
    Leaf { layout: layout.unwrap_or_default(), partial, ..Leaf::default() }
}

/// Gives tuples and their elements the layouts that they have none of: those of what they are made of.
pub fn complete(instrs: &mut [Instr]) {
    for at in 0..instrs.len() {
        if instrs[at].sharding().is_none() {
            let tilings: Vec<(Tiling, u8)> =
                instrs[at].operands.iter().flat_map(|id| leaves(&instrs[id.index()])).collect();
            let start = match instrs[at].op {
                Opcode::GetTupleElement => {
                    element_start(&instrs[at], &instrs[instrs[at].operands[0].index()].shape)
                }
                _ => 0,
            };
            let n_leaves = instrs[at].shape.n_leaves();
            let (tilings, sums): (Vec<Tiling>, Vec<u8>) =
                tilings.into_iter().skip(start).take(n_leaves).unzip();
            if tilings.len() == n_leaves {
                write_tilings(&mut instrs[at], tilings);
                partial::set(&mut instrs[at], &sums);
            }
        }
    }
}

/// The layout of each leaf, as text has it, and the axes over which it is partial.
fn leaves(instr: &Instr) -> Vec<(Tiling, u8)> {
    let n_leaves = instr.shape.n_leaves();
    let tilings = instr.sharding().map(|sharding| sharding.leaves(n_leaves)).unwrap_or_default();
    let sums = partial::read(instr, n_leaves).unwrap_or_default();
    tilings.into_iter().cloned().zip(sums).collect()
}

fn write_tilings(instr: &mut Instr, mut tilings: Vec<Tiling>) {
    let sharding = match instr.shape {
        Shape::Tuple(_) => Sharding::Tuple(tilings),
        _ => Sharding::Single(tilings.remove(0)),
    };
    instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
}
