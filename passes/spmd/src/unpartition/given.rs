//! How parameters and results lie, as the text says it: `sharding={…}`, or phzc's own note.

use super::axes::Axes;
use super::tile::{Dim, Kind, Origin, Part};
use super::walk::Signature;
use phzc_ir::{CompId, Instr, Module, Shape, Sharding, Tiles, Tiling, TilingKind, notes, parse};

/// How the leaves of an instruction lie; `None` where the text does not say it.
///
/// # Errors
/// When it says something that is no tiling of all devices.
pub fn layouts(instr: &Instr, axes: &Axes) -> Result<Vec<Option<Vec<Dim>>>, String> {
    let leaves = instr.shape.leaves();
    let sharding = match instr.note(notes::GLOBAL) {
        Some(text) => noted(text),
        None => instr.sharding().cloned(),
    };
    let Some(sharding) = sharding else { return Ok(vec![None; leaves.len()]) };
    let tilings = sharding.leaves(leaves.len());
    let layout = |(shape, tiling): (&&Shape, &&Tiling)| {
        let dims: &[i64] = shape.as_array().map_or(&[], |array| &array.dims);
        tiled(dims, tiling, axes).map_err(|why| format!("`{}` is split as `{tiling}`, {why}", instr.name))
    };
    leaves.iter().zip(&tilings).map(layout).collect()
}

/// A note's shardings, read as those of a parameter.
fn noted(text: &str) -> Option<Sharding> {
    let text = format!("e {{ ROOT x = f32[] parameter(0), sharding={{{text}}} }}");
    parse(&text).ok()?.entry().root().sharding().cloned()
}

/// The parts of a device's array of these sizes; `None` where the tiling is open.
///
/// # Errors
/// As [`layouts`].
pub fn tiled(dims: &[i64], tiling: &Tiling, axes: &Axes) -> Result<Option<Vec<Dim>>, String> {
    match &tiling.kind {
        TilingKind::Replicated => Ok(Some(dims.iter().map(|&size| super::view::whole(size)).collect())),
        TilingKind::Unknown => Ok(None),
        TilingKind::Tiled(tiles) => dims_of(dims, tiles, axes).map(Some),
        _ => Err("which is no tiling of all devices".to_owned()),
    }
}

fn dims_of(dims: &[i64], tiles: &Tiles, axes: &Axes) -> Result<Vec<Dim>, String> {
    let ids = tiles.device_ids();
    let n = axes.n_devices();
    if ids.len() != n || tiles.dims.len() < dims.len() || ids.iter().any(|&id| id < 0 || id as usize >= n) {
        return Err(format!("which is not over the {n} devices"));
    }
    let read = |(dim, &size): (usize, &i64)| {
        let minor: i64 = tiles.dims[dim + 1..].iter().product();
        let mut tile = vec![0; n];
        ids.iter().enumerate().for_each(|(at, &id)| tile[id as usize] = at as i64 / minor % tiles.dims[dim]);
        let by = axes.read(&tile).ok_or("whose devices lie along no axes of the mesh")?;
        let split = by.into_iter().map(|axis| Part { size: axes.size(axis), kind: Kind::Axis(axis) });
        Ok(split.chain(super::view::whole(size)).collect())
    };
    dims.iter().enumerate().map(read).collect()
}

/// How the entry's parameters lie; dimensions of which the text says nothing are open.
///
/// # Errors
/// As [`layouts`].
pub fn parameters(module: &Module, axes: &Axes) -> Result<Signature, String> {
    let entry = module.entry();
    let mut found = Signature::new();
    for id in entry.params() {
        let instr = entry.instr(id);
        for (shape, layout) in instr.shape.leaves().iter().zip(layouts(instr, axes)?) {
            let leaf = found.len();
            found.push(layout.unwrap_or_else(|| open(module.entry, leaf, shape)));
        }
    }
    Ok(found)
}

fn open(comp: CompId, leaf: usize, shape: &Shape) -> Vec<Dim> {
    let dims: &[i64] = shape.as_array().map_or(&[], |array| &array.dims);
    let dim = |(dim, &size): (usize, &i64)| match size {
        1 => Vec::new(),
        _ => vec![Part { size, kind: Kind::Open(Origin { comp, leaf, dim }) }],
    };
    dims.iter().enumerate().map(dim).collect()
}

/// How the entry's results are to lie: as the text says it, or as the parameters whose buffers they reuse.
///
/// # Errors
/// As [`layouts`].
pub fn results(module: &Module, axes: &Axes, params: &Signature) -> Result<Vec<Option<Vec<Dim>>>, String> {
    let (entry, mut starts, mut n) = (module.entry(), Vec::new(), 0);
    for id in entry.params() {
        starts.push((id, n));
        n += entry.instr(id).shape.n_leaves();
    }
    let mut found = layouts(entry.root(), axes)?;
    for alias in phzc_ir::aliased(module) {
        let start = starts.iter().find(|(id, _)| *id == alias.param).map_or(0, |(_, start)| *start);
        let is_open = |part: &Part| matches!(part.kind, Kind::Open(_));
        let param = &params[start + alias.leaf];
        if found[alias.output].is_none() && !param.iter().flatten().any(is_open) {
            found[alias.output] = Some(param.clone());
        }
    }
    Ok(found)
}
