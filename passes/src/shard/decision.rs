//! What a choice means for every tensor: the layout it is written in, and what each reader wants.

use super::menu::{Strategy, layout};
use super::model::Model;
use super::moves::{Source, Step};
use super::strategy_map;
use crate::blocks::{BlockId, is_shaped};
use crate::graph::{NodeId, TensorId};
use phzc_cost::Collective;
use phzc_ir::{FactorKind, Layout, MAX_AXES, Mesh, Rule};

/// What every tensor's layout is, and what every reader wants.
pub struct Decision<'m, 'a> {
    pub(super) model: &'m mut Model<'a>,
    pub(super) strategies: Vec<Strategy>,
    pub(super) layouts: Vec<Layout>,
    /// Per tensor: whether its sum, if it is made partial, is done on the way to the one layout that all readings want.
    sums_elsewhere: Vec<bool>,
}

impl<'m, 'a> Decision<'m, 'a> {
    /// Settles all layouts under a choice of one strategy per block.
    pub fn new(model: &'m mut Model<'a>, option: &[u32]) -> Decision<'m, 'a> {
        let strategies: Vec<Strategy> =
            model.menus.iter().zip(option).map(|(menu, &option)| menu.strategies[option as usize]).collect();
        let layouts = vec![Layout::REPLICATED; model.input.graph.tensors.len()];
        let sums_elsewhere = sums_elsewhere(model, &strategies);
        let mut decision = Decision { model, strategies, layouts, sums_elsewhere };
        decision.settle();
        decision.settle_free();
        decision
    }

    /// The layout of every tensor, by id.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    fn settle(&mut self) {
        let graph = self.model.input.graph;
        for tensor in (0..graph.tensors.len() as TensorId).filter(|&tensor| is_shaped(graph, tensor)) {
            let Some(block) = self.model.input.blocks.block_of[graph.tensors[tensor as usize].def as usize]
            else {
                continue;
            };
            self.layouts[tensor as usize] =
                self.model.settled(tensor, &self.strategies[block as usize]).layout;
        }
    }

    /// A free tensor lies as all its readers want it; where they differ, whole: then each reader slices.
    fn settle_free(&mut self) {
        let graph = self.model.input.graph;
        let mut wanted: Vec<Option<Layout>> = vec![None; graph.tensors.len()];
        graph.outputs.iter().for_each(|&output| wanted[output as usize] = Some(Layout::REPLICATED));
        for id in (0..graph.nodes.len() as NodeId).rev() {
            let node = &graph.nodes[id as usize];
            for &result in node.results.iter().filter(|&&result| graph.tensors[result as usize].is_free) {
                let layout = wanted[result as usize].unwrap_or_default();
                let mesh = &self.model.mesh;
                self.layouts[result as usize] = legal(layout, &node.rule, &node.results, result, mesh);
            }
            for (slot, &operand) in node.operands.iter().enumerate() {
                if graph.tensors[operand as usize].is_free {
                    let need = self.need(id, slot as u32);
                    let joined = wanted[operand as usize].map_or(need, |old| common(old, need));
                    wanted[operand as usize] = Some(joined);
                }
            }
        }
    }

    /// The layout in which a node reads an operand.
    pub fn need(&self, id: NodeId, slot: u32) -> Layout {
        let (graph, blocks) = (self.model.input.graph, self.model.input.blocks);
        let node = &graph.nodes[id as usize];
        if let Some(block) = blocks.block_of[id as usize] {
            let view = self.model.menus[block as usize].view(blocks.use_map(id, slot as usize));
            return layout(&self.strategies[block as usize], &view);
        }
        match node.results.first() {
            Some(&result) if graph.tensors[result as usize].is_free => {
                through(&node.rule, slot as usize, self.layouts[result as usize])
            }
            _ => Layout::REPLICATED,
        }
    }

    /// Alpa's name of a contraction's strategy.
    pub(super) fn strategy(&self, id: NodeId) -> Option<String> {
        let input = &self.model.input;
        let block =
            input.blocks.block_of[id as usize].filter(|_| input.graph.nodes[id as usize].is_contraction)?;
        Some(strategy_map::name(self.model, id, &self.strategies[block as usize]))
    }

    /// A tensor as its readings find it.
    fn source(&self, tensor: TensorId, block: BlockId) -> Source {
        let strategy = &self.strategies[block as usize];
        match self.sums_elsewhere[tensor as usize] {
            true => self.model.made(tensor, strategy),
            false => self.model.settled(tensor, strategy),
        }
    }

    /// Steps that bring a tensor, as it is written, to a layout.
    ///
    /// An instruction is written with its reductions done, so an all-reduce is no step of its own and
    /// a reduce-scatter is the slice after it: XLA's partitioner inserts what was planned for this form
    /// only, and its ReduceScatterCreator joins the two (docs/xla-judge.md).
    pub(super) fn steps(&mut self, tensor: TensorId, target: Layout) -> Vec<Step> {
        let graph = self.model.input.graph;
        let written = self.layouts[tensor as usize];
        if !is_shaped(graph, tensor) {
            let slice = Step { kind: None, axes: 0, layout: target, partial: 0 };
            return if written == target { Vec::new() } else { vec![slice] };
        }
        let block = self.model.input.blocks.block_of[graph.tensors[tensor as usize].def as usize];
        let source = block.map_or(written.into(), |block| self.source(tensor, block));
        let mut steps = self.model.steps(tensor, source, target);
        steps.retain(|step| step.kind != Some(Collective::AllReduce));
        steps
    }
}

