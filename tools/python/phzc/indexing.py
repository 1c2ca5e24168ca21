"""Look-ups and updates by index of HLO as functions of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from .hlo import Instr

_SCATTERS = {
    "add": lax.scatter_add,
    "maximum": lax.scatter_max,
    "minimum": lax.scatter_min,
    "multiply": lax.scatter_mul,
    "subtract": lax.scatter_sub,
}


def _by_components(indices: jax.Array, dim: int) -> jax.Array:
    """The indices with their components in the last dimension, as lax has them."""
    if dim == indices.ndim:
        return lax.expand_dims(indices, [dim])
    if dim == indices.ndim - 1:
        return indices
    return lax.transpose(indices, [*(d for d in range(indices.ndim) if d != dim), dim])


def _gather(_: Any, instr: Instr, x: jax.Array, indices: jax.Array) -> jax.Array:
    dims = lax.GatherDimensionNumbers(
        instr.ints("offset_dims"),
        instr.ints("collapsed_slice_dims"),
        instr.ints("start_index_map"),
        instr.ints("operand_batching_dims"),
        instr.ints("start_indices_batching_dims"),
    )
    return lax.gather(
        x,
        _by_components(indices, instr.int("index_vector_dim")),
        dims,
        instr.ints("slice_sizes"),
        indices_are_sorted=instr.flag("indices_are_sorted"),
        mode="clip",
    )


def _scatter(
    ev: Any, instr: Instr, x: jax.Array, indices: jax.Array, updates: jax.Array, *more: jax.Array
) -> jax.Array:
    root = ev.module.root(instr.callee("to_apply"))
    second = [i for i in ev.module.computations[instr.callee("to_apply")] if i.opcode == "parameter"]
    replaces = root.opcode == "parameter" and root.payload == "1"
    scatter = lax.scatter if replaces else _SCATTERS.get(ev.reducer(instr) or "")
    if more or scatter is None or len(second) != 2:
        raise NotImplementedError(f"`{instr.name}`: jax.lax has no scatter that applies `{root.opcode}`")
    dims = lax.ScatterDimensionNumbers(
        instr.ints("update_window_dims"),
        instr.ints("inserted_window_dims"),
        instr.ints("scatter_dims_to_operand_dims"),
        instr.ints("input_batching_dims"),
        instr.ints("scatter_indices_batching_dims"),
    )
    return scatter(
        x,
        _by_components(indices, instr.int("index_vector_dim")),
        updates,
        dims,
        indices_are_sorted=instr.flag("indices_are_sorted"),
        unique_indices=instr.flag("unique_indices"),
        mode="drop",
    )


OPS: dict[str, Callable[..., Any]] = {"gather": _gather, "scatter": _scatter}
