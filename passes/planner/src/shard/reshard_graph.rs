//! The single changes between the layouts of a tensor, each with the collectives that it takes.

use super::reshard_cost::{Source, Step};
use indexmap::{IndexMap, IndexSet};
use petgraph::graph::{DiGraph, NodeIndex};
use phzc_cost::Collective;
use phzc_ir::{Dims, Layout, Mesh};
use phzc_plan::derive::{Move, moves};
use phzc_plan::pricing::{AxisMask, axes_of};
use rustc_hash::FxBuildHasher;
use smallvec::{SmallVec, smallvec};

/// What can be made of a value step by step.
pub(super) struct ReshardGraph {
    pub graph: DiGraph<Source, Edge>,
    /// The nodes, by number.
    pub places: IndexSet<Source, FxBuildHasher>,
    /// What is sent: a collective, the axes that talk, and into how many parts the tensor is cut where that
    /// is largest.
    pub messages: IndexSet<(Collective, AxisMask, i64), FxBuildHasher>,
    layouts: Layouts,
}

/// A step from a place to another.
pub(super) struct Edge {
    pub step: Step,
    /// What it sends, by number.
    pub messages: SmallVec<[usize; 2]>,
}

impl ReshardGraph {
    /// Nothing yet of tensors of these sizes that stay partial over the axes `kept`.
    pub fn new(mesh: &Mesh, dims: &Dims, kept: AxisMask) -> ReshardGraph {
        ReshardGraph {
            graph: DiGraph::new(),
            places: IndexSet::default(),
            messages: IndexSet::default(),
            layouts: Layouts::new(mesh, dims, kept),
        }
    }

    /// The node of a value, with all that can be made of it.
    pub fn reach(&mut self, source: Source) -> NodeIndex {
        let mut next = self.graph.node_count();
        let start = self.node(source);
        while next < self.graph.node_count() {
            let at = self.places[next];
            for step in self.layouts.steps(at) {
                let to =
                    self.node(Source { layout: step.layout(), partial: step.partial, is_joint: at.is_joint });
                let messages = self.messages(at.layout, &step);
                self.graph.add_edge(NodeIndex::new(next), to, Edge { step, messages });
            }
            next += 1;
        }
        start
    }

    fn node(&mut self, source: Source) -> NodeIndex {
        // What is reduced is joined to nothing.
        let source = Source { is_joint: source.is_joint && source.partial != 0, ..source };
        let (index, is_new) = self.places.insert_full(source);
        if is_new {
            self.graph.add_node(source);
        }
        NodeIndex::new(index)
    }

    fn messages(&mut self, mut before: Layout, step: &Step) -> SmallVec<[usize; 2]> {
        let mut found = SmallVec::new();
        for it in &step.moves {
            let n_tiles = [before, it.layout].map(|layout| layout.n_tiles(&self.layouts.mesh));
            let message = it.kind.map(|kind| (kind, it.axes, n_tiles[0].min(n_tiles[1])));
            found.extend(message.map(|message| self.messages.insert_full(message).0));
            before = it.layout;
        }
        found
    }
}

/// The layouts of a tensor on a mesh.
struct Layouts {
    mesh: Mesh,
    dims: Dims,
    /// Axes that may split nothing, a bit each: over these the value stays partial.
    kept: AxisMask,
    /// Those that cut each dimension into the same numbers of tiles.
    by_tiles: IndexMap<Dims, Vec<Layout>, FxBuildHasher>,
}

impl Layouts {
    fn new(mesh: &Mesh, dims: &Dims, kept: AxisMask) -> Layouts {
        let mut layouts =
            Layouts { mesh: mesh.clone(), dims: dims.clone(), kept, by_tiles: IndexMap::default() };
        let split = |known: Vec<Layout>, axis| -> Vec<Layout> {
            let more: Vec<Layout> = known.iter().flat_map(|&layout| layouts.split(layout, axis)).collect();
            known.into_iter().chain(more).collect()
        };
        for layout in (0..mesh.n_axes()).fold(vec![Layout::REPLICATED], split) {
            layouts.by_tiles.entry(layouts.tiles(layout)).or_default().push(layout);
        }
        layouts
    }

    fn tiles(&self, layout: Layout) -> Dims {
        (0..self.dims.len()).map(|dim| layout.tiles(dim, &self.mesh)).collect()
    }

    /// The layouts in which an axis that splits nothing splits some dimension.
    fn split(&self, layout: Layout, axis: usize) -> impl Iterator<Item = Layout> {
        let is_free = self.kept >> axis & 1 == 0;
        let dims = (0..self.dims.len()).filter(move |_| is_free);
        dims.map(move |dim| layout.with(axis, Some(dim)))
            .filter(|split| split.divides(&self.dims, &self.mesh))
    }

    /// The steps from a value on. In the text, and so in XLA, it is reduced before anything else happens to
    /// it.
    fn steps(&self, at: Source) -> Vec<Step> {
        if at.partial == 0 {
            let made = self.changed(at.layout).into_iter();
            let step = |to| Step { moves: moves(at.layout, to, &self.dims, &self.mesh).into(), partial: 0 };
            return made.map(step).collect();
        }
        let groups: Vec<AxisMask> = match at.is_joint {
            true => vec![at.partial],
            false => axes_of(at.partial).map(|axis| 1 << axis).collect(),
        };
        let reduced = groups.into_iter().flat_map(|axes| self.reduced(at.layout, axes, at.partial & !axes));
        reduced.collect()
    }

    /// Sums over `axes` by one collective: done whole, or scattered along dimensions.
    fn reduced(&self, layout: Layout, axes: AxisMask, partial: AxisMask) -> Vec<Step> {
        let step = |kind, layout| Step { moves: smallvec![Move { kind: Some(kind), axes, layout }], partial };
        let split = |layouts: Vec<Layout>, axis: usize| -> Vec<Layout> {
            let split = layouts.into_iter().flat_map(|layout| self.split(layout, axis));
            split.filter(|it| it.dim_of(axis).and_then(|dim| it.axes_of(dim).last()) == Some(axis)).collect()
        };
        let scattered = axes_of(axes).fold(vec![layout], split);
        let scatters = scattered.into_iter().map(|layout| step(Collective::ReduceScatter, layout));
        [step(Collective::AllReduce, layout)].into_iter().chain(scatters).collect()
    }

    /// The layouts that one change makes: a slice, a gather, an exchange between two dimensions, or tiles
    /// that change places.
    fn changed(&self, at: Layout) -> IndexSet<Layout, FxBuildHasher> {
        let unused = (0..self.mesh.n_axes()).filter(|&axis| at.dim_of(axis).is_none());
        let mut found: IndexSet<Layout, FxBuildHasher> =
            unused.flat_map(|axis| self.split(at, axis)).collect();
        for dim in 0..self.dims.len() {
            let own: AxisMask = at.axes_of(dim).fold(0, |mask, axis| mask | 1 << axis);
            for axes in (1..=own).filter(|axes| axes & !own == 0) {
                let to = |to: Option<usize>| axes_of(axes).fold(at, |layout, axis| layout.with(axis, to));
                let moved = (0..self.dims.len()).map(|other| to(Some(other)));
                found.extend(moved.filter(|layout| layout.divides(&self.dims, &self.mesh)));
                found.insert(to(None));
            }
        }
        found.extend(&self.by_tiles[&self.tiles(at)]);
        found.shift_remove(&at);
        found
    }
}
