//! What GSPMD's partitioner makes of an op whose operands and result have these layouts: the loops that it
//! splits, the layouts in which it reads its operands, and the one in which its result comes about.

use super::flow::Flow;
use super::idle::{Regrouped, regroup};
use super::spread::refines;
use phzc_analysis::graph::TensorId;
use phzc_ir::{FactorId, FactorKind, Layout, MAX_AXES, Opcode, TensorMap};
use phzc_plan::pricing::AxisMask;

/// The layouts with which one op works.
pub(super) struct Partition {
    /// Per operand leaf.
    pub(super) operands: Vec<Way>,
    /// An axis that should be two, with the size of the first.
    pub(super) cut: Option<(usize, i64)>,
    /// Of its first result, before it is brought to where it is wanted.
    pub(super) result: Layout,
}

/// How an operand gets to where it is read. Operands that go the same way share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) to: Layout,
    /// Layouts in between.
    pub(super) via: [Option<Layout>; 2],
    /// The axes that cut the op into groups of devices before the operand is moved.
    pub(super) groups: AxisMask,
}

pub(super) type Split = [Option<FactorId>; MAX_AXES];

/// The partition of a node.
pub(super) fn partition(flow: &Flow, node: usize, layouts: &[Layout]) -> Partition {
    let of = Op { flow, node, layouts };
    let wanted =
        flow.graph.nodes[node].results.first().map_or(Layout::REPLICATED, |&id| layouts[id as usize]);
    match flow.opcodes[node] {
        Some(Opcode::Concatenate) => of.concatenation(wanted),
        Some(Opcode::Slice) => of.slice(wanted),
        Some(Opcode::Reduce) => of.by(of.split_of_operand(0)),
        Some(Opcode::Dot) => of.dot(),
        Some(Opcode::Convolution | Opcode::Gather | Opcode::Scatter) => of.by(of.product()),
        _ => {
            let partition = of.by(of.split_of_result());
            Partition { result: wanted, ..partition }
        }
    }
}

pub(super) struct Op<'a> {
    pub(super) flow: &'a Flow<'a>,
    node: usize,
    layouts: &'a [Layout],
}

