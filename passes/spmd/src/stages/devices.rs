//! The modules of stages as programs of one device, with the plan's own collectives.
//!
//! Layouts alone leave a partitioner to choose: where to reduce a gradient, which operand to gather. Here
//! what the plan has added, changes of layout and copies that are made again, stays in the modules, as copies
//! while the step is cut, and each module is lowered like a program of one stage ([`crate::spmd`]). A sum
//! over microbatches that is also one over devices is reduced once, by the update that reads it: until then
//! each device has a summand of its own, and parameter and result say over which axes (`phzc.partial`).

mod sums;

use super::layouts::set;
use super::split::{Piece, Source, Split};
use crate::spmd;
use phzc_cost::Collective;
use phzc_ir::edit::Names;
use phzc_ir::{Attr, Computation, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Result, Value, notes};
use phzc_plan::derive::{
    Facts, InstrFacts, Nature, Phase, derive, is_added, is_move, origins, planned_comps,
};
use phzc_plan::microbatch::{TIME, on_time_axis_alone};
use phzc_plan::partial;
use phzc_plan::pricing::AxisMask;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What the plan says of an instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    layout: Layout,
    partial: AxisMask,
    /// Axes over which it is reduced after all microbatches.
    late: AxisMask,
    is_moved: bool,
}

/// A placed module whose additions stay, and what it says.
pub struct Kept<'a> {
    /// The module: changes of layout are copies.
    pub module: Module,
    meshes: &'a [Mesh],
    /// By computation and instruction.
    said: BTreeMap<(Box<str>, Box<str>), Said>,
}

