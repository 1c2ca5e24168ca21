"""A planned step as a callable: the same arguments and results as the user's step, on the plan's devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from .step import PyTree, Step

Flat = Callable[..., Sequence[jax.Array]]
Rewrap = Callable[[Callable[..., PyTree], tuple], PyTree]


class PlannedStep:
    """Called like the step that was planned.

    Arguments that are not yet laid out as planned are moved first; results are laid out as planned. What the step donates
    is donated.
    """

    def __init__(
        self, step: Step, flat: Flat, shardings: tuple[list[NamedSharding], list[NamedSharding]], rewrap: Rewrap | None
    ) -> None:
        self._step, self._rewrap, self._wanted = step, rewrap, shardings[0]
        leaves = [step.inputs.arrays[at] for at in step.used]
        donated = [at for at, leaf in enumerate(leaves) if leaf.is_donated]
        self._types = [leaf.raw for leaf in leaves]
        self._jitted = jax.jit(
            flat, in_shardings=tuple(shardings[0]), out_shardings=list(shardings[1]), donate_argnums=donated)

    def __call__(self, *args: PyTree) -> PyTree:
        """The results of one step. Raises `TypeError` for arguments that are not like those planned for."""
        return self._rewrap(self._run, args) if self._rewrap else self._run(*args)

    def _run(self, *args: PyTree) -> PyTree:
        arrays = self._step.flatten(args)
        placed = [_moved(arrays[at], to) for at, to in zip(self._step.used, self._wanted, strict=True)]
        outputs = self._step.outputs
        values = [leaf.from_raw(x) for leaf, x in zip(outputs.arrays, self._jitted(*placed), strict=True)]
        return outputs.unflatten(values, lambda leaf: leaf.static)

    def lower(self, **kwargs: Any) -> jax.stages.Lowered:
        """The planned step, lowered for the arguments that it was planned for: `.compile()`, `.as_text()`."""
        return self._jitted.lower(*self._types, **kwargs)


def _moved(value: Any, to: NamedSharding) -> jax.Array:
    return value if getattr(value, "sharding", None) == to else jax.device_put(value, to)
