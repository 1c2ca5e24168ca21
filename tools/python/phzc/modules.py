"""Flax NNX modules as arguments: a step that changes them becomes a function of their state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jax.tree_util import SequenceKey

from .planned import Rewrap
from .step import PyTree, argument_names, by_argument


@dataclass
class Adapted:
    """A step without objects that it changes in place.

    `rewrap` calls a function of states with objects, and updates these; `named` writes key paths.
    """

    fn: Callable
    args: tuple
    donate_argnums: Sequence[int] | None = None
    rewrap: Rewrap | None = None
    named: Callable[[tuple], str] | None = None


def adapted(fn: Callable, args: tuple, donate_argnums: Sequence[int] | None) -> Adapted:
    """`fn` as a function of pytrees.

    NNX's modules, optimizers and random streams become one argument in front, their state, and one more
    result. Other arguments (Equinox, Linen) stay.
    """
    at = [k for k, arg in enumerate(args) if _is_object(arg)]
    if not at:
        return Adapted(fn, args, donate_argnums)
    nnx = sys.modules["flax.nnx"]
    graph, state = nnx.split(tuple(args[k] for k in at))

    def functional(state: PyTree, *others: PyTree) -> tuple[PyTree, PyTree]:
        objects = nnx.merge(graph, state)
        out = fn(*_merged(at, objects, others))
        return out, nnx.state(objects)

    def rewrap(run: Callable[..., PyTree], args: tuple) -> PyTree:
        objects = tuple(args[k] for k in at)
        out, new = run(nnx.state(objects), *_others(at, args))
        nnx.update(objects, new)
        return out

    functional.__name__ = getattr(fn, "__name__", "step")
    is_donated = donate_argnums is not None and set(at) <= set(donate_argnums)
    names = argument_names(fn, len(args))
    by_object, others = by_argument([names[k] for k in at]), by_argument(["", *_others(at, tuple(names))])

    def named(path: tuple) -> str:
        return others(path) if path[0].idx else by_object((SequenceKey(path[1].key), *path[2:]))

    return Adapted(functional, (state, *_others(at, args)), [0] if is_donated else None, rewrap, named)


def state_of(value: PyTree) -> PyTree:
    """The state of a module of NNX; other values are pytrees already."""
    return sys.modules["flax.nnx"].state(value) if _is_object(value) else value


def _is_object(value: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, (nnx.Module, nnx.Optimizer, nnx.Rngs))


def _others(at: list[int], args: tuple) -> tuple:
    return tuple(arg for k, arg in enumerate(args) if k not in at)


def _merged(at: list[int], objects: tuple, others: tuple) -> list[Any]:
    merged = list(others)
    for k, value in zip(at, objects, strict=True):
        merged.insert(k, value)
    return merged
