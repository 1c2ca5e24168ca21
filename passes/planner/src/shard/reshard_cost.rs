//! The cheapest way from one layout of a tensor to another: a shortest path by the cluster's prices.

use super::forbid::Forbid;
use super::reshard_graph::{Edge, ReshardGraph};
use super::sharding_request::Want;
use indexmap::IndexMap;
use petgraph::algo::dijkstra;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;
use petgraph::{Direction, graph::EdgeReference};
use phzc_cost::Collective;
use phzc_ir::{Dims, Layout, Mesh};
use phzc_plan::derive::Move;
use phzc_plan::pricing::{AxisMask, axes_of};
use rustc_hash::FxBuildHasher;
use smallvec::{SmallVec, smallvec};
use std::ops::Add;

/// One change of a layout, or a sum that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it takes, in order; slices are local.
    pub moves: SmallVec<[Move; 1]>,
    /// The axes over which the value is partial afterwards.
    pub partial: AxisMask,
}

impl Step {
    /// A step of one movement.
    pub(super) fn of(step: Move, partial: AxisMask) -> Step {
        Step { moves: smallvec![step], partial }
    }

    /// The layout afterwards.
    pub fn layout(&self) -> Layout {
        self.moves.last().map_or(Layout::REPLICATED, |last| last.layout)
    }

    /// Its first collective; `None` for a slice.
    pub fn kind(&self) -> Option<Collective> {
        self.moves.iter().find_map(|it| it.kind)
    }
}

/// A value before its movement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Its layout.
    pub layout: Layout,
    /// The axes over which it is partial, a bit each.
    pub partial: AxisMask,
    /// Whether these axes split one loop, so that one collective over all of them reduces it.
    pub is_joint: bool,
}

impl From<Layout> for Source {
    fn from(layout: Layout) -> Source {
        Source { layout, ..Source::default() }
    }
}

/// Prices one collective: kind, mesh axes, message bytes (NCCL's convention) to seconds.
pub type PriceFn<'a> = dyn Fn(Collective, AxisMask, f64) -> f64 + 'a;

/// A tensor whose layout changes, as far as paths depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tensor {
    /// Sizes, reduced to what matters: which tile counts divide them.
    dims: Dims,
    /// Axes over which the value stays partial.
    kept: AxisMask,
}

/// Shortest paths between the layouts of tensors on one mesh, by one cluster's prices.
pub struct Reshards {
    mesh: Mesh,
    forbid: Forbid,
    graphs: IndexMap<Tensor, ReshardGraph, FxBuildHasher>,
    /// By graph, start and bits of the whole tensor's bytes: the cost of every place that can be reached.
    costs: IndexMap<(usize, NodeIndex, u64), Vec<Option<Cost>>, FxBuildHasher>,
}

/// What a path costs: of two that take as long the one of fewer steps is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Cost {
    secs: f64,
    n_steps: u32,
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { secs: self.secs + other.secs, n_steps: self.n_steps + other.n_steps }
    }
}

/// A path that was asked for: where it starts and ends in a graph.
struct Query {
    graph: usize,
    start: NodeIndex,
    goal: NodeIndex,
    bytes: f64,
}

impl Reshards {
    /// No paths yet; those that will be have none of the forbidden collectives.
    pub fn new(mesh: &Mesh, forbid: Forbid) -> Reshards {
        Reshards { mesh: mesh.clone(), forbid, graphs: IndexMap::default(), costs: IndexMap::default() }
    }

    /// Seconds of the cheapest path from `source` to `want`.
    ///
    /// `bytes` are those of the whole tensor. `None` where no sequence of movements leads there, as where
    /// sums would have to be undone, or an axis that is still to be summed over had to split something.
    pub fn secs(&mut self, source: Source, want: Want, tensor: (&Dims, f64), price: &PriceFn) -> Option<f64> {
        if is_there(source, want) {
            return Some(0.0);
        }
        if source.layout == want.layout && want.partial & !source.partial == 0 {
            let steps = self.sums_at_home(source, want);
            let secs = |step: &Step| self.step_secs(step, source.layout, tensor.1, price);
            return Some(steps.iter().map(secs).sum());
        }
        let query = self.query(source, want, tensor)?;
        // What the graph has come to hold since is out of reach.
        self.costs(&query, price).get(query.goal.index())?.map(|cost| cost.secs)
    }

