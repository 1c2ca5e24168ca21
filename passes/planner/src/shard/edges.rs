//! Edges of the problem: reshard seconds for every pair of strategies, one table for equal edges.

use super::model::{Model, Use};
use super::reshard_cost::Source;
use super::sharding_request::Want;
use super::sharing::{self, Shared, Sharing};
use indexmap::{IndexMap, IndexSet};
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::TensorId;
use phzc_ir::Dims;
use phzc_solver::choose::{Edge, Node as Variable, Star, Table};
use rustc_hash::FxBuildHasher;
use std::rc::Rc;
use std::sync::Arc;

pub(super) type FxMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// What a reading wants.
pub(super) type Target = Want;

/// Where reshards start and end, strategy by strategy: the same for every reading of equal values by equal
/// blocks.
#[derive(Default)]
pub(super) struct Ends {
    sources: IndexSet<Rc<[Source]>, FxBuildHasher>,
    targets: IndexSet<Rc<[Target]>, FxBuildHasher>,
    /// Per use: the maker's block, and the positions of its sources and targets; `None` if no block makes it.
    of_use: Vec<Option<(BlockId, usize, usize)>>,
}

impl Ends {
    pub(super) fn new(model: &Model) -> Ends {
        let (graph, blocks, unique) = (model.input.graph, model.input.blocks, model.input.unique);
        let mut ends = Ends::default();
        let mut known_sources: FxMap<(TensorId, bool, bool), usize> = FxMap::default();
        let mut known_targets = FxMap::default();
        for it in &model.uses {
            let from = blocks.block_of[graph.tensors[it.tensor as usize].def as usize];
            let Some(from) = from else {
                ends.of_use.push(None);
                continue;
            };
            let is_deferred = model.deferred[it.tensor as usize].is_some();
            let source = *known_sources
                .entry((unique.twin[it.tensor as usize], is_deferred, model.is_shared[it.tensor as usize]))
                .or_insert_with(|| ends.sources.insert_full(sources(model, from, it)).0);
            let target = *known_targets
                .entry((unique.first[it.block as usize], it.view.clone(), it.is_summand))
                .or_insert_with(|| ends.targets.insert_full(targets(model, it)).0);
            ends.of_use.push(Some((from, source, target)));
        }
        ends
    }
}

fn sources(model: &Model, from: BlockId, it: &Use) -> Rc<[Source]> {
    let strategies = model.menus[from as usize].strategies.iter();
    strategies.map(|strategy| model.settled(it.tensor, strategy)).collect()
}

fn targets(model: &Model, it: &Use) -> Rc<[Target]> {
    let strategies = model.menus[it.block as usize].strategies.iter();
    strategies.map(|strategy| model.wanted(it, strategy)).collect()
}

/// Equal edges have equal keys.
#[derive(PartialEq, Eq, Hash)]
struct TableKey {
    dims: Dims,
    bytes: u64,
    trips: u64,
    /// Moving a value that would else stay in registers costs more.
    is_stored: bool,
    /// It may be forbidden to gather it.
    is_ungathered: bool,
    /// What it can be made again of.
    made_of: Vec<u64>,
    source: usize,
    target: usize,
}

/// The edges found so far.
pub(super) struct Edges<'e> {
    ends: &'e Ends,
    tables: FxMap<TableKey, Arc<Table>>,
    found: Vec<Edge>,
    sharing: Sharing,
}

