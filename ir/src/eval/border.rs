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
    let (other, own) = (sizes(leaf), arrays[0].dims().iter().copied().collect());
    let (whole, part) = if is_in { (own, other) } else { (other, own) };
    let tiles = match &tiling.kind {
        TilingKind::Replicated => None,
        TilingKind::Tiled(tiles) => Some(tiles),
        _ => {
            return Err(Diagnostic::error(format!("`{tiling}` is no layout at the border of a `shard_map`")));
        }
    };
    let n_tiles = |dim: usize| tiles.map_or(1, |tiles| tiles.dims[dim] as usize);
    let rank = whole.len();
    let ids = tiles.map(crate::sharding::Tiles::device_ids);
    let fits = part.len() == rank
        && tiles.is_none_or(|tiles| tiles.dims.len() >= rank)
        && ids.as_ref().is_none_or(|ids| ids.len() == arrays.len())
        && (0..rank).all(|dim| part[dim] * n_tiles(dim) == whole[dim]);
    if !fits {
        return Err(Diagnostic::error(format!("tiles `{tiling}` do not fit the values at this border")));
    }
    let mut found = vec![Sizes::from_elem(0, rank); arrays.len()];
    for (at, &device) in ids.iter().flatten().enumerate() {
        let minor =
            |dim: usize| tiles.map_or(1, |tiles| tiles.dims[dim + 1..].iter().product::<i64>() as usize);
        let start = |dim: usize| at / minor(dim) % n_tiles(dim) * part[dim];
        let corner = found.get_mut(device as usize);
        *corner.ok_or_else(|| Diagnostic::error("a layout names a device that is not there"))? =
            (0..rank).map(start).collect();
    }
    Ok(found)
}

fn cut(array: &Array, start: &Sizes, leaf: &Shape) -> Result<Array> {
    let limit: Sizes = start.iter().zip(sizes(leaf)).map(|(start, size)| start + size).collect();
    array.slice(start, &limit)
}

fn sizes(shape: &Shape) -> Sizes {
    let array = shape.as_array();
    array.map(|array| array.dims.iter().map(|&size| size as usize).collect()).unwrap_or_default()
}