    /// The steps of that path.
    pub fn steps(
        &mut self,
        source: Source,
        want: Want,
        tensor: (&Dims, f64),
        price: &PriceFn,
    ) -> Option<Vec<Step>> {
        if is_there(source, want) {
            return Some(Vec::new());
        }
        if source.layout == want.layout && want.partial & !source.partial == 0 {
            return Some(self.sums_at_home(source, want));
        }
        let query = self.query(source, want, tensor)?;
        let costs = self.costs(&query, price).clone();
        let seconds = self.message_secs(&query, price);
        let graph = &self.graphs[query.graph].graph;
        let cost_of = |node: NodeIndex| costs.get(node.index()).copied().flatten();
        let (mut at, mut steps) = (query.goal, Vec::new());
        while at != query.start {
            let reached = cost_of(at)?;
            let is_last = |edge: &EdgeReference<Edge>| {
                cost_of(edge.source()).is_some_and(|before| before + cost(edge.weight(), &seconds) == reached)
            };
            let last = graph.edges_directed(at, Direction::Incoming).find(is_last)?;
            let step = last.weight().step.clone();
            steps.push(Step { partial: step.partial | want.partial, ..step });
            at = last.source();
        }
        steps.reverse();
        Some(steps)
    }

    /// The all-reduces of a value that stays where it is made: an op's own, which no path over other layouts
    /// can stand for.
    fn sums_at_home(&self, source: Source, want: Want) -> Vec<Step> {
        let sums = source.partial & !want.partial;
        let groups: Vec<AxisMask> = match source.is_joint {
            true => vec![sums],
            false => axes_of(sums).map(|axis| 1 << axis).collect(),
        };
        let mut partial = source.partial;
        let reduce = |axes: AxisMask| {
            partial &= !axes;
            Step::of(Move { kind: Some(Collective::AllReduce), axes, layout: source.layout }, partial)
        };
        groups.into_iter().map(reduce).collect()
    }

    fn step_secs(&self, step: &Step, before: Layout, bytes: f64, price: &PriceFn) -> f64 {
        let secs = |it: &Move| match it.kind {
            Some(kind) if self.forbid.forbids(kind) => f64::INFINITY,
            Some(kind) => price(kind, it.axes, message_bytes(it, before, &self.mesh, bytes)),
            None => 0.0,
        };
        step.moves.iter().map(secs).sum()
    }

    fn query(&mut self, source: Source, want: Want, (dims, bytes): (&Dims, f64)) -> Option<Query> {
        if want.partial & !source.partial != 0 {
            return None;
        }
        let n_devices = self.mesh.n_devices();
        let dims = dims.iter().map(|&dim| gcd(dim, n_devices)).collect();
        let entry = self.graphs.entry(Tensor { dims, kept: want.partial });
        let index = entry.index();
        let tensor = entry.key().clone();
        let graph = entry.or_insert_with(|| ReshardGraph::new(&self.mesh, &tensor.dims, tensor.kept));
        let partial = source.partial & !want.partial;
        // One axis is joined to no other.
        let is_joint = source.is_joint && partial.count_ones() > 1;
        let start = graph.reach(Source { partial, is_joint, ..source });
        let goal = graph.places.get_index_of(&Source::from(want.layout)).map(NodeIndex::new)?;
        Some(Query { graph: index, start, goal, bytes })
    }

    /// The costs of all places from the start of a query.
    fn costs(&mut self, query: &Query, price: &PriceFn) -> &Vec<Option<Cost>> {
        let key = (query.graph, query.start, query.bytes.to_bits());
        if !self.costs.contains_key(&key) {
            let seconds = self.message_secs(query, price);
            let graph = &self.graphs[query.graph].graph;
            let found = dijkstra(graph, query.start, None, |edge| cost(edge.weight(), &seconds));
            let is_finite = |cost: &&Cost| cost.secs.is_finite();
            let costs =
                graph.node_indices().map(|node| found.get(&node).filter(is_finite).copied()).collect();
            self.costs.insert(key, costs);
        }
        &self.costs[&key]
    }

    /// Seconds of everything that a graph sends; those of what is forbidden are infinite.
    fn message_secs(&self, query: &Query, price: &PriceFn) -> Vec<f64> {
        let secs = |&(kind, axes, n_tiles): &(Collective, AxisMask, i64)| match self.forbid.forbids(kind) {
            true => f64::INFINITY,
            false => price(kind, axes, query.bytes / n_tiles as f64),
        };
        self.graphs[query.graph].messages.iter().map(secs).collect()
    }
}

