//! Which dimensions have one size: loops tied over instructions, calls and loops, and over programs with the
//! same inputs.

use super::tie::Tie;
use indexmap::IndexMap;
use phzc_analysis::classes::{ClassId, ClassMap, Classes};
use phzc_ir::ops::control::{callee, control_comps};
use phzc_ir::{CompId, InstrId, Module, Shape};
use phzc_plan::derive::aliased;
use smallvec::SmallVec;

/// A dimension of a leaf of an instruction's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which of the programs.
    pub program: usize,
    /// The computation.
    pub comp: CompId,
    /// The instruction.
    pub instr: InstrId,
    /// The leaf of its value.
    pub leaf: usize,
    /// The dimension.
    pub dim: usize,
}

/// The classes of an instruction's leaves.
pub type Leaves = SmallVec<[ClassMap; 1]>;

/// The classes of all dimensions of some programs.
pub struct Ties<'m> {
    /// The programs.
    pub programs: &'m [&'m Module],
    /// The loops.
    pub classes: Classes,
    /// Per program, computation and instruction; empty for computations that ops apply to scalars.
    pub values: Vec<Vec<Vec<Leaves>>>,
    /// Classes that keep their size.
    pub fixed: Vec<ClassId>,
    /// Pairs of dimensions that get shorter by the same number of elements.
    pub moving: Vec<[SmallVec<[ClassId; 2]>; 2]>,
}

impl<'m> Ties<'m> {
    /// Follows every loop of the programs.
    pub fn of(programs: &'m [&'m Module]) -> Ties<'m> {
        let (classes, values) = (Classes::default(), Vec::new());
        let mut ties = Ties { programs, classes, values, fixed: Vec::new(), moving: Vec::new() };
        for (index, module) in programs.iter().enumerate() {
            ties.declare(module);
            for comp in entered(module) {
                for (id, _) in module.comp(comp).iter() {
                    Tie { ties: &mut ties, program: index, comp, id }.instr();
                }
            }
            ties.aliases(index);
        }
        (1..programs.len()).for_each(|other| ties.same_inputs(other));
        ties
    }

    /// The classes of an instruction's leaves.
    pub fn leaves(&self, program: usize, comp: CompId, id: InstrId) -> &Leaves {
        &self.values[program][comp.index()][id.index()]
    }

    /// Every instruction of the computations that are run as control flow or called.
    pub fn instrs(&self, program: usize) -> impl Iterator<Item = (CompId, InstrId)> + '_ {
        let comps = self.values[program].iter().enumerate();
        comps
            .flat_map(|(comp, instrs)| (0..instrs.len()).map(move |id| (CompId::new(comp), InstrId::new(id))))
    }

    /// Gives every dimension a class of its own.
    fn declare(&mut self, module: &Module) {
        let mut values = vec![Vec::new(); module.comps.len()];
        for comp in entered(module) {
            values[comp.index()] =
                module.comp(comp).instrs.iter().map(|instr| self.fresh(&instr.shape)).collect();
        }
        self.values.push(values);
    }

    fn fresh(&mut self, shape: &Shape) -> Leaves {
        let mut leaves = Leaves::new();
        for leaf in shape.leaves() {
            let Some(array) = leaf.as_array() else {
                leaves.push(ClassMap::new());
                continue;
            };
            let map: ClassMap =
                array.dims.iter().map(|&size| SmallVec::from_slice(&[self.classes.fresh(size)])).collect();
            if array.dynamic != 0 || array.dims.iter().any(|&size| size < 1) {
                self.fix(&map);
            }
            leaves.push(map);
        }
        leaves
    }

    /// Keeps the sizes of a tensor.
    pub(super) fn fix(&mut self, map: &ClassMap) {
        self.fixed.extend(map.iter().flatten());
    }

    /// Makes two tensors of one shape; where their loops do not meet, both keep their sizes.
    pub(super) fn link(&mut self, a: &ClassMap, b: &ClassMap) {
        if !self.classes.unify(a, b) {
            self.fix(a);
            self.fix(b);
        }
    }

    pub(super) fn link_all<'a>(
        &mut self,
        a: impl IntoIterator<Item = &'a ClassMap>,
        b: impl IntoIterator<Item = &'a ClassMap>,
    ) {
        a.into_iter().zip(b).for_each(|(a, b)| self.link(a, b));
    }

    /// Outputs that reuse a parameter's buffer have its sizes.
    fn aliases(&mut self, program: usize) {
        let module = self.programs[program];
        for alias in aliased(module) {
            let output = self.leaves(program, module.entry, module.entry().root)[alias.output].clone();
            let param = self.leaves(program, module.entry, alias.param)[alias.leaf].clone();
            self.link(&output, &param);
        }
    }

    /// Ties the inputs, outputs and namesakes of another program to the first one's.
    fn same_inputs(&mut self, other: usize) {
        let (first, second) = (self.programs[0], self.programs[other]);
        let pairs = first.entry().params().into_iter().zip(second.entry().params());
        let roots = (first.entry().root, second.entry().root);
        for (a, b) in pairs.chain([roots]) {
            self.link_values((0, first.entry, a), (other, second.entry, b));
        }
        let comps: IndexMap<&str, CompId, rustc_hash::FxBuildHasher> =
            entered(second).into_iter().map(|comp| (&*second.comp(comp).name, comp)).collect();
        for comp in entered(first) {
            if let Some(&twin) = comps.get(&*first.comp(comp).name) {
                self.namesakes((0, comp), (other, twin));
            }
        }
    }

    /// Instructions of one name, op and shape are the same value, made of constants perhaps.
    fn namesakes(&mut self, a: (usize, CompId), b: (usize, CompId)) {
        let twins = self.programs[b.0].comp(b.1);
        let ids: IndexMap<&str, InstrId, rustc_hash::FxBuildHasher> =
            twins.iter().map(|(id, instr)| (&*instr.name, id)).collect();
        for (id, instr) in self.programs[a.0].comp(a.1).iter() {
            let Some(&twin) = ids.get(&*instr.name) else { continue };
            let other = twins.instr(twin);
            if other.op == instr.op && other.shape.same_type(&instr.shape) {
                self.link_values((a.0, a.1, id), (b.0, b.1, twin));
            }
        }
    }

    fn link_values(&mut self, a: (usize, CompId, InstrId), b: (usize, CompId, InstrId)) {
        let (a, b) = (self.leaves(a.0, a.1, a.2).clone(), self.leaves(b.0, b.1, b.2).clone());
        self.link_all(&a, &b);
    }
}

/// The entry and all that it runs as loops and branches or calls, callees first.
fn entered(module: &Module) -> Vec<CompId> {
    let mut found = vec![false; module.comps.len()];
    found[module.entry.index()] = true;
    for index in (0..=module.entry.index()).rev() {
        if found[index] {
            let instrs = module.comps[index].instrs.iter();
            instrs
                .flat_map(|instr| control_comps(instr).into_iter().chain(callee(instr)))
                .for_each(|comp| found[comp.index()] = true);
        }
    }
    (0..found.len()).filter(|&index| found[index]).map(CompId::new).collect()
}
