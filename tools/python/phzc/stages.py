"""The modules of a plan's stages and phases (docs/stages.md): how their values go together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from . import hlo, lowering
from .evaluate import Evaluator
from .hlo import Module, Shape
from .planned import Flat
from .stacks import Stacks


@dataclass
class Stages:
    """What `phzc --emit stages` wrote into a directory."""

    folder: Path

    @cached_property
    def manifest(self) -> dict:
        """`stages.json`."""
        found = json.loads((self.folder / "stages.json").read_text())
        if replicas := found.get("replicas"):
            raise ValueError(f"the plan has {len(replicas)} replicas on unlike devices, which JAX does not run")
        return found

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Name of a module -> its program."""
        return {m["name"]: hlo.parse((self.folder / m["file"]).read_text()) for m in self.manifest["modules"]}

    @property
    def n(self) -> int:
        """Microbatches."""
        return self.manifest["n_microbatches"]

    @cached_property
    def entries(self) -> dict[str, dict]:
        """Name of a module -> its entry in the manifest."""
        return {m["name"]: m for m in self.manifest["modules"]}

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether a microbatch has to be a contiguous part of the batch, for a module asks for its number.

        Else microbatch `i` has every `n`-th sample from `i` on, which each device has already.
        """
        return any(p["from"] == "microbatch" for m in self.manifest["modules"] for p in m["parameters"])

    def split(self, x: jax.Array, dim: int) -> jax.Array:
        """All microbatches of an array, `[n, …]`."""
        each = x.shape[dim] // self.n
        sizes = (self.n, each) if self.is_contiguous else (each, self.n)
        parts = lax.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))
        return jnp.moveaxis(parts, dim if self.is_contiguous else dim + 1, 0)

    def join(self, parts: jax.Array, dim: int) -> jax.Array:
        """The array whose microbatches these are."""
        shape = parts.shape[1:]
        parts = jnp.moveaxis(parts, 0, dim if self.is_contiguous else dim + 1)
        return lax.reshape(parts, (*shape[:dim], shape[dim] * self.n, *shape[dim + 1 :]))

    def starts(self) -> list[np.ndarray]:
        """What each accumulator holds before the first microbatch."""
        return [filled(hlo.parse_shape(a["shape"]), a["start"]) for a in self.manifest["accumulators"]]

    def names(self, microbatch: int | None) -> list[str]:
        """The modules that run for a microbatch, or once per step, in order."""
        return [o["module"] for o in self.manifest["order"] if o["microbatch"] == microbatch]

    def kept(self) -> list[tuple[str, int]]:
        """Results of microbatches, by module and number, that are read after all of them."""
        looped = self.names(0)
        once = [p for name in self.names(None) for p in self.entries[name]["parameters"]]
        found = [
            (s["module"], s["result"]) for s in [*once, *self.manifest["results"]] if s["from"] == "module"
        ]
        return list(dict.fromkeys(key for key in found if key[0] in looped))


def filled(shape: Shape, start: str) -> np.ndarray:
    """An array full of `zero`, `one`, `ones` (every bit set), `lowest` or `highest`."""
    dtype = shape.numpy
    if dtype == np.bool_:
        return np.full(shape.dims, start in ("one", "ones", "highest"))
    if jnp.issubdtype(dtype, jnp.floating):
        ends = (-np.inf, np.inf)
    else:
        info = jnp.iinfo(dtype)
        ends = (info.min, info.max)
    ones = ends[1] if jnp.issubdtype(dtype, jnp.unsignedinteger) else -1
    return np.full(
        shape.dims, {"zero": 0, "one": 1, "ones": ones, "lowest": ends[0], "highest": ends[1]}[start], dtype
    )


def accumulated(stages: Stages, mesh: Mesh, stacks: Stacks) -> Flat:
    """A plan of one stage and several microbatches as one function: a loop over them, gradients summed, then
    the update."""
    runs = {name: Evaluator(module, place=lowering.placing(mesh)) for name, module in stages.modules.items()}

    def flat(*arrays: jax.Array) -> Sequence[jax.Array]:
        whole = stacks.split(arrays)
        loop, update = _Values(stages, whole), _Values(stages, whole)
        split = {
            (p["parameter"], p["split_dim"])
            for name in stages.names(0)
            for p in stages.entries[name]["parameters"]
            if p["from"] == "program" and p["split_dim"] is not None
        }
        parts = {key: stages.split(whole[key[0]], key[1]) for key in sorted(split)}

        def body(sums: tuple, given: tuple) -> tuple[tuple, list]:
            loop.sums, loop.microbatch, loop.parts = list(sums), given[0], given[1]
            for name in stages.names(0):
                loop.run(name, runs[name])
            return tuple(loop.sums), [loop.made[name][at] for name, at in stages.kept()]

        numbers = np.arange(stages.n, dtype=np.uint32)
        sums, kept = lax.scan(body, tuple(stages.starts()), (numbers, parts))
        update.sums, update.joined = list(sums), dict(zip(stages.kept(), kept, strict=True))
        for name in stages.names(None):
            update.run(name, runs[name])
        return stacks.join([update.result(result) for result in stages.manifest["results"]])

    return flat


class _Values:
    """The values that modules read while one function computes them."""

    def __init__(self, stages: Stages, whole: list[jax.Array]) -> None:
        self.stages, self.whole = stages, whole
        self.made: dict[str, list[jax.Array]] = {}
        self.sums: list[Any] = []
        self.microbatch: Any = None
        self.parts: dict[tuple[int, int | None], jax.Array] = {}
        self.joined: dict[tuple[str, int], jax.Array] = {}

    def run(self, name: str, module: Evaluator) -> None:
        """One module: its results, and the sums that it adds to."""
        entry = self.stages.entries[name]
        self.made[name] = module(*map(self.value, entry["parameters"]))
        for result, value in zip(entry["results"], self.made[name], strict=True):
            if "accumulator" in result:
                self.sums[result["accumulator"]] = value

    def value(self, source: dict) -> jax.Array:
        """What a module's parameter, or a result of the step, is."""
        kind = source["from"]
        if kind == "program":
            return self.parts.get(
                (source["parameter"], source.get("split_dim")), self.whole[source["parameter"]]
            )
        if kind == "accumulator":
            return self.sums[source["accumulator"]]
        if kind == "microbatch":
            return self.microbatch
        key = (source["module"], source["result"])
        return self.joined[key][-1] if key in self.joined else self.made[source["module"]][source["result"]]

    def result(self, source: dict) -> jax.Array:
        """A result of the step; the parts of all microbatches joined."""
        if source["join_dim"] is None or source["from"] != "module":
            return self.value(source)
        return self.stages.join(self.joined[source["module"], source["result"]], source["join_dim"])
