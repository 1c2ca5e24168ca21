//! Every way between the layouts of a tensor: egg finds the movements, once for all tensors whose sizes divide alike.

use super::forbid::Forbid;
use super::moves::{Source, Step};
use super::rules::{Graph, Move, Type, Typing, rules};
use egg::{Language, Rewrite, Runner, SimpleScheduler};
use indexmap::IndexMap;
use phzc_cost::Collective;
use phzc_ir::{Dims, FactorKind, Layout, MAX_AXES, Mesh};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A value's layout, and the axes over which it is partial.
type Place = (Layout, u8);

/// The places where a tensor can be, and the single movements between them.
pub(super) struct Net {
    places: IndexMap<Place, Vec<Edge>>,
}

/// A movement from a place to another.
struct Edge {
    to: usize,
    step: Step,
    /// Relative seconds when bandwidth matters, and when latency does.
    weight: [f64; 2],
}

/// Where a place is reached from, and by which of its edges; `None` for the start and what cannot be reached.
type Reached = Vec<Option<(usize, usize)>>;

/// The lightest ways from one place to all others, by bandwidth and by latency.
pub(super) struct Reach {
    start: usize,
    by_weight: [Reached; 2],
}

impl Net {
    /// The net of tensors with these sizes, without forbidden collectives.
    pub(super) fn new(mesh: &Mesh, dims: &Dims, rules: &[Rewrite<Move, Typing>], forbid: Forbid) -> Net {
        let graph = saturated(mesh, dims, rules);
        let mut net = Net { places: IndexMap::new() };
        let mut classes: Vec<_> = graph.classes().collect();
        classes.sort_by_key(|class| class.id);
        let place = |data: Type| match data {
            Type::Value(layout, partial, false) => Some((layout, partial)),
            _ => None,
        };
        classes
            .iter()
            .filter_map(|class| place(class.data))
            .for_each(|it| drop(net.places.insert(it, Vec::new())));
        for class in classes {
            let (Some(to), mut nodes) = (place(class.data), class.nodes.clone()) else { continue };
            nodes.sort_unstable();
            for node in nodes {
                let Some((from, step)) = movement(&graph, &node, to) else { continue };
                if !step.kind.is_some_and(|kind| forbid.forbids(kind)) {
                    net.add(from, to, step, mesh);
                }
            }
        }
        net
    }

    fn add(&mut self, from: Place, to: Place, step: Step, mesh: &Mesh) {
        let size = mesh.sizes[step.axes.trailing_zeros() as usize] as f64;
        let local = |layout: Layout| 1.0 / layout.n_tiles(mesh) as f64;
        let weight =
            [0.0, 1.0].map(|latency| step_weight(step.kind, size, local(from.0), local(to.0), latency));
        let to = self.places.get_index_of(&to).unwrap_or(0);
        let edges = self.places.entry(from).or_default();
        edges.push(Edge { to, step, weight });
    }

    /// The lightest ways from where a value is.
    pub(super) fn reach(&self, source: Source) -> Option<Reach> {
        let start = self.places.get_index_of(&(source.layout, source.partial))?;
        Some(Reach { start, by_weight: [0, 1].map(|which| self.lightest(start, which)) })
    }

    /// Dijkstra's algorithm; of equal ways the one through the place found first.
    fn lightest(&self, start: usize, which: usize) -> Reached {
        let mut least = vec![f64::INFINITY; self.places.len()];
        let mut reached: Reached = vec![None; self.places.len()];
        // The bits of floats that are not negative sort as the floats do.
        let mut queue = BinaryHeap::from([Reverse((0u64, start))]);
        least[start] = 0.0;
        while let Some(Reverse((bits, at))) = queue.pop() {
            if f64::from_bits(bits) > least[at] {
                continue;
            }
            for (index, edge) in self.places[at].iter().enumerate() {
                let weight = least[at] + edge.weight[which];
                if weight < least[edge.to] - 1e-15 {
                    (least[edge.to], reached[edge.to]) = (weight, Some((at, index)));
                    queue.push(Reverse((weight.to_bits(), edge.to)));
                }
            }
        }
        reached
    }

