//! A block's strategies: every way to hand mesh axes to its loops.

use super::rules::Kinds;
use super::splits::Splitter;
use indexmap::{IndexMap, IndexSet};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::classes::{ClassId, ClassMap};
use phzc_analysis::graph::{Graph, NodeId};
use phzc_ir::{FactorId, FactorKind, Layout, MAX_AXES, Mesh};
use smallvec::SmallVec;

/// The most loops of one block that strategies may split; the others stay whole.
const MAX_LOOPS: usize = 8;

/// Which loop each mesh axis splits: 0 for none, [`PARTIAL`], else 1 + the position in [`Menu::loops`].
pub type Strategy = [u8; MAX_AXES];

/// An axis that splits no loop, but along which every device has one summand of all that the block makes.
pub const PARTIAL: u8 = u8::MAX;

/// The strategies of one block.
#[derive(Clone, Debug, Default)]
pub struct Menu {
    /// The loops that may be split.
    pub loops: Vec<ClassId>,
    /// The ways to split them.
    pub strategies: Vec<Strategy>,
}

/// For each of a menu's loops: 1 + the tensor dimension that it splits, 0 for none.
pub type View = SmallVec<[u8; MAX_LOOPS]>;

impl Menu {
    /// The strategies of a block on a mesh, its loops having these sizes: what the rewrite rules find for
    /// every node of it.
    pub fn build(
        (graph, blocks): (&Graph, &Blocks),
        block: BlockId,
        mesh: &Mesh,
        size: &dyn Fn(ClassId) -> i64,
        splitter: &mut Splitter,
    ) -> Menu {
        let loops = splittable(graph, blocks, block, mesh);
        let sizes: Vec<i64> = loops.iter().map(|&class| size(class)).collect();
        let members = blocks.members[block as usize].iter();
        let kinds: IndexSet<Kinds> = members.map(|&node| kinds(graph, blocks, node, &loops)).collect();
        let least = least_tiles(graph, blocks, block, &loops);
        let mut strategies: Vec<Strategy> = vec![[0; MAX_AXES]];
        for axis in 0..mesh.n_axes() {
            let mut extended = Vec::new();
            for strategy in &strategies {
                let local = local(&sizes, strategy, mesh);
                let mut ways = common_ways(splitter, mesh.sizes[axis], &local, &kinds);
                ways.retain(|&choice| match (choice as usize).checked_sub(1) {
                    Some(at) if least[at] > 0 => {
                        local[at] / mesh.sizes[axis] >= least[at] && !strategy.contains(&choice)
                    }
                    _ => true,
                });
                ways.extend(blocks.is_linear[block as usize].then_some(PARTIAL));
                extended.extend(ways.into_iter().map(|choice| {
                    let mut next = *strategy;
                    next[axis] = choice;
                    next
                }));
            }
            strategies = extended;
        }
        Menu { loops, strategies }
    }

    /// How the menu's loops lie in a tensor with these classes.
    pub fn view(&self, map: &ClassMap) -> View {
        let dim_of = |class: &ClassId| {
            map.iter().position(|dim| dim.first() == Some(class)).map_or(0, |dim| dim as u8 + 1)
        };
        self.loops.iter().map(dim_of).collect()
    }

    /// The loops (a bit each) that run over any of these classes.
    pub fn mask(&self, classes: &[ClassId]) -> u8 {
        let bit = |(index, class): (usize, &ClassId)| u8::from(classes.contains(class)) << index;
        self.loops.iter().enumerate().map(bit).sum()
    }
}

/// The layout that a strategy gives a tensor.
pub fn layout(strategy: &Strategy, view: &View) -> Layout {
    (0..MAX_AXES).fold(Layout::REPLICATED, |layout, axis| match strategy[axis] {
        0 | PARTIAL => layout,
        choice => layout.with(axis, (view[choice as usize - 1] as usize).checked_sub(1)),
    })
}

/// The axes (a bit each) that a strategy gives to the loops of `mask`.
pub fn axes_on(strategy: &Strategy, mask: u8) -> u8 {
    let is_on = |axis: usize| !matches!(strategy[axis], 0 | PARTIAL) && mask >> (strategy[axis] - 1) & 1 == 1;
    (0..MAX_AXES).map(|axis| u8::from(is_on(axis)) << axis).sum()
}

/// The axes (a bit each) along which a strategy leaves sums undone.
pub fn partial_axes(strategy: &Strategy) -> u8 {
    (0..MAX_AXES).map(|axis| u8::from(strategy[axis] == PARTIAL) << axis).sum()
}

/// Number of devices that the axes of `mask` span.
pub fn span(mask: u8, mesh: &Mesh) -> f64 {
    (0..mesh.n_axes()).filter(|axis| mask >> axis & 1 == 1).map(|axis| mesh.sizes[axis] as f64).product()
}

/// The sizes of loops on each device.
fn local(sizes: &[i64], strategy: &Strategy, mesh: &Mesh) -> SmallVec<[i64; MAX_LOOPS]> {
    let mut local: SmallVec<[i64; MAX_LOOPS]> = sizes.iter().copied().collect();
    let split = strategy.iter().zip(&mesh.sizes).filter(|(choice, _)| !matches!(**choice, 0 | PARTIAL));
    for (&choice, &n_devices) in split {
        local[choice as usize - 1] /= n_devices;
    }
    local
}