impl<'a> Kept<'a> {
    /// Of a placed module, inlined, and its facts.
    ///
    /// # Errors
    /// When the header cannot be read.
    pub fn new(placed: &Module, facts: &'a Facts) -> Result<Kept<'a>> {
        let mut said = BTreeMap::new();
        for comp in planned_comps(placed) {
            let of = placed.comp(comp);
            for (instr, own) in of.instrs.iter().zip(&facts.comps[comp.index()]) {
                said.insert((of.name.clone(), instr.name.clone()), self::said(instr, own));
            }
        }
        let mut kept = Kept { module: placed.clone(), meshes: &facts.header.meshes, said };
        kept.forget_parts(placed)?;
        kept.read_results();
        for comp in planned_comps(placed) {
            kept.module.comps[comp.index()].instrs.iter_mut().for_each(keep);
        }
        Ok(kept)
    }

    /// What runs over the batch is no sum over microbatches, also where the caller gets all of it.
    fn forget_parts(&mut self, placed: &Module) -> Result<()> {
        let timed = on_time_axis_alone(placed)?;
        let facts = derive(&timed)?;
        let entry = timed.entry();
        for (instr, own) in entry.instrs.iter().zip(&facts.comps[timed.entry.index()]) {
            let is_part = own.leaves.iter().any(|leaf| leaf.layout.dim_of(TIME).is_some());
            let said = self.said.get_mut(&(entry.name.clone(), instr.name.clone()));
            said.into_iter().filter(|_| is_part).for_each(|said| said.late = 0);
        }
        Ok(())
    }

    /// Results that are reduced late are read by an update, as all that is: one that copies them.
    fn read_results(&mut self) {
        let entry = &mut self.module.comps[self.module.entry.index()];
        let (mut names, mut copies) = (Names::of(entry), Vec::new());
        let mut root = entry.root().clone();
        let makers = origins(entry, entry.root);
        for (operand, &(maker, _)) in root.operands.iter_mut().zip(&makers) {
            let instr = entry.instr(maker);
            let said = self.said.get(&(entry.name.clone(), instr.name.clone()));
            let Some(own) = said.copied().filter(|own| own.late != 0 && *operand == maker) else { continue };
            let name = names.derive(&instr.name, "whole");
            *operand = InstrId::new(entry.instrs.len() + copies.len());
            self.said.insert((entry.name.clone(), name.clone()), Said { late: 0, is_moved: true, ..own });
            copies.push((entry.root, update_of(instr, maker, name)));
        }
        if root.op == Opcode::Tuple && !copies.is_empty() {
            let at = entry.root.index();
            entry.instrs[at] = root;
            entry.insert_before(copies);
        }
    }

    /// What the plan says of an instruction; nothing of those that the cut has added.
    fn of(&self, comp: &str, name: &str) -> Option<Said> {
        self.said.get(&(comp.into(), name.into())).copied()
    }

    /// What it says of the instruction that one of this name was added to: the longest name before a dot.
    fn added_to(&self, comp: &str, name: &str) -> Option<Said> {
        let mut bases = name.rmatch_indices('.').map(|(at, _)| &name[..at]);
        bases.find_map(|base| self.of(comp, base))
    }

    /// The program of one device for a module.
    ///
    /// # Errors
    /// When an instruction cannot be done in parts.
    pub fn program(&self, split: &Split, piece: &Piece) -> Result<Module> {
        let mesh = &self.meshes[piece.task.stage];
        let mut module = piece.module.clone();
        if mesh.n_devices() == 1 {
            return Ok(module);
        }
        self.receive(&mut module, split, piece);
        for comp in planned_comps(&module) {
            self.restore(&mut module.comps[comp.index()], mesh);
        }
        self.sums(&mut module, split, piece);
        module.set_note(notes::MESH, &mesh.to_string());
        let mut facts = derive(&module)?;
        // A module may begin and end with summands: whoever runs it keeps them.
        let is_end = |instr: &Instr| matches!(instr.op, Opcode::Parameter | Opcode::Tuple);
        facts.problems.retain(|it| {
            let instr = module.comp(it.comp).instr(it.instr);
            !(is_end(instr) && partial::is_noted(instr))
        });
        let mut local = spmd::program(&module, &facts)?;
        note_summands(&module, &mut local);
        Ok(local)
    }

    /// Gives values that come from another mesh the layout that the plan sends them in.
    fn receive(&self, module: &mut Module, split: &Split, piece: &Piece) {
        let mesh = &self.meshes[piece.task.stage];
        let entry = &mut module.comps[module.entry.index()];
        for (&source, id) in piece.inputs.iter().zip(entry.params()) {
            let Source::Made((maker, _)) = source else { continue };
            let home = split.local.entry().instr(maker).note(notes::OF_STAGE).and_then(|it| it.parse().ok());
            let is_sent = home.is_some_and(|home: usize| self.meshes[home] != *mesh);
            if let Some(layout) = self.landing(entry, id).filter(|_| is_sent) {
                lay(&mut entry.instrs[id.index()], layout, mesh);
            }
        }
    }

    /// The layout in which all that read a parameter want it, if they are changes of layout.
    fn landing(&self, entry: &Computation, id: InstrId) -> Option<Layout> {
        let mut readers = entry.instrs.iter().filter(|instr| instr.operands.contains(&id));
        let wanted =
            |reader: &Instr| Some(self.of(&entry.name, &reader.name).filter(|own| own.is_moved)?.layout);
        let first = wanted(readers.next()?)?;
        readers.all(|reader| wanted(reader) == Some(first)).then_some(first)
    }

    /// Makes copies that were changes of layout such again, and gives what the cut has added the layout of
    /// what it was added to.
    fn restore(&self, comp: &mut Computation, mesh: &Mesh) {
        for instr in &mut comp.instrs {
            let Some(own) = self.of(&comp.name, &instr.name) else {
                let of = self.added_to(&comp.name, &instr.name).filter(|_| instr.sharding().is_none());
                of.into_iter().for_each(|of| lay(instr, of.layout, mesh));
                continue;
            };
            let axes = vec![own.partial; instr.shape.n_leaves()];
            partial::set(instr, &axes);
            if own.is_moved && instr.op == Opcode::Copy {
                lay(instr, own.layout, mesh);
                as_move(instr);
            }
        }
    }
}

fn said(instr: &Instr, own: &InstrFacts) -> Said {
    let leaf = own.leaves.first().copied().unwrap_or_default();
    let is_reduction = |kind| matches!(kind, Collective::AllReduce | Collective::ReduceScatter);
    let steps = own.steps.iter().filter(|step| is_reduction(step.kind));
    let is_late = !is_move(instr) && own.phase != Phase::Update && own.natures[..] == [Nature::Sum];
    let late = if is_late { steps.fold(0, |all, step| all | step.axes) } else { 0 };
    Said { layout: leaf.layout, partial: leaf.partial, late, is_moved: is_move(instr) }
}

/// Makes what a plan has added an instruction of the program.
fn keep(instr: &mut Instr) {
    if is_move(instr) {
        instr.op = Opcode::Copy;
        instr
            .attrs
            .retain(|attr| matches!(attr.key, Key::Sharding | Key::FrontendAttributes | Key::Metadata));
    }
    if is_added(instr) {
        [notes::MOVE, notes::REMADE].into_iter().for_each(|note| instr.remove_note(note));
    }
}

/// A copy that the update of the same stage makes.
fn update_of(instr: &Instr, id: InstrId, name: Box<str>) -> Instr {
    let attrs = instr.attrs.iter().filter(|attr| matches!(attr.key, Key::Sharding | Key::FrontendAttributes));
    let attrs = attrs.cloned().collect();
    let mut copy =
        Instr { name, op: Opcode::Copy, operands: SmallVec::from_slice(&[id]), attrs, ..instr.clone() };
    copy.set_note(notes::PHASE, Phase::Update.as_str());
    copy
}

fn as_move(instr: &mut Instr) {
    instr.op = Opcode::CustomCall;
    let value = Value::Str("Sharding".into());
    instr.attrs.push(Attr { key: Key::CustomCallTarget, value });
    instr.set_note(notes::MOVE, "reshard");
}

/// Lays an array out on a mesh.
fn lay(instr: &mut Instr, layout: Layout, mesh: &Mesh) {
    let Some(array) = instr.shape.as_array() else { return };
    // What was added may have other dimensions.
    let is_fit = (0..mesh.n_axes()).all(|axis| layout.dim_of(axis).is_none_or(|dim| dim < array.rank()))
        && array.dims.iter().enumerate().all(|(dim, size)| size % layout.tiles(dim, mesh) == 0);
    let layout = if is_fit { layout } else { Layout::REPLICATED };
    let tiling = layout.to_tiling(array.rank(), mesh);
    set(instr, tiling);
}

/// Says of which parameters and results each device has a summand.
fn note_summands(module: &Module, local: &mut Module) {
    let (old, entry) = (module.entry(), local.entry.index());
    let ends = old.params().into_iter().zip(local.entry().params());
    for (before, after) in ends.chain([(old.root, local.entry().root)]).collect::<Vec<_>>() {
        if let Some(text) = old.instr(before).note(notes::PARTIAL) {
            local.comps[entry].instrs[after.index()].set_note(notes::PARTIAL, text);
        }
    }
}
