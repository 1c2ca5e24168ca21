//! Values that are one buffer must have one layout: tuple elements, what loops carry, what branches return.

use super::read::element_start;
use super::{Facts, Leaf, Problem, origins, planned_comps};
use crate::partial::names;
use crate::pricing::AxisMask;
use phzc_ir::ops::linear::is_zero;
use phzc_ir::{CompId, Instr, InstrId, Key, Mesh, Module, Opcode};
use std::fmt::Write;

/// Partial over any axes: zeros are the summands of a sum that is zero.
const ANY: AxisMask = AxisMask::MAX;

/// Adds a problem for every pair that disagrees.
pub fn check(module: &Module, facts: &mut Facts) {
    let mut found = Vec::new();
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            Pairs { module, facts, comp, id, instr, found: &mut found }.check();
        }
    }
    facts.problems.extend(found);
}

struct Pairs<'a> {
    module: &'a Module,
    facts: &'a Facts,
    comp: CompId,
    id: InstrId,
    instr: &'a Instr,
    found: &'a mut Vec<Problem>,
}

impl<'a> Pairs<'a> {
    fn check(&mut self) {
        match self.instr.op {
            Opcode::Tuple => self.same("its operands", self.operands()),
            Opcode::OptBarrier => self.same("its operand", self.operands()),
            Opcode::GetTupleElement => {
                let tuple = &self.module.comp(self.comp).instr(self.instr.operands[0]).shape;
                let start = element_start(self.instr, tuple);
                let part = self.operands().into_iter().skip(start).take(self.instr.shape.n_leaves());
                self.same("the element", part.collect());
            }
            Opcode::While => self.while_loop(),
            Opcode::Conditional => self.branches(),
            _ => {}
        }
    }

    fn operands(&self) -> Vec<Leaf> {
        self.instr.operands.iter().flat_map(|&operand| self.passed(self.comp, operand)).collect()
    }

    /// What is handed on; zeros are partial over whatever their taker wants.
    fn passed(&self, comp: CompId, id: InstrId) -> Vec<Leaf> {
        let (computation, mut leaves) = (self.module.comp(comp), self.leaves(comp, id));
        for (own, (made, _)) in leaves.iter_mut().zip(origins(computation, id)) {
            own.partial |= if is_zero(&computation.instrs, made) { ANY } else { 0 };
        }
        leaves
    }

    fn leaves(&self, comp: CompId, id: InstrId) -> Vec<Leaf> {
        self.facts.comps[comp.index()][id.index()].leaves.to_vec()
    }

    fn param(&self, comp: CompId) -> Vec<Leaf> {
        self.module.comp(comp).params().first().map(|&id| self.leaves(comp, id)).unwrap_or_default()
    }

    fn root(&self, comp: CompId) -> Vec<Leaf> {
        self.passed(comp, self.module.comp(comp).root)
    }

    fn while_loop(&mut self) {
        self.same("its first value", self.operands());
        let comp = |key| self.instr.comp(key);
        if let Some(body) = comp(Key::Body) {
            self.same("its body's parameter", self.param(body));
            self.same("its body's result", self.root(body));
        }
        if let Some(condition) = comp(Key::Condition) {
            self.same("its condition's parameter", self.param(condition));
        }
    }

    fn branches(&mut self) {
        for (index, branch) in super::control_flow(self.instr).into_iter().enumerate() {
            let passed = self.instr.operands.get(index + 1).map(|&id| self.passed(self.comp, id));
            let param = self.param(branch);
            self.compare(
                &passed.unwrap_or_default(),
                &param,
                &format!("passes to branch {index}"),
                "its parameter",
            );
            self.same(&format!("the result of branch {index}"), self.root(branch));
        }
    }

    fn same(&mut self, what: &str, others: Vec<Leaf>) {
        let own = self.leaves(self.comp, self.id);
        self.compare(&own, &others, "is", what);
    }

    fn compare(&mut self, own: &[Leaf], others: &[Leaf], verb: &str, what: &str) {
        let meshes = &self.facts.header.meshes;
        let differs = |(a, b): (&Leaf, &Leaf)| {
            let is_other_sum = a.partial != b.partial && a.partial != ANY && b.partial != ANY;
            a.layout != b.layout || meshes[a.stage] != meshes[b.stage] || is_other_sum
        };
        let Some(leaf) = own.iter().zip(others).position(differs) else { return };
        let part = if own.len() > 1 { format!(" in part {leaf}") } else { String::new() };
        let (a, b) = (describe(own[leaf], meshes), describe(others[leaf], meshes));
        let message = format!("`{}` {verb} {a}{part}, but {what} {b}", self.instr.name);
        self.found.push(Problem { comp: self.comp, instr: self.id, is_fatal: false, message });
    }
}

/// `split as [x, -, y]` by dimension up to the last split one; `whole`; with the stage where there are
/// several.
pub fn describe(leaf: Leaf, meshes: &[Mesh]) -> String {
    let mut layout = describe_layout(leaf, &meshes[leaf.stage]);
    if leaf.partial != 0 {
        let _ = write!(layout, " and partial over `{}`", names(leaf.partial));
    }
    if meshes.len() > 1 { format!("{layout} in stage {}", leaf.stage) } else { layout }
}

fn describe_layout(leaf: Leaf, mesh: &Mesh) -> String {
    let n_axes = mesh.n_axes();
    let Some(last) = (0..n_axes).filter_map(|axis| leaf.layout.dim_of(axis)).max() else {
        return "whole".to_owned();
    };
    format!("split as {}", leaf.layout.named(last + 1, mesh))
}