/// Per loop of a menu: the least part of it that has all that its neighbours read of it; 0 where they read
/// nothing.
pub(super) fn least_tiles(graph: &Graph, blocks: &Blocks, block: BlockId, loops: &[ClassId]) -> Vec<i64> {
    let mut least = vec![0; loops.len()];
    for &node in &blocks.members[block as usize] {
        let rule = &graph.nodes[node as usize].rule;
        for halo in &rule.halos {
            let Some((at, inner)) = outermost(blocks, node, halo.factor, loops) else { continue };
            let own = rule.least_tile(halo.factor).unwrap_or(0);
            least[at] = least[at].max(own / inner + i64::from(own % inner != 0));
        }
    }
    least
}

/// The loop of a menu that is the outermost of a factor's, and how many of the factor's iterations one of it
/// is.
pub(super) fn outermost(
    blocks: &Blocks,
    node: NodeId,
    factor: FactorId,
    loops: &[ClassId],
) -> Option<(usize, i64)> {
    let whole = blocks.node_classes[node as usize][factor as usize];
    let mut leaves = SmallVec::new();
    blocks.classes.leaves(whole, &mut leaves);
    let first = leaves.first()?;
    let at = loops.iter().position(|class| class == first)?;
    Some((at, blocks.classes.size(whole) / blocks.classes.size(*first).max(1)))
}

/// The loops, counted as in a strategy, that one more axis may split in ops of all these kinds.
fn common_ways(splitter: &mut Splitter, n_devices: i64, sizes: &[i64], kinds: &IndexSet<Kinds>) -> Vec<u8> {
    let mut common: Vec<u8> = (0..=sizes.len() as u8).collect();
    for kinds in kinds {
        let ways = splitter.ways(n_devices, sizes, kinds);
        common.retain(|&choice| {
            ways.contains_key(&Layout::REPLICATED.with(0, (choice as usize).checked_sub(1)))
        });
    }
    common
}

/// What a node does with each of a menu's loops; loops that it does not have pass.
pub fn kinds(graph: &Graph, blocks: &Blocks, node: NodeId, loops: &[ClassId]) -> Kinds {
    let mut kinds: Kinds = loops.iter().map(|_| FactorKind::Pass).collect();
    let mut leaves = SmallVec::new();
    let factors = graph.nodes[node as usize].rule.factors.iter().zip(&blocks.node_classes[node as usize]);
    for (factor, &class) in factors.filter(|(factor, _)| factor.kind != FactorKind::Pass) {
        leaves.clear();
        blocks.classes.leaves(class, &mut leaves);
        for leaf in &leaves {
            if let Some(position) = loops.iter().position(|class| class == leaf) {
                kinds[position] = factor.kind;
            }
        }
    }
    kinds
}

/// The classes of a node's loops, by the kind of their factor.
pub fn node_loops(
    graph: &Graph,
    blocks: &Blocks,
    node: NodeId,
    wanted: impl Fn(FactorKind) -> bool,
) -> Vec<ClassId> {
    let mut found = SmallVec::new();
    let factors = graph.nodes[node as usize].rule.factors.iter().zip(&blocks.node_classes[node as usize]);
    factors
        .filter(|(factor, _)| wanted(factor.kind))
        .for_each(|(_, &class)| blocks.classes.leaves(class, &mut found));
    found.into_vec()
}

/// Classes that may carry axes: major-most in every tensor of the block that has them, and never
/// needed whole. The heaviest come first.
fn splittable(graph: &Graph, blocks: &Blocks, block: BlockId, mesh: &Mesh) -> Vec<ClassId> {
    let mut bytes: IndexMap<ClassId, (f64, bool)> = IndexMap::new();
    for &id in &blocks.members[block as usize] {
        let node = &graph.nodes[id as usize];
        for class in
            node_loops(graph, blocks, id, |kind| matches!(kind, FactorKind::Permute | FactorKind::Replicate))
        {
            bytes.entry(class).or_insert((0.0, true)).1 = false;
        }
        let read = (0..node.operands.len()).map(|slot| (node.operands[slot], blocks.use_map(id, slot)));
        let made = node.results.iter().map(|&result| (result, blocks.def_map(result)));
        for (tensor, map) in read.chain(made) {
            for dim in map {
                for (position, &class) in dim.iter().enumerate() {
                    let entry = bytes.entry(class).or_insert((0.0, true));
                    entry.0 += graph.tensors[tensor as usize].bytes * node.trips;
                    entry.1 &= position == 0;
                }
            }
        }
    }
    let smallest = mesh.sizes.iter().copied().min().unwrap_or(1);
    let can_split = |class: ClassId| mesh.sizes.iter().any(|&size| blocks.classes.size(class) % size == 0);
    let mut classes: Vec<(ClassId, f64)> = bytes
        .into_iter()
        .filter(|(_, (_, is_legal))| *is_legal)
        .map(|(class, (bytes, _))| (class, bytes))
        .collect();
    classes.retain(|&(class, _)| blocks.classes.size(class) >= smallest && can_split(class));
    classes.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    classes.truncate(MAX_LOOPS);
    classes.sort_unstable_by_key(|&(class, _)| class);
    classes.into_iter().map(|(class, _)| class).collect()
}
