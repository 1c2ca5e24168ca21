//! Blocks as CFP reports them: contraction blocks joined where no strategy of the first needs communication
//! in the next.
//!
//! The planner keeps them apart and lets costs decide what lies between; a reader wants to know where nothing
//! has to. From the results of a block's products every split is followed forward through glue ops, by their
//! factor rules. A product that it reaches joins if each strategy of the block's entry arrives as a loop that
//! the product does not sum over (reference/cfp-alpa.md 1.1): query, key, value, scores and their use, but
//! not the two layers of an MLP.

use crate::blocks::{BlockId, Blocks};
use crate::graph::{Graph, Node, NodeId, TensorId};
use crate::phase::Phase;
use crate::roles::{Role, roles};
use crate::roles::{image, strategies};
use phzc_ir::FactorKind;
use std::collections::{BTreeMap, BTreeSet};

/// A block that joined another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The block.
    pub block: BlockId,
    /// The first contraction of it.
    pub entry: NodeId,
    /// Per strategy of the home's entry: the position of its own; `None` where that one would communicate.
    pub plan: Vec<Option<usize>>,
}

/// Where the split of one strategy is in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On this dimension.
    Dim(usize),
    /// Nowhere: the value is whole, and any part of it can be had.
    Whole,
    /// To get there takes communication.
    Lost,
}

/// Per block: those that joined it, in program order. A block that joined another has none.
pub fn joined(graph: &Graph, blocks: &Blocks) -> Vec<Vec<Joined>> {
    let mut found = vec![Vec::new(); blocks.members.len()];
    let mut is_gone = vec![false; blocks.members.len()];
    let depends = depends(graph);
    for home in 0..blocks.members.len() {
        let entry = contractions(graph, blocks, home as BlockId).next();
        let Some(entry) = entry.filter(|&it| !is_gone[home] && blocks.phases[it as usize] == Phase::Forward)
        else {
            continue;
        };
        let mut walk =
            Walk { graph, blocks, depends: &depends, entry, places: BTreeMap::new(), joined: Vec::new() };
        walk.run(home as BlockId);
        walk.joined.iter().for_each(|it| is_gone[it.block as usize] = true);
        found[home] = walk.joined;
    }
    found
}

/// The contractions of a block, in program order.
pub fn contractions<'g>(
    graph: &'g Graph,
    blocks: &'g Blocks,
    block: BlockId,
) -> impl Iterator<Item = NodeId> + 'g {
    blocks.members[block as usize].iter().copied().filter(|&node| graph.nodes[node as usize].is_contraction)
}

/// Whether each tensor is made with the help of some contraction.
fn depends(graph: &Graph) -> Vec<bool> {
    let mut found = vec![false; graph.tensors.len()];
    for node in &graph.nodes {
        let does = node.is_contraction || node.operands.iter().any(|&operand| found[operand as usize]);
        node.results.iter().for_each(|&result| found[result as usize] = does);
    }
    found
}

/// The forward part from a block on, as far as its splits go.
struct Walk<'a> {
    graph: &'a Graph,
    blocks: &'a Blocks,
    depends: &'a [bool],
    entry: NodeId,
    /// Per tensor that follows from the block alone: where each strategy of the entry splits it.
    places: BTreeMap<TensorId, Vec<Place>>,
    joined: Vec<Joined>,
}

