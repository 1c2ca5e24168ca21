//! GSPMD's propagation: sharded values give their tilings to those that they are made of and that are made of
//! them, in rounds that let ever more ops hand them on, and never against what has been given.

use super::flow::{Cuts, Flow};
use phzc_analysis::graph::{NodeId, NodeKind, TensorId};
use phzc_ir::{Layout, Opcode};

/// The rounds: ops that hand elements on; products and reductions; broadcasts from their results; broadcasts.
const ROUNDS: u8 = 4;

pub(super) struct Propagation<'a> {
    pub(super) flow: &'a Flow<'a>,
    /// What the program says itself.
    pub(super) is_fixed: Vec<bool>,
    pub(super) layouts: Vec<Layout>,
    /// Layouts in which the program's results are wanted.
    pub(super) outputs: Vec<(TensorId, Layout)>,
    /// Whether Shardy propagates: it takes no tiling back, and every reader has constants of its own.
    pub(super) is_shardy: bool,
    round: u8,
    /// Axes of which a part fits a loop.
    pub(super) cuts: Cuts,
}

impl<'a> Propagation<'a> {
    pub(super) fn new(
        flow: &'a Flow<'a>,
        given: &[Option<Layout>],
        outputs: Vec<(TensorId, Layout)>,
    ) -> Self {
        Propagation {
            flow,
            is_fixed: given.iter().map(Option::is_some).collect(),
            layouts: given.iter().map(|layout| layout.unwrap_or_default()).collect(),
            outputs,
            is_shardy: false,
            round: 0,
            cuts: Cuts::new(),
        }
    }

    /// Each round goes forward and back until nothing changes. A layout only ever gets more tiles, so this
    /// comes to an end.
    pub(super) fn run(&mut self) {
        let n_nodes = self.flow.graph.nodes.len();
        for round in 0..ROUNDS {
            self.round = round;
            let mut is_changed = true;
            while is_changed {
                is_changed = false;
                for node in 0..n_nodes {
                    is_changed |= self.forward(node);
                }
                for node in (0..n_nodes).rev() {
                    is_changed |= self.backward(node);
                }
            }
        }
    }

    /// Gives a node's results the layouts of its operands.
    fn forward(&mut self, node: usize) -> bool {
        let is_broadcast = self.flow.opcodes[node] == Some(Opcode::Broadcast);
        if is_broadcast && self.round < 3 || self.round == 0 && !self.flow.is_pass_through(node) {
            return false;
        }
        let results = self.flow.graph.nodes[node].results.clone();
        let mut is_changed = false;
        for (leaf, result) in results.into_iter().enumerate() {
            is_changed |= match self.flow.opcodes[node] {
                Some(Opcode::Dot | Opcode::Convolution) => self.product(node, result),
                _ => self.take_operands(node, leaf, result),
            };
        }
        is_changed
    }

    fn take_operands(&mut self, node: usize, leaf: usize, result: TensorId) -> bool {
        let slots = 0..self.flow.graph.nodes[node].operands.len();
        let slots = slots.filter(|&slot| !self.is_own_constant(node, slot)).collect::<Vec<_>>();
        let offered = slots.into_iter().map(|slot| self.of_result(node, slot, leaf));
        let mut candidates: Vec<Layout> = offered.filter(|layout| !layout.is_replicated()).collect();
        if self.round == 0 && self.flow.is_elementwise(node) {
            let tiles = |layout: Layout| layout.n_tiles(self.flow.mesh);
            let best = candidates.iter().copied().reduce(|a, b| if tiles(b) > tiles(a) { b } else { a });
            candidates = best.into_iter().collect();
        }
        let is_alone = self.flow.graph.nodes[node].operands.len() == 1 && self.n_readers(result) == 1;
        candidates
            .into_iter()
            .fold(false, |is_changed, layout| self.improve(result, layout, is_alone) | is_changed)
    }

