//! What an op makes of its operands when its loops are split: egg derives it from M1, P1 and P2.

use super::rules::{Graph, Kinds, Move, Type, Typing, splits};
use egg::{Id, Language, Runner, SimpleScheduler};
use indexmap::IndexMap;
use phzc_ir::{Dims, Layout, Mesh};
use rustc_hash::FxBuildHasher;

/// What is made: the loop that each axis splits in the result, and the axes over which it is partial.
pub type Made = (Layout, u8);

/// Per way to split the operands (the loop that each axis splits): what is made, from which gathers and
/// reductions make the whole result.
pub type Splits = IndexMap<Layout, Made, FxBuildHasher>;

/// All ways to split an op whose loops have these sizes and kinds, in the order of their layouts.
pub fn derive(mesh: &Mesh, sizes: &[i64], kinds: &Kinds) -> Splits {
    let graph = saturated(mesh, sizes, kinds);
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
fn saturated(mesh: &Mesh, sizes: &[i64], kinds: &Kinds) -> Graph {
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
        .run(&splits(mesh.n_axes(), sizes.len()))
        .egraph
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::FactorKind::{Pass, Reduce};
    use phzc_ir::Reducer;

    #[test]
    fn timing() {
        for mesh in [&[8][..], &[2, 4], &[2, 2, 2], &[2, 2, 2, 2]] {
            for n in [3, 5, 8] {
                let start = std::time::Instant::now();
                let mut kinds: Kinds = (0..n).map(|_| Pass).collect();
                kinds[0] = Reduce(Reducer::Add);
                let found = derive(&Mesh::new(mesh), &vec![16; n], &kinds);
                eprintln!("{mesh:?} {n}: {} in {:?}", found.len(), start.elapsed());
            }
        }
    }
}