impl<'e> Edges<'e> {
    pub(super) fn new(ends: &'e Ends) -> Edges<'e> {
        Edges { ends, tables: FxMap::default(), found: Vec::new(), sharing: Sharing::default() }
    }

    /// All edges and stars.
    pub(super) fn finish(self) -> (Vec<Edge>, Vec<Star>) {
        (self.found, self.sharing.stars)
    }

    /// Adds the readings of one tensor, at positions of `uses`. `home_secs` holds the weighted seconds of
    /// doing its sum at home, per strategy of its maker, if these readings might do without.
    pub(super) fn add(
        &mut self,
        model: &mut Model,
        uses: &[usize],
        home_secs: Option<Vec<f64>>,
        nodes: &mut [Variable],
    ) {
        for group in sharing::groups(model, uses) {
            match group[..] {
                _ if self.ends.of_use[group[0]].is_none() => {}
                [index] => self.alone(model, index, nodes),
                _ => self.shared(model, &group, home_secs.clone()),
            }
        }
    }

    fn shared(&mut self, model: &mut Model, uses: &[usize], home_secs: Option<Vec<f64>>) {
        let ends = self.ends;
        let of_use =
            |index: &usize| ends.of_use[*index].expect("readings without a maker's block are left out");
        let (from, source, _) = of_use(&uses[0]);
        let readings =
            uses.iter().map(|it| (model.uses[*it].block, ends.targets[of_use(it).2].clone())).collect();
        let (tensor, trips) = (model.uses[uses[0]].tensor, model.weighted_trips(&model.uses[uses[0]]));
        let made = |strategy| model.made(tensor, strategy);
        let made: Rc<[Source]> = model.menus[from as usize].strategies.iter().map(made).collect();
        let mut key = model.figures(tensor);
        key.extend([trips.to_bits(), source as u64]);
        key.extend(uses.iter().map(|index| of_use(index).2 as u64));
        if let Some(home_secs) = &home_secs {
            key.extend(home_secs.iter().map(|secs| secs.to_bits()));
            key.extend(made.iter().flat_map(|made| [u64::from(made.partial), u64::from(made.is_joint)]));
        }
        let made = home_secs.map(|home_secs| (made, home_secs));
        let sources = ends.sources[source].clone();
        self.sharing.add(model, &Shared { tensor, from, sources, made, readings, trips, key });
    }

    /// Adds the edge of a use that shares nothing; what a block pays to itself goes to its node.
    fn alone(&mut self, model: &mut Model, index: usize, nodes: &mut [Variable]) {
        let Some((from, source, target)) = self.ends.of_use[index] else { return };
        let it = &model.uses[index];
        let (tensor, block) = (it.tensor, it.block);
        let trips = model.weighted_trips(it);
        let (sources, targets) = (&self.ends.sources[source], &self.ends.targets[target]);
        if from == block {
            let cost = &mut nodes[from as usize].cost;
            for ((cost, &source), &target) in cost.iter_mut().zip(&**sources).zip(&**targets) {
                *cost += model.moves_secs(trips, tensor, source, target);
            }
            return;
        }
        let it = &model.input.graph.tensors[tensor as usize];
        let (bytes, dims) = (model.input.moved_bytes(tensor).to_bits(), it.dims.clone());
        let is_stored = model.input.is_stored[tensor as usize];
        let is_ungathered = model.is_ungathered[tensor as usize];
        let made_of = model.figures_made_of(tensor);
        let key = TableKey {
            dims,
            bytes,
            trips: trips.to_bits(),
            is_stored,
            is_ungathered,
            made_of,
            source,
            target,
        };
        let make = || Arc::new(table(model, tensor, trips, sources, targets));
        let table = self.tables.entry(key).or_insert_with(make);
        if table.values.iter().any(|&secs| secs != 0.0) {
            self.found.push(Edge { a: from, b: block, cost: table.clone() });
        }
    }
}

/// Reshard seconds for every pair of strategies; equal layouts are priced once.
fn table(model: &mut Model, tensor: TensorId, trips: f64, sources: &[Source], targets: &[Target]) -> Table {
    let mut known: FxMap<(Source, Target), f64> = FxMap::default();
    let mut values = Vec::with_capacity(sources.len() * targets.len());
    for &source in sources {
        for &target in targets {
            let secs = || model.moves_secs(trips, tensor, source, target);
            values.push(*known.entry((source, target)).or_insert_with(secs));
        }
    }
    Table { rows: sources.len(), cols: targets.len(), values }
}
