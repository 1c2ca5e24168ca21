//! What a choice means for every tensor: the layout it is written in, and what each reader wants.

use super::model::{Model, Use};
use super::reshard_cost::{Source, Step};
use super::sharding_request::Want;
use super::strategies::{Strategy, partial_axes};
use super::strategy_map;
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::is_shaped;
use phzc_analysis::graph::{NodeId, TensorId};
use phzc_cost::Collective;
use phzc_ir::{FactorKind, Layout, MAX_AXES, Mesh, Rule};
use phzc_plan::derive::Move;

/// What every tensor's layout is, and what every reader wants.
pub struct Decision<'m, 'a> {
    pub(super) model: &'m mut Model<'a>,
    pub(super) strategies: Vec<Strategy>,
    pub(super) layouts: Vec<Layout>,
    /// Per tensor: what all readings want, if that is one: its sum, if it is made partial, is done on the way
    /// there.
    sums_elsewhere: Vec<Option<Want>>,
    /// Per tensor: the axes over which it is written as a sum that is still to be done.
    pub(super) partial: Vec<u8>,
}

impl<'m, 'a> Decision<'m, 'a> {
    /// Settles all layouts under a choice of one strategy per block.
    pub fn new(model: &'m mut Model<'a>, option: &[u32]) -> Decision<'m, 'a> {
        let strategies: Vec<Strategy> =
            model.menus.iter().zip(option).map(|(menu, &option)| menu.strategies[option as usize]).collect();
        let n_tensors = model.input.graph.tensors.len();
        let (layouts, partial) = (vec![Layout::REPLICATED; n_tensors], vec![0; n_tensors]);
        let sums_elsewhere = sums_elsewhere(model, &strategies);
        let mut decision = Decision { model, strategies, layouts, sums_elsewhere, partial };
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
            self.partial[tensor as usize] = self.left(tensor, block);
        }
    }

    /// The axes over which a tensor is written partial: all that it is partial over, if some of it is read
    /// so.
    fn left(&self, tensor: TensorId, block: BlockId) -> u8 {
        let kept = partial_axes(&self.strategies[block as usize]);
        let reader = self.model.deferred[tensor as usize].map(|index| &self.model.uses[index as usize]);
        let reader = reader.map(|it| self.model.wanted(it, &self.strategies[it.block as usize]));
        let wanted = reader.or(self.sums_elsewhere[tensor as usize]).map_or(0, |want| want.partial);
        if kept | wanted == 0 { 0 } else { self.source(tensor, block).partial | kept }
    }

    /// A tensor as it is written.
    pub(super) fn written(&self, tensor: TensorId) -> Want {
        Want { layout: self.layouts[tensor as usize], partial: self.partial[tensor as usize] }
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
                    let need = self.need(id, slot as u32).layout;
                    let joined = wanted[operand as usize].map_or(need, |old| common(old, need));
                    wanted[operand as usize] = Some(joined);
                }
            }
        }
    }

    /// What a node reads an operand as.
    pub(super) fn need(&self, id: NodeId, slot: u32) -> Want {
        let (graph, blocks) = (self.model.input.graph, self.model.input.blocks);
        let node = &graph.nodes[id as usize];
        if let Some(block) = blocks.block_of[id as usize] {
            let view = self.model.menus[block as usize].view(blocks.use_map(id, slot as usize));
            let tensor = node.operands[slot as usize];
            let is_summand = self.model.takes_summand(block, id, slot);
            let it = Use { tensor, reader: Some((id, slot)), block, view, is_summand, trips: 1.0 };
            let want = self.model.wanted(&it, &self.strategies[block as usize]);
            // Zeros are summands as they are.
            let partial = if graph.tensors[tensor as usize].is_free { 0 } else { want.partial };
            return Want { partial, ..want };
        }
        match node.results.first() {
            Some(&result) if graph.tensors[result as usize].is_free => {
                through(&node.rule, slot as usize, self.layouts[result as usize]).into()
            }
            _ => Want::default(),
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
            Some(_) => self.model.made(tensor, strategy),
            None => self.model.settled(tensor, strategy),
        }
    }

    /// Where a tensor is made again for a reader: what of `Model::made_of` is moved instead.
    pub(super) fn remade(&mut self, tensor: TensorId, target: Want) -> Option<usize> {
        let def = self.model.input.graph.tensors[tensor as usize].def;
        let block = self.model.input.blocks.block_of[def as usize]?;
        let source = self.source(tensor, block);
        let moved_secs = self.model.moved_secs(tensor, source, target);
        self.model.remade(tensor, source, target, moved_secs).map(|remade| remade.at)
    }

    /// Steps that bring a tensor, as it is written, to a layout.
    ///
    /// An instruction whose sums nobody takes undone is written with its reductions done, so an all-reduce is
    /// no step of its own and a reduce-scatter is the slice after it: XLA's partitioner inserts what was
    /// planned for this form only, and its ReduceScatterCreator joins the two (docs/xla-judge.md).
    pub(super) fn steps(&mut self, tensor: TensorId, target: Want) -> Vec<Step> {
        let graph = self.model.input.graph;
        let written = self.layouts[tensor as usize];
        if !is_shaped(graph, tensor) {
            let slice = Step::of(Move { kind: None, axes: 0, layout: target.layout }, 0);
            return if written == target.layout { Vec::new() } else { vec![slice] };
        }
        let block = self.model.input.blocks.block_of[graph.tensors[tensor as usize].def as usize];
        let source = block.map_or(written.into(), |block| self.source(tensor, block));
        if target == self.written(tensor) {
            return Vec::new();
        }
        let shared = self.partial[tensor as usize] & !source.partial;
        let mut steps = self.model.steps(tensor, source, target);
        if shared != 0 {
            let (kind, layout) = (Some(Collective::AllReduce), source.layout);
            steps.insert(0, Step::of(Move { kind, axes: shared, layout }, source.partial));
        }
        if self.partial[tensor as usize] == 0 {
            steps.retain(|step| step.kind() != Some(Collective::AllReduce));
            steps.iter_mut().for_each(|step| step.partial = 0);
        }
        steps
    }
}

/// Per tensor: what its readings want, if all of them do its sum on the way there.
fn sums_elsewhere(model: &Model, strategies: &[Strategy]) -> Vec<Option<Want>> {
    let mut found = vec![None; model.n_readers.len()];
    for (tensor, uses) in model.readings() {
        let is_so = model.sums_elsewhere(tensor, &uses, strategies);
        found[tensor as usize] = is_so.then(|| model.target(uses[0], strategies));
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
pub(super) fn through(rule: &Rule, slot: usize, layout: Layout) -> Layout {
    let (Some(result), Some(operand)) = (rule.results.first(), rule.operands.get(slot)) else {
        return Layout::REPLICATED;
    };
    (0..MAX_AXES).fold(Layout::REPLICATED, |found, axis| {
        let factor = layout.dim_of(axis).and_then(|dim| result.get(dim)?.first().copied());
        let dim = factor.and_then(|factor| operand.iter().position(|dim| dim.first() == Some(&factor)));
        found.with(axis, dim)
    })
}
