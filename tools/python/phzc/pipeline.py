"""Runs a plan of several stages: the modules of each stage on its devices, in the schedule's order, by one
controller."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from . import layouts, lowering
from .evaluate import Evaluator
from .planned import moved
from .stacks import Stacks
from .stages import Stages

Key = tuple[str, int | None, int]  # a module, a microbatch, the number of a result


class Pipeline:
    """One step: arrays of the program's parameters in, arrays of its results out.

    Modules are dispatched without waiting, so the devices of different stages run beside each other, each its
    own modules in the schedule's order.
    """

    def __init__(self, stages: Stages, meshes: Sequence[Mesh], stacks: Stacks) -> None:
        self.stages, self.stacks = stages, stacks
        self.meshes = {m["name"]: meshes[m["stage"]] for m in stages.manifest["modules"]}
        self.inputs = {name: self._inputs(name) for name in stages.modules}
        self.programs = {name: self._program(name) for name in stages.modules}
        self.split = jax.jit(stages.split, static_argnums=1)
        self.join = jax.jit(lambda parts, dim: stages.join(jax.numpy.stack(parts), dim), static_argnums=1)

        self.dropped = self._last_reads()

    def _inputs(self, name: str) -> list[NamedSharding]:
        """The layouts of a module's parameters on its stage's devices."""
        mesh = self.meshes[name]
        axes = dict(mesh.shape)
        return [
            NamedSharding(mesh, layouts.spec_of(p.attrs.get("sharding"), len(p.shape.dims), axes))
            for p in self.stages.modules[name].parameters
        ]

    def _program(self, name: str) -> jax.stages.Wrapped:
        module, mesh = self.stages.modules[name], self.meshes[name]
        root = module.root(module.entry)
        ranks = [len(shape.dims) for shape in root.shape.elements]
        outs = [
            NamedSharding(mesh, s)
            for s in layouts.specs_of(root.attrs.get("sharding"), ranks, dict(mesh.shape))
        ]
        run = Evaluator(module, place=lowering.placing(mesh))
        return jax.jit(run, in_shardings=tuple(self.inputs[name]), out_shardings=outs)

    def _last_reads(self) -> dict[int, list[Key]]:
        """Number of a run in the order -> values that nothing reads after it."""
        manifest, made, last = self.stages.manifest, set[tuple[str, int | None]](), dict[Key, int]()
        for at, run in enumerate(manifest["order"]):
            for source in self.stages.entries[run["module"]]["parameters"]:
                if source["from"] == "module":
                    last[self.key(source, run["microbatch"], made)] = at
            made.add((run["module"], run["microbatch"]))
        for source in (result for result in manifest["results"] if result["from"] == "module"):
            for microbatch in range(self.stages.n):
                last.pop(self.key(source, microbatch, made), None)
        dropped: dict[int, list[Key]] = {}
        for key, at in last.items():
            dropped.setdefault(at, []).append(key)
        return dropped

    def key(self, source: dict, microbatch: int | None, made: Container[tuple[str, int | None]]) -> Key:
        """The value that is meant: of an update there is one; once per step it is the last microbatch's."""
        name = source["module"]
        candidates = [(name, microbatch), (name, None), (name, self.stages.n - 1)]
        return *next(run for run in candidates if run in made), source["result"]

    def __call__(self, *arrays: jax.Array) -> list[jax.Array]:
        """The results of one step."""
        step = _Run(self, self.stacks.split(arrays))
        for at, run in enumerate(self.stages.manifest["order"]):
            step.run(run["module"], run["microbatch"])
            for key in self.dropped.get(at, ()):
                del step.made[key]
        return self.stacks.join([step.result(result) for result in self.stages.manifest["results"]])


class _Run:
    """The values of one step while its modules run."""

    def __init__(self, pipeline: Pipeline, whole: list[jax.Array]) -> None:
        self.pipeline, self.stages, self.whole = pipeline, pipeline.stages, whole
        self.made: dict[Key, jax.Array] = {}
        self.ran: set[tuple[str, int | None]] = set()
        self.placed: dict[tuple[Any, ...], jax.Array] = {}
        self.sums: list[Any] = list(self.stages.starts())

    def run(self, name: str, microbatch: int | None) -> None:
        """One module for one microbatch; what it reads is sent to its devices first."""
        entry, wanted = self.stages.entries[name], self.pipeline.inputs[name]
        pairs = zip(entry["parameters"], wanted, strict=True)
        results = self.pipeline.programs[name](*[self.value(source, microbatch, to) for source, to in pairs])
        for at, (result, value) in enumerate(zip(entry["results"], results, strict=True)):
            if "accumulator" in result:
                self.sums[result["accumulator"]] = value
            self.made[name, microbatch, at] = value
        self.ran.add((name, microbatch))

    def value(self, source: dict, microbatch: int | None, to: NamedSharding | None = None) -> jax.Array:
        """What a module's parameter, or a result of the step, is; on `to` where that is said."""
        kind = source["from"]
        if kind == "program":
            return self.parameter(source, microbatch, to)
        if kind == "accumulator":
            found = self.sums[source["accumulator"]]
        elif kind == "microbatch":
            found = np.asarray(microbatch, np.uint32)
        else:
            found = self.made[self.pipeline.key(source, microbatch, self.ran)]
        return found if to is None else moved(found, to)

    def parameter(self, source: dict, microbatch: int | None, to: NamedSharding | None) -> jax.Array:
        """A parameter of the program, sent to a stage once per step; of a batch the microbatch's part."""
        number, dim = source["parameter"], source.get("split_dim")
        if to is None:
            return self.whole[number]
        if dim is None or microbatch is None:
            if (number, to) not in self.placed:
                self.placed[number, to] = moved(self.whole[number], to)
            return self.placed[number, to]
        if (number, dim) not in self.placed:
            self.placed[number, dim] = self.pipeline.split(self.whole[number], dim)
        return moved(self.placed[number, dim][microbatch], to)

    def result(self, source: dict) -> jax.Array:
        """A result of the step; the parts of all microbatches joined."""
        if source["join_dim"] is None or source["from"] == "program":
            return self.value(source, None)
        parts = [self.value(source, at) for at in range(self.stages.n)]
        return self.pipeline.join(parts, source["join_dim"])
