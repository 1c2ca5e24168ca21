//! The cheapest way from one layout to another: egg generates all ways, costs select.

use super::forbid::Forbid;
use super::rules::{Graph, Move, Type, Typing, rules};
use egg::{Id, Language, Rewrite, Runner, SimpleScheduler};
use indexmap::IndexMap;
use indexmap::map::Entry;
use phzc_cost::Collective;
use phzc_ir::{Dims, FactorKind, Layout, MAX_AXES, Mesh};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::cell::OnceCell;

/// One movement, named by what it does to the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The collective; `None` for a slice, which is local.
    pub kind: Option<Collective>,
    /// The mesh axes that communicate, a bit each, as one group.
    pub axes: u8,
    /// The layout afterwards.
    pub layout: Layout,
    /// The axes over which the value is partial afterwards.
    pub partial: u8,
}

/// A value before its movement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// Its layout.
    pub layout: Layout,
    /// The axes over which it is partial, a bit each.
    pub partial: u8,
    /// Whether these axes split one loop, so that one collective over all of them reduces it.
    pub is_joint: bool,
}

impl From<Layout> for Source {
    fn from(layout: Layout) -> Source {
        Source { layout, ..Source::default() }
    }
}

/// Where a value is, in dimensions that are renamed to `0, 1, …` in order of appearance and reduced to
/// what matters: which tile counts divide them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Start {
    source: Source,
    dims: Dims,
}

/// The ways worth remembering to each layout that a value can be brought to.
type Ways = IndexMap<Layout, Vec<Vec<Step>>, FxBuildHasher>;

/// Remembers the ways between layouts of one mesh.
pub struct Moves {
    mesh: Mesh,
    forbid: Forbid,
    ways: IndexMap<Start, Ways, FxBuildHasher>,
    /// By rank, made when first asked for.
    rules: [OnceCell<Vec<Rewrite<Move, Typing>>>; 2 * MAX_AXES + 1],
}

/// Prices one collective: kind, mesh axes, message bytes (NCCL's convention) to seconds.
pub type PriceFn<'a> = dyn Fn(Collective, u8, f64) -> f64 + 'a;

impl Moves {
    /// No ways yet; those that will be have none of the forbidden collectives.
    pub fn new(mesh: &Mesh, forbid: Forbid) -> Moves {
        Moves { mesh: mesh.clone(), forbid, ways: IndexMap::default(), rules: Default::default() }
    }

    /// The cheapest steps from `source` to `target`, and their seconds.
    ///
    /// `bytes` are those of the whole tensor. `None` when no sequence of movements leads there.
    pub fn cheapest(
        &mut self,
        source: Source,
        target: Layout,
        dims: &Dims,
        bytes: f64,
        price: &PriceFn,
    ) -> Option<(f64, Vec<Step>)> {
        if source.layout == target && source.partial == 0 {
            return Some((0.0, Vec::new()));
        }
        let (start, target, names) = self.renamed(source, target, dims);
        let from = start.source.layout;
        let (mesh, rank) = (&self.mesh, start.dims.len());
        let rules = || self.rules[rank].get_or_init(|| rules(mesh.n_axes(), rank));
        let ways = match self.ways.entry(start) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let ways = generate(mesh, new.key(), rules(), self.forbid);
                new.insert(ways)
            }
        };
        let costed = ways.get(&target)?.iter().map(|steps| (cost(from, steps, mesh, bytes, price), steps));
        let (secs, steps) = costed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let own = |step: &Step| Step { layout: rename(step.layout, |dim| names[dim]), ..*step };
        Some((secs, steps.iter().map(own).collect()))
    }

    /// The start, the target in its dimensions, and the tensor's own dimension behind each of these.
    fn renamed(&self, source: Source, target: Layout, dims: &Dims) -> (Start, Layout, SmallVec<[usize; 8]>) {
        let mut names: SmallVec<[usize; 8]> = SmallVec::new();
        let used = (0..self.mesh.n_axes()).flat_map(|axis| [source.layout.dim_of(axis), target.dim_of(axis)]);
        for dim in used.flatten() {
            if !names.contains(&dim) {
                names.push(dim);
            }
        }
        let short = |layout| rename(layout, |dim| names.iter().position(|&name| name == dim).unwrap_or(0));
        let dims = names.iter().map(|&dim| gcd(dims[dim], self.mesh.n_devices())).collect();
        (Start { source: Source { layout: short(source.layout), ..source }, dims }, short(target), names)
    }
}