impl Walk<'_> {
    fn run(&mut self, home: BlockId) {
        let mut open: BTreeSet<NodeId> = contractions(self.graph, self.blocks, home).collect();
        while let Some(id) = open.pop_first() {
            let node = &self.graph.nodes[id as usize];
            if self.blocks.phases[id as usize] != Phase::Forward || self.is_known(node) {
                continue;
            }
            let places = match node.is_contraction {
                true => self.contraction(id, home),
                false => self.glue(node),
            };
            for (&result, places) in node.results.iter().zip(places.unwrap_or_default()) {
                self.places.insert(result, places);
                open.extend(self.graph.tensors[result as usize].uses.iter().map(|&(reader, _)| reader));
            }
        }
    }

    fn is_known(&self, node: &Node) -> bool {
        node.results.iter().any(|result| self.places.contains_key(result))
    }

    /// Where a contraction's results are split, if its block is this one, has joined it or joins it now.
    fn contraction(&mut self, id: NodeId, home: BlockId) -> Option<Vec<Vec<Place>>> {
        let block = self.blocks.block_of[id as usize]?;
        let own = match self.joined.iter().find(|it| it.block == block) {
            _ if block == home => image(self.graph, self.blocks, self.entry, id),
            Some(it) => self.through(it, id),
            None => {
                let plan = self
                    .arrives(id)
                    .filter(|_| contractions(self.graph, self.blocks, block).next() == Some(id))?;
                self.joined.push(Joined { block, entry: id, plan: plan.clone() });
                plan
            }
        };
        let node = &self.graph.nodes[id as usize];
        let factors = roles(node);
        let place = |strategy: &Option<usize>| match strategy.and_then(|at| factors.get(at)) {
            None => Place::Lost,
            Some((_, Role::Contracted)) => Place::Whole,
            Some(&(factor, _)) => dim(&node.rule.results, 0, factor).map_or(Place::Lost, Place::Dim),
        };
        Some(vec![own.iter().map(place).collect()])
    }

    /// A member's strategies from those of the entry of the block that it came with.
    fn through(&self, it: &Joined, id: NodeId) -> Vec<Option<usize>> {
        let own = image(self.graph, self.blocks, it.entry, id);
        it.plan.iter().map(|at| at.and_then(|at| own.get(at).copied().flatten())).collect()
    }

    /// The places in a node's operands, `None` for operands that no contraction helps to make; `None` at all
    /// if other blocks have a say in one.
    fn operands(&self, node: &Node) -> Option<Vec<Option<&Vec<Place>>>> {
        let of = |operand: &TensorId| match self.places.get(operand) {
            None if self.depends[*operand as usize] => None,
            places => Some(places),
        };
        node.operands.iter().map(of).collect()
    }

    /// Per strategy of the entry: the factors of a node that the places in its operands are of, or that one
    /// is lost.
    fn factors(&self, node: &Node) -> Option<Vec<Result<BTreeSet<usize>, ()>>> {
        let operands = self.operands(node)?;
        let n_strategies = operands.iter().flatten().map(|places| places.len()).next()?;
        let of = |strategy: usize| {
            let mut factors = BTreeSet::new();
            for (slot, places) in operands.iter().enumerate() {
                match places.map(|places| places[strategy]) {
                    Some(Place::Lost) => return Err(()),
                    Some(Place::Dim(dim)) => factors.insert(first(node, slot, dim).ok_or(())?),
                    Some(Place::Whole) | None => false,
                };
            }
            Ok(factors)
        };
        Some((0..n_strategies).map(of).collect())
    }

    /// Where a glue node's results are split.
    fn glue(&self, node: &Node) -> Option<Vec<Vec<Place>>> {
        let factors = self.factors(node)?;
        let place = |leaf: usize, factors: &Result<BTreeSet<usize>, ()>| match factors {
            Ok(none) if none.is_empty() => Place::Whole,
            Ok(one) if one.len() == 1 => {
                let pass = one.iter().copied().find(|&it| node.rule.factors[it].kind == FactorKind::Pass);
                pass.and_then(|it| dim(&node.rule.results, leaf, it)).map_or(Place::Lost, Place::Dim)
            }
            _ => Place::Lost,
        };
        let leaf = |leaf: usize| factors.iter().map(|factors| place(leaf, factors)).collect();
        Some((0..node.results.len()).map(leaf).collect())
    }

    /// The strategies of a contraction that the entry's arrive as, if none of those that count needs
    /// communication.
    fn arrives(&self, id: NodeId) -> Option<Vec<Option<usize>>> {
        let (node, entry) = (&self.graph.nodes[id as usize], &self.graph.nodes[self.entry as usize]);
        let own = roles(node);
        let position = |factors: &BTreeSet<usize>| match factors.iter().collect::<Vec<_>>().as_slice() {
            [one] => own.iter().position(|&(factor, role)| factor == **one && role != Role::Contracted),
            _ => None,
        };
        let factors = self.factors(node)?;
        let is_free: Vec<bool> = factors.iter().map(|it| it.as_ref().is_ok_and(BTreeSet::is_empty)).collect();
        let mut plan: Vec<Option<usize>> =
            factors.iter().map(|it| it.as_ref().ok().and_then(position)).collect();
        let counts = counting(&roles(entry));
        let is_legal = (0..plan.len()).all(|at| !counts[at] || is_free[at] || plan[at].is_some());
        // Where the entry's result is whole, so may be any operand here: CFP lists what its first strategy
        // becomes.
        let first = plan.iter().flatten().copied().next()?;
        (0..plan.len()).filter(|&at| is_free[at]).for_each(|at| plan[at] = Some(first));
        is_legal.then_some(plan)
    }
}

