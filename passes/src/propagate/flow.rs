//! What the layout of one tensor of an op says of another: along the loops that they share.

use phzc_analysis::batch::gcd;
use phzc_analysis::graph::{Graph, NodeId, NodeKind, TensorId};
use phzc_ir::{FactorId, FactorKind, Layout, Mesh, Module, Opcode, Rule, TensorMap};

/// The rules by which layouts pass through the ops of a graph.
pub(super) struct Flow<'a> {
    pub(super) graph: &'a Graph,
    pub(super) mesh: &'a Mesh,
    /// Per node: its opcode, none for what joins values.
    pub(super) opcodes: Vec<Option<Opcode>>,
    /// Per node: the rule of an op that hands tilings on though it moves elements between tiles.
    shifted: Vec<Option<Rule>>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(module: &Module, graph: &'a Graph, mesh: &'a Mesh) -> Flow<'a> {
        let opcodes: Vec<Option<Opcode>> =
            (0..graph.nodes.len()).map(|node| graph.opcode(module, node as NodeId)).collect();
        let shifted =
            opcodes.iter().enumerate().map(|(node, op)| op.and_then(|op| shifted(graph, node, op))).collect();
        Flow { graph, mesh, opcodes, shifted }
    }

    /// The loops of a node as propagation sees them.
    pub(super) fn rule(&self, node: usize) -> &Rule {
        self.shifted[node].as_ref().unwrap_or(&self.graph.nodes[node].rule)
    }

    /// Whether the op only hands elements on: GSPMD's first pass goes through these alone.
    pub(super) fn is_pass_through(&self, node: usize) -> bool {
        use Opcode::{Concatenate, Dot, DynamicSlice, DynamicUpdateSlice, Reshape, Transpose};
        match self.opcodes[node] {
            None => self.graph.nodes[node].kind != NodeKind::Source,
            Some(Transpose | Reshape | Concatenate | DynamicSlice | DynamicUpdateSlice) => true,
            Some(Dot) => false,
            Some(_) => self.is_elementwise(node),
        }
    }

    /// Whether all operands and results of a node have the same loops in the same dimensions.
    pub(super) fn is_elementwise(&self, node: usize) -> bool {
        let rule = &self.graph.nodes[node].rule;
        let Some(first) = rule.results.first() else { return false };
        let is_alike = |map: &TensorMap| map == first || map.is_empty();
        let is_kept = rule.factors.iter().all(|factor| factor.kind == FactorKind::Pass);
        !rule.operands.is_empty() && is_kept && rule.operands.iter().chain(&rule.results).all(is_alike)
    }

    /// The axes of a tensor's layout with the loop that each splits, major to minor; and the axes that would
    /// have to be cut in two to follow the loops, with the size of the first part.
    pub(super) fn loops(
        &self,
        rule: &Rule,
        map: &TensorMap,
        layout: Layout,
    ) -> (Vec<(usize, FactorId)>, Cuts) {
        let (mut found, mut cuts) = (Vec::new(), Vec::new());
        for (dim, factors) in map.iter().enumerate() {
            let mut loops = factors.iter().map(|&of| (of, rule.factors[of as usize].size));
            let mut current = loops.next();
            for axis in layout.axes_of(dim) {
                while current.is_some_and(|(_, left)| left == 1) {
                    current = loops.next();
                }
                let Some((of, left)) = current else { break };
                let (size, kind) = (self.mesh.sizes[axis], rule.factors[of as usize].kind);
                if left % size != 0 || !matches!(kind, FactorKind::Pass | FactorKind::Reduce(_)) {
                    cuts.extend(Some((axis, gcd(left, size))).filter(|&(_, part)| part > 1 && part < size));
                    break;
                }
                current = Some((of, left / size));
                found.push((axis, of));
            }
        }
        (found, cuts)
    }

    /// The layout of a tensor in which axes split these loops, where it has them.
    pub(super) fn layout_of(
        &self,
        rule: &Rule,
        (tensor, map): (TensorId, &TensorMap),
        loops: &[(usize, FactorId)],
    ) -> Layout {
        let dims = &self.graph.tensors[tensor as usize].dims;
        let mut layout = Layout::REPLICATED;
        for &(axis, of) in loops {
            let Some(dim) = map.iter().position(|factors| factors.contains(&of)) else { continue };
            let split = layout.with(axis, Some(dim));
            let (read, _) = self.loops(rule, map, split);
            if split.divides(dims, self.mesh) && read.contains(&(axis, of)) {
                layout = split;
            }
        }
        layout
    }
}

/// Axes with the size of the part that fits.
pub(super) type Cuts = Vec<(usize, i64)>;

/// Dimension by dimension the loops of an op whose result is tiled as its operands are.
fn shifted(graph: &Graph, node: usize, op: Opcode) -> Option<Rule> {
    if !matches!(
        op,
        Opcode::Slice | Opcode::Pad | Opcode::Concatenate | Opcode::Reverse | Opcode::ReduceWindow
    ) {
        return None;
    }
    let node = &graph.nodes[node];
    let result = &graph.tensors[*node.results.first()? as usize].dims;
    let alike = |id: &&TensorId| graph.tensors[**id as usize].dims.len() == result.len();
    let mut dims = result.to_vec();
    // Sizes differ where elements are cut off or added: what divides both can be split.
    for &id in node.operands.iter().filter(alike) {
        let sizes = graph.tensors[id as usize].dims.iter();
        dims.iter_mut().zip(sizes).for_each(|(dim, &size)| *dim = gcd(*dim, size));
    }
    let mut rule = Rule::default();
    let map = rule.fresh(&dims, FactorKind::Pass);
    let of = |id: &TensorId| if alike(&id) { map.clone() } else { TensorMap::new() };
    rule.operands = node.operands.iter().map(of).collect();
    rule.results = node.results.iter().map(of).collect();
    Some(rule)
}
