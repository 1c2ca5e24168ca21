//! The model as a problem for the exact solver: costs per strategy, costs per pair of strategies.

use super::edges::{Edges, Ends};
use super::menu::Strategy;
use super::model::{Goal, Model};
use super::moves::Source;
use super::pricer::NodePricer;
use crate::blocks::BlockId;
use crate::choose::{Node as Variable, Problem};
use crate::graph::{NodeId, TensorId};
use crate::pricing;
use indexmap::IndexMap;
use phzc_cost::Collective;
use phzc_ir::FactorKind;
use rustc_hash::FxBuildHasher;

impl Model<'_> {
    /// The problem for the solver; costs in seconds, each phase times its weight.
    pub fn problem(&mut self, goal: &Goal) -> Problem {
        self.weights = goal.weights;
        let (nodes, ends) = (self.variables(), Ends::new(self));
        self.with_edges(nodes, &ends, goal, |_| 1.0)
    }

    /// The problem, and one whose optimum bounds every plan from below.
    ///
    /// The problem charges every reading block for its own reshard, but blocks that want the same
    /// layout share one: with `k` readers, sharing saves at most all but `1/k` of the readers' sum.
    /// And a value that several blocks read is reduced whole, though a scatter might do for all of them.
    pub fn problem_and_bound(&mut self, goal: &Goal) -> (Problem, Problem) {
        self.weights = goal.weights;
        let (computing, ends) = (self.computing(), Ends::new(self));
        let mut nodes = computing.clone();
        self.add_settling(&mut nodes);
        let problem = self.with_edges(nodes, &ends, goal, |_| 1.0);
        let mut readers: IndexMap<TensorId, f64> = IndexMap::new();
        self.uses.iter().for_each(|it| *readers.entry(it.tensor).or_default() += 1.0);
        let mut nodes = computing;
        self.is_optimistic = true;
        self.add_settling(&mut nodes);
        let bound = self.with_edges(nodes, &ends, goal, |tensor| 1.0 / readers[&tensor]);
        self.is_optimistic = false;
        (problem, bound)
    }

    /// The problem with every reshard's seconds times a share.
    fn with_edges(
        &mut self,
        mut nodes: Vec<Variable>,
        ends: &Ends,
        goal: &Goal,
        share: impl Fn(TensorId) -> f64,
    ) -> Problem {
        let mut edges = Edges::new(ends);
        for index in 0..self.uses.len() {
            let share = share(self.uses[index].tensor);
            edges.add(self, index, share, &mut nodes);
        }
        Problem { nodes, edges: edges.found, memory_limit: goal.memory_bytes }
    }

    /// No choice costs less: the cheapest strategy of every block, reshards left out.
    pub fn floor(&mut self, goal: &Goal) -> f64 {
        self.weights = goal.weights;
        let least = |node: &Variable| node.cost.iter().copied().fold(f64::INFINITY, f64::min);
        self.variables().iter().map(least).sum()
    }

    fn variables(&mut self) -> Vec<Variable> {
        let mut nodes = self.computing();
        self.add_settling(&mut nodes);
        nodes
    }

    /// The blocks with their compute costs only.
    fn computing(&self) -> Vec<Variable> {
        let mut nodes: Vec<Variable> = Vec::with_capacity(self.menus.len());
        for (block, &first) in (0..).zip(&self.input.unique.first) {
            let known = nodes.get(first as usize).cloned();
            nodes.push(known.unwrap_or_else(|| self.variable(block)));
        }
        let loose = self.loose_secs();
        nodes.iter_mut().take(1).flat_map(|node| &mut node.cost).for_each(|cost| *cost += loose);
        nodes
    }

    /// Weighted seconds of the nodes of no block (scalars, constants): whatever is chosen, every device runs them.
    fn loose_secs(&self) -> f64 {
        let blocks = self.input.blocks;
        let loose = (0..blocks.block_of.len()).filter(|&node| blocks.block_of[node].is_none());
        let secs = |node: usize| {
            let whole = NodePricer::new(self, node as NodeId).secs(self, &Strategy::default());
            self.weights[blocks.phases[node] as usize] * whole
        };
        loose.map(secs).sum()
    }

    fn variable(&self, block: BlockId) -> Variable {
        let strategies = &self.menus[block as usize].strategies;
        let members = &self.input.blocks.members[block as usize];
        let mut cost = vec![0.0; strategies.len()];
        for &node in members {
            let (weight, pricer) = (self.weight(node), NodePricer::new(self, node));
            for (cost, strategy) in cost.iter_mut().zip(strategies) {
                *cost += weight * pricer.secs(self, strategy);
            }
        }
        Variable { cost, memory: self.memory(members, strategies) }
    }

    fn weight(&self, node: NodeId) -> f64 {
        self.weights[self.input.blocks.phases[node as usize] as usize]
    }

    /// Adds what it costs to bring fresh values into the layouts that readers find.
    fn add_settling(&mut self, nodes: &mut [Variable]) {
        let graph = self.input.graph;
        let mut known: IndexMap<TensorId, Vec<f64>, FxBuildHasher> = IndexMap::default();
        for (id, node) in graph.nodes.iter().enumerate() {
            let Some(block) = self.input.blocks.block_of[id] else { continue };
            for &result in &node.results {
                if self.settles(result) {
                    let twin = self.input.unique.twin[result as usize];
                    let secs = known.entry(twin).or_insert_with(|| self.settling(twin, block));
                    // A sum over microbatches may be reduced once per step, as the update runs.
                    let weight = self.weight(id as NodeId);
                    let weight = if self.is_optimistic { weight.min(self.weights[2]) } else { weight };
                    let costs = nodes[block as usize].cost.iter_mut().zip(secs);
                    costs.for_each(|(cost, secs)| *cost += weight * *secs);
                }
            }
        }
    }

    /// Seconds to settle a tensor, per strategy of a block equal to its maker's.
    fn settling(&mut self, tensor: TensorId, block: BlockId) -> Vec<f64> {
        let strategies = self.menus[block as usize].strategies.clone();
        strategies.iter().map(|strategy| self.settling_secs(tensor, strategy)).collect()
    }

    /// Whether a tensor may have to be reduced or moved right where it is made.
    fn settles(&self, tensor: TensorId) -> bool {
        let it = &self.input.graph.tensors[tensor as usize];
        let rule = &self.input.graph.nodes[it.def as usize].rule;
        let reduces = rule.factors.iter().any(|factor| matches!(factor.kind, FactorKind::Reduce(_)));
        let moves = self.input.pinned[tensor as usize].is_some();
        self.deferred[tensor as usize].is_none() && !it.is_free && (reduces || moves)
    }

    /// Seconds of a node under one strategy: its kernel and what settles its results.
    pub(super) fn node_secs(&mut self, node: NodeId, strategy: &Strategy) -> f64 {
        let kernel = NodePricer::new(self, node).secs(self, strategy);
        let results = self.input.graph.nodes[node as usize].results.clone();
        let settled: Vec<TensorId> = results.into_iter().filter(|&result| self.settles(result)).collect();
        kernel + settled.into_iter().map(|result| self.settling_secs(result, strategy)).sum::<f64>()
    }

    /// Seconds to bring a fresh value into the layout that its readers find.
    fn settling_secs(&mut self, tensor: TensorId, strategy: &Strategy) -> f64 {
        let (source, target) = (self.made(tensor, strategy), self.settled(tensor, strategy).layout);
        let trips = self.input.graph.nodes[self.input.graph.tensors[tensor as usize].def as usize].trips;
        if source.layout != target && self.must_be_made_so(tensor, target) {
            return f64::INFINITY;
        }
        if self.is_optimistic && source.layout == target {
            return trips * self.scatter_secs(tensor, source);
        }
        trips * self.move_secs(tensor, source, target)
    }

    /// Seconds to scatter a partial value over the axes it is partial over.
    fn scatter_secs(&self, tensor: TensorId, source: Source) -> f64 {
        let bytes =
            self.input.graph.tensors[tensor as usize].bytes / source.layout.n_tiles(&self.mesh) as f64;
        pricing::collective_secs(
            self.input.cluster,
            &self.mesh,
            Collective::ReduceScatter,
            source.partial,
            bytes,
        )
    }

    /// Bytes per device of the block's tensors that are alive at the peak.
    pub(super) fn memory(&self, members: &[NodeId], strategies: &[Strategy]) -> Vec<f64> {
        let graph = self.input.graph;
        let made = members.iter().flat_map(|&node| graph.nodes[node as usize].results.iter().copied());
        let live: Vec<TensorId> = made.filter(|&tensor| self.input.is_live[tensor as usize]).collect();
        let local = |strategy: &Strategy, tensor: TensorId| {
            graph.tensors[tensor as usize].bytes
                / self.settled(tensor, strategy).layout.n_tiles(&self.mesh) as f64
        };
        strategies.iter().map(|strategy| live.iter().map(|&tensor| local(strategy, tensor)).sum()).collect()
    }
}
