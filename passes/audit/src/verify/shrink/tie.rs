//! Ties the dimensions of one instruction: by its factor rule, or to the computations that it runs.

use super::ends::{End, EndKind, ends};
use super::ties::{Leaves, Ties};
use phzc_analysis::classes::{ClassId, ClassMap, class_map};
use phzc_ir::ops::control::{callee, control_comps};
use phzc_ir::{
    CompId, FactorKind, Instr, InstrId, Key, Module, Opcode, Payload, Rule, TensorMap, Value, View,
};
use phzc_plan::derive::element_start;
use smallvec::SmallVec;

/// Elements of a literal that keeps its sizes: a short list means something to the op that reads it.
const MAX_LITERAL: f64 = 4096.0;

/// One instruction while it is tied.
pub struct Tie<'t, 'm> {
    /// What is tied so far.
    pub ties: &'t mut Ties<'m>,
    /// Its program.
    pub program: usize,
    /// Its computation.
    pub comp: CompId,
    /// The instruction.
    pub id: InstrId,
}

impl<'m> Tie<'_, 'm> {
    /// Ties the dimensions of its value to those of its operands and of what it runs.
    pub fn instr(&mut self) {
        let instr = self.module().comp(self.comp).instr(self.id);
        let own = self.value(self.comp, self.id);
        match instr.op {
            Opcode::While => self.while_loop(instr, &own),
            Opcode::Conditional => {
                for (branch, &operand) in control_comps(instr).into_iter().zip(&instr.operands[1..]) {
                    self.call(branch, &[operand], &own);
                }
            }
            Opcode::Call | Opcode::Fusion => {
                if let Some(comp) = callee(instr) {
                    self.call(comp, &instr.operands, &own);
                }
            }
            Opcode::GetTupleElement => {
                let tuple = &self.module().comp(self.comp).instr(instr.operands[0]).shape;
                let from = self.value(self.comp, instr.operands[0]);
                self.ties.link_all(&own, &from[element_start(instr, tuple)..]);
            }
            _ => self.by_rule(instr, &own),
        }
    }

    fn module(&self) -> &'m Module {
        self.ties.programs[self.program]
    }

    fn value(&self, comp: CompId, id: InstrId) -> Leaves {
        self.ties.leaves(self.program, comp, id).clone()
    }

    fn while_loop(&mut self, instr: &Instr, own: &Leaves) {
        for comp in control_comps(instr) {
            for param in self.module().comp(comp).params() {
                let param = self.value(comp, param);
                self.ties.link_all(own, &param);
            }
        }
        let start = self.value(self.comp, instr.operands[0]);
        self.ties.link_all(own, &start);
        if let Some(body) = instr.comp(Key::Body) {
            let returned = self.value(body, self.module().comp(body).root);
            self.ties.link_all(own, &returned);
        }
    }

    fn call(&mut self, comp: CompId, operands: &[InstrId], own: &Leaves) {
        for (param, &operand) in self.module().comp(comp).params().into_iter().zip(operands) {
            let (param, operand) = (self.value(comp, param), self.value(self.comp, operand));
            self.ties.link_all(&param, &operand);
        }
        let returned = self.value(comp, self.module().comp(comp).root);
        self.ties.link_all(own, &returned);
    }

    fn by_rule(&mut self, instr: &Instr, own: &Leaves) {
        let view = View::new(self.module(), self.comp, self.id);
        let rule = (instr.op.def().rule)(&view);
        let loops: Vec<ClassId> =
            rule.factors.iter().map(|factor| self.ties.classes.fresh(factor.size)).collect();
        let ends = ends(&view);
        let at_ends = freed(&rule, &ends);
        let is_fixed = |&factor: &usize| !is_free(instr, &rule, factor) && !at_ends.contains(&factor);
        self.ties.fixed.extend((0..loops.len()).filter(is_fixed).map(|factor| loops[factor]));
        let operands: Leaves =
            instr.operands.iter().flat_map(|&operand| self.value(self.comp, operand)).collect();
        for (map, leaf) in rule.operands.iter().zip(&operands).chain(rule.results.iter().zip(own)) {
            self.ties.link(&class_map(map, &loops), leaf);
        }
        self.ends(&ends, &operands, own);
        self.attributes(&view, &operands, own);
    }

    fn ends(&mut self, ends: &[End], operands: &Leaves, own: &Leaves) {
        for &End { operand, dim, kind } in ends {
            let (from, to) = (&operands[operand][dim], &own[0][dim]);
            match kind {
                EndKind::Stays => {}
                EndKind::Moves => self.ties.moving.push([from.clone(), to.clone()]),
                EndKind::Running => self.ties.link(&one_dim(from), &one_dim(to)),
                EndKind::Blocks(size) => {
                    // Those of a concatenation are of one size: its result consists of them all.
                    let block = self.ties.classes.fresh(size);
                    self.blocks(from, block);
                    self.blocks(to, block);
                }
            }
        }
    }

    /// Makes a dimension a fixed number of blocks.
    fn blocks(&mut self, loops: &SmallVec<[ClassId; 2]>, block: ClassId) {
        let classes = &mut self.ties.classes;
        let size: i64 = loops.iter().map(|&class| classes.size(class)).product();
        let count = classes.fresh(size / classes.size(block).max(1));
        self.ties.fixed.push(count);
        self.ties.link(&one_dim(loops), &one_dim(&[count, block]));
    }

    /// Sizes that attributes or other operands fix although the loop runs over all of the dimension.
    fn attributes(&mut self, view: &View, operands: &Leaves, own: &Leaves) {
        match view.instr.op {
            Opcode::DynamicUpdateSlice => {
                let (Ok(whole), Ok(part)) = (view.array(0), view.array(1)) else { return };
                let pairs = whole.dims.iter().zip(&part.dims).zip(&operands[0]);
                let cut = pairs.filter(|((whole, part), _)| whole != part);
                self.ties.fixed.extend(cut.flat_map(|(_, loops)| loops));
            }
            Opcode::Convolution => self.convolution(view.instr, [&operands[0], &operands[1], &own[0]]),
            _ => {}
        }
    }

    /// Windows of more than one element are numbers in attributes.
    fn convolution(&mut self, instr: &Instr, [input, kernel, output]: [&ClassMap; 3]) {
        let Some(Value::DimLabels(labels)) = instr.attr(Key::DimLabels) else { return };
        let window: &[_] = match instr.attr(Key::Window) {
            Some(Value::Window(window)) => &window.dims,
            _ => &[],
        };
        let slides = window.iter().enumerate().filter(|(_, dim)| !dim.is_trivial() || dim.size != 1);
        for (at, _) in slides {
            self.ties.fixed.extend(&input[labels.lhs.spatial[at]]);
            self.ties.fixed.extend(&kernel[labels.rhs.spatial[at]]);
            self.ties.fixed.extend(&output[labels.out.spatial[at]]);
        }
    }
}