/// Which of a product's strategies count: Alpa has one per role, the major loop's, and one per batch loop.
fn counting(loops: &[(usize, Role)]) -> Vec<bool> {
    let is_first = |at: usize| loops[..at].iter().all(|(_, role)| *role != loops[at].1);
    (0..loops.len()).map(|at| loops[at].1 == Role::Batch || is_first(at)).collect()
}

/// The major factor of an operand's dimension.
fn first(node: &Node, slot: usize, dim: usize) -> Option<usize> {
    node.rule.operands.get(slot)?.get(dim)?.first().map(|&factor| factor as usize)
}

/// The dimension of a leaf that a factor is the major part of.
fn dim(maps: &[phzc_ir::TensorMap], leaf: usize, factor: usize) -> Option<usize> {
    maps.get(leaf)?.iter().position(|dim| dim.first().is_some_and(|&it| it as usize == factor))
}

/// How many strategies CFP counts for a block: those of its entry.
pub fn n_strategies(graph: &Graph, blocks: &Blocks, block: BlockId) -> usize {
    contractions(graph, blocks, block).next().map_or(0, |entry| strategies(graph, blocks, entry).len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocks that join another, as the names of their first products, with their plans.
    fn joining(text: &str) -> String {
        let module = phzc_ir::parse(&format!("HloModule m\n{text}")).expect("a legal program");
        let graph = Graph::build(&module);
        let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
        let name = |id: NodeId| &*module.entry().instr(graph.nodes[id as usize].instr).name;
        let line = |it: Joined| format!("{} {:?}", name(it.entry), it.plan);
        joined(&graph, &blocks).into_iter().flatten().map(line).collect::<Vec<_>>().join("; ")
    }

    const PRODUCT: &str = "x = f32[16,8,32] parameter(0)
  w = f32[32,64] parameter(1)
  y = f32[16,8,64] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}";

    #[test]
    fn scores_follow_every_split_of_their_heads() {
        let text = format!(
            "ENTRY e {{ {PRODUCT}
  q = f32[16,8,4,16] reshape(y)
  ROOT s = f32[16,4,8,8] dot(q, q), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}} }}"
        );
        assert_eq!(joining(&text), "s [Some(4), Some(3), None, Some(4)]");
    }

    #[test]
    fn a_second_layer_would_sum_over_the_columns_of_the_first() {
        let text = format!(
            "ENTRY e {{ {PRODUCT}
  a = f32[16,8,64] tanh(y)
  v = f32[64,32] parameter(2)
  ROOT z = f32[16,8,32] dot(a, v), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}} }}"
        );
        assert_eq!(joining(&text), "");
    }
}
