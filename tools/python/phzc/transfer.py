"""Moves arrays to other devices, those of other processes among them.

Every process calls `send` for the same arrays in the same order, also for those that it has no part of: of these
it has a stand-in, an array whose shards are all elsewhere. What crosses processes goes from device to device by
one program of both sides, a `ppermute` per device that the receivers outnumber the senders by.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ALL = "all"
Starts = tuple[tuple[int, ...], ...]  # per device where the part begins that it gives or takes


def send(value: Any, to: NamedSharding) -> jax.Array:
    """The array, laid out as wanted."""
    held = getattr(value, "sharding", None)
    if held == to:
        return value
    if jax.process_count() == 1:
        return jax.device_put(value, to)
    if held is None or not isinstance(held, NamedSharding):
        own = np.asarray(value)
        return jax.make_array_from_callback(own.shape, to, lambda at: own[at], dtype=own.dtype)
    if not (is_here(held) or is_here(to)):
        return stand_in(value.shape, value.dtype, to)
    if held.is_fully_addressable and to.is_fully_addressable:
        return jax.device_put(value, to)
    if held.device_set == to.device_set:
        return _laid_out(to)(value)
    return _across(value, to)


def is_here(sharding: NamedSharding) -> bool:
    """Whether a device of this process has a part."""
    return bool(sharding.addressable_devices)


def stand_in(shape: tuple[int, ...], dtype: Any, sharding: NamedSharding) -> jax.Array:
    """An array of which this process has nothing."""
    return jax.make_array_from_single_device_arrays(shape, sharding, [], dtype=dtype)


def where(held: NamedSharding, run: Callable, *arrays: jax.Array) -> Any:
    """What a function makes of arrays that are on the devices of `held`, in that layout where it divides what
    is made. The function is traced once for arrays of the same types."""
    made, jitted = _on(held, run, tuple((x.shape, x.dtype) for x in arrays))
    if is_here(held):
        return jitted(*arrays)
    return jax.tree.map(lambda x: stand_in(x.shape, x.dtype, x.sharding), made)


@functools.cache
def _on(held: NamedSharding, run: Callable, types: tuple) -> tuple[Any, Callable]:
    made = jax.eval_shape(run, *[jax.ShapeDtypeStruct(dims, dtype) for dims, dtype in types])

    def laid_out(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        try:
            held.shard_shape(x.shape)
        except ValueError:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(held.mesh, PartitionSpec()))
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=held)

    made = jax.tree.map(laid_out, made)
    return made, jax.jit(run, out_shardings=jax.tree.map(lambda x: x.sharding, made))


@functools.cache
def _laid_out(to: NamedSharding) -> Any:
    return jax.jit(lambda x: x, out_shardings=to)


def _across(value: jax.Array, to: NamedSharding) -> jax.Array:
    """Where sender and receiver have equal tiles each device sends its own; else the sender makes the array
    whole first, and each of its devices sends what one of the receiver's takes."""
    senders, takers = (tuple(s.mesh.devices.flat) for s in (value.sharding, to))
    taken = to.devices_indices_map(value.shape)
    given = value.sharding.devices_indices_map(value.shape)
    is_alike = len(senders) == len(takers) and all(
        given[a] == taken[b] for a, b in zip(senders, takers, strict=True)
    )
    if not is_alike and is_here(value.sharding):
        value = _laid_out(NamedSharding(value.sharding.mesh, PartitionSpec()))(value)
    dims = to.shard_shape(value.shape)
    starts = None if is_alike else tuple(_start(taken[device]) for device in takers)
    mesh = Mesh(np.array([*senders, *takers]), (ALL,))
    sharding = NamedSharding(mesh, PartitionSpec(ALL))
    own = {shard.device: shard.data[None] for shard in value.addressable_shards}
    size = dims if is_alike else value.shape
    parts = [
        own[d] if d in own else _nothing(d, size, value.dtype)
        for d in mesh.devices.flat
        if d.process_index == jax.process_index()
    ]
    whole = jax.make_array_from_single_device_arrays((mesh.size, *size), sharding, parts, dtype=value.dtype)
    # Programs that wait for another process take the threads of those that it waits for: one at a time.
    made = jax.block_until_ready(_program(mesh, len(senders), dims, starts)(jax.block_until_ready(whole)))
    kept = [s.data.reshape(dims) for s in made.addressable_shards if s.device in taken]
    return jax.make_array_from_single_device_arrays(value.shape, to, kept, dtype=value.dtype)


def _start(index: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(part.start or 0 for part in index)


@functools.cache
def _nothing(device: jax.Device, dims: tuple[int, ...], dtype: Any) -> jax.Array:
    return jax.device_put(np.zeros((1, *dims), dtype), device)


@functools.cache
def _program(mesh: Mesh, n_senders: int, dims: tuple[int, ...], starts: Starts | None) -> Any:
    """Sends a part to each device behind the senders, as many at a time as there are senders."""
    n_takers = mesh.size - n_senders

    def sent(x: jax.Array) -> jax.Array:
        at, made = lax.axis_index(ALL), None
        for first in range(0, n_takers, n_senders):
            n = min(n_senders, n_takers - first)
            part = x[0] if starts is None else _part(x[0], at, starts[first : first + n], dims)
            came = lax.ppermute(part, ALL, [(k, n_senders + first + k) for k in range(n)])
            is_now = at >= n_senders + first
            made = came if made is None else jax.numpy.where(is_now, came, made)
        return made[None]

    spec = PartitionSpec(ALL)
    return jax.jit(jax.shard_map(sent, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def _part(x: jax.Array, at: jax.Array, starts: Starts, dims: tuple[int, ...]) -> jax.Array:
    """What the sender of this number gives of a whole array."""
    if not dims:
        return x
    table = np.array(starts, np.int32)
    begin = jax.numpy.asarray(table)[jax.numpy.minimum(at, len(table) - 1)]
    return lax.dynamic_slice(x, list(begin), dims)
