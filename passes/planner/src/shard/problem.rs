//! The model as a problem for the exact solver: costs per strategy, costs per pair of strategies.

use super::edges::{Edges, Ends};
use super::model::{Goal, Model, Use};
use super::pricer::NodePricer;
use super::sharding_request::Want;
use super::strategies::Strategy;
use indexmap::IndexMap;
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::{NodeId, TensorId};
use phzc_analysis::phase::Phase;
use phzc_ir::FactorKind;
use phzc_solver::choose::{Node as Variable, Problem};
use rustc_hash::FxBuildHasher;

impl Model<'_> {
    /// The problem for the solver; costs in seconds, each phase times its weight.
    pub fn problem(&mut self, goal: &Goal) -> Problem {
        self.weights = goal.weights;
        let (mut nodes, ends) = (self.computing(), Ends::new(self));
        let mut edges = Edges::new(&ends);
        let mut is_elsewhere = vec![false; self.input.graph.tensors.len()];
        for (tensor, uses) in self.readings() {
            let home_secs = self.may_sum_elsewhere(tensor, &uses).then(|| self.home_secs(tensor));
            is_elsewhere[tensor as usize] = home_secs.is_some();
            edges.add(self, &uses, home_secs, &mut nodes);
        }
        self.add_settling(&mut nodes, |tensor| !is_elsewhere[tensor as usize]);
        let (edges, stars) = edges.finish();
        let problem = Problem { nodes, edges, stars, memory_limit: goal.memory_bytes };
        match self.input.tied {
            Some(tied) => problem.tied(tied),
            None => problem,
        }
    }

    /// Weighted seconds of settling a tensor at home, per strategy of its maker.
    fn home_secs(&mut self, tensor: TensorId) -> Vec<f64> {
        let def = self.input.graph.tensors[tensor as usize].def;
        let weight = self.weight(def);
        let block = self.input.blocks.block_of[def as usize];
        let secs = block.map(|block| self.settling(tensor, block)).unwrap_or_default();
        secs.into_iter().map(|secs| weight * secs).collect()
    }

    /// Weighted executions of a reading per step.
    pub(super) fn weighted_trips(&self, it: &Use) -> f64 {
        self.trips(it) * self.weights[self.phase(it) as usize]
    }

    /// All that the price of moving a tensor depends on beside its layouts.
    pub(super) fn figures(&self, tensor: TensorId) -> Vec<u64> {
        [self.figures_moved(tensor), self.figures_made_of(tensor)].concat()
    }

    /// The same where it is moved.
    pub(super) fn figures_moved(&self, tensor: TensorId) -> Vec<u64> {
        let it = &self.input.graph.tensors[tensor as usize];
        let dims = it.dims.iter().map(|&size| size as u64);
        let facts = [self.input.is_stored[tensor as usize], self.is_ungathered[tensor as usize]];
        [self.input.moved_bytes(tensor).to_bits()]
            .into_iter()
            .chain(facts.map(u64::from))
            .chain(dims)
            .collect()
    }

    /// No choice costs less than the sum of these: per block, its cheapest strategy, collectives left out.
    pub fn floors(&mut self, goal: &Goal) -> Vec<f64> {
        self.weights = goal.weights;
        let least = |node: &Variable| node.cost.iter().copied().fold(f64::INFINITY, f64::min);
        self.computing().iter().map(least).collect()
    }

    /// The blocks with their compute costs only.
    fn computing(&self) -> Vec<Variable> {
        let mut nodes: Vec<Variable> = Vec::with_capacity(self.menus.len());
        for (block, &first) in (0..).zip(&self.input.unique.first) {
            let known = nodes.get(first as usize).cloned();
            nodes.push(known.unwrap_or_else(|| self.variable(block)));
        }
        for (block, nodes_of) in self.anchored.iter().enumerate() {
            let strategies = &self.menus[block].strategies;
            nodes_of.iter().for_each(|&node| self.add_node(node, strategies, &mut nodes[block].cost));
        }
        let loose = self.loose_secs();
        nodes.iter_mut().take(1).flat_map(|node| &mut node.cost).for_each(|cost| *cost += loose);
        nodes
    }

    /// Adds what a node takes under each strategy.
    fn add_node(&self, node: NodeId, strategies: &[Strategy], costs: &mut [f64]) {
        let secs = self.node_secs[node as usize].get_or_init(|| {
            let pricer = NodePricer::new(self, node);
            strategies.iter().map(|strategy| pricer.secs(self, strategy)).collect()
        });
        let weight = self.weight(node);
        costs.iter_mut().zip(secs).for_each(|(cost, secs)| *cost += weight * secs);
    }

    /// Weighted seconds of the nodes that nobody lays out (scalars), and of loops' conditions: whatever is
    /// chosen, every device runs them.
    fn loose_secs(&self) -> f64 {
        let blocks = self.input.blocks;
        let is_loose = |&node: &usize| blocks.block_of[node].is_none() && self.anchors[node].is_none();
        let loose = (0..blocks.block_of.len()).filter(is_loose);
        let secs = |node: usize| {
            let whole = NodePricer::new(self, node as NodeId).secs(self, &Strategy::default());
            self.weights[blocks.phases[node] as usize] * whole
        };
        let condition_secs = self.input.n_condition_runs * self.input.cluster.accelerator.launch_secs;
        loose.map(secs).sum::<f64>() + self.weights[Phase::Forward as usize] * condition_secs
    }

    fn variable(&self, block: BlockId) -> Variable {
        let strategies = &self.menus[block as usize].strategies;
        let members = &self.input.blocks.members[block as usize];
        let mut cost = vec![0.0; strategies.len()];
        members.iter().for_each(|&node| self.add_node(node, strategies, &mut cost));
        Variable::new(cost, self.memory(members, strategies))
    }

    fn weight(&self, node: NodeId) -> f64 {
        let phase = self.anchors[node as usize].as_ref().map(|anchor| anchor.phase);
        self.weights[phase.unwrap_or(self.input.blocks.phases[node as usize]) as usize]
    }

    /// Adds what it costs to bring fresh values into the layouts that readers find.
    fn add_settling(&mut self, nodes: &mut [Variable], is_wanted: impl Fn(TensorId) -> bool) {
        let graph = self.input.graph;
        let mut known: IndexMap<(TensorId, bool), Vec<f64>, FxBuildHasher> = IndexMap::default();
        for (id, node) in graph.nodes.iter().enumerate() {
            let Some(block) = self.input.blocks.block_of[id] else { continue };
            for &result in &node.results {
                if self.settles(result) && is_wanted(result) {
                    let key = (self.input.unique.twin[result as usize], self.is_shared[result as usize]);
                    let secs = known.entry(key).or_insert_with(|| self.settling(result, block));
                    let weight = self.weight(id as NodeId);
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
    pub(super) fn settles(&self, tensor: TensorId) -> bool {
        let it = &self.input.graph.tensors[tensor as usize];
        let rule = &self.input.graph.nodes[it.def as usize].rule;
        let reduces = rule.factors.iter().any(|factor| matches!(factor.kind, FactorKind::Reduce(_)));
        let moves = self.input.pinned[tensor as usize].is_some();
        let block = self.input.blocks.block_of[it.def as usize];
        let joins = block.is_some_and(|block| self.input.blocks.is_linear[block as usize]);
        let is_shared_sum = joins && self.is_shared[tensor as usize];
        self.deferred[tensor as usize].is_none() && !it.is_free && (reduces || moves || is_shared_sum)
    }

    /// Seconds to bring a fresh value into the layout that its readers find.
    pub(super) fn settling_secs(&mut self, tensor: TensorId, strategy: &Strategy) -> f64 {
        let (source, target) = (self.made(tensor, strategy), self.settled(tensor, strategy));
        if source.layout != target.layout && self.made_as_given[tensor as usize] {
            return f64::INFINITY;
        }
        self.moves_secs(self.made_trips(tensor), tensor, source, Want::of(target))
    }

    /// Bytes per device of the block's tensors that are alive at the peak.
    pub(super) fn memory(&self, members: &[NodeId], strategies: &[Strategy]) -> Vec<f64> {
        let graph = self.input.graph;
        let made = members.iter().flat_map(|&node| graph.nodes[node as usize].results.iter().copied());
        let live: Vec<TensorId> = made.filter(|&tensor| self.input.is_live[tensor as usize]).collect();
        let local = |strategy: &Strategy, tensor: TensorId| {
            graph.tensors[tensor as usize].bytes * graph.tensors[tensor as usize].weight
                / self.settled(tensor, strategy).layout.n_tiles(&self.mesh) as f64
        };
        strategies.iter().map(|strategy| live.iter().map(|&tensor| local(strategy, tensor)).sum()).collect()
    }
}
