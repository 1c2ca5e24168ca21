//! The planner's paths between two layouts against all sequences of layout changes, each priced as `check`
//! and `report` read it.

use phzc_cost::Cluster;
use phzc_ir::{ArrayShape, DType, Dims, Layout, Mesh};
use phzc_passes::derive::moves;
use phzc_passes::pricing::collective_secs;
use phzc_passes::shard::forbid::Forbid;
use phzc_passes::shard::reshard_cost::Reshards;

/// Every layout of a tensor on a mesh.
fn layouts(dims: &[i64], mesh: &Mesh) -> Vec<Layout> {
    let split = |layouts: Vec<Layout>, axis| -> Vec<Layout> {
        let along = |layout: Layout| (0..dims.len()).map(move |dim| layout.with(axis, Some(dim)));
        layouts.iter().copied().chain(layouts.iter().copied().flat_map(along)).collect()
    };
    let all = (0..mesh.n_axes()).fold(vec![Layout::REPLICATED], split);
    all.into_iter().filter(|layout| layout.divides(dims, mesh)).collect()
}

/// Seconds of one change of layout, by the collectives that a single `Sharding` call is read as.
fn change_secs(cluster: &Cluster, mesh: &Mesh, array: &ArrayShape, from: Layout, to: Layout) -> f64 {
    let local_bytes = |layout: Layout| array.bytes() / layout.n_tiles(mesh) as f64;
    let (mut at, mut secs) = (from, 0.0);
    for step in moves(from, to, &array.dims, mesh) {
        let bytes = local_bytes(at).max(local_bytes(step.layout));
        secs += step.kind.map_or(0.0, |kind| collective_secs(cluster, mesh, kind, step.axes, bytes));
        at = step.layout;
    }
    secs
}

/// Floyd and Warshall's algorithm: least seconds between any two layouts.
fn least_secs(n: usize, change: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    let mut secs: Vec<Vec<f64>> = (0..n).map(|from| (0..n).map(|to| change(from, to)).collect()).collect();
    for by in 0..n {
        for from in 0..n {
            for to in 0..n {
                secs[from][to] = secs[from][to].min(secs[from][by] + secs[by][to]);
            }
        }
    }
    secs
}

/// The pairs of layouts between which the planner's path is not the cheapest.
fn exceptions(cluster: &str, sizes: &[i64], dims: &[i64]) -> (usize, Vec<String>) {
    let (cluster, mesh) = (Cluster::named(cluster).expect("a built-in cluster"), Mesh::new(sizes));
    let array = ArrayShape { dtype: DType::F32, dims: Dims::from_slice(dims), dynamic: 0, layout: None };
    let layouts = layouts(dims, &mesh);
    let change = |from: usize, to: usize| change_secs(&cluster, &mesh, &array, layouts[from], layouts[to]);
    let least = least_secs(layouts.len(), change);
    let mut reshards = Reshards::new(&mesh, Forbid::default());
    let price = |kind, axes, bytes| collective_secs(&cluster, &mesh, kind, axes, bytes);
    let mut found = Vec::new();
    for (from, row) in layouts.iter().zip(&least) {
        for (to, &least) in layouts.iter().zip(row) {
            let tensor = (&array.dims, array.bytes());
            let secs = reshards.secs((*from).into(), (*to).into(), tensor, &price);
            let secs = secs.expect("every layout can be reached");
            if secs > least * (1.0 + 1e-9) || secs < least * (1.0 - 1e-9) {
                found
                    .push(format!("{from:?} to {to:?} of {dims:?} on {mesh}: {secs:e} s, least {least:e} s"));
            }
        }
    }
    (layouts.len() * layouts.len(), found)
}

#[test]
fn no_path_is_cheaper_than_the_planner_s() {
    let meshes: [(&str, &[i64]); 7] = [
        ("a100-8", &[2, 4]),
        ("a100-8x2", &[2, 8]),
        ("h100-8x2", &[2, 8]),
        ("a100-8x2", &[8, 2]),
        ("a100-8x8", &[8, 8]),
        ("h100-8x8", &[8, 8]),
        ("h100-8x2", &[2, 2, 4]),
    ];
    let shapes: [&[i64]; 5] = [&[64, 64], &[8192, 8192], &[64, 4096, 1024], &[8, 64, 3], &[64, 64, 64, 64]];
    let mut n_pairs = 0;
    for (cluster, sizes) in meshes {
        for dims in shapes {
            let (pairs, found) = exceptions(cluster, sizes, dims);
            assert_eq!(found.first(), None, "{} of {pairs} on {cluster}", found.len());
            n_pairs += pairs;
        }
    }
    println!("{n_pairs} pairs of layouts: each path is the cheapest");
}