/// The layout with its dimensions renamed.
fn rename(layout: Layout, name: impl Fn(usize) -> usize) -> Layout {
    (0..MAX_AXES).fold(layout, |renamed, axis| renamed.with(axis, layout.dim_of(axis).map(&name)))
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Message bytes of a step from `before`: the larger buffer of the two (NCCL's convention).
pub fn message_bytes(step: &Step, before: Layout, mesh: &Mesh, bytes: f64) -> f64 {
    let local = |layout: Layout| bytes / layout.n_tiles(mesh) as f64;
    local(before).max(local(step.layout))
}

/// Seconds of a sequence of steps.
fn cost(mut layout: Layout, steps: &[Step], mesh: &Mesh, bytes: f64, price: &PriceFn) -> f64 {
    let mut total = 0.0;
    for step in steps {
        if let Some(kind) = step.kind {
            total += price(kind, step.axes, message_bytes(step, layout, mesh, bytes));
        }
        layout = step.layout;
    }
    total
}

/// The ways worth remembering: to each layout the best for large tensors and the best for small ones.
fn generate(mesh: &Mesh, start: &Start, rules: &[Rewrite<Move, Typing>], forbid: Forbid) -> Ways {
    let graph = saturated(mesh, start, rules);
    let best = [0.0, 1.0].map(|latency| lightest(&graph, mesh, latency, forbid));
    let mut ways = Ways::default();
    for class in graph.classes() {
        let Type::Value(layout, 0, false) = class.data else { continue };
        ways.entry(layout).or_insert_with(|| {
            let mut ways: Vec<Vec<Step>> = best.iter().filter_map(|best| extract(best, class.id)).collect();
            ways.iter_mut().for_each(|steps| *steps = grouped(steps, start.source));
            ways.dedup();
            ways
        });
    }
    ways
}

/// Every layout that the value can be brought to, by every way.
fn saturated(mesh: &Mesh, start: &Start, rules: &[Rewrite<Move, Typing>]) -> Graph {
    let typing = || Typing {
        mesh: mesh.clone(),
        dims: start.dims.clone(),
        kinds: start.dims.iter().map(|_| FactorKind::Pass).collect(),
        source: (start.source.layout, start.source.partial),
    };
    let mut graph = Graph::new(typing());
    seed(&mut graph, start.source, mesh);
    // Every class is a layout of one tensor, so saturation ends; the limits only catch a broken rule.
    let runner = Runner::<Move, Typing>::new(typing())
        .with_egraph(graph)
        .with_scheduler(SimpleScheduler)
        .with_time_limit(std::time::Duration::from_secs(3600))
        .with_node_limit(200_000)
        .with_iter_limit(60)
        .run(rules);
    runner.egraph
}

/// Neighbouring steps that are one collective over a larger group, joined.
///
/// Gathers along one dimension are one all-gather. Partial sums of one loop are reduced by one
/// collective: scattered on all its axes, or reduced whole and then sliced.
fn grouped(steps: &[Step], source: Source) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    let (reduces, moves) = steps.split_at(steps.iter().take_while(|step| is_reduction(step.kind)).count());
    let is_mixed = reduces.iter().any(|step| step.kind != reduces[0].kind);
    if let (true, Some(last)) = (source.is_joint && is_mixed, reduces.last()) {
        out.push(Step {
            kind: Some(Collective::AllReduce),
            axes: source.partial,
            layout: source.layout,
            partial: 0,
        });
        out.push(Step { kind: None, axes: 0, layout: last.layout, partial: 0 });
    } else {
        reduces.iter().for_each(|step| push_grouped(&mut out, *step, source.is_joint));
    }
    let mut before = out.last().map_or(source.layout, |step| step.layout);
    for step in moves {
        let dim = |layout: Layout, axes: u8| {
            (0..MAX_AXES).find(|axis| axes >> axis & 1 == 1).and_then(|axis| layout.dim_of(axis))
        };
        let earlier = out.len().checked_sub(2).map_or(source.layout, |index| out[index].layout);
        let is_same_dim = out.last().is_some_and(|last| dim(earlier, last.axes) == dim(before, step.axes));
        push_grouped(&mut out, *step, step.kind == Some(Collective::AllGather) && is_same_dim);
        before = step.layout;
    }
    out
}

fn is_reduction(kind: Option<Collective>) -> bool {
    matches!(kind, Some(Collective::AllReduce | Collective::ReduceScatter))
}

fn push_grouped(out: &mut Vec<Step>, step: Step, may_join: bool) {
    match out.last_mut() {
        Some(last) if may_join && last.kind == step.kind => {
            *last = Step { axes: last.axes | step.axes, ..step }
        }
        _ => out.push(step),
    }
}

/// The tensor, and the tensor reduced and gathered whole: rules find every layout in between.
fn seed(graph: &mut Graph, source: Source, mesh: &Mesh) {
    let mut term = graph.add(Move::Leaf);
    for axis in (0..mesh.n_axes()).filter(|axis| source.partial >> axis & 1 == 1) {
        let axis = graph.add(Move::Num(axis as u8));
        term = graph.add(Move::AllReduce([axis, term]));
    }
    for axis in (0..mesh.n_axes()).rev() {
        if let Some(dim) = source.layout.dim_of(axis) {
            let (axis, dim) = (graph.add(Move::Num(axis as u8)), graph.add(Move::Num(dim as u8)));
            term = graph.add(Move::AllGather([axis, dim, term]));
        }
    }
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

/// Per class: the weight of its lightest term, and the class and step that the term ends with.
type Best = IndexMap<Id, (f64, Option<(Id, Step)>)>;

/// The lightest term of every class: relaxation to a fixed point, ties to the smaller class.
fn lightest(graph: &Graph, mesh: &Mesh, latency: f64, forbid: Forbid) -> Best {
    let mut classes: Vec<Id> = graph.classes().map(|class| class.id).collect();
    classes.sort_unstable();
    let mut best = Best::new();
    loop {
        let mut changed = false;
        for &class in &classes {
            let mut nodes: Vec<&Move> = graph[class].nodes.iter().collect();
            nodes.sort_unstable();
            for node in nodes {
                let Some(found) = weigh(graph, class, node, mesh, latency, &best) else { continue };
                let is_legal =
                    found.1.is_none_or(|(_, step)| !step.kind.is_some_and(|it| forbid.forbids(it)));
                if is_legal && best.get(&class).is_none_or(|old| found.0 < old.0 - 1e-15) {
                    best.insert(class, found);
                    changed = true;
                }
            }
        }
        if !changed {
            return best;
        }
    }
}

/// The steps of a class' lightest term.
fn extract(best: &Best, goal: Id) -> Option<Vec<Step>> {
    let (mut steps, mut at) = (Vec::new(), goal);
    while let Some((before, step)) = best.get(&at)?.1 {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    Some(steps)
}

/// Weight of `node` as the maker of `class`, with the class that it moves and the step.
fn weigh(
    graph: &Graph,
    class: Id,
    node: &Move,
    mesh: &Mesh,
    latency: f64,
    best: &Best,
) -> Option<(f64, Option<(Id, Step)>)> {
    let Type::Value(layout, partial, _) = graph[class].data else { return None };
    let kind = match node {
        Move::Leaf => return Some((0.0, None)),
        Move::Num(_) | Move::Apply(_) => return None,
        Move::AllGather(_) => Some(Collective::AllGather),
        Move::Slice(_) => None,
        Move::ReduceScatter(_) => Some(Collective::ReduceScatter),
        Move::AllReduce(_) => Some(Collective::AllReduce),
        Move::AllToAll(_) => Some(Collective::AllToAll),
        Move::Permute(_) => Some(Collective::Permute),
    };
    let children = node.children();
    let child = graph.find(*children.last()?);
    let Type::Num(axis) = graph[children[0]].data else { return None };
    let Type::Value(from, partial_before, _) = graph[child].data else { return None };
    if partial_before != 0 && !is_reduction(kind) {
        // In the text, and so in XLA, a value is reduced before anything else happens to it.
        return None;
    }
    let local = |layout: Layout| 1.0 / layout.n_tiles(mesh) as f64;
    let weight = step_weight(kind, mesh.sizes[axis as usize] as f64, local(from), local(layout), latency);
    let step = Step { kind, axes: 1 << axis, layout, partial };
    Some((best.get(&child)?.0 + weight, Some((child, step))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps between two layouts of a 64x64 tensor on a 2x4 mesh.
    fn check(source: impl Into<Source>, target: Layout) -> String {
        let mesh = Mesh::new(&[2, 4]);
        let mut moves = Moves::new(&mesh, Forbid::default());
        let price = |_: Collective, _: u8, bytes: f64| bytes;
        let (_, steps) =
            moves.cheapest(source.into(), target, &Dims::from_slice(&[64, 64]), 4096.0, &price).unwrap();
        let name =
            |step: &Step| format!("{}@{:02b}", step.kind.map_or("slice", Collective::as_str), step.axes);
        steps.iter().map(name).collect::<Vec<_>>().join(" ")
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
        assert_eq!(check(partial(R, 0b11, true), R.with(1, Some(0))), "all-reduce@11 slice@00");
    }

    #[test]
    fn gathers_two_axes_of_one_dimension_at_once() {
        assert_eq!(check(R.with(0, Some(0)).with(1, Some(0)), R), "all-gather@11");
    }

    #[test]
    fn gathers_an_axis_that_is_in_the_way_of_a_move() {
        let (from, to) = (R.with(0, Some(0)).with(1, Some(1)), R.with(0, Some(1)).with(1, Some(0)));
        assert_eq!(check(from, to), "all-gather@01 all-to-all@10 slice@01");
    }
}