fn cost(edge: &Edge, message_secs: &[f64]) -> Cost {
    Cost { secs: edge.messages.iter().map(|&message| message_secs[message]).sum(), n_steps: 1 }
}

fn is_there(source: Source, want: Want) -> bool {
    source.layout == want.layout && source.partial == want.partial
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Message bytes of a movement from `before`: the larger buffer of the two (NCCL's convention).
pub fn message_bytes(step: &Move, before: Layout, mesh: &Mesh, bytes: f64) -> f64 {
    let local = |layout: Layout| bytes / layout.n_tiles(mesh) as f64;
    local(before).max(local(step.layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps between two layouts of a 64x64 tensor on a 2x4 mesh.
    fn check(source: impl Into<Source>, target: Layout) -> String {
        let mesh = Mesh::new(&[2, 4]);
        let mut reshards = Reshards::new(&mesh, Forbid::default());
        let price = |_: Collective, _: u8, bytes: f64| bytes;
        let tensor = (&Dims::from_slice(&[64, 64]), 4096.0);
        let steps = reshards.steps(source.into(), target.into(), tensor, &price).expect("there is a path");
        let name =
            |step: &Move| format!("{}@{:02b}", step.kind.map_or("slice", Collective::as_str), step.axes);
        steps.iter().flat_map(|step| &step.moves).map(name).collect::<Vec<_>>().join(" ")
    }

    fn partial(layout: Layout, partial: u8, is_joint: bool) -> Source {
        Source { layout, partial, is_joint }
    }

    const R: Layout = Layout::REPLICATED;

    #[test]
    fn moves_an_axis_between_dimensions_by_all_to_all() {
        assert_eq!(check(R.with(0, Some(0)), R.with(0, Some(1))), "all-to-all@01");
    }

    #[test]
    fn turns_a_partial_value_into_a_split_one_by_reduce_scatter() {
        assert_eq!(check(partial(R, 0b10, false), R.with(1, Some(0))), "reduce-scatter@10");
    }

    #[test]
    fn slices_before_it_gathers() {
        assert_eq!(check(R.with(0, Some(0)), R.with(1, Some(1))), "slice@10 all-gather@01");
    }

    #[test]
    fn scatters_before_it_reduces_on_the_other_axis() {
        assert_eq!(check(partial(R, 0b11, false), R.with(1, Some(0))), "reduce-scatter@10 all-reduce@01");
    }

    #[test]
    fn reduces_before_it_slices_or_moves() {
        let split = R.with(1, Some(1));
        assert_eq!(check(partial(R, 0b01, false), split), "all-reduce@01 slice@10");
        assert_eq!(check(partial(R, 0b01, false), split.with(0, Some(0))), "reduce-scatter@01 slice@10");
        assert_eq!(check(partial(split, 0b01, false), R), "all-reduce@01 all-gather@10");
    }

    #[test]
    fn reduces_one_loop_over_two_axes_at_once() {
        assert_eq!(check(partial(R, 0b11, true), R), "all-reduce@11");
        assert_eq!(check(partial(R, 0b11, true), R.with(1, Some(0))), "all-reduce@11 slice@10");
    }

    #[test]
    fn a_value_that_stays_where_it_is_made_is_all_reduced_whatever_a_scatter_and_a_gather_cost() {
        let mesh = Mesh::new(&[2, 4]);
        let mut reshards = Reshards::new(&mesh, Forbid::default());
        let price = |kind: Collective, _: u8, bytes: f64| {
            bytes * if kind == Collective::AllReduce { 9.0 } else { 1.0 }
        };
        let tensor = (&Dims::from_slice(&[64, 64]), 4096.0);
        let source = partial(R, 0b11, true);
        assert_eq!(reshards.secs(source, R.into(), tensor, &price), Some(9.0 * 4096.0));
        let steps = reshards.steps(source, R.into(), tensor, &price).expect("there is a path");
        assert_eq!(steps.iter().map(Step::kind).collect::<Vec<_>>(), [Some(Collective::AllReduce)]);
    }

    #[test]
    fn gathers_two_axes_of_one_dimension_at_once() {
        assert_eq!(check(R.with(0, Some(0)).with(1, Some(0)), R), "all-gather@11");
    }

    #[test]
    fn swaps_axes_of_unlike_sizes_without_a_gather() {
        let (from, to) = (R.with(0, Some(0)).with(1, Some(1)), R.with(0, Some(1)).with(1, Some(0)));
        assert_eq!(check(from, to), "all-to-all@10 collective-permute@11 all-to-all@01");
    }
}