    /// The ways worth remembering to a layout: the best for large tensors and the best for small ones, which may be one.
    pub(super) fn ways(&self, reach: &Reach, target: Layout) -> Vec<Vec<Step>> {
        let Some(goal) = self.places.get_index_of(&(target, 0)) else { return Vec::new() };
        let mut ways: Vec<Vec<Step>> =
            reach.by_weight.iter().filter_map(|reached| self.way(reached, reach.start, goal)).collect();
        ways.dedup();
        ways
    }

    fn way(&self, reached: &Reached, start: usize, goal: usize) -> Option<Vec<Step>> {
        let (mut steps, mut at) = (Vec::new(), goal);
        while at != start {
            let (before, edge) = reached[at]?;
            steps.push(self.places[before][edge].step);
            at = before;
        }
        steps.reverse();
        Some(steps)
    }
}

/// Every layout that a tensor can have, by every movement: a sum over all axes, and that sum done.
fn saturated(mesh: &Mesh, dims: &Dims, rules: &[Rewrite<Move, Typing>]) -> Graph {
    let all = ((1u16 << mesh.n_axes()) - 1) as u8;
    let typing = || Typing {
        mesh: mesh.clone(),
        dims: dims.clone(),
        kinds: dims.iter().map(|_| FactorKind::Pass).collect(),
        source: (Layout::REPLICATED, all),
    };
    let mut graph = Graph::new(typing());
    let mut term = graph.add(Move::Leaf);
    for axis in 0..mesh.n_axes() {
        let axis = graph.add(Move::Num(axis as u8));
        term = graph.add(Move::AllReduce([axis, term]));
    }
    // Every class is a layout of one tensor, so saturation ends; the limits only catch a broken rule.
    let runner = Runner::<Move, Typing>::new(typing())
        .with_egraph(graph)
        .with_scheduler(SimpleScheduler)
        .with_time_limit(std::time::Duration::from_secs(3600))
        .with_node_limit(1_000_000)
        .with_iter_limit(60)
        .run(rules);
    runner.egraph
}

/// The movement that a term ends with, and where it starts.
fn movement(graph: &Graph, node: &Move, (layout, partial): Place) -> Option<(Place, Step)> {
    let kind = match node {
        Move::Leaf | Move::Num(_) | Move::Apply(_) => return None,
        Move::AllGather(_) => Some(Collective::AllGather),
        Move::Slice(_) => None,
        Move::ReduceScatter(_) => Some(Collective::ReduceScatter),
        Move::AllReduce(_) => Some(Collective::AllReduce),
        Move::AllToAll(_) => Some(Collective::AllToAll),
        Move::Permute(_) => Some(Collective::Permute),
    };
    let children = node.children();
    let Type::Num(axis) = graph[children[0]].data else { return None };
    let Type::Value(from, partial_before, _) = graph[*children.last()?].data else { return None };
    let is_reduction = matches!(kind, Some(Collective::AllReduce | Collective::ReduceScatter));
    if partial_before != 0 && !is_reduction {
        // In the text, and so in XLA, a value is reduced before anything else happens to it.
        return None;
    }
    Some(((from, partial_before), Step { kind, axes: 1 << axis, layout, partial }))
}

/// Relative seconds of a step on a tensor of one byte: traffic per device, plus `latency` per message round.
fn step_weight(kind: Option<Collective>, size: f64, before: f64, after: f64, latency: f64) -> f64 {
    let share = (size - 1.0) / size;
    let traffic = match kind {
        None => return 1e-6 * after,
        Some(Collective::AllReduce) => 2.0 * share * before,
        Some(Collective::Permute) => before,
        Some(Collective::AllToAll) => share * before,
        Some(_) => share * before.max(after),
    };
    traffic * (1.0 - latency)
        + latency * if kind == Some(Collective::AllReduce) { 2.0 } else { 1.0 }
        + 1e-9 * traffic
}

/// The rules for tensors of each rank on one mesh, made when first asked for.
pub(super) struct Rules {
    n_axes: usize,
    by_rank: [std::cell::OnceCell<Vec<Rewrite<Move, Typing>>>; 2 * MAX_AXES + 1],
}

impl Rules {
    /// No rules yet.
    pub(super) fn new(mesh: &Mesh) -> Rules {
        Rules { n_axes: mesh.n_axes(), by_rank: Default::default() }
    }

    /// The rules for tensors of a rank.
    pub(super) fn of(&self, rank: usize) -> &[Rewrite<Move, Typing>] {
        self.by_rank[rank].get_or_init(|| rules(self.n_axes, rank))
    }
}
