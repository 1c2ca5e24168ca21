//! Shardings: a layout per leaf, a tile count per dimension, every device once.

use crate::diag::counted;
use crate::ops::describe;
use crate::shape::Shape;
use crate::sharding::{Devices, Sharding, Tiles, Tiling, TilingKind};

/// Devices that a program can span.
pub(super) const MAX_DEVICES: i64 = 1 << 20;

/// Checks a sharding against the shape that it is for.
pub(super) fn check(sharding: &Sharding, shape: &Shape) -> Result<(), String> {
    match sharding {
        Sharding::Single(tiling) => {
            shape.leaves().into_iter().try_for_each(|leaf| check_tiling(tiling, leaf))
        }
        Sharding::Tuple(tilings) => {
            let leaves = shape.leaves();
            // XLA writes one layout for the empty tuple.
            let fits = tilings.len() == leaves.len() || (leaves.is_empty() && tilings.len() == 1);
            if !fits || !matches!(shape, Shape::Tuple(_)) {
                let (found, wanted) = (counted(tilings.len(), "layout"), describe(shape));
                return Err(format!("a `sharding` of {found} does not fit {wanted}"));
            }
            tilings.iter().zip(leaves).try_for_each(|(tiling, leaf)| check_tiling(tiling, leaf))
        }
    }
}

fn check_tiling(tiling: &Tiling, leaf: &Shape) -> Result<(), String> {
    match &tiling.kind {
        TilingKind::Tiled(tiles) => check_tiles(tiles, leaf.as_array().map_or(0, |array| array.rank()))
            .map_err(|problem| format!("`sharding={tiling}` {problem}")),
        TilingKind::Maximal(device) if !(0..MAX_DEVICES).contains(device) => {
            Err(format!("`sharding={tiling}` names a device that cannot be"))
        }
        _ => Ok(()),
    }
}

fn check_tiles(tiles: &Tiles, rank: usize) -> Result<(), String> {
    let (n_tiled, n_last) = (tiles.dims.len(), tiles.n_last());
    if n_tiled != rank + n_last {
        return Err(format!("needs {}, got {n_tiled}", counted(rank + n_last, "tile count")));
    }
    if tiles.dims.iter().any(|&count| count < 1) {
        return Err("needs tile counts of at least 1".to_owned());
    }
    let n_devices = tiles.n_devices().filter(|&count| count <= MAX_DEVICES);
    let n_devices = n_devices.ok_or_else(|| format!("spans more than {MAX_DEVICES} devices"))?;
    match &tiles.devices {
        Devices::List(list) => check_list(list, n_devices),
        Devices::Iota { reshape, perm } => check_iota(reshape, perm, n_devices),
    }
}

fn check_list(list: &[i64], n_devices: i64) -> Result<(), String> {
    if list.len() as i64 != n_devices {
        return Err(format!("needs {}, got {}", counted(n_devices as usize, "device"), list.len()));
    }
    // A mesh may be a part of the devices, in any order.
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    match (
        sorted.iter().find(|device| !(0..MAX_DEVICES).contains(*device)),
        sorted.windows(2).find(|it| it[0] == it[1]),
    ) {
        (Some(device), _) => Err(format!("names device {device}, which cannot be")),
        (None, Some(twice)) => Err(format!("names device {} twice", twice[0])),
        (None, None) => Ok(()),
    }
}

fn check_iota(reshape: &[i64], perm: &[u8], n_devices: i64) -> Result<(), String> {
    let product =
        reshape.iter().try_fold(1i64, |total, &size| if size < 1 { None } else { total.checked_mul(size) });
    if product != Some(n_devices) {
        return Err(format!("needs {} after `<=`", counted(n_devices as usize, "device")));
    }
    let mut order: Vec<usize> = perm.iter().map(|&axis| axis as usize).collect();
    order.sort_unstable();
    if order.into_iter().eq(0..reshape.len()) {
        Ok(())
    } else {
        Err("needs each axis once in `T(…)`".to_owned())
    }
}
