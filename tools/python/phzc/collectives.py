"""Collectives of HLO, as each device's program has them, as functions of `jax.lax` under `jax.shard_map`.

Groups of device numbers become the mesh axes along which the devices of a group differ.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from .hlo import Instr


def axes_of_groups(instr: Instr, sizes: dict[str, int]) -> tuple[str, ...]:
    """The mesh axes whose devices communicate, in the order that the groups list them.

    Raises `NotImplementedError` where the groups are not those of whole axes.
    """
    groups = [
        [int(n) for n in part.split(",")]
        for part in re.findall(r"\{([\d,]+)\}", instr.attrs["replica_groups"])
    ]
    groups = groups or [list(range(math.prod(sizes.values())))]
    coords = np.array(np.unravel_index(groups[0], tuple(sizes.values())))
    varying = [axis for axis, at in zip(sizes, coords, strict=True) if len(set(at)) > 1]
    for order in itertools.permutations(varying):
        if sorted(groups) == sorted(_groups_along(order, sizes)):
            return order
    raise NotImplementedError(f"`{instr.name}`: its groups of devices are not those of mesh axes")


def _groups_along(order: tuple[str, ...], sizes: dict[str, int]) -> list[list[int]]:
    names = list(sizes)
    ids = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    rest = [names.index(axis) for axis in names if axis not in order]
    ids = ids.transpose([*rest, *(names.index(axis) for axis in order)])
    return ids.reshape(-1, math.prod(sizes[axis] for axis in order)).tolist()


def _all_reduce(ev: Any, instr: Instr, *x: jax.Array) -> Any:
    axes, op = axes_of_groups(instr, ev.axes), ev.reducer(instr)
    reduce = {"add": lax.psum, "maximum": lax.pmax, "minimum": lax.pmin}.get(op)
    if reduce is None:
        done = tuple(_reduce_gathered(ev, instr, value, axes) for value in x)
    else:
        done = tuple(reduce(value, axes) for value in x)
    return done if instr.shape.parts is not None else done[0]


def _reduce_gathered(ev: Any, instr: Instr, x: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """Reductions that lax has no collective for: each device gathers all summands."""
    parts, apply = lax.all_gather(x, axes), ev.function(instr)
    total = parts[0]
    for part in parts[1:]:
        total = apply(total, part)
    return total


def _reduce_scatter(ev: Any, instr: Instr, x: jax.Array) -> jax.Array:
    axes, dim = axes_of_groups(instr, ev.axes), instr.int("dimensions")
    if ev.reducer(instr) == "add":
        return lax.psum_scatter(x, axes, scatter_dimension=dim, tiled=True)
    size = instr.shape.dims[dim]
    start = lax.mul(lax.axis_index(axes), np.int32(size))
    return lax.dynamic_slice_in_dim(_all_reduce(ev, instr, x), start, size, dim)


def _all_gather(ev: Any, instr: Instr, x: jax.Array) -> jax.Array:
    return lax.all_gather(x, axes_of_groups(instr, ev.axes), axis=instr.int("dimensions"), tiled=True)


def _all_to_all(ev: Any, instr: Instr, *x: jax.Array) -> Any:
    axes = axes_of_groups(instr, ev.axes)
    if instr.shape.parts is None:
        dim = instr.int("dimensions")
        return lax.all_to_all(x[0], axes, dim, dim, tiled=True)
    done = lax.all_to_all(lax.concatenate([lax.expand_dims(v, [0]) for v in x], 0), axes, 0, 0, tiled=True)
    return tuple(lax.index_in_dim(done, at, keepdims=False) for at in range(len(x)))


def _permute(ev: Any, instr: Instr, x: jax.Array) -> jax.Array:
    pairs = [(int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)\}", instr.attrs["source_target_pairs"])]
    return lax.ppermute(x, tuple(ev.axes), pairs)


def _partition_id(ev: Any, instr: Instr) -> jax.Array:
    return lax.convert_element_type(lax.axis_index(tuple(ev.axes)), instr.shape.numpy)


OPS: dict[str, Callable[..., Any]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-permute": _permute,
    "partition-id": _partition_id,
    "reduce-scatter": _reduce_scatter,
}
