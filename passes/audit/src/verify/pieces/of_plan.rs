//! The plan's side of a piece: instructions in their layouts, parameters in those of their makers.

use super::cut::{Border, MAX_INSTRS, Whole, is_copied, is_given, param_shape};
use super::draft::Draft;
use super::text::Made;
use phzc_ir::{ArrayShape, Computation, InstrId, Key, Layout, Mesh, Module, Shape, Sharding, Value, notes};
use phzc_plan::derive::{Leaf, origin};
use phzc_plan::partial;
use phzc_plan::pricing::AxisMask;
use std::collections::BTreeMap;

/// The plan's piece in the making.
pub struct PlanCut<'a> {
    whole: Whole<'a>,
    pair: usize,
    comp: &'a Computation,
    levels: usize,
    draft: Draft<'a>,
    makers: BTreeMap<InstrId, InstrId>,
    nodes: BTreeMap<Made, InstrId>,
    /// Names that the program's instructions get too, by the values that they make.
    names: BTreeMap<InstrId, String>,
    borders: Vec<Border>,
    /// What stands for a border in a layout.
    params: BTreeMap<(usize, Layout), InstrId>,
}

impl<'a> PlanCut<'a> {
    /// Nothing is cut out yet.
    pub fn new(whole: Whole<'a>, pair: usize, levels: usize) -> PlanCut<'a> {
        PlanCut {
            whole,
            pair,
            comp: whole.plan.comp(whole.claims.pairs[pair].plan),
            levels,
            draft: Draft::new(whole.plan),
            makers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            names: BTreeMap::new(),
            borders: Vec::new(),
            params: BTreeMap::new(),
        }
    }

    /// How many instructions of the plan are in it.
    pub fn n_makers(&self) -> usize {
        self.makers.len()
    }

    /// What it reads, and the names of the values that it makes.
    pub fn borders(&mut self) -> (Vec<Border>, BTreeMap<InstrId, String>) {
        (std::mem::take(&mut self.borders), std::mem::take(&mut self.names))
    }

    fn mesh(&self) -> &Mesh {
        &self.whole.facts.header.meshes[0]
    }

    fn facts(&self, (id, leaf): Made) -> Leaf {
        let pair = &self.whole.claims.pairs[self.pair];
        self.whole.facts.comps[pair.plan.index()][id.index()].leaves[leaf]
    }

    /// A leaf of the plan in the piece.
    pub fn leaf(&mut self, made: Made, level: usize, is_wanted: bool) -> Option<InstrId> {
        if let Some(&id) = self.nodes.get(&made) {
            return Some(id);
        }
        let (maker, leaf) = made;
        let pair = &self.whole.claims.pairs[self.pair];
        let claim = self.whole.claims.claim(self.pair, made);
        let is_free = claim.is_some_and(|value| self.whole.program.is_free(pair.program, value));
        let is_inside =
            is_wanted || claim.is_none() || is_free || pair.is_inner(maker) || level <= self.levels;
        let is_copied = is_copied(self.comp, self.comp.instr(maker));
        // What is wanted or inner has no other piece that proves it; parameters and control flow have none.
        if !is_copied && (pair.is_inner(maker) || (is_wanted && !is_given(self.comp.instr(maker)))) {
            return None;
        }
        let id = match is_inside && is_copied {
            true => {
                let tuple = self.maker(maker, level)?;
                match self.comp.instr(maker).shape {
                    Shape::Tuple(_) => {
                        let name = format!("{}.{leaf}", self.draft.instrs[tuple.index()].name);
                        let id = self.draft.element(&name, tuple, leaf);
                        self.lay_out(id, self.facts(made));
                        id
                    }
                    _ => tuple,
                }
            }
            false => self.border(claim?, self.facts(made), self.shape(made)?)?,
        };
        self.nodes.insert(made, id);
        Some(id)
    }

    fn shape(&self, (id, leaf): Made) -> Option<ArrayShape> {
        self.comp.instr(id).shape.leaves().get(leaf)?.as_array().cloned()
    }

    fn maker(&mut self, id: InstrId, level: usize) -> Option<InstrId> {
        if let Some(&made) = self.makers.get(&id) {
            return Some(made);
        }
        if self.makers.len() > MAX_INSTRS {
            return None;
        }
        let name = format!("n{}", self.makers.len());
        // Counts from here on: what it reads does too.
        self.makers.insert(id, InstrId::new(0));
        let instr = self.comp.instr(id);
        let mut operands = Vec::with_capacity(instr.operands.len());
        for &operand in &instr.operands {
            operands.push(self.leaf(origin(self.comp, operand, 0), level + 1, false)?);
        }
        if let Some((value, _)) = self.whole.claims.claim(self.pair, (id, 0)) {
            self.names.entry(value).or_insert_with(|| name.clone());
        }
        let made = self.draft.copy(&name, instr, &operands);
        let own = &mut self.draft.instrs[made.index()];
        own.attrs.extend(instr.attrs.iter().filter(|attr| attr.key == Key::Sharding).cloned());
        let leaves: Vec<AxisMask> =
            (0..instr.shape.n_leaves()).map(|leaf| self.facts((id, leaf)).partial).collect();
        partial::set(&mut self.draft.instrs[made.index()], &leaves);
        self.makers.insert(id, made);
        Some(made)
    }

    fn lay_out(&mut self, id: InstrId, leaf: Leaf) {
        let mesh = self.mesh().clone();
        let instr = &mut self.draft.instrs[id.index()];
        let rank = instr.shape.as_array().map_or(0, ArrayShape::rank);
        let sharding = Sharding::Single(leaf.layout.to_tiling(rank, &mesh));
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
        partial::set(instr, &[leaf.partial]);
    }

    /// What stands for a value that is made outside: a parameter, or what is made of it in another layout.
    fn border(&mut self, value: Made, leaf: Leaf, shape: ArrayShape) -> Option<InstrId> {
        let known = self.borders.iter().position(|border| border.value == value);
        let Some(number) = known else {
            let number = self.borders.len();
            self.borders.push(Border { value, shape, partial: leaf.partial });
            let id = self.param(number, leaf)?;
            self.params.insert((number, leaf.layout), id);
            return Some(id);
        };
        // Summands of one value over two sets of axes are two ways to cut one input.
        if self.borders[number].partial != leaf.partial {
            return None;
        }
        if let Some(&id) = self.params.get(&(number, leaf.layout)) {
            return Some(id);
        }
        let (_, &first) = self.params.iter().find(|((other, _), _)| *other == number)?;
        let name = format!("p{number}.move{}", self.params.len());
        let id = self.draft.movement(&name, first);
        self.lay_out(id, leaf);
        self.params.insert((number, leaf.layout), id);
        Some(id)
    }

    fn param(&mut self, number: usize, leaf: Leaf) -> Option<InstrId> {
        let name = format!("p{number}");
        let shape = param_shape(&self.borders[number], self.mesh());
        let id = self.draft.param(&name, number, shape);
        if leaf.partial == 0 {
            self.lay_out(id, leaf);
            return Some(id);
        }
        let axes = 0..self.mesh().n_axes();
        let layout = axes.fold(Layout::REPLICATED, |layout, axis| match leaf.partial >> axis & 1 {
            1 => layout.with(axis, Some(0)),
            _ => layout.with(axis, leaf.layout.dim_of(axis).map(|dim| dim + 1)),
        });
        self.lay_out(id, Leaf { layout, stage: 0, partial: 0 });
        let [zero, sum] = self.draft.sum(&name, id)?;
        self.lay_out(zero, Leaf::default());
        self.lay_out(sum, leaf);
        Some(sum)
    }

    /// The value itself where the plan has summands of it.
    pub fn whole(&mut self, made: Made, id: InstrId) -> InstrId {
        let leaf = self.facts(made);
        if leaf.partial == 0 {
            return id;
        }
        let name = format!("{}.whole", self.draft.instrs[id.index()].name);
        let whole = self.draft.movement(&name, id);
        self.lay_out(whole, Leaf { partial: 0, ..leaf });
        whole
    }

    /// The plan's piece; what only the program's reads, from number `n_read` on, has parameters too.
    pub fn finish(mut self, made: &[InstrId], borders: Vec<Border>, n_read: usize) -> Option<Module> {
        self.borders = borders;
        for number in n_read..self.borders.len() {
            self.param(number, Leaf::default())?;
        }
        let mesh = self.mesh().clone();
        let tiling = |id: &InstrId| match self.draft.instrs[id.index()].sharding() {
            Some(Sharding::Single(tiling)) => tiling.clone(),
            _ => {
                let rank = self.draft.instrs[id.index()].shape.as_array().map_or(0, ArrayShape::rank);
                Layout::REPLICATED.to_tiling(rank, &mesh)
            }
        };
        let tilings = made.iter().map(tiling).collect();
        let mut module = self.draft.finish(made);
        let (entry, root) = (module.entry.index(), module.entry().root.index());
        let sharding = Value::Sharding(Box::new(Sharding::Tuple(tilings)));
        module.comps[entry].instrs[root].set_attr(Key::Sharding, sharding);
        module.set_attr("num_partitions", mesh.n_devices().to_string());
        module.set_note(notes::MESH, &mesh.to_string());
        module.set_note(notes::PLAN, "{}");
        Some(module)
    }
}
