"""Windows and slices of HLO as functions of `jax.lax`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from .contract import window
from .elementwise import BINARY
from .hlo import Instr


def _slice(_: Any, instr: Instr, x: jax.Array) -> jax.Array:
    bounds = re.findall(r"\[(\d+):(\d+)(?::(\d+))?\]", instr.attrs["slice"])
    starts, limits, strides = (
        zip(*((int(a), int(b), int(c or 1)) for a, b, c in bounds)) if bounds else ((), (), ())
    )
    return lax.slice(x, starts, limits, strides)


def _dynamic_slice(_: Any, instr: Instr, x: jax.Array, *starts: jax.Array) -> jax.Array:
    return lax.dynamic_slice(x, starts, instr.ints("dynamic_slice_sizes"))


def _pad(_: Any, instr: Instr, x: jax.Array, value: jax.Array) -> jax.Array:
    text = instr.attrs["padding"]
    sizes = [[*map(int, part.split("_")), 0] for part in text.split("x")] if x.ndim else []
    return lax.pad(x, value, [(size[0], size[1], size[2]) for size in sizes])


def _reduce_window(ev: Any, instr: Instr, *x: jax.Array) -> Any:
    n, op, found = len(x) // 2, ev.reducer(instr), window(instr, x[0].ndim)
    sizes = (found["size"], found["stride"], found["pad"], found["lhs_dilate"], found["rhs_dilate"])
    if n == 1:
        return lax.reduce_window(x[0], x[1], BINARY[op] if op else ev.function(instr), *sizes)
    apply = ev.function(instr)
    return tuple(lax.reduce_window(x[:n], x[n:], lambda a, b: tuple(apply(*a, *b)), *sizes))


def _select_and_scatter(
    ev: Any, instr: Instr, x: jax.Array, source: jax.Array, start: jax.Array
) -> jax.Array:
    """The gradient of pooling by maximum or minimum, which is how JAX comes to it."""
    found = window(instr, x.ndim)
    select, scatter = (ev.module.root(instr.callee(key)) for key in ("select", "scatter"))
    op = {"GE": "maximum", "LE": "minimum"}.get(select.attrs.get("direction", ""))
    if op is None or scatter.opcode != "add":
        raise NotImplementedError(
            f"`{instr.name}`: only the gradients of pooling by maximum or minimum can be said"
        )
    worst = np.array(-np.inf if op == "maximum" else np.inf, x.dtype)

    def pool(y: jax.Array) -> jax.Array:
        return lax.reduce_window(y, worst, BINARY[op], found["size"], found["stride"], found["pad"])

    return lax.add(jax.vjp(pool, x)[1](source)[0], lax.broadcast(start, x.shape))


def _sort(ev: Any, instr: Instr, *x: jax.Array) -> Any:
    """By as many leading operands as the comparison reads, which has to be lax's own order."""
    body = ev.module.computations[instr.callee("to_apply")]
    read = {name for other in body for name in other.operands}
    n_keys = sum(i.opcode == "parameter" and i.name in read for i in body) // 2
    _check_order(ev.function(instr), [v.dtype for v in x], n_keys, instr)
    done = lax.sort(x, dimension=instr.int("dimensions"), is_stable=instr.flag("is_stable"), num_keys=n_keys)
    return tuple(done) if instr.shape.parts is not None else done[0]


def _check_order(compare: Any, dtypes: list[np.dtype], n_keys: int, instr: Instr) -> None:
    """Raises `NotImplementedError` unless the comparison is `<` on samples, keys one after the other."""
    samples = [np.array(pair, bool) for pair in np.ndindex(*(2,) * 2 * n_keys)]
    with jax.ensure_compile_time_eval():
        for bits in samples:
            pairs = list(zip(bits[:n_keys], bits[n_keys:]))
            args = [np.array(side, dtype) for pair, dtype in zip(pairs, dtypes) for side in pair]
            args += [np.zeros((), dtype) for dtype in dtypes[n_keys:] for _ in range(2)]
            if bool(compare(*args)) != (tuple(bits[:n_keys]) < tuple(bits[n_keys:])):
                raise NotImplementedError(f"`{instr.name}`: lax.sort has no such order")


OPS: dict[str, Callable[..., Any]] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": lambda ev, instr, x, update, *starts: lax.dynamic_update_slice(x, update, starts),
    "pad": _pad,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "sort": _sort,
}
