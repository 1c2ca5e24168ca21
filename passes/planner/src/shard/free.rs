//! Values that depend on constants only lie as their readers want them: each is priced with the block of its
//! first reader.

use super::model::Input;
use super::strategies::{Menu, View};
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::{Node, NodeId};
use phzc_analysis::phase::Phase;
use phzc_ir::FactorKind;

/// The reader that lays out what a node makes of constants.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// Its block.
    pub block: BlockId,
    /// How the block's loops lie in the node's result.
    pub view: View,
    /// The phase in which it is read.
    pub phase: Phase,
}

/// Per node: its anchor, if what it makes depends on constants only and somebody lays it out.
pub(super) fn anchors(input: &Input, menus: &[Menu]) -> Vec<Option<Anchor>> {
    let (graph, blocks) = (input.graph, input.blocks);
    let mut found: Vec<Option<Anchor>> = vec![None; graph.nodes.len()];
    for (id, node) in graph.nodes.iter().enumerate().rev() {
        let Some(&result) = node.results.first().filter(|&&it| graph.tensors[it as usize].is_free) else {
            continue;
        };
        let Some(&(reader, slot)) = graph.tensors[result as usize].uses.first() else { continue };
        let anchor = match (blocks.block_of[reader as usize], &found[reader as usize]) {
            (Some(block), _) => Anchor {
                block,
                view: menus[block as usize].view(blocks.use_map(reader, slot as usize)),
                phase: blocks.phases[reader as usize],
            },
            (None, Some(next)) => {
                let view = through(&graph.nodes[reader as usize], slot as usize, &next.view);
                Anchor { view, ..next.clone() }
            }
            (None, None) => continue,
        };
        found[id] = Some(Anchor { view: legal(node, anchor.view.clone()), ..anchor });
    }
    found
}

/// Per block: the nodes that are priced with it.
pub(super) fn by_block(anchors: &[Option<Anchor>], n_blocks: usize) -> Vec<Vec<NodeId>> {
    let mut found = vec![Vec::new(); n_blocks];
    for (id, anchor) in (0..).zip(anchors) {
        anchor.iter().for_each(|anchor| found[anchor.block as usize].push(id));
    }
    found
}

/// How loops that lie so in a node's result lie in an operand.
pub(super) fn through(node: &Node, slot: usize, view: &View) -> View {
    let dim_of = |&dim: &u8| {
        let factor = node.rule.results.first()?.get(usize::from(dim).checked_sub(1)?)?.first()?;
        node.rule.operands.get(slot)?.iter().position(|dim| dim.first() == Some(factor))
    };
    view.iter().map(|dim| dim_of(dim).map_or(0, |dim| dim as u8 + 1)).collect()
}

/// The loops that the maker of a result can split.
fn legal(node: &Node, mut view: View) -> View {
    let is_pass = |dim: u8| {
        let map = node.rule.results.first().and_then(|map| map.get(usize::from(dim) - 1));
        let factor = map.and_then(|factors| factors.first());
        factor.is_some_and(|&factor| node.rule.factors[factor as usize].kind == FactorKind::Pass)
    };
    view.iter_mut().filter(|dim| **dim > 0).for_each(|dim| *dim = if is_pass(*dim) { *dim } else { 0 });
    view
}
