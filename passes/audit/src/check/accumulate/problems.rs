//! What is wrong about phases and microbatches, given what microbatches have to do with each value.

use super::Shares;
use phzc_analysis::graph::{Graph, Node, NodeId, NodeKind, TensorId};
use phzc_ir::{InstrId, Module};
use phzc_plan::derive::order::placed;
use phzc_plan::derive::{Facts, InstrFacts, Phase, Problem, with_callees};

/// A problem for every instruction whose phase contradicts what it reads, or that cannot run microbatch by
/// microbatch.
pub fn problems(module: &Module, facts: &Facts, graph: &Graph) -> Vec<Problem> {
    Shares::new(module, facts, graph)
        .map(|shares| Judge::new(module, facts, &shares).all())
        .unwrap_or_default()
}

struct Judge<'a> {
    module: &'a Module,
    facts: &'a Facts,
    shares: &'a Shares<'a>,
    /// Per computation and instruction: the entry's instruction that it is, or that runs it.
    runs: Vec<Vec<Option<InstrId>>>,
    /// Per node: whether an update, or an output that replaces a parameter, is made of its results.
    leads_to_update: Vec<bool>,
    /// Per node: whether something that each microbatch has a part of is.
    leads_to_part: Vec<bool>,
    /// Whether the plan has phases: what is forward from end to end has no update.
    has_phases: bool,
}

impl<'a> Judge<'a> {
    fn new(module: &'a Module, facts: &'a Facts, shares: &'a Shares<'a>) -> Judge<'a> {
        let runs = with_callees(module, module.entry().iter().map(|(id, _)| Some(id)).collect());
        let none = Vec::new();
        let mut judge = Judge {
            module,
            facts,
            shares,
            runs,
            leads_to_update: none.clone(),
            leads_to_part: none,
            has_phases: false,
        };
        let graph = &shares.graph;
        let is_early = |node: NodeId| judge.phase(&graph.nodes[node as usize]) != Phase::Update;
        let read_by = |is_wanted: &dyn Fn(&Node) -> bool| -> Vec<TensorId> {
            graph
                .nodes
                .iter()
                .filter(|node| is_wanted(node))
                .flat_map(|node| node.operands.iter().copied())
                .collect()
        };
        let by_update = read_by(&|node| judge.phase(node) == Phase::Update);
        let replacing = graph.aliases.iter().map(|&(output, _)| output);
        let leads_to_update = shares.leading_to(by_update.into_iter().chain(replacing), is_early);
        let by_parts = read_by(&|node| {
            judge.phase(node) != Phase::Update && node.results.iter().any(|&it| shares.is_part(it))
        });
        let leads_to_part = shares.leading_to(by_parts.into_iter(), is_early);
        judge.has_phases = graph
            .nodes
            .iter()
            .any(|node| node.kind != NodeKind::Source && judge.phase(node) != Phase::Forward);
        (judge.leads_to_update, judge.leads_to_part) = (leads_to_update, leads_to_part);
        judge
    }

    fn owner(&self, node: &Node) -> InstrId {
        self.runs[node.comp.index()][node.instr.index()].unwrap_or(node.instr)
    }

    /// What says when it runs: the entry's instruction.
    fn own(&self, node: &Node) -> &'a InstrFacts {
        &self.facts.comps[self.module.entry.index()][self.owner(node).index()]
    }

    fn phase(&self, node: &Node) -> Phase {
        self.own(node).phase
    }

    fn all(&self) -> Vec<Problem> {
        let nodes = self.shares.graph.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, node)| node.kind != NodeKind::Source);
        nodes.filter_map(|(id, node)| self.problem(id, node)).collect()
    }

    fn problem(&self, id: usize, node: &Node) -> Option<Problem> {
        let n = self.facts.header.n_microbatches;
        let message = match self.phase(node) {
            Phase::Update => self.update_of_parts(node),
            _ if n > 1 => self.in_microbatches(id, node, n).or_else(|| self.early_update(id, node)),
            _ => self.early_update(id, node),
        }?;
        Some(Problem { comp: node.comp, instr: node.instr, is_fatal: true, message })
    }

    /// An update that reads what each microbatch has a part of.
    fn update_of_parts(&self, node: &Node) -> Option<String> {
        let (graph, varies) = (self.shares.graph, &self.shares.varies);
        let parts = node.operands.iter().filter(|&&it| varies[it as usize]);
        let mut parts = parts.map(|&it| &graph.tensors[it as usize]);
        let read = parts.clone().find(|it| it.param.is_none()).or_else(|| parts.next())?;
        let maker = &graph.nodes[read.def as usize];
        let is_by_update = maker.kind != NodeKind::Source && self.phase(maker) == Phase::Update;
        // Said of the first.
        (!is_by_update).then(|| {
            format!(
                "{} reads {}, of which each microbatch makes a part of its own, but the update runs once, after all microbatches: say `phzc.phase=\"bwd\"` of the reader, or `fwd`",
                self.describe(node),
                self.describe(maker)
            )
        })
    }

    /// Forward or backward work that needs a whole sum and leads to nothing but the update.
    fn early_update(&self, id: usize, node: &Node) -> Option<String> {
        let read = self.first_total(node)?;
        let reads_part = node.operands.iter().any(|&it| self.shares.is_part(it));
        let is_update = self.has_phases && self.leads_to_update[id] && !self.leads_to_part[id];
        (self.shares.ends_sums[id] && !reads_part && is_update).then(|| {
            format!(
                "{} reads {}, a sum to which each microbatch adds, and is not linear in it: done for each microbatch it is not what it is of the whole sum; say `phzc.phase=\"upd\"` of the reader",
                self.describe(node),
                self.describe(read)
            )
        })
    }

    /// What cannot run microbatch by microbatch.
    fn in_microbatches(&self, id: usize, node: &Node, n: usize) -> Option<String> {
        if let Some(why) = &self.shares.exchanges[id] {
            let own = self.describe(node);
            return Some(format!(
                "{own} cannot run in {n} microbatches: it {why}; plan with `place{{microbatches=1}}`"
            ));
        }
        let read = self.first_total(node)?;
        let mut touched = node.operands.iter().chain(&node.results);
        touched.any(|&tensor| self.shares.is_part(tensor)).then(|| {
            format!(
                "{} of each microbatch reads {}, a sum over all {n} microbatches, which is there after the last one; plan with `place{{microbatches=1}}`",
                self.describe(node),
                self.describe(read)
            )
        })
    }

    /// Who makes the first operand that needs all microbatches.
    fn first_total(&self, node: &Node) -> Option<&'a Node> {
        let read = node.operands.iter().find(|&&tensor| self.shares.is_total(tensor))?;
        let maker = self.shares.graph.tensors[*read as usize].def;
        Some(&self.shares.graph.nodes[maker as usize])
    }

    fn describe(&self, node: &Node) -> String {
        placed(&self.module.comp(node.comp).instr(node.instr).name, self.own(node))
    }
}
