"""Loops over layers that a plan has unrolled: it takes and returns their stacks layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
from jax import lax

from .hlo import Module


Apart = Callable[[jax.Array, int], list[jax.Array]]
Together = Callable[[list[jax.Array]], jax.Array]


def apart(stack: jax.Array, n: int) -> list[jax.Array]:
    """The layers of a stack."""
    size = stack.shape[0] // n
    return [lax.slice_in_dim(stack, k * size, (k + 1) * size) for k in range(n)]


def together(layers: list[jax.Array]) -> jax.Array:
    """The stack of some layers."""
    return lax.concatenate(layers, 0)


@dataclass
class Stacks:
    """Number of a stacked parameter or result of the program -> layers that the plan has of it."""

    parameters: dict[int, int]
    results: dict[int, int]

    @staticmethod
    def of(module: Module) -> Stacks:
        """By the note `phzc.unstacked`: `parameters=3x12;results=1x12`."""
        parts = dict(
            part.split("=") for part in module.notes.get("phzc.unstacked", "parameters=;results=").split(";")
        )
        return Stacks(_counts(parts["parameters"]), _counts(parts["results"]))

    def split(self, arrays: Sequence[jax.Array], apart: Apart = apart) -> list[jax.Array]:
        """One array per parameter of the plan, from one per parameter of the program; `apart` takes a stack
        apart."""
        parts = []
        for number, array in enumerate(arrays):
            n = self.parameters.get(number)
            parts += apart(array, n) if n else [array]
        return parts

    def join(self, results: Sequence[jax.Array], together: Together = together) -> list[jax.Array]:
        """One array per result of the program, from one per result of the plan; `together` makes a stack."""
        rest, joined = list(results), list[jax.Array]()
        while rest:
            n = self.results.get(len(joined))
            joined.append(together(rest[:n]) if n else rest[0])
            rest = rest[n or 1 :]
        return joined

    def first(self, numbers: dict[int, int], count: int) -> list[int]:
        """For each of `count` parameters or results of the program, the number of its first layer in the
        plan."""
        firsts, at = [], 0
        for number in range(count):
            firsts.append(at)
            at += numbers.get(number, 1)
        return firsts


def _counts(text: str) -> dict[int, int]:
    pairs = (pair.split("x") for pair in text.split(",") if pair)
    return {int(number): int(n) for number, n in pairs}
