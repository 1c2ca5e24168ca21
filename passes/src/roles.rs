//! What the loops of a contraction are to its two operands.

use crate::graph::Node;
use phzc_ir::FactorKind;

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
