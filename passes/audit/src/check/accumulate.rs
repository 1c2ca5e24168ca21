//! Which values are sums over microbatches, and who may work on them: gradient accumulation, read off the
//! factor rules.
//!
//! A value has a part per microbatch (a dimension of it runs over the batch), is the same in all, or is a
//! total to which each microbatch adds. From this follows which phase an instruction can have, with one
//! microbatch as with several, for the text is the same:
//!
//! * The update runs once, after all microbatches: it cannot read what each has a part of.
//! * Forward and backward run once per microbatch. On totals they can do what is linear in them (`f(Σ g) = Σ
//!   f(g)`); anything else needs the whole sum, and is the update's, unless it leads to none: a figure like
//!   `exp(loss)` is handed out after all microbatches.
//! * No microbatch can need a total while there are others to come. With one microbatch it can: a norm over
//!   the batch.

mod data;
mod problems;

use phzc_analysis::batch::{batch_dims_of, gcd};
use phzc_analysis::graph::{Graph, Node, NodeId, NodeKind, TensorId};
use phzc_cost::Collective;
use phzc_ir::ops::linear::{is_rounding, is_zero};
use phzc_ir::{FactorKind, Key, Layout, Mesh, Module, Reducer, View};
use phzc_plan::derive::{Facts, is_linear, loops};
use smallvec::SmallVec;

pub use problems::problems;

/// What microbatches have to do with a value none of whose dimensions runs over the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    /// Zeros: the same in all, and a total of nothing.
    #[default]
    Zero,
    /// The same in all.
    Same,
    /// Each adds to it.
    Sum,
    /// Each has a share in it that is not added: a maximum.
    Other,
    /// There is one, once all have run.
    Once,
}

/// The program with what microbatches have to do with each value.
struct Shares<'a> {
    module: &'a Module,
    graph: &'a Graph,
    /// Per tensor: the dimension that runs over the batch.
    parts: Vec<Option<usize>>,
    /// Per tensor: whether each microbatch has a part of it that is made of an input's.
    varies: Vec<bool>,
    /// Per tensor.
    shares: Vec<Share>,
    /// Per node: why it cannot work on one microbatch after the other.
    exchanges: Vec<Option<String>>,
    /// Per node: how it brings together samples, if it does.
    reductions: Vec<Option<Reducer>>,
    /// Per node: whether it makes what there is once of what is not.
    ends_sums: Vec<bool>,
}