impl Op<'_> {
    fn split(&self, tensor: TensorId, map: &TensorMap) -> Split {
        let mut split = [None; MAX_AXES];
        let (loops, _) = self.flow.loops(self.flow.rule(self.node), map, self.layouts[tensor as usize]);
        loops.into_iter().for_each(|(axis, of)| split[axis] = Some(of));
        split
    }

    fn split_of_operand(&self, slot: usize) -> Split {
        self.split(self.flow.graph.nodes[self.node].operands[slot], &self.flow.rule(self.node).operands[slot])
    }

    fn split_of_result(&self) -> Split {
        match self.flow.graph.nodes[self.node].results.first() {
            Some(&result) => self.split(result, &self.flow.rule(self.node).results[0]),
            None => [None; MAX_AXES],
        }
    }

    /// The layouts of an op whose loops are split like this.
    fn by(&self, split: Split) -> Partition {
        let (rule, node) = (self.flow.rule(self.node), &self.flow.graph.nodes[self.node]);
        let loops: Vec<(usize, FactorId)> =
            split.iter().enumerate().filter_map(|(axis, of)| Some((axis, (*of)?))).collect();
        let layout = |(&id, map): (&TensorId, &TensorMap)| self.flow.layout_of(rule, (id, map), &loops);
        let operands = node.operands.iter().zip(&rule.operands).map(layout).enumerate();
        let way = |(slot, to)| Way { to, via: [None; 2], groups: self.groups(slot, split) };
        let operands = operands.map(way).collect();
        let result = node.results.iter().zip(&rule.results).map(layout).next().unwrap_or_default();
        Partition { operands, cut: None, result }
    }

    /// A product is grouped by its batch loops first, then by loops of one operand that the result has too,
    /// and in the end by its sums.
    fn groups(&self, slot: usize, split: Split) -> AxisMask {
        let held = self.split_of_operand(slot);
        let axes = 0..self.flow.mesh.n_axes();
        let mut left = axes.clone().filter(|&axis| held[axis] != split[axis]).filter_map(|axis| held[axis]);
        let is_last = left.any(|of| self.is_summed(of));
        let is_before = |of: FactorId| self.is_batch(of) || is_last && !self.is_summed(of);
        let kept = axes.filter(|&axis| held[axis] == split[axis] && held[axis].is_some_and(is_before));
        kept.fold(0, |mask, axis| mask | 1 << axis)
    }

    /// Whether all operands and results have a loop.
    fn is_batch(&self, of: FactorId) -> bool {
        let rule = self.flow.rule(self.node);
        rule.operands.iter().chain(&rule.results).all(|map| has(map, of))
    }

    /// What is left of a dimension with fewer elements than tiles is taken where it lies.
    fn slice(&self, wanted: Layout) -> Partition {
        let (graph, mesh) = (self.flow.graph, self.flow.mesh);
        let node = &graph.nodes[self.node];
        let (held, left) =
            (self.layouts[node.operands[0] as usize], &graph.tensors[node.results[0] as usize].dims);
        let is_few = |axis: &usize| held.dim_of(*axis).is_some_and(|dim| left[dim] < held.tiles(dim, mesh));
        let is_idle = |axis: &usize| wanted.dim_of(*axis).is_none();
        let kept = (0..mesh.n_axes()).filter(|axis| is_idle(axis) && is_few(axis));
        let to = kept.fold(self.by(self.split_of_result()).operands[0].to, |layout, axis| {
            layout.with(axis, held.dim_of(axis))
        });
        Partition { operands: vec![Way { to, ..Way::default() }], cut: None, result: wanted }
    }

    /// Pieces are put together whole: axes along their dimension split the first other one that they can.
    fn concatenation(&self, wanted: Layout) -> Partition {
        let node = &self.flow.graph.nodes[self.node];
        let result = self.sizes(node.results[0]);
        let is_joined = |dim: &usize| node.operands.iter().any(|&id| self.sizes(id)[*dim] != result[*dim]);
        let joined = (0..result.len()).find(is_joined);
        let axes: Vec<usize> = joined.map(|dim| wanted.axes_of(dim).collect()).unwrap_or_default();
        let onto = |dim: Option<usize>| axes.iter().fold(wanted, |layout, &axis| layout.with(axis, dim));
        let mut others = (0..result.len()).filter(|&dim| Some(dim) != joined).map(|dim| onto(Some(dim)));
        let made = match axes.is_empty() {
            true => wanted,
            false => others.find(|&layout| self.divides(layout)).unwrap_or(onto(None)),
        };
        let way = Way { to: made, ..Way::default() };
        Partition { operands: vec![way; node.operands.len()], cut: None, result: made }
    }

    fn sizes(&self, id: TensorId) -> &[i64] {
        &self.flow.graph.tensors[id as usize].dims
    }

    /// Whether a layout divides all operands and results.
    fn divides(&self, layout: Layout) -> bool {
        let node = &self.flow.graph.nodes[self.node];
        node.operands.iter().chain(&node.results).all(|&id| layout.divides(self.sizes(id), self.flow.mesh))
    }

    fn dot(&self) -> Partition {
        let mut split = self.product();
        let held = [0, 1].map(|slot| self.split_of_operand(slot));
        let Regrouped { via, cut } = regroup(self, &held, self.split_of_result(), &mut split);
        let mut partition = Partition { cut, ..self.by(split) };
        if let Some((slot, moved)) = via {
            partition.operands[slot].via = moved.map(|split| Some(self.by(split?).operands[slot].to));
        }
        partition
    }

    pub(super) fn map(&self, slot: usize) -> &TensorMap {
        &self.flow.rule(self.node).operands[slot]
    }

    /// Whether an operand can be split like this by all of the axes.
    pub(super) fn is_whole(&self, slot: usize, split: Split) -> bool {
        let layout = self.by(split).operands[slot].to;
        (0..MAX_AXES).all(|axis| split[axis].is_none() || layout.dim_of(axis).is_some())
    }

    /// The loops of a product, axis by axis.
    fn product(&self) -> Split {
        let operands: Vec<Split> =
            (0..self.flow.rule(self.node).operands.len()).map(|slot| self.split_of_operand(slot)).collect();
        let result = self.split_of_result();
        let mut split = [None; MAX_AXES];
        for axis in 0..self.flow.mesh.n_axes() {
            let held: Vec<FactorId> = operands.iter().filter_map(|split| split[axis]).collect();
            split[axis] = self.agreed(&held, result[axis]);
        }
        let is_agreed = |axis: usize| operands.iter().all(|held| held[axis] == operands[0][axis]);
        let free = (0..self.flow.mesh.n_axes())
            .filter(|&axis| !is_agreed(axis) || !split[axis].is_some_and(|of| self.is_summed(of)));
        free.fold(split, |split, axis| self.cheaper(split, axis, result[axis]))
    }

    /// Where the result is wanted along another loop than the operands lie, the smaller movement is made:
    /// theirs or its own.
    fn cheaper(&self, split: Split, axis: usize, wanted: Option<FactorId>) -> Split {
        if split[axis].is_none() || wanted.is_none() || split[axis] == wanted {
            return split;
        }
        let mut other = split;
        other[axis] = wanted;
        if self.moved_bytes(other) < self.moved_bytes(split) { other } else { split }
    }

    /// Bytes that change hands, on one device, if the op's loops are split like this.
    fn moved_bytes(&self, split: Split) -> f64 {
        let (graph, mesh) = (self.flow.graph, self.flow.mesh);
        let (node, partition) = (&graph.nodes[self.node], self.by(split));
        let moved = |id: TensorId, from: Layout, to: Layout| match refines(to, from) {
            true => 0.0,
            false => graph.tensors[id as usize].bytes / from.n_tiles(mesh).min(to.n_tiles(mesh)) as f64,
        };
        let read = node.operands.iter().zip(&partition.operands);
        let read: f64 = read.map(|(&id, way)| moved(id, self.layouts[id as usize], way.to)).sum();
        let (result, made) = (node.results[0], partition.result);
        let is_partial = split.iter().flatten().any(|&of| self.is_summed(of));
        let summed =
            if is_partial { graph.tensors[result as usize].bytes / made.n_tiles(mesh) as f64 } else { 0.0 };
        read + summed + moved(result, made, self.layouts[result as usize])
    }

    /// Whether one device's result is smaller than an operand.
    pub(super) fn sums_less(&self, slot: usize, split: Split) -> bool {
        let (graph, mesh) = (self.flow.graph, self.flow.mesh);
        let node = &graph.nodes[self.node];
        let made = self.by(split).result.n_tiles(mesh) as f64;
        graph.tensors[node.results[0] as usize].bytes / made
            < graph.tensors[node.operands[slot] as usize].bytes
    }

    pub(super) fn is_summed(&self, of: FactorId) -> bool {
        matches!(self.flow.rule(self.node).factors[of as usize].kind, FactorKind::Reduce(_))
    }

    /// The loop of an axis: what the operands agree on, else what the result wants, else what is summed.
    fn agreed(&self, held: &[FactorId], wanted: Option<FactorId>) -> Option<FactorId> {
        let Some(&first) = held.first() else { return wanted };
        if held.iter().all(|&of| of == first) {
            return Some(first);
        }
        wanted
            .filter(|of| held.contains(of))
            .or_else(|| held.iter().copied().find(|&of| self.is_summed(of)))
            .or(Some(first))
    }
}

pub(super) fn has(map: &TensorMap, of: FactorId) -> bool {
    map.iter().any(|factors| factors.contains(&of))
}
