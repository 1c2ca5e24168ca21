//! What the choice of `shard` is about on one mesh: the strategies of every block, who reads what, and how
//! values lie. Prices: `pricer.rs` (kernels), `move_price.rs` (movements), put together in `problem.rs`.

use super::Pinned;
use super::forbid::Forbid;
use super::free::{self, Anchor};
use super::liveness::{Does, Remade};
use super::remake::{MadeOf, made_of};
use super::reshard_cost::{Reshards, Source};
use super::sharding_request::Want;
use super::splits::Splitter;
use super::strategies::{Menu, Strategy, View, axes_on, kinds, layout, partial_axes};
use super::unique::Unique;
use super::zero::ungathered;
use indexmap::IndexSet;
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::classes::ClassId;
use phzc_analysis::graph::is_shaped;
use phzc_analysis::graph::{Graph, NodeId, NodeKind, TensorId};
use phzc_analysis::phase::Phase;
use phzc_cost::Cluster;
use phzc_ir::Mesh;
use phzc_plan::derive::Nature;
use phzc_plan::pricing::Share;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// What the model is built from.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The program.
    pub graph: &'a Graph,
    /// Its blocks.
    pub blocks: &'a Blocks,
    /// The devices.
    pub cluster: &'a Cluster,
    /// Layouts that are given, per tensor.
    pub pinned: &'a [Option<Pinned>],
    /// What each node does.
    pub ops: &'a [Does],
    /// Whether each tensor is written to memory.
    pub is_stored: &'a [bool],
    /// Per node: its share of the kernels that it runs in.
    pub shares: &'a [Share],
    /// Per tensor: who reads something for it where it is made again.
    pub remade: &'a [Remade],
    /// Whether each tensor is alive when most memory is in use.
    pub is_live: &'a [bool],
    /// Which blocks are copies of which.
    pub unique: &'a Unique,
    /// Loops that run over the batch.
    pub batch: &'a BTreeSet<ClassId>,
    /// How each tensor relates to microbatches; nothing where that is not to matter.
    pub natures: &'a [Nature],
    /// Per block: whether it takes no sums that are still to be done; nothing where that is up to each.
    pub summed_first: &'a [bool],
    /// How often loops ask whether they go on.
    pub n_condition_runs: f64,
    /// Microbatches, each of which is to be split as the batch is.
    pub n_microbatches: usize,
    /// Whether forward, backward and update each move values for themselves: slower, with fewer copies alive
    /// at once.
    pub moves_again: bool,
    /// What no plan may have.
    pub forbid: Forbid,
    /// Per block: the one that it must be laid out as, where equal layers stand for many.
    pub tied: Option<&'a [BlockId]>,
    /// Inputs whose least costs no plan is below together, where those of this one are of some plans only.
    pub relaxed: &'a [Input<'a>],
}

impl Input<'_> {
    /// Gives blocks the options of those that they are tied to.
    pub(super) fn untie(&self, option: &mut [u32]) {
        for (block, &to) in self.tied.into_iter().flatten().enumerate() {
            option[block] = option[to as usize];
        }
    }

    /// The same, to be split and moved as another input is.
    pub(super) fn alike(self, other: &Input) -> Self {
        Input { n_microbatches: other.n_microbatches, moves_again: other.moves_again, ..self }
    }

    /// The size of a loop for one microbatch; 1 if it does not divide.
    fn size(&self, class: ClassId) -> i64 {
        let (whole, n_parts) = (self.blocks.classes.size(class), self.n_microbatches as i64);
        match self.batch.contains(&class) {
            true if whole % n_parts == 0 => whole / n_parts,
            true => 1,
            false => whole,
        }
    }
}

/// A reading of a tensor by a block, with one need for its layout.
#[derive(Clone, Debug)]
pub struct Use {
    /// What is read.
    pub tensor: TensorId,
    /// Who reads: a node and its operand position; `None` for an entry output.
    pub reader: Option<(NodeId, u32)>,
    /// The reading block.
    pub block: BlockId,
    /// How the block's loops lie in the tensor.
    pub view: View,
    /// Whether the reader takes it as a sum that is still to be done, over the axes on which its own results
    /// are.
    pub is_summand: bool,
    /// Executions per step.
    pub trips: f64,
}

