//! The parts of what a strategy takes: kernels, what is reduced inside, reshards from and to the neighbours.

use super::loops::name;
use crate::shard::model::Model;
use crate::shard::pricer::NodePricer;
use crate::shard::reshard_attribution::Paid;
use crate::shard::reshard_cost::{Source, message_bytes};
use crate::shard::sharding_request::Want;
use crate::shard::strategies::Strategy;
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::TensorId;
use phzc_ir::Module;
use phzc_pass::explanation::{Considered, Movement, Part, Term};
use phzc_plan::pricing;

/// The parts of a block's time under a choice, without those that take none.
pub(super) fn of(module: &Module, model: &mut Model, block: BlockId, own: &[u32], paid: &Paid) -> Vec<Term> {
    let strategy = model.menus[block as usize].strategies[own[block as usize] as usize];
    let mut terms = vec![kernels(model, block, &strategy)];
    terms.extend(inside(module, model, block, &strategy, paid));
    let indices: Vec<usize> = (0..model.uses.len()).filter(|&index| touches(model, index, block)).collect();
    terms.extend(indices.into_iter().map(|index| reshard(module, model, index, block, (own, paid))));
    terms.retain(|term| term.secs > 0.0);
    terms
}

fn kernels(model: &Model, block: BlockId, strategy: &Strategy) -> Term {
    let members = model.input.blocks.members[block as usize].iter().chain(&model.anchored[block as usize]);
    let secs = members.map(|&node| NodePricer::new(model, node).secs(model, strategy)).sum();
    Term { what: "kernels of the block".to_owned(), part: Part::Kernels, moves: Vec::new(), secs, times: 1.0 }
}

/// What settles the values that the block makes.
fn inside(module: &Module, model: &mut Model, block: BlockId, strategy: &Strategy, paid: &Paid) -> Vec<Term> {
    let mut terms = Vec::new();
    for node in model.input.blocks.members[block as usize].clone() {
        let results = &model.input.graph.nodes[node as usize].results;
        let secs: f64 = results.iter().map(|&result| paid.home[result as usize]).sum();
        // Results of one node are reduced together.
        if let Some(&result) = results.first().filter(|_| secs > 0.0) {
            let (source, target) = (model.made(result, strategy), Want::of(model.settled(result, strategy)));
            let (what, part) = (format!("inside, of `{}`", name(module, model, node)), Part::Inside);
            let (moves, times) =
                (movements(model, result, source, target), model.input.graph.nodes[node as usize].trips);
            terms.push(Term { what, part, moves, secs, times });
        }
    }
    terms
}

/// Whether a use leaves or enters a block.
fn touches(model: &Model, index: usize, block: BlockId) -> bool {
    let it = &model.uses[index];
    it.block == block || model.maker(it.tensor) == Some(block)
}

fn reshard(
    module: &Module,
    model: &mut Model,
    index: usize,
    block: BlockId,
    (own, paid): (&[u32], &Paid),
) -> Term {
    let (secs, source) = paid.uses[index];
    let it = model.uses[index].clone();
    let made = name(module, model, model.input.graph.tensors[it.tensor as usize].def);
    let reader =
        it.reader.map_or("the result".to_owned(), |(node, _)| format!("`{}`", name(module, model, node)));
    let what = format!("`{made}` for {reader}");
    let part = if it.block == block { Part::Read(it.tensor) } else { Part::Written };
    let strategy = model.menus[it.block as usize].strategies[own[it.block as usize] as usize];
    let target = model.wanted(&it, &strategy);
    let moves = if secs > 0.0 { movements(model, it.tensor, source, target) } else { Vec::new() };
    Term { what, part, moves, secs, times: it.trips }
}

fn movements(model: &mut Model, tensor: TensorId, source: Source, target: Want) -> Vec<Movement> {
    let steps = model.steps(tensor, source, target);
    let (mesh, bytes) = (&model.mesh, model.input.graph.tensors[tensor as usize].bytes);
    let mut before = source.layout;
    let mut found = Vec::new();
    for step in steps.iter().flat_map(|step| &step.moves) {
        let bytes = message_bytes(step, before, mesh, bytes);
        // A slice is local.
        found.extend(step.kind.map(|kind| Movement {
            kind: kind.as_str(),
            axes: pricing::axes_of(step.axes).map(|axis| mesh.axis_name(axis).to_owned()).collect(),
            bytes,
            secs: pricing::collective_secs(model.input.cluster, mesh, kind, step.axes, bytes),
        }));
        before = step.layout;
    }
    found
}

/// What a strategy costs whatever the neighbours do, and what they see of it.
pub(super) struct Fixed {
    choice: u32,
    secs: f64,
    bytes: f64,
    /// Per use that touches the block: where it starts or ends there.
    border: Vec<(Source, Want)>,
}

pub(super) fn fixed(model: &Model, block: BlockId, choice: u32, row: &Considered) -> Fixed {
    let strategy = model.menus[block as usize].strategies[choice as usize];
    let is_own = |term: &&Term| match term.part {
        Part::Kernels | Part::Inside => true,
        Part::Read(tensor) => model.maker(tensor) == Some(block),
        Part::Written => false,
    };
    let end = |index: usize| {
        let it = &model.uses[index];
        let is_made = model.maker(it.tensor) == Some(block);
        let made = if is_made { model.settled(it.tensor, &strategy) } else { Source::default() };
        let read = if it.block == block { model.wanted(it, &strategy) } else { Want::default() };
        // A block's reshards for itself are its own affair.
        if is_made && it.block == block { Default::default() } else { (made, read) }
    };
    let border = (0..model.uses.len()).filter(|&index| touches(model, index, block)).map(end).collect();
    let secs = row.terms.iter().filter(is_own).map(|term| term.secs).sum();
    Fixed { choice, secs, bytes: row.memory_bytes, border }
}

impl Fixed {
    /// Whether this is never worse than another: of equal ones the first is.
    pub(super) fn dominates(&self, other: &Fixed) -> bool {
        let is_no_worse = self.secs <= other.secs && self.bytes <= other.bytes;
        let is_better = self.secs < other.secs || self.bytes < other.bytes || self.choice < other.choice;
        is_no_worse && is_better && self.border == other.border
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::Layout;

    fn fixed(choice: u32, secs: f64, bytes: f64) -> Fixed {
        Fixed { choice, secs, bytes, border: vec![(Source::default(), Want::default())] }
    }

    #[test]
    fn what_is_no_worse_in_time_and_memory_dominates_and_of_equal_ones_the_first() {
        let dominates =
            |a: (u32, f64, f64), b: (u32, f64, f64)| fixed(a.0, a.1, a.2).dominates(&fixed(b.0, b.1, b.2));
        let it = (1, 2.0, 2.0);
        for (other, before, after) in [
            ((2, 2.0, 2.0), true, false),
            ((2, 1.0, 2.0), false, true),
            ((2, 2.0, 1.0), false, true),
            ((2, 3.0, 1.0), false, false),
            ((0, 3.0, 2.0), true, false),
            ((0, 2.0, 3.0), true, false),
            ((1, 2.0, 2.0), false, false),
        ] {
            assert_eq!((dominates(it, other), dominates(other, it)), (before, after), "{other:?}");
        }
    }

    #[test]
    fn strategies_that_neighbours_see_otherwise_do_not_dominate() {
        let split = Want { layout: Layout::REPLICATED.with(0, Some(0)), partial: 0 };
        let it = Fixed { border: vec![(Source::default(), split)], ..fixed(1, 2.0, 2.0) };
        assert!(!fixed(0, 1.0, 1.0).dominates(&it));
    }
}
