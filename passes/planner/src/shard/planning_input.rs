//! What layouts are chosen for: the program as it is, or with fewer of its equal layers.

use super::forbid::Forbid;
use super::model::Input;
use super::solve::Solved;
use super::{Facts, Pinned, pins};
use crate::layer_repeats::expand::{Stages, expand};
use crate::layer_repeats::representative_layers::{Short, Weigh};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::graph::Graph;
use phzc_cost::Cluster;
use phzc_ir::{CompId, InstrId, Mesh, Module};
use std::sync::{Arc, OnceLock};

/// A program with what the model needs to know of it.
pub struct PlanningInput {
    /// The program with fewer layers, if it has many.
    pub short: Option<Short>,
    /// The graph of what layouts are chosen for.
    pub graph: Arc<Graph>,
    /// Its blocks.
    pub blocks: Arc<Blocks>,
    facts: Facts,
    /// The same for plans of several stages, and of the graphs for bounds, once they are asked for.
    in_tasks: OnceLock<Vec<Facts>>,
    /// Per block: the one that it is laid out as.
    tied: Option<Vec<BlockId>>,
    /// Graphs in which layers count less often, so that no plan of the program costs less than all of them
    /// together.
    relaxed: Vec<(Graph, Facts)>,
    /// The facts for bounds over plans that compute values again, of one stage and of several, once these are
    /// asked for.
    bare: [OnceLock<Vec<Facts>>; 2],
    /// The best layouts on all devices were there memory enough, once `shard` has chosen them.
    pub free: Option<Solved>,
    /// The meshes of all devices on which the given layouts can be read; nothing where none are given.
    pub given_meshes: Option<Vec<Mesh>>,
}

impl PlanningInput {
    /// A program of which some layouts are given; its blocks are those of the tensors without.
    pub fn whole(
        module: &Module,
        graph: Arc<Graph>,
        blocks: Arc<Blocks>,
        pinned: Vec<Option<Pinned>>,
        forbid: Forbid,
    ) -> PlanningInput {
        let facts = Facts::new(module, &graph, &blocks, pinned).forbidding(forbid);
        PlanningInput {
            short: None,
            graph,
            blocks,
            facts,
            tied: None,
            in_tasks: OnceLock::new(),
            relaxed: Vec::new(),
            bare: Default::default(),
            free: None,
            given_meshes: None,
        }
    }

    /// A program that has many equal layers, whose given layouts are equal too: fewer stand for them, of as
    /// many rows of layers as can be.
    pub fn short(module: &Module, given: Option<&GivenLayouts>, forbid: Forbid) -> Option<PlanningInput> {
        PlanningInput::each_short(module, given, forbid).next()
    }