fn one_dim(loops: &[ClassId]) -> ClassMap {
    std::iter::once(loops.iter().copied().collect()).collect()
}

/// The loops of dimensions that change at their ends; the result's only where it gets shorter too.
fn freed(rule: &Rule, ends: &[End]) -> Vec<usize> {
    let mut found = Vec::new();
    for end in ends {
        let from = &rule.operands[end.operand][end.dim];
        let to = rule.results[0][end.dim].iter().filter(|_| end.kind != EndKind::Stays);
        found.extend(from.iter().chain(to).map(|&factor| factor as usize));
    }
    found
}

/// Whether a loop may run less often: it passes or reduces, or the op takes whole dimensions of any size.
fn is_free(instr: &Instr, rule: &Rule, factor: usize) -> bool {
    use Opcode::{BatchNormGrad, BatchNormTraining, Reverse, Scatter, Sort};
    match rule.factors[factor].kind {
        FactorKind::Pass | FactorKind::Reduce(_) => true,
        _ if instr.op == Opcode::Constant => is_table(instr),
        _ => {
            let maps = rule.operands.iter().chain(&rule.results);
            let has = |map: &&TensorMap| map.iter().flatten().any(|&id| id as usize == factor);
            let takes_any = matches!(instr.op, BatchNormGrad | BatchNormTraining | Reverse | Scatter | Sort);
            takes_any && maps.filter(has).count() > 1
        }
    }
}

/// Whether a constant is a table of which any part does: one too long to keep, or one that the text leaves
/// out.
fn is_table(instr: &Instr) -> bool {
    let is_elided = matches!(&instr.payload, Payload::Literal(text) if &**text == "{...}");
    is_elided || instr.shape.as_array().is_some_and(|array| array.n_elements() > MAX_LITERAL)
}