/// Readings that are known.
type Seen = IndexSet<(TensorId, BlockId, View, bool), FxBuildHasher>;

/// The problem on one mesh.
pub struct Model<'a> {
    /// What it was built from.
    pub input: Input<'a>,
    /// The mesh.
    pub mesh: Mesh,
    /// Strategies per block.
    pub menus: Vec<Menu>,
    /// Per node: the loops of its block's menu (a bit each) whose split makes its results partial.
    reduced: Vec<u8>,
    /// How a block's loops lie in the tensors it makes.
    pub def_views: Vec<View>,
    /// Readings whose layout may differ from the maker's, one per (tensor, block, view).
    pub uses: Vec<Use>,
    /// Per tensor: its reduction happens at its one reader's wish (a position in `uses`), not at home.
    pub deferred: Vec<Option<u32>>,
    /// Per tensor: several blocks read it, or the same one in several ways, so its sums are done once for all
    /// of them.
    pub is_shared: Vec<bool>,
    /// The cheapest paths between layouts.
    pub reshards: Reshards,
    /// Per tensor: how many readings it has, those at home and handed over included.
    pub(super) n_readers: Vec<u32>,
    /// Per tensor: whether it may not be gathered.
    pub(super) is_ungathered: Vec<bool>,
    /// Per node: who lays out what it makes of constants; and by block.
    pub(super) anchors: Vec<Option<Anchor>>,
    pub(super) anchored: Vec<Vec<NodeId>>,
    /// Per tensor: what it can be made again of, the nearest first.
    pub(super) made_of: Vec<Arc<[MadeOf]>>,
    /// Per tensor: whether its block has to make it in the layout that is given for it.
    pub(super) made_as_given: Vec<bool>,
    /// Per node, once asked for: its seconds under each strategy of the block that lays it out.
    pub(super) node_secs: Vec<OnceLock<Box<[f64]>>>,
    pub(super) weights: [f64; 3],
}

/// What a choice should minimise.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// How much a second of the forward, backward and update phase counts.
    pub weights: [f64; 3],
    /// Bytes per device that the choice may need, if that is limited.
    pub memory_bytes: Option<f64>,
}

