"""A planned step as a callable: the same arguments and results as the user's step, on the plan's devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from .step import Leaf, PyTree, Step
from .transfer import send

Flat = Callable[..., Sequence[jax.Array]]
Rewrap = Callable[[Callable[..., PyTree], tuple], PyTree]


class PlannedStep:
    """Called like the step that was planned.

    Arguments that are not yet laid out as planned are moved first; results are laid out as planned. What the
    step donates is donated. `flat` computes the results' arrays from those of the arguments that are read.
    """

    def __init__(
        self, step: Step, flat: Flat, wanted: Sequence[NamedSharding], rewrap: Rewrap | None
    ) -> None:
        self._step, self._flat, self._wanted, self._rewrap = step, flat, wanted, rewrap

    def __call__(self, *args: PyTree) -> PyTree:
        """The results of one step. Raises `TypeError` for arguments that are not like those planned for."""
        return self._rewrap(self._run, args) if self._rewrap else self._run(*args)

    def _run(self, *args: PyTree) -> PyTree:
        arrays = self._step.flatten(args)
        placed = [send(arrays[at], to) for at, to in zip(self._step.used, self._wanted, strict=True)]
        outputs = self._step.outputs
        values = [leaf.from_raw(x) for leaf, x in zip(outputs.arrays, self._flat(*placed), strict=True)]
        return outputs.unflatten(values, lambda leaf: leaf.static)

    @property
    def _leaves(self) -> list[Leaf]:
        """The arguments' leaves that are read."""
        return [self._step.inputs.arrays[at] for at in self._step.used]


class JittedStep(PlannedStep):
    """A planned step that is one XLA program."""

    def __init__(
        self,
        step: Step,
        flat: Flat,
        wanted: Sequence[NamedSharding],
        given: Sequence[NamedSharding],
        rewrap: Rewrap | None,
    ) -> None:
        super().__init__(step, flat, wanted, rewrap)
        donated = [at for at, leaf in enumerate(self._leaves) if leaf.is_donated]
        flat.__name__ = step.name
        self._jitted = self._flat = jax.jit(
            flat, in_shardings=tuple(wanted), out_shardings=list(given), donate_argnums=donated
        )

    def lower(self, **kwargs: Any) -> jax.stages.Lowered:
        """The planned step, lowered for the arguments that it was planned for: `.compile()`, `.as_text()`."""
        return self._jitted.lower(*[leaf.raw for leaf in self._leaves], **kwargs)