/// Per tensor: whether its readings do its sum, all in one layout.
fn sums_elsewhere(model: &Model, strategies: &[Strategy]) -> Vec<bool> {
    let mut found = vec![false; model.n_readers.len()];
    for (tensor, uses) in model.readings() {
        found[tensor as usize] = model.sums_elsewhere(tensor, &uses, strategies);
    }
    found
}

/// What both layouts can be sliced from: axes on which they agree, where no axis that either still
/// has to add would become a major one (slices add minor axes).
fn common(a: Layout, b: Layout) -> Layout {
    (0..MAX_AXES).fold(a, |layout, axis| match (a.dim_of(axis), b.dim_of(axis)) {
        (mine, other) if mine == other => layout,
        (mine, other) => {
            [mine, other].into_iter().flatten().fold(layout, |layout, dim| without_minor(layout, axis, dim))
        }
    })
}

/// The layout with `axis`, and the axes minor to it, no longer splitting `dim`.
fn without_minor(layout: Layout, axis: usize, dim: usize) -> Layout {
    (axis..MAX_AXES).fold(layout, |layout, minor| {
        if layout.dim_of(minor) == Some(dim) { layout.with(minor, None) } else { layout }
    })
}

/// The part of `layout` that the maker of a free tensor can make without communication: axes that split the
/// major-most loop of a dimension evenly.
fn legal(layout: Layout, rule: &Rule, results: &[TensorId], result: TensorId, mesh: &Mesh) -> Layout {
    let leaf = results.iter().position(|&other| other == result).unwrap_or(0);
    let Some(map) = rule.results.get(leaf) else { return Layout::REPLICATED };
    (0..MAX_AXES).fold(layout, |layout, axis| {
        let Some(dim) = layout.dim_of(axis) else { return layout };
        let tiles: i64 = layout.axes_of(dim).filter(|&it| it <= axis).map(|it| mesh.sizes[it]).product();
        let factor = map.get(dim).and_then(|factors| factors.first().copied());
        let is_legal = factor
            .map(|factor| rule.factors[factor as usize])
            .is_some_and(|factor| factor.kind == FactorKind::Pass && factor.size % tiles == 0);
        if is_legal { layout } else { without_minor(layout, axis, dim) }
    })
}

/// The layout of an operand that gives the first result this layout.
fn through(rule: &Rule, slot: usize, layout: Layout) -> Layout {
    let (Some(result), Some(operand)) = (rule.results.first(), rule.operands.get(slot)) else {
        return Layout::REPLICATED;
    };
    (0..MAX_AXES).fold(Layout::REPLICATED, |found, axis| {
        let factor = layout.dim_of(axis).and_then(|dim| result.get(dim)?.first().copied());
        let dim = factor.and_then(|factor| operand.iter().position(|dim| dim.first() == Some(&factor)));
        found.with(axis, dim)
    })
}