    /// Whether an operand is a constant that the reader has for itself: it does not say where to split.
    fn is_own_constant(&self, node: usize, slot: usize) -> bool {
        let node = &self.flow.graph.nodes[node];
        let is_free = |id: &TensorId| self.flow.graph.tensors[*id as usize].is_free;
        self.is_shardy && is_free(&node.operands[slot]) && !node.results.iter().all(is_free)
    }

    /// Of a product's operands, the one whose tiling the reader wants is followed first, else the larger.
    fn product(&mut self, node: usize, result: TensorId) -> bool {
        let offered = [0, 1].map(|slot| self.of_result(node, slot, 0));
        let improved = offered.map(|layout| self.improved(result, layout, false));
        let [Some(lhs), Some(rhs)] = improved else {
            let Some(only) = improved[0].or(improved[1]) else { return false };
            return self.improve(result, only, false);
        };
        let wanted = self.lookahead(result);
        let fits = |layout: Layout| wanted.is_some_and(|wanted| refines(wanted, layout));
        let operands = &self.flow.graph.nodes[node].operands;
        let is_second = match (fits(lhs), fits(rhs)) {
            (true, false) => false,
            (false, true) => true,
            _ => self.bytes(operands[0]) < self.bytes(operands[1]),
        };
        let (first, second) = if is_second { (rhs, lhs) } else { (lhs, rhs) };
        self.layouts[result as usize] = first;
        self.improve(result, second, false);
        true
    }

    /// What the end of the chain of single readers of a tensor wants of it.
    fn lookahead(&mut self, tensor: TensorId) -> Option<Layout> {
        let [(user, slot)] = self.flow.graph.tensors[tensor as usize].uses[..] else { return None };
        let node = user as usize;
        if self.flow.graph.nodes[node].kind != NodeKind::Op {
            return None;
        }
        let &result = self.flow.graph.nodes[node].results.first()?;
        let held = self.layouts[result as usize];
        let is_set = !held.is_replicated() || self.is_fixed[result as usize];
        let wanted = if is_set { held } else { self.lookahead(result)? };
        Some(self.through(node, wanted, slot as usize))
    }

    /// Gives what a node makes the layouts that its readers want.
    fn backward(&mut self, node: usize) -> bool {
        if self.flow.opcodes[node] == Some(Opcode::Broadcast) && self.round < 2 {
            return false;
        }
        let mut is_changed = false;
        for result in self.flow.graph.nodes[node].results.clone() {
            for (user, slot) in self.flow.graph.tensors[result as usize].uses.clone() {
                let wanted = self.of_operand(user, slot as usize);
                is_changed |= wanted.is_some_and(|wanted| self.improve(result, wanted, false));
            }
            for (_, wanted) in self.outputs.clone().into_iter().filter(|(id, _)| *id == result) {
                is_changed |= self.improve(result, wanted, false);
            }
        }
        is_changed
    }

    /// What a reader wants of its operand.
    fn of_operand(&mut self, user: NodeId, slot: usize) -> Option<Layout> {
        let node = user as usize;
        let is_early = match self.flow.opcodes[node] {
            Some(Opcode::Broadcast) => self.round < 2,
            Some(Opcode::Concatenate | Opcode::DynamicSlice | Opcode::DynamicUpdateSlice) => self.round < 1,
            _ => self.round < 1 && !self.flow.is_pass_through(node),
        };
        let leaf = self.flow.graph.nodes[node].results.len().checked_sub(1)?.min(slot);
        let result = self.flow.graph.nodes[node].results[leaf];
        let held = self.layouts[result as usize];
        if is_early || held.is_replicated() || self.flow.graph.nodes[node].kind == NodeKind::Source {
            return None;
        }
        let wanted = self.through_leaf(node, held, leaf, slot);
        let is_product = matches!(self.flow.opcodes[node], Some(Opcode::Dot | Opcode::Convolution));
        Some(if is_product && slot < 2 { self.beside(node, slot, wanted) } else { wanted })
    }

