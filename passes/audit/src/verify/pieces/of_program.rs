//! The program's side of a piece: what leads to its results from what the plan's side reads.

use super::cut::{Border, MAX_INSTRS, Whole, is_copied, param_shape};
use super::draft::Draft;
use super::text::Made;
use phzc_ir::{CompId, InstrId, Module, Opcode, Shape};
use std::collections::BTreeMap;

/// The program's piece in the making.
pub struct ProgramCut<'a> {
    whole: Whole<'a>,
    comp: CompId,
    /// Instructions that are copied before what they read becomes an input.
    budget: usize,
    draft: Draft<'a>,
    makers: BTreeMap<InstrId, InstrId>,
    nodes: BTreeMap<Made, InstrId>,
    names: BTreeMap<InstrId, String>,
    borders: Vec<Border>,
}

impl<'a> ProgramCut<'a> {
    /// Nothing is cut out yet; the plan's piece reads these values, and makes some of these names.
    pub fn new(
        whole: Whole<'a>,
        pair: usize,
        (borders, names): (Vec<Border>, BTreeMap<InstrId, String>),
        budget: usize,
    ) -> ProgramCut<'a> {
        ProgramCut {
            whole,
            comp: whole.claims.pairs[pair].program,
            budget,
            draft: Draft::new(whole.program.module),
            makers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            names,
            borders,
        }
    }

    /// A value of the program in the piece.
    pub fn value(&mut self, value: Made, is_wanted: bool) -> Option<InstrId> {
        if let Some(&id) = self.nodes.get(&value) {
            return Some(id);
        }
        let (maker, leaf) = value;
        let program = self.whole.program;
        let comp = program.module.comp(self.comp);
        let known = self.borders.iter().position(|border| border.value == value);
        if known.is_none()
            && let Some(id) = self.like_border(value)?
        {
            return Some(id);
        }
        let is_free = self.whole.program.is_free(self.comp, value);
        let is_inside = is_wanted || is_free || self.makers.len() < self.budget;
        let is_inside = known.is_none() && is_inside && is_copied(comp, comp.instr(maker));
        let id = if is_inside {
            let tuple = self.maker(maker)?;
            match comp.instr(maker).shape {
                Shape::Tuple(_) => {
                    let name = format!("{}.{leaf}", self.draft.instrs[tuple.index()].name);
                    self.draft.element(&name, tuple, leaf)
                }
                _ => tuple,
            }
        } else {
            let number = match known {
                Some(number) => number,
                None => {
                    let shape = comp.instr(maker).shape.leaves().get(leaf)?.as_array()?.clone();
                    self.borders.push(Border { value, shape, partial: 0 });
                    self.borders.len() - 1
                }
            };
            self.param(number)?
        };
        self.nodes.insert(value, id);
        Some(id)
    }

    /// A value that has the elements of one that the piece reads, in the same order.
    fn like_border(&mut self, value: Made) -> Option<Option<InstrId>> {
        let program = self.whole.program;
        let root = program.viewed(self.comp, value);
        let is_like = |border: &Border| program.viewed(self.comp, border.value) == root;
        let Some(number) = self.borders.iter().position(is_like) else { return Some(None) };
        let source = self.value(self.borders[number].value, false)?;
        let shape = program.shape(self.comp, value)?.clone();
        let name = format!("p{number}.view{}", self.nodes.len());
        let id = self.draft.add(&name, Opcode::Reshape, &[source], Shape::Array(shape));
        self.nodes.insert(value, id);
        Some(Some(id))
    }

    fn maker(&mut self, id: InstrId) -> Option<InstrId> {
        if let Some(&made) = self.makers.get(&id) {
            return Some(made);
        }
        if self.makers.len() > MAX_INSTRS {
            return None;
        }
        let instr = self.whole.program.module.comp(self.comp).instr(id);
        self.makers.insert(id, InstrId::new(0));
        let values = self.whole.program.operands(self.comp, instr);
        let operands = values.into_iter().map(|value| self.value(value, false));
        let operands: Vec<InstrId> = operands.collect::<Option<_>>()?;
        let name = self.names.get(&id).cloned().unwrap_or_else(|| format!("o{}", self.draft.instrs.len()));
        let made = self.draft.copy(&name, instr, &operands);
        self.makers.insert(id, made);
        Some(made)
    }

    fn param(&mut self, number: usize) -> Option<InstrId> {
        let name = format!("p{number}");
        let border = &self.borders[number];
        let shape = param_shape(border, &self.whole.facts.header.meshes[0]);
        let is_sum = border.partial != 0;
        let id = self.draft.param(&name, number, shape);
        if is_sum { self.draft.sum(&name, id).map(|[_, sum]| sum) } else { Some(id) }
    }

    /// The program's piece, with a parameter for all that the plan's reads; and what both read.
    pub fn finish(mut self, wanted: &[InstrId]) -> Option<(Vec<Border>, Module)> {
        for number in 0..self.borders.len() {
            if !self.nodes.contains_key(&self.borders[number].value) {
                self.param(number)?;
            }
        }
        Some((self.borders, self.draft.finish(wanted)))
    }
}
