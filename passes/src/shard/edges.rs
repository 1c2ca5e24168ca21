//! Edges of the problem: reshard seconds for every pair of strategies, one table for equal edges.

use super::model::{Model, Use};
use super::moves::Source;
use super::want::Want;
use crate::blocks::BlockId;
use crate::choose::{Edge, Node as Variable, Table};
use crate::graph::TensorId;
use indexmap::{IndexMap, IndexSet};
use phzc_ir::Dims;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;

type FxMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// Where reshards start and end, strategy by strategy: the same for every reading of equal values by equal blocks.
#[derive(Default)]
pub(super) struct Ends {
    sources: IndexSet<Vec<Source>, FxBuildHasher>,
    targets: IndexSet<Vec<Want>, FxBuildHasher>,
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

fn sources(model: &Model, from: BlockId, it: &Use) -> Vec<Source> {
    let strategies = model.menus[from as usize].strategies.iter();
    strategies.map(|strategy| model.settled(it.tensor, strategy)).collect()
}

fn targets(model: &Model, it: &Use) -> Vec<Want> {
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
    source: usize,
    target: usize,
}

/// The edges found so far.
pub(super) struct Edges<'e> {
    ends: &'e Ends,
    tables: FxMap<TableKey, Arc<Table>>,
    pub found: Vec<Edge>,
}

impl<'e> Edges<'e> {
    pub(super) fn new(ends: &'e Ends) -> Edges<'e> {
        Edges { ends, tables: FxMap::default(), found: Vec::new() }
    }

    /// Adds the edge of a use, its seconds times `share`; what a block pays to itself goes to its node.
    pub(super) fn add(&mut self, model: &mut Model, index: usize, share: f64, nodes: &mut [Variable]) {
        let Some((from, source, target)) = self.ends.of_use[index] else { return };
        let it = &model.uses[index];
        let (tensor, block) = (it.tensor, it.block);
        let trips = it.trips * (share * model.weights[model.phase(it) as usize]);
        let (sources, targets) = (&self.ends.sources[source], &self.ends.targets[target]);
        if from == block {
            let cost = &mut nodes[from as usize].cost;
            for ((cost, &source), &target) in cost.iter_mut().zip(sources).zip(targets) {
                *cost += trips * model.move_secs(tensor, source, target);
            }
            return;
        }
        let it = &model.input.graph.tensors[tensor as usize];
        let (bytes, dims) = (it.bytes.to_bits(), it.dims.clone());
        let is_stored = model.input.is_stored[tensor as usize];
        let key = TableKey { dims, bytes, trips: trips.to_bits(), is_stored, source, target };
        let make = || Arc::new(table(model, tensor, trips, sources, targets));
        let table = self.tables.entry(key).or_insert_with(make);
        if table.values.iter().any(|&secs| secs != 0.0) {
            self.found.push(Edge { a: from, b: block, cost: table.clone() });
        }
    }
}

/// Reshard seconds for every pair of strategies; equal layouts are priced once.
fn table(model: &mut Model, tensor: TensorId, trips: f64, sources: &[Source], targets: &[Want]) -> Table {
    let mut known: FxMap<(Source, Want), f64> = FxMap::default();
    let mut values = Vec::with_capacity(sources.len() * targets.len());
    for &source in sources {
        for &target in targets {
            let secs = || trips * model.move_secs(tensor, source, target);
            values.push(*known.entry((source, target)).or_insert_with(secs));
        }
    }
    Table { rows: sources.len(), cols: targets.len(), values }
}