    /// What a product wants of an operand, with what the other operand says of their common loops.
    fn beside(&mut self, node: usize, slot: usize, wanted: Layout) -> Layout {
        let (rule, operands) = (self.flow.rule(node), &self.flow.graph.nodes[node].operands);
        let other = 1 - slot;
        let (loops, _) = self.flow.loops(rule, &rule.operands[other], self.layouts[operands[other] as usize]);
        let beside = self.flow.layout_of(rule, (operands[slot], &rule.operands[slot]), &loops);
        self.merged(wanted, beside).unwrap_or(wanted)
    }

    fn of_result(&mut self, node: usize, slot: usize, leaf: usize) -> Layout {
        let rule = self.flow.rule(node);
        let (operand, result) =
            (self.flow.graph.nodes[node].operands[slot], self.flow.graph.nodes[node].results[leaf]);
        let (loops, cuts) = self.flow.loops(rule, &rule.operands[slot], self.layouts[operand as usize]);
        self.cuts.extend(cuts);
        self.flow.layout_of(rule, (result, &rule.results[leaf]), &loops)
    }

    fn through(&mut self, node: usize, held: Layout, slot: usize) -> Layout {
        self.through_leaf(node, held, 0, slot)
    }

    fn through_leaf(&mut self, node: usize, held: Layout, leaf: usize, slot: usize) -> Layout {
        let rule = self.flow.rule(node);
        let (loops, cuts) = self.flow.loops(rule, &rule.results[leaf], held);
        self.cuts.extend(cuts);
        let operand = self.flow.graph.nodes[node].operands[slot];
        self.flow.layout_of(rule, (operand, &rule.operands[slot]), &loops)
    }

    fn improve(&mut self, tensor: TensorId, layout: Layout, may_replace: bool) -> bool {
        let improved = self.improved(tensor, layout, may_replace);
        if let Some(layout) = improved {
            self.layouts[tensor as usize] = layout;
        }
        improved.is_some()
    }

    /// The better layout that a tensor gets from this one: both together, or this one if it splits further
    /// what the tensor's own splits. It may take its place where nobody else reads the tensor.
    fn improved(&self, tensor: TensorId, layout: Layout, may_replace: bool) -> Option<Layout> {
        let (mesh, own) = (self.flow.mesh, self.layouts[tensor as usize]);
        if self.is_fixed[tensor as usize] || layout.is_replicated() {
            return None;
        }
        let merged = (self.round > 0).then(|| self.merged(own, layout)).flatten();
        let dims = &self.flow.graph.tensors[tensor as usize].dims;
        let merged = merged.filter(|it| it.n_tiles(mesh) > layout.n_tiles(mesh) && it.divides(dims, mesh));
        let better = merged.or_else(|| {
            let is_finer = layout.n_tiles(mesh) > own.n_tiles(mesh);
            (is_finer && (!self.is_shardy && may_replace || refines(layout, own))).then_some(layout)
        });
        better.filter(|&better| better != own)
    }

    /// Both layouts together, if no axis splits two dimensions and no dimension is split in two ways.
    fn merged(&self, own: Layout, other: Layout) -> Option<Layout> {
        let axes = 0..self.flow.mesh.n_axes();
        let is_alike = |dim: usize| own.axes_of(dim).eq(other.axes_of(dim));
        let is_free = |dim: usize| own.axes_of(dim).next().is_none();
        axes.into_iter().try_fold(own, |layout, axis| match (own.dim_of(axis), other.dim_of(axis)) {
            (_, None) => Some(layout),
            (None, Some(dim)) => is_free(dim).then(|| layout.with(axis, Some(dim))),
            (Some(held), Some(dim)) => (held == dim && is_alike(dim)).then_some(layout),
        })
    }

    fn n_readers(&self, tensor: TensorId) -> usize {
        self.flow.graph.tensors[tensor as usize].uses.len()
    }

    fn bytes(&self, tensor: TensorId) -> f64 {
        self.flow.graph.tensors[tensor as usize].bytes
    }
}

/// Whether every axis of `coarse` splits the same dimension in `fine`.
pub(super) fn refines(fine: Layout, coarse: Layout) -> bool {
    (0..phzc_ir::MAX_AXES).all(|axis| coarse.dim_of(axis).is_none_or(|dim| fine.dim_of(axis) == Some(dim)))
}
