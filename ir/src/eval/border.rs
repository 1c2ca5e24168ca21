//! Custom calls, among them the borders of regions of one device's part: what goes in is cut, what comes out
//! is put together.

use super::shards::assembled;
use super::value::{Array, Sizes, Value};
use super::{Joint, Lanes, control};
use crate::border::{goes_in, lying};
use crate::diag::{Diagnostic, Result};
use crate::shape::Shape;
use crate::sharding::{Tiling, TilingKind};

/// Markers of layouts, device by device, and borders, all devices together.
pub(crate) fn custom_call(joint: &Joint, args: Vec<Lanes>) -> Result<Lanes> {
    if crate::annotations::is_border(joint.view.instr) {
        return border(joint, &args);
    }
    let of_lane = |lane: usize| args.iter().map(|lanes| lanes[lane].clone()).collect();
    (0..joint.n_lanes).map(|lane| control::custom_call(&joint.call(), of_lane(lane))).collect()
}

fn border(joint: &Joint, args: &[Lanes]) -> Result<Lanes> {
    if joint.n_lanes != joint.machine.devices.n_devices() {
        return Err(Diagnostic::error("a computation of scalars has no `shard_map`"));
    }
    let instr = joint.view.instr;
    let leaves = instr.shape.leaves();
    let lying = lying(joint.machine.module, &joint.view).filter(|it| it.len() == args.len());
    let Some(lying) = lying.filter(|_| leaves.len() == args.len()) else {
        return Err(Diagnostic::error("the text does not say how values lie at the border of a `shard_map`"));
    };
    let mut made: Vec<Vec<Value>> = vec![Vec::new(); joint.n_lanes];
    for ((lanes, lying), leaf) in args.iter().zip(lying).zip(leaves) {
        let arrays = lanes.iter().cloned().map(Value::array).collect::<Result<Vec<_>>>()?;
        let corners = corners(&lying.tiling(), &arrays, leaf, goes_in(instr))?;
        let passed = match goes_in(instr) {
            true => {
                arrays.iter().zip(&corners).map(|(array, at)| cut(array, at, leaf)).collect::<Result<_>>()?
            }
            false => {
                let tiles: Vec<&Array> = arrays.iter().collect();
                vec![assembled(&tiles, corners.into_iter(), &sizes(leaf))?; joint.n_lanes]
            }
        };
        made.iter_mut().zip(passed).for_each(|(lane, array)| lane.push(array.into()));
    }
    let is_tuple = matches!(instr.shape, Shape::Tuple(_));
    let whole = |mut parts: Vec<Value>| if is_tuple { Value::Tuple(parts) } else { parts.swap_remove(0) };
    Ok(made.into_iter().map(whole).collect())
}

/// Where each device's tile starts; `leaf` is the shape on the other side of the border.
fn corners(tiling: &Tiling, arrays: &[Array], leaf: &Shape, is_in: bool) -> Result<Vec<Sizes>> {
    let (other, own) = (sizes(leaf), arrays[0].dims().iter().copied().collect::<Sizes>());
    let (whole, part) = if is_in { (own, other) } else { (other, own) };
    let places = places(tiling, whole.len(), arrays.len())?;
    let fits = |dim: usize| part.get(dim).is_some_and(|size| size * places.n_tiles[dim] == whole[dim]);
    if part.len() != whole.len() || !(0..whole.len()).all(fits) {
        return Err(Diagnostic::error(format!("tiles `{tiling}` do not fit the values at this border")));
    }
    let start = |tile: Sizes| tile.iter().zip(&part).map(|(at, size)| at * size).collect();
    Ok(places.of_devices.into_iter().map(start).collect())
}

/// Which tile each device has.
struct Places {
    /// Tiles of each dimension.
    n_tiles: Sizes,
    of_devices: Vec<Sizes>,
}

fn places(tiling: &Tiling, rank: usize, n_devices: usize) -> Result<Places> {
    let wrong = || Diagnostic::error(format!("`{tiling}` is no layout at the border of a `shard_map`"));
    let tiles = match &tiling.kind {
        TilingKind::Replicated => {
            let (n_tiles, first) = (Sizes::from_elem(1, rank), Sizes::from_elem(0, rank));
            return Ok(Places { n_tiles, of_devices: vec![first; n_devices] });
        }
        TilingKind::Tiled(tiles) if tiles.dims.len() >= rank => tiles,
        _ => return Err(wrong()),
    };
    let (ids, sizes) = (tiles.device_ids(), &tiles.dims);
    let mut of_devices = vec![Sizes::new(); n_devices];
    for (at, &device) in ids.iter().enumerate() {
        let minor = |dim: usize| sizes[dim + 1..].iter().product::<i64>().max(1);
        let tile = (0..rank).map(|dim| (at as i64 / minor(dim) % sizes[dim]) as usize).collect();
        *usize::try_from(device).ok().and_then(|it| of_devices.get_mut(it)).ok_or_else(wrong)? = tile;
    }
    match ids.len() == n_devices {
        true => Ok(Places { n_tiles: sizes[..rank].iter().map(|&n| n as usize).collect(), of_devices }),
        false => Err(wrong()),
    }
}

fn cut(array: &Array, start: &Sizes, leaf: &Shape) -> Result<Array> {
    let limit: Sizes = start.iter().zip(sizes(leaf)).map(|(start, size)| start + size).collect();
    array.slice(start, &limit)
}

fn sizes(shape: &Shape) -> Sizes {
    let array = shape.as_array();
    array.map(|array| array.dims.iter().map(|&size| size as usize).collect()).unwrap_or_default()
}
