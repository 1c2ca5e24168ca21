//! The cheapest way from one layout to another: egg generates all ways, costs select.

use super::forbid::Forbid;
use super::ways::{Net, Reach, Rules};
use indexmap::IndexMap;
use phzc_cost::Collective;
use phzc_ir::{Dims, Layout, MAX_AXES, Mesh};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

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

/// What is known of a start: its reach, and the ways to the layouts that were asked for.
struct Known {
    reach: Option<Reach>,
    ways: IndexMap<Layout, Vec<Vec<Step>>, FxBuildHasher>,
}

/// Remembers the ways between layouts of one mesh.
pub struct Moves {
    mesh: Mesh,
    forbid: Forbid,
    rules: Rules,
    nets: IndexMap<Dims, Net, FxBuildHasher>,
    known: IndexMap<Start, Known, FxBuildHasher>,
}

/// Prices one collective: kind, mesh axes, message bytes (NCCL's convention) to seconds.
pub type PriceFn<'a> = dyn Fn(Collective, u8, f64) -> f64 + 'a;

impl Moves {
    /// No ways yet; those that will be have none of the forbidden collectives.
    pub fn new(mesh: &Mesh, forbid: Forbid) -> Moves {
        let (nets, known) = Default::default();
        Moves { mesh: mesh.clone(), forbid, rules: Rules::new(mesh), nets, known }
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
        self.learn(&start, target);
        let (mesh, ways) = (&self.mesh, &self.known[&start].ways[&target]);
        let costed = ways.iter().map(|steps| (cost(from, steps, mesh, bytes, price), steps));
        let (secs, steps) = costed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let own = |step: &Step| Step { layout: rename(step.layout, |dim| names[dim]), ..*step };
        Some((secs, steps.iter().map(own).collect()))
    }

    /// Finds the ways from a start to a target, if they are not known.
    fn learn(&mut self, start: &Start, target: Layout) {
        let Moves { mesh, forbid, rules, nets, known } = self;
        let make = || Net::new(mesh, &start.dims, rules.of(start.dims.len()), *forbid);
        let net = nets.entry(start.dims.clone()).or_insert_with(make);
        let reach = || Known { reach: net.reach(start.source), ways: IndexMap::default() };
        let known = known.entry(start.clone()).or_insert_with(reach);
        known.ways.entry(target).or_insert_with(|| {
            let mut ways = known.reach.as_ref().map_or_else(Vec::new, |reach| net.ways(reach, target));
            ways.iter_mut().for_each(|steps| *steps = grouped(steps, start.source));
            ways.dedup();
            ways
        });
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
        // One axis is joined to no other.
        let is_joint = source.is_joint && source.partial.count_ones() > 1;
        let source = Source { layout: short(source.layout), is_joint, ..source };
        (Start { source, dims }, short(target), names)
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
