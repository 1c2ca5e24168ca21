//! What an op makes of its operands when its loops are split: egg derives it from M1, P1 and P2.

use super::rules::{Graph, Kinds, Move, Type, Typing, splits};
use egg::{Id, Language, Rewrite, Runner, SimpleScheduler};
use indexmap::IndexMap;
use indexmap::map::Entry;
use phzc_ir::{Dims, Layout, Mesh};
use rustc_hash::FxBuildHasher;
use std::cell::Cell;

/// What is made: the loop that each axis splits in the result, and the axes over which it is partial.
pub type Made = (Layout, u8);

/// Per way to split the operands (the loop that each axis splits): what is made, from which gathers and
/// reductions make the whole result.
pub type Splits = IndexMap<Layout, Made, FxBuildHasher>;

/// Remembers what one mesh axis makes of an op.
///
/// Several axes split an op one after the other: what a device does with its tile is the op again, of smaller
/// loops.
#[derive(Default)]
pub struct Splitter {
    known: IndexMap<(Dims, Kinds), Splits, FxBuildHasher>,
    /// By number of loops.
    rules: IndexMap<usize, Vec<Rewrite<Move, Typing>>, FxBuildHasher>,
}

thread_local! {
    /// What is known so far: it is the same for all programs and meshes, and takes long to derive.
    static KNOWN: Cell<Splitter> = Cell::default();
}

impl Splitter {
    /// Asks the one that remembers what was asked before.
    pub fn asked<T>(ask: impl FnOnce(&mut Splitter) -> T) -> T {
        let mut known = KNOWN.take();
        let answer = ask(&mut known);
        KNOWN.set(known);
        answer
    }

    /// The ways for one axis of `n_devices` to split an op whose loops have these sizes and kinds, or none of
    /// them.
    pub fn ways(&mut self, n_devices: i64, sizes: &[i64], kinds: &Kinds) -> &Splits {
        // Nothing matters of the sizes but which are divisible: an axis of two devices stands for all.
        let sizes: Dims = sizes.iter().map(|size| if size % n_devices == 0 { 2 } else { 1 }).collect();
        let rules = self.rules.entry(kinds.len()).or_insert_with(|| splits(1, kinds.len()));
        match self.known.entry((sizes, kinds.clone())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (sizes, kinds) = new.key();
                let splits = derive(&Mesh::new(&[2]), sizes, kinds, rules);
                new.insert(splits)
            }
        }
    }

    /// The loops (a bit each) whose split makes the op's results partial.
    pub fn reduced(&mut self, kinds: &Kinds) -> u8 {
        let ways = self.ways(1, &vec![1; kinds.len()], kinds);
        let bit = |(split, made): (&Layout, &Made)| split.dim_of(0).map_or(0, |dim| made.1 << dim);
        ways.iter().map(bit).sum()
    }
}

/// All ways to split an op whose loops have these sizes and kinds, in the order of their layouts.
fn derive(mesh: &Mesh, sizes: &[i64], kinds: &Kinds, rules: &[Rewrite<Move, Typing>]) -> Splits {
    let graph = saturated(mesh, sizes, kinds, rules);
    let mut found = Splits::default();
    let whole = graph.lookup(Move::Leaf).and_then(|leaf| graph.lookup(Move::Apply([leaf])));
    let mut seen: Vec<Id> = whole.into_iter().collect();
    let mut next = 0;
    while let Some(&class) = seen.get(next) {
        next += 1;
        for node in &graph[class].nodes {
            let Some(child) = node.children().last().map(|&child| graph.find(child)) else { continue };
            match (node, &graph[class].data, &graph[child].data) {
                (Move::Apply(_), &Type::Value(layout, partial, _), &Type::Value(split, ..)) => {
                    found.insert(split, (layout, partial));
                }
                (Move::AllGather(_) | Move::AllReduce(_), ..) if !seen.contains(&child) => seen.push(child),
                _ => {}
            }
        }
    }
    found.sort_unstable_keys();
    found
}

/// The op on whole operands, and all that equals it.
fn saturated(mesh: &Mesh, sizes: &[i64], kinds: &Kinds, rules: &[Rewrite<Move, Typing>]) -> Graph {
    let typing = Typing {
        mesh: mesh.clone(),
        dims: Dims::from_slice(sizes),
        kinds: kinds.clone(),
        source: (Layout::REPLICATED, 0),
    };
    let mut graph = Graph::new(typing.clone());
    let leaf = graph.add(Move::Leaf);
    graph.add(Move::Apply([leaf]));
    // Every class is a layout, so saturation ends; the limits only catch a broken rule.
    Runner::<Move, Typing>::new(typing)
        .with_egraph(graph)
        .with_scheduler(SimpleScheduler)
        .with_time_limit(std::time::Duration::from_secs(3600))
        .with_node_limit(1_000_000)
        .with_iter_limit(60)
        .run(rules)
        .egraph
}

#[cfg(test)]
mod tests;
