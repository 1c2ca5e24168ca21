//! What the loops of a contraction are to its two operands.

use crate::blocks::Blocks;
use crate::classes::ClassId;
use crate::graph::Node;
use crate::graph::{Graph, NodeId};
use phzc_ir::FactorKind;
use smallvec::SmallVec;

/// A loop's role, in the order in which Alpa enumerates strategies (reference/cfp-alpa.md 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Of the right operand and the result: `n`.
    Right,
    /// Of the left operand and the result: `m`.
    Left,
    /// Of both operands; the result sums over it: `k`.
    Contracted,
    /// Of both operands and the result.
    Batch,
}

/// A contraction's loops of more than one iteration: factor and role, in Alpa's order.
pub fn roles(node: &Node) -> Vec<(usize, Role)> {
    let role = |factor: usize| match (has(node, 0, factor), has(node, 1, factor)) {
        _ if matches!(node.rule.factors[factor].kind, FactorKind::Reduce(_)) => Role::Contracted,
        (true, true) => Role::Batch,
        (false, true) => Role::Right,
        _ => Role::Left,
    };
    let loops = (0..node.rule.factors.len()).filter(|&factor| node.rule.factors[factor].size > 1);
    let mut found: Vec<(usize, Role)> = loops.map(|factor| (factor, role(factor))).collect();
    found.sort_by_key(|&(factor, role)| (role, factor));
    found
}

/// Whether an operand has a dimension that a factor runs over.
pub fn has(node: &Node, slot: usize, factor: usize) -> bool {
    let map = node.rule.operands.get(slot);
    map.is_some_and(|map| map.iter().flatten().any(|&other| other as usize == factor))
}

/// Alpa's strategies of a product on a 1-D mesh are the loops in the order of [`Role`]. This is, per strategy
/// of the block's entry, the member's own: the one that splits the same loop, else, where the member's loop
/// of that role is its own, that one; none where neither is there.
pub fn image(graph: &Graph, blocks: &Blocks, entry: NodeId, member: NodeId) -> Vec<Option<usize>> {
    let (own, first) = (strategies(graph, blocks, member), strategies(graph, blocks, entry));
    let is_tied = |class: ClassId| first.iter().any(|&(other, _)| other == class);
    let of = |&(class, role): &(ClassId, Role)| {
        let same = own.iter().position(|&(other, _)| other == class);
        same.or_else(|| own.iter().position(|&(other, its)| its == role && !is_tied(other)))
    };
    first.iter().map(of).collect()
}

/// The loops of a product in Alpa's order, each with the class that axes split first.
pub fn strategies(graph: &Graph, blocks: &Blocks, id: NodeId) -> Vec<(ClassId, Role)> {
    let class = |factor: usize| {
        let whole = blocks.node_classes[id as usize][factor];
        let mut parts = SmallVec::new();
        blocks.classes.leaves(whole, &mut parts);
        parts.first().copied().unwrap_or(whole)
    };
    roles(&graph.nodes[id as usize]).into_iter().map(|(factor, role)| (class(factor), role)).collect()
}