impl<'a> Model<'a> {
    /// Menus and uses; no costs yet.
    pub fn new(input: Input<'a>, mesh: &Mesh) -> Model<'a> {
        let (graph, blocks) = (input.graph, input.blocks);
        let (menus, reduced) = Splitter::asked(|splitter| {
            let menus = menus(&input, mesh, splitter);
            let reduced = reduced(&input, &menus, splitter);
            (menus, reduced)
        });
        let def_view = |tensor: TensorId| {
            let block = blocks.block_of[graph.tensors[tensor as usize].def as usize];
            block.map(|block| menus[block as usize].view(blocks.def_map(tensor))).unwrap_or_default()
        };
        let anchors = free::anchors(&input, &menus);
        let def_views = (0..graph.tensors.len() as TensorId).map(def_view).collect();
        let mut model = Model {
            input,
            mesh: mesh.clone(),
            menus,
            reduced,
            def_views,
            uses: Vec::new(),
            deferred: vec![None; graph.tensors.len()],
            reshards: Reshards::new(mesh, input.forbid),
            is_shared: vec![false; graph.tensors.len()],
            n_readers: vec![0; graph.tensors.len()],
            is_ungathered: ungathered(&input),
            made_of: made_of(&input),
            anchored: free::by_block(&anchors, blocks.members.len()),
            anchors,
            made_as_given: Vec::new(),
            node_secs: vec![OnceLock::new(); graph.nodes.len()],
            weights: [1.0; 3],
        };
        model.made_as_given = model.made_as_given();
        model.collect_uses();
        model
    }

    fn collect_uses(&mut self) {
        let (graph, blocks) = (self.input.graph, self.input.blocks);
        let mut seen = Seen::default();
        let mut n_readers = vec![0u32; graph.tensors.len()];
        for tensor in (0..graph.tensors.len() as TensorId).filter(|&tensor| is_shaped(graph, tensor)) {
            for &(node, slot) in &graph.tensors[tensor as usize].uses {
                let Some(block) = blocks.block_of[node as usize] else { continue };
                let view = self.menus[block as usize].view(blocks.use_map(node, slot as usize));
                let trips = graph.nodes[node as usize].trips.max(self.body_trips(node, slot))
                    * graph.tensors[tensor as usize].weight;
                let is_summand = self.takes_summand(block, node, slot);
                self.add_use(
                    Use { tensor, reader: Some((node, slot)), block, view, is_summand, trips },
                    &mut seen,
                    &mut n_readers,
                );
            }
        }
        for &(output, param) in &graph.aliases {
            let Some(block) = blocks.block_of[graph.tensors[param as usize].def as usize] else { continue };
            if is_shaped(graph, output) {
                let (view, trips) =
                    (self.def_views[param as usize].clone(), graph.tensors[output as usize].weight);
                self.add_use(
                    Use { tensor: output, reader: None, block, view, is_summand: false, trips },
                    &mut seen,
                    &mut n_readers,
                );
            }
        }
        // Other results are handed over as they lie: reduced.
        let is_alias = |output: &&TensorId| graph.aliases.iter().any(|(aliased, _)| aliased == *output);
        graph.outputs.iter().filter(|output| !is_alias(output)).for_each(|&it| n_readers[it as usize] += 1);
        let mut used = vec![false; graph.tensors.len()];
        for (index, it) in self.uses.iter().enumerate() {
            self.is_shared[it.tensor as usize] |= std::mem::replace(&mut used[it.tensor as usize], true);
            let is_only =
                n_readers[it.tensor as usize] == 1 && self.input.pinned[it.tensor as usize].is_none();
            self.deferred[it.tensor as usize] = is_only.then_some(index as u32);
        }
        self.n_readers = n_readers;
    }

    /// Whether a node of a block takes an operand as a sum still to be done, where the block leaves sums
    /// undone.
    pub(super) fn takes_summand(&self, block: BlockId, node: NodeId, slot: u32) -> bool {
        let blocks = self.input.blocks;
        let summands = blocks.summands[node as usize].checked_shr(slot).unwrap_or(0);
        blocks.is_linear[block as usize] && summands & 1 == 1
    }

    /// A loop's back edge runs as often as its body, which the carrying node itself does not.
    fn body_trips(&self, node: NodeId, slot: u32) -> f64 {
        let it = &self.input.graph.nodes[node as usize];
        let made_by = self.input.graph.tensors[it.operands[slot as usize] as usize].def;
        if it.kind == NodeKind::Carry && slot == 1 {
            self.input.graph.nodes[made_by as usize].trips
        } else {
            0.0
        }
    }

    fn add_use(&mut self, it: Use, seen: &mut Seen, n_readers: &mut [u32]) {
        if !seen.insert((it.tensor, it.block, it.view.clone(), it.is_summand)) {
            return;
        }
        n_readers[it.tensor as usize] += 1;
        let made_by = self.input.blocks.block_of[self.input.graph.tensors[it.tensor as usize].def as usize];
        let is_same = made_by == Some(it.block)
            && self.def_views[it.tensor as usize] == it.view
            && (it.is_summand || !self.input.blocks.is_linear[it.block as usize])
            && self.input.pinned[it.tensor as usize].is_none();
        if is_same {
            // Read where and as it was made: the reduction, if any, happens at home.
            n_readers[it.tensor as usize] += 1;
        } else {
            self.uses.push(it);
        }
    }

    /// A tensor's layout as its block makes it, and the axes over which it is partial.
    pub fn made(&self, tensor: TensorId, strategy: &Strategy) -> Source {
        let def = self.input.graph.tensors[tensor as usize].def;
        if self.input.blocks.block_of[def as usize].is_none() {
            return Source::default();
        }
        let (partial, kept) = (axes_on(strategy, self.reduced[def as usize]), partial_axes(strategy));
        let mut loops =
            (0..strategy.len()).filter(|axis| partial >> axis & 1 == 1).map(|axis| strategy[axis]);
        let first = loops.next();
        Source {
            layout: layout(strategy, &self.def_views[tensor as usize]),
            partial: partial | kept,
            is_joint: if kept == 0 { loops.all(|it| Some(it) == first) } else { partial == 0 },
        }
    }

    /// A tensor's layout as readers find it when its reduction is not deferred.
    pub fn settled(&self, tensor: TensorId, strategy: &Strategy) -> Source {
        let made = self.made(tensor, strategy);
        match self.input.pinned[tensor as usize] {
            Some(pinned) => pinned.of(made.layout).into(),
            None if self.deferred[tensor as usize].is_some() => made,
            None => {
                let kept = if self.is_shared[tensor as usize] { 0 } else { partial_axes(strategy) };
                Source { layout: made.layout, partial: kept, is_joint: true }
            }
        }
    }

    /// A value as a block reads it under a strategy.
    pub(super) fn wanted(&self, it: &Use, strategy: &Strategy) -> Want {
        let partial = if it.is_summand { partial_axes(strategy) } else { 0 };
        Want { layout: layout(strategy, &it.view), partial }
    }

    /// The phase that a reading belongs to; handing over the entry's results is part of the update.
    pub(super) fn phase(&self, it: &Use) -> Phase {
        it.reader.map_or(Phase::Update, |(node, _)| self.input.blocks.phases[node as usize])
    }

    /// Whether a reading can be had under a choice: sums that are done cannot be undone.
    pub fn can_read(&mut self, index: usize, option: &[u32]) -> bool {
        let it = self.uses[index].clone();
        let def = self.input.graph.tensors[it.tensor as usize].def;
        let chosen = |block: BlockId| self.menus[block as usize].strategies[option[block as usize] as usize];
        let Some(from) = self.input.blocks.block_of[def as usize].map(chosen) else { return true };
        let (source, want) = (self.settled(it.tensor, &from), self.wanted(&it, &chosen(it.block)));
        self.move_secs(it.tensor, source, want).is_finite()
    }
}

/// The menus of all blocks; those of copies are their first one's.
fn menus(input: &Input, mesh: &Mesh, splitter: &mut Splitter) -> Vec<Menu> {
    let mut menus: Vec<Menu> = Vec::with_capacity(input.blocks.members.len());
    for block in 0..input.blocks.members.len() as BlockId {
        let build = || {
            let size = |class| input.size(class);
            let menu = Menu::build((input.graph, input.blocks), block, mesh, &size, splitter);
            let mut menu = input.forbid.filter(input, block, menu);
            let is_summed_first = input.summed_first.get(block as usize) == Some(&true);
            menu.strategies.retain(|strategy| !is_summed_first || partial_axes(strategy) == 0);
            menu
        };
        menus.push(input.unique.menu(block, &menus, build));
    }
    menus
}

/// Per node: the loops of its menu whose split makes its results partial; copies of a block are as their
/// first.
fn reduced(input: &Input, menus: &[Menu], splitter: &mut Splitter) -> Vec<u8> {
    let mut reduced = vec![0; input.graph.nodes.len()];
    for (members, &first) in input.blocks.members.iter().zip(&input.unique.first) {
        let firsts = &input.blocks.members[first as usize];
        for (&node, &counterpart) in members.iter().zip(firsts) {
            reduced[node as usize] = if node == counterpart {
                splitter.reduced(&kinds(input.graph, input.blocks, node, &menus[first as usize].loops))
            } else {
                reduced[counterpart as usize]
            };
        }
    }
    reduced
}