impl<'a> Shares<'a> {
    /// What it is of a plan; nothing where there is no batch, or where it cannot be cut.
    fn new(module: &'a Module, facts: &Facts, graph: &'a Graph) -> Option<Shares<'a>> {
        let given = data::data(module, facts, graph);
        let size = given.iter().map(|&id| graph.tensors[id as usize].dims[0]).fold(0, gcd);
        let n_microbatches = facts.header.n_microbatches as i64;
        let n_parts =
            if n_microbatches > 1 { n_microbatches } else { (2..=size).find(|part| size % part == 0)? };
        let part = |dims: u64| (dims != 0).then(|| dims.trailing_zeros() as usize);
        let parts: Vec<Option<usize>> =
            batch_dims_of(graph, given.into_iter()).into_iter().map(part).collect();
        let n_nodes = graph.nodes.len();
        let mut found = Shares {
            module,
            graph,
            varies: varying(graph, &parts),
            parts,
            shares: vec![Share::Zero; graph.tensors.len()],
            exchanges: vec![None; n_nodes],
            reductions: vec![None; n_nodes],
            ends_sums: vec![false; n_nodes],
        };
        let mesh = Mesh { sizes: SmallVec::from_slice(&[n_parts]), names: vec!["microbatches".into()] };
        for (id, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Op) {
            // What makes parts of parts is asked only where there are several.
            let is_asked = n_microbatches > 1 || node.results.iter().any(|&it| !found.is_part(it));
            // What is made of constants alone each microbatch makes whole: a count of samples is the batch's.
            let is_of_constants = node.operands.iter().all(|&it| graph.tensors[it as usize].is_free);
            if is_asked && found.has_part(node) && !is_of_constants {
                (found.reductions[id], found.exchanges[id]) = found.in_parts(node, &mesh);
            }
        }
        // What loops carry leads back: a share only grows.
        while found.sweep() {}
        Some(found)
    }

    /// Finds the shares of all results, given those of operands; whether any has changed.
    fn sweep(&mut self) -> bool {
        let (graph, mut is_changed) = (self.graph, false);
        for (id, node) in graph.nodes.iter().enumerate() {
            let share = self.node(id, node);
            let is_once = |&it: &TensorId| !self.is_part(it) && self.shares[it as usize] == Share::Once;
            self.ends_sums[id] |= share == Share::Once && !node.operands.iter().any(is_once);
            for &result in &node.results {
                let own = &mut self.shares[result as usize];
                is_changed |= share > *own;
                *own = share.max(*own);
            }
        }
        is_changed
    }

    fn has_part(&self, node: &Node) -> bool {
        node.operands.iter().chain(&node.results).any(|&tensor| self.is_part(tensor))
    }

    fn is_part(&self, tensor: TensorId) -> bool {
        self.parts[tensor as usize].is_some()
    }

    /// Whether a value needs all microbatches.
    fn is_total(&self, tensor: TensorId) -> bool {
        !self.is_part(tensor) && self.shares[tensor as usize] > Share::Same
    }

    fn node(&self, id: usize, node: &Node) -> Share {
        match node.kind {
            NodeKind::Source => Share::Same,
            NodeKind::Carry | NodeKind::Join => self.joined(node),
            NodeKind::Op if self.has_part(node) => match self.reductions[id] {
                _ if self.exchanges[id].is_some() => Share::Once,
                _ if node.operands.iter().any(|&tensor| self.is_total(tensor)) => Share::Once,
                Some(Reducer::Add) => Share::Sum,
                Some(_) => Share::Other,
                None => Share::Same,
            },
            NodeKind::Op => self.whole(node),
        }
    }

    /// What is one of several values; of another kind for each microbatch if what chooses among them is.
    fn joined(&self, node: &Node) -> Share {
        let all = node.operands.iter().map(|&tensor| self.shares[tensor as usize]);
        let joined = all.fold(Share::Zero, |all, own| match (all, own) {
            (Share::Same, Share::Sum | Share::Other) | (Share::Sum | Share::Other, Share::Same) => {
                Share::Once
            }
            _ => all.max(own),
        });
        if self.chooses_by_total(node) { Share::Once } else { joined }
    }

    fn chooses_by_total(&self, node: &Node) -> bool {
        let instr = self.module.comp(node.comp).instr(node.instr);
        let chosen_by = match instr.comp(Key::Condition) {
            Some(condition) => (condition, self.module.comp(condition).root),
            None => (node.comp, instr.operands[0]),
        };
        let values = &self.graph.values[chosen_by.0.index()][chosen_by.1.index()];
        values.iter().any(|&tensor| self.is_total(tensor))
    }

    /// How an op that works on parts of the batch brings them together, and why it cannot work on one after
    /// the other.
    fn in_parts(&self, node: &Node, mesh: &Mesh) -> (Option<Reducer>, Option<String>) {
        let layout = |&tensor: &TensorId| Layout::REPLICATED.with(0, self.parts[tensor as usize]);
        let operands: SmallVec<[Option<Layout>; 4]> =
            node.operands.iter().map(|it| Some(layout(it))).collect();
        let results: SmallVec<[Layout; 2]> = node.results.iter().map(layout).collect();
        let loops = loops(&node.rule, &operands, (&results, 0), mesh);
        let is_other = loops.steps.iter().any(|step| step.kind != Collective::AllReduce);
        let scatters = is_other.then(|| "scatters a sum over the batch".to_owned());
        let reducer = match loops.split[0].map(|id| node.rule.factors[id as usize].kind) {
            Some(FactorKind::Reduce(reducer)) => Some(reducer),
            _ => None,
        };
        (reducer, loops.problems.into_iter().next().or(scatters))
    }

    /// Of an op none of whose values runs over the batch.
    fn whole(&self, node: &Node) -> Share {
        let instrs = &self.module.comp(node.comp).instrs;
        let shares: SmallVec<[Share; 4]> = node.operands.iter().map(|&id| self.shares[id as usize]).collect();
        let most = shares.iter().copied().max().unwrap_or(Share::Same);
        let is_free = node.results.iter().all(|&result| self.graph.tensors[result as usize].is_free);
        match most {
            _ if is_free && is_zero(instrs, node.instr) => Share::Zero,
            Share::Zero | Share::Sum if self.adds_up(node, &shares) => most,
            // A slice of zeros, at an index that is the same in all.
            Share::Same if shares.contains(&Share::Zero) && self.adds_up(node, &shares) => Share::Zero,
            Share::Zero | Share::Same => Share::Same,
            _ => Share::Once,
        }
    }

    /// Whether an op is linear in those of its operands that are totals, or makes zeros of zeros.
    fn adds_up(&self, node: &Node, shares: &[Share]) -> bool {
        let view = View::new(self.module, node.comp, node.instr);
        let is_zero = |at: usize| shares[at] == Share::Zero;
        is_rounding(&view) || is_linear(&view, shares.len(), |at| shares[at] == Share::Sum, is_zero)
    }

    /// The nodes from which a value in `seeds` is reached against the direction of data, the first step
    /// included.
    fn leading_to(
        &self,
        seeds: impl Iterator<Item = TensorId>,
        may_pass: impl Fn(NodeId) -> bool,
    ) -> Vec<bool> {
        let mut found = vec![false; self.graph.nodes.len()];
        let mut work: Vec<TensorId> = seeds.collect();
        while let Some(tensor) = work.pop() {
            let def = self.graph.tensors[tensor as usize].def;
            if may_pass(def) && !std::mem::replace(&mut found[def as usize], true) {
                work.extend(&self.graph.nodes[def as usize].operands);
            }
        }
        found
    }
}

/// Per tensor: whether it has a part per microbatch that is made of an input's.
fn varying(graph: &Graph, parts: &[Option<usize>]) -> Vec<bool> {
    let mut varies = vec![false; graph.tensors.len()];
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for node in &graph.nodes {
            let is_made_of_data =
                node.kind == NodeKind::Source || node.operands.iter().any(|&it| varies[it as usize]);
            for &result in &node.results {
                let found = is_made_of_data && parts[result as usize].is_some();
                is_changed |= found && !std::mem::replace(&mut varies[result as usize], found);
            }
        }
    }
    varies
}