    /// The same of all rows, then of one row less, and so on.
    pub fn each_short<'a>(
        module: &Module,
        given: Option<&'a GivenLayouts>,
        forbid: Forbid,
    ) -> impl Iterator<Item = PlanningInput> + use<'a> {
        let all = Short::each(module).into_iter();
        all.filter_map(move |short| PlanningInput::of_short(short, given, forbid))
    }

    fn of_short(
        (short, mut graph, blocks): (Short, Graph, Blocks),
        given: Option<&GivenLayouts>,
        forbid: Forbid,
    ) -> Option<PlanningInput> {
        let [own, pinned] = match given {
            Some(given) => given.in_short(&short, &graph)?,
            None => [vec![None; graph.tensors.len()], vec![None; graph.tensors.len()]],
        };
        let alone = pins::stand_alone(&own, &pinned, &graph, &blocks);
        let blocks = match alone.contains(&true) {
            true => Blocks::build(&short.module, &graph, &alone),
            false => blocks,
        };
        let tied = short.tied(&graph, &blocks)?;
        let facts =
            |graph: &Graph| Facts::new(&short.module, graph, &blocks, pinned.clone()).forbidding(forbid);
        let weighed = |purpose: Weigh| {
            let mut graph = Graph::build(&short.module);
            short.weigh(&mut graph, purpose);
            let facts = facts(&graph);
            (graph, facts)
        };
        let relaxed = [Weigh::Pairs, Weigh::Alone].map(weighed).into();
        short.weigh(&mut graph, Weigh::Plan);
        let facts = facts(&graph);
        let (graph, blocks) = (Arc::new(graph), Arc::new(blocks));
        let (tied, short, in_tasks) = (Some(tied), Some(short), OnceLock::new());
        let (bare, free, given_meshes) = (Default::default(), None, None);
        Some(PlanningInput { graph, blocks, facts, in_tasks, tied, relaxed, short, bare, free, given_meshes })
    }

    /// The same, on the meshes where the given layouts can be read.
    #[must_use]
    pub fn on(self, meshes: Vec<Mesh>) -> PlanningInput {
        PlanningInput { given_meshes: Some(meshes), ..self }
    }

    /// The same, with the best layouts were there memory enough, if they are known.
    #[must_use]
    pub fn with_free(self, free: Option<Solved>) -> PlanningInput {
        PlanningInput { free, ..self }
    }

    /// The program that layouts are chosen for, `whole` if none stands for it.
    pub fn module<'a>(&'a self, whole: &'a Module) -> &'a Module {
        self.short.as_ref().map_or(whole, |short| &short.module)
    }

    /// Inputs whose least costs no plan is below together, where that of [`Self::input`] is of some plans
    /// only.
    pub fn relaxed<'a>(&'a self, cluster: &'a Cluster) -> Vec<Input<'a>> {
        self.relaxed.iter().map(|(graph, facts)| facts.input(graph, &self.blocks, cluster)).collect()
    }

    /// The model's input for plans of one stage, or of several, whose phases are tasks of their own.
    pub fn input<'a>(&'a self, cluster: &'a Cluster, in_tasks: bool, relaxed: &'a [Input<'a>]) -> Input<'a> {
        let facts = if in_tasks { &self.of_tasks()[0] } else { &self.facts };
        let input = facts.input(&self.graph, &self.blocks, cluster);
        Input { tied: self.tied.as_deref(), relaxed, ..input }
    }

    /// The same for a stage beside others on other meshes.
    pub fn beside<'a>(&'a self, input: Input<'a>) -> Input<'a> {
        self.facts.summing_first(input)
    }

    /// Whether layouts of a stage beside others on other meshes may differ.
    pub fn may_differ_beside(&self) -> bool {
        self.facts.adds_gradients()
    }

    /// Inputs whose least costs no plan of the program is below together, of one stage or `in_tasks`; of what
    /// no plan can do without, if it may compute values `again`.
    pub fn bounding<'a>(&'a self, cluster: &'a Cluster, in_tasks: bool, again: bool) -> Vec<Input<'a>> {
        let graphs = self.bounding_graphs();
        let first = usize::from(graphs.len() > 1);
        let own: Vec<&Facts> = match (in_tasks, first) {
            (true, _) => self.of_tasks()[first..].iter().collect(),
            (false, 0) => vec![&self.facts],
            _ => self.relaxed.iter().map(|(_, facts)| facts).collect(),
        };
        let bare = || {
            let all = graphs.iter().zip(&own);
            all.map(|(graph, facts)| facts.whatever_is_again(graph, &self.blocks)).collect()
        };
        let all: Vec<&Facts> = match again {
            true => self.bare[usize::from(in_tasks)].get_or_init(bare).iter().collect(),
            false => own,
        };
        graphs.iter().zip(all).map(|(graph, facts)| facts.input(graph, &self.blocks, cluster)).collect()
    }

    /// Per block: the row of layers of which it is in one that stands for several.
    pub fn row_of(&self) -> Vec<Option<usize>> {
        let none = || vec![None; self.blocks.members.len()];
        self.short.as_ref().map_or_else(none, |short| short.inner_blocks(&self.graph, &self.blocks))
    }

    /// Per row: how many layers these stand for.
    pub fn n_inner_layers(&self) -> Vec<usize> {
        self.short.as_ref().map(Short::n_inner).unwrap_or_default()
    }

    /// What bounds are of.
    fn bounding_graphs(&self) -> Vec<&Graph> {
        match &self.relaxed[..] {
            [] => vec![&*self.graph],
            relaxed => relaxed.iter().map(|(graph, _)| graph).collect(),
        }
    }

    /// The facts of plans of several stages: of the program, then of the relaxed graphs.
    fn of_tasks(&self) -> &[Facts] {
        self.in_tasks.get_or_init(|| {
            let relaxed = self.relaxed.iter().map(|(graph, facts)| (graph, facts));
            let all = std::iter::once((&*self.graph, &self.facts)).chain(relaxed);
            all.map(|(graph, facts)| facts.in_tasks(graph, &self.blocks)).collect()
        })
    }

    /// The whole program as a plan of what stands for it says.
    pub fn expanded(&self, whole: &Module, planned: Module) -> Module {
        let Some(short) = &self.short else { return planned };
        expand(whole, short, &planned, &Stages::alike(1, vec![0; whole.entry().instrs.len()])).0
    }
}

/// Layouts that are given, per tensor of a program.
pub struct GivenLayouts {
    /// The program's graph.
    pub graph: Arc<Graph>,
    /// Those of the program's own shardings.
    pub own: Vec<Option<Pinned>>,
    /// These and those of pins.
    pub all: Vec<Option<Pinned>>,
}

impl GivenLayouts {
    /// Both in a program with fewer layers; `None` where an instruction has other layouts than the one that
    /// stands for it.
    fn in_short(&self, short: &Short, graph: &Graph) -> Option<[Vec<Option<Pinned>>; 2]> {
        self.are_alike(short).then_some(())?;
        let whole = |(comp, instr, leaf): (CompId, InstrId, u32)| {
            let is_entry = comp == short.module.entry;
            let instr = if is_entry { short.whole_of[instr.index()] } else { instr };
            self.graph.values[comp.index()][instr.index()].get(leaf as usize)
        };
        let homes: Vec<_> = graph.tensors.iter().map(|tensor| whole(tensor.home)).collect();
        let in_short = |all: &[Option<Pinned>]| homes.iter().map(|home| all[*(*home)? as usize]).collect();
        Some([in_short(&self.own), in_short(&self.all)])
    }

    /// Whether every instruction has the layouts of the one that stands for it.
    fn are_alike(&self, short: &Short) -> bool {
        let values = &self.graph.values[short.module.entry.index()];
        let of = |id: InstrId| values[id.index()].iter().map(|&tensor| self.all[tensor as usize]);
        let mut pairs = (0..).map(InstrId::new).zip(&short.stands);
        pairs.all(|(id, stands)| stands.iter().all(|stand| of(id).eq(of(short.whole_of[stand.index()]))))
    }
}
