"""Layouts: from HLO's `sharding={…}` text to `PartitionSpec` over the axes of the plan's mesh."""

from __future__ import annotations

import functools
import math
import re

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .hlo import split

Axes = dict[str, int]
_TILED = re.compile(r"\{devices=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?(.*)\}")


def axes_of(text: str | None) -> Axes:
    """The axes of a mesh as phzc writes it, name to size: `x=2,y=4`; one of size 1 where it writes none."""
    pairs = (pair.split("=") for pair in (text or "x=1").split(","))
    return {name: int(size) for name, size in pairs}


def mesh_of(axes: Axes, first: int = 0) -> Mesh:
    """The mesh over this process's devices in their order, from device number `first` on.

    Raises `ValueError` where there are fewer devices than the plan uses.
    """
    needed, devices = math.prod(axes.values()), jax.devices()
    if first + needed > len(devices):
        raise ValueError(
            f"the plan uses {first + needed} devices, JAX sees {len(devices)}: run it on its cluster, "
            "or plan for the devices at hand; for a rehearsal on CPUs set "
            f"jax.config.update('jax_num_cpu_devices', {first + needed}) before the first use of a device"
        )
    chosen = np.array(devices[first : first + needed]).reshape(tuple(axes.values()))
    return Mesh(chosen, tuple(axes))


def spec_of(text: str | None, rank: int, axes: Axes) -> PartitionSpec:
    """The layout of an array of `rank` dimensions; whole on every device where there is no text.

    Raises `ValueError` for a tiling that no order of mesh axes makes.
    """
    if text is None or text in ("{replicated}", "{manual}"):
        return PartitionSpec()
    return _tiled(text, rank, tuple(axes.items()))


@functools.cache
def _tiled(text: str, rank: int, sizes: tuple[tuple[str, int], ...]) -> PartitionSpec:
    axes = dict(sizes)
    found = _TILED.fullmatch(text)
    if not found:
        raise ValueError(
            f"the layout `{text}` is no tiling of a mesh: plan again without the program's own shardings"
        )
    tiles, source = (tuple(map(int, part.split(","))) for part in found.groups()[:2])
    order = tuple(map(int, found[3].split(","))) if found[3] else tuple(range(len(source)))
    ids = np.arange(math.prod(source)).reshape(source).transpose(order).reshape(tiles)
    parts = [_axes_along(ids, dim, axes) for dim in range(rank)]
    if not np.array_equal(_tile_of_devices(ids, rank), _tile_of_spec(parts, axes)):
        raise ValueError(f"the layout `{text}` does not follow from the mesh {axes}")
    return PartitionSpec(*map(_entry, parts))


def specs_of(text: str | None, ranks: list[int], axes: Axes) -> list[PartitionSpec]:
    """The layouts of a tuple's arrays: `{{…}, {…}}`, or one for all."""
    if text is None or not text.startswith("{{"):
        return [spec_of(text, rank, axes) for rank in ranks]
    return [spec_of(part, rank, axes) for part, rank in zip(split(text[1:-1]), ranks, strict=True)]


def constrain(value: jax.Array, text: str, mesh: Mesh) -> jax.Array:
    """The value, in the layout that the text says."""
    spec = spec_of(text, value.ndim, dict(mesh.shape))
    return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))


def _entry(part: list[str]) -> str | tuple[str, ...] | None:
    return None if not part else part[0] if len(part) == 1 else tuple(part)


def _axes_along(ids: np.ndarray, dim: int, axes: Axes) -> list[str]:
    """The mesh axes that split a dimension, major first: by the distance of the devices of neighboring
    tiles."""
    along = np.moveaxis(ids, dim, 0).reshape(ids.shape[dim], -1)[:, 0]
    strides = dict(zip(axes, np.cumprod([1, *reversed(axes.values())])[-2::-1], strict=True))
    found: list[str] = []
    inner = 1
    while inner < len(along):
        step = along[inner] - along[0]
        axis = next((a for a in axes if strides[a] == step and axes[a] > 1 and a not in found), None)
        if axis is None:
            return []
        found.insert(0, axis)
        inner *= axes[axis]
    return found


def _tile_of_devices(ids: np.ndarray, rank: int) -> np.ndarray:
    """Per device, the tile that it has: `[device, dimension]`."""
    tiles = np.zeros((ids.size, rank), int)
    for at in np.ndindex(*ids.shape):
        tiles[ids[at]] = at[:rank]
    return tiles


def _tile_of_spec(parts: list[list[str]], axes: Axes) -> np.ndarray:
    """The same by the axes of each dimension."""
    at = dict(
        zip(axes, np.unravel_index(np.arange(math.prod(axes.values())), tuple(axes.values())), strict=True)
    )
    tiles = np.zeros((math.prod(axes.values()), len(parts)), int)
    for dim, part in enumerate(parts):
        for axis in part:
            tiles[:, dim] = tiles[:, dim] * axes[axis] + at[axis]
    return tiles
