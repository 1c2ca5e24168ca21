//! Writing a whole array as a reader wants it: its parts in the reader's order, repeated where they are free.

use super::tile::{Dim, Tile, global, merge};
use crate::spmd::build::Builder;
use phzc_ir::InstrId;

/// A part as a reader wants it: its size, and which part of the tile it is, if any.
type Wanted = (i64, Option<usize>);

/// The whole array whose dimensions are made of these parts, with which [`merge`] has compared the tile's.
pub fn place(build: &mut Builder, tile: &Tile, wanted: &[Dim]) -> InstrId {
    let mut tile = tile.clone();
    let dims: Vec<Vec<Wanted>> =
        wanted.iter().enumerate().map(|(dim, parts)| aligned(&mut tile, dim, parts)).collect();
    let value = ordered(build, &tile, &dims);
    spread(build, value, &dims)
}

/// Cuts the parts of a dimension as `wanted` has them.
fn aligned(tile: &mut Tile, dim: usize, wanted: &[super::tile::Part]) -> Vec<Wanted> {
    let (mut found, mut at) = (Vec::new(), 0);
    let hidden: Vec<usize> = tile.hidden().collect();
    for part in wanted {
        let own = tile.dims[dim].get(at).copied();
        let is_same = |id: usize| match (part.axis(), tile.parts[id].axis()) {
            (None, None) => true,
            (a, b) => a == b,
        };
        let Some(id) = own.filter(|&id| is_same(id)) else {
            let of_axis = |id: &&usize| part.axis().is_some() && tile.parts[**id].axis() == part.axis();
            found.push((part.size, hidden.iter().find(of_axis).copied()));
            continue;
        };
        if tile.parts[id].size != part.size {
            tile.halve(id, part.size);
        }
        at += 1;
        if !part.is_free() {
            found.push((part.size, Some(id).filter(|&id| !tile.parts[id].is_free())));
        }
    }
    found
}

/// The parts that the tile has, in the wanted order, each with the size of its run; runs are of parts that
/// stay together.
fn ordered(build: &mut Builder, tile: &Tile, dims: &[Vec<Wanted>]) -> InstrId {
    let view: Vec<usize> = dims.iter().flatten().filter_map(|(_, id)| *id).collect();
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for dim in &tile.order {
        for (at, &id) in dim.iter().enumerate() {
            let follows = at > 0 && view.windows(2).any(|pair| pair == [dim[at - 1], id]);
            match runs.last_mut() {
                Some(last) if follows => last.push(id),
                _ => runs.push(vec![id]),
            }
        }
    }
    let place = |run: &Vec<usize>| view.iter().position(|id| *id == run[0]);
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&run| place(&runs[run]));
    if order.is_sorted() {
        return tile.base;
    }
    let sizes: Vec<i64> =
        runs.iter().map(|run| run.iter().map(|&id| tile.parts[id].size).product()).collect();
    let value = build.reshape(tile.base, &sizes);
    build.transpose(value, &order)
}

/// Repeats along what is missing, and joins parts to dimensions.
fn spread(build: &mut Builder, value: InstrId, dims: &[Vec<Wanted>]) -> InstrId {
    let sizes: Vec<i64> = dims.iter().map(|dim| dim.iter().map(|(size, _)| size).product()).collect();
    if build.dims(value).as_slice() == sizes && dims.iter().flatten().all(|(_, id)| id.is_some()) {
        return value;
    }
    // A dimension all of whose parts are there, or none, is taken as one.
    let mut groups: Vec<(i64, bool)> = Vec::new();
    for (dim, &size) in dims.iter().zip(&sizes) {
        let n_there = dim.iter().filter(|(_, id)| id.is_some()).count();
        if n_there == 0 || n_there == dim.len() {
            groups.push((size, n_there > 0));
        } else {
            groups.extend(dim.iter().map(|(size, id)| (*size, id.is_some())));
        }
    }
    // What is one long needs no repeating.
    let is_spread = groups.iter().any(|&(size, is_there)| !is_there && size != 1);
    if !is_spread {
        return build.reshape(value, &sizes);
    }
    let at: Vec<usize> = (0..groups.len()).filter(|&group| groups[group].1).collect();
    let there: Vec<i64> = at.iter().map(|&group| groups[group].0).collect();
    let all: Vec<i64> = groups.iter().map(|(size, _)| *size).collect();
    let value = build.reshape(value, &there);
    let value = build.broadcast(value, &all, &at);
    build.reshape(value, &sizes)
}

/// The sizes of a whole array whose dimensions have these parts.
pub fn sizes(dims: &[Dim]) -> Vec<i64> {
    dims.iter().map(|dim| global(dim)).collect()
}

/// Whether a tile's dimensions can be read as these; the parts that both have then.
pub fn joint(tile: &Tile, wanted: &[Dim]) -> Result<Vec<Dim>, super::tile::Clash> {
    wanted.iter().enumerate().map(|(dim, parts)| merge(parts, &tile.dim(dim))).collect()
}
