"""Runs a plan of several stages: the modules of each stage on its devices, in the schedule's order.

Where several processes have the devices, each goes through the same order, runs the modules of the stages that
it has devices of, and sends and receives what goes from or to these; of all else it has stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import hlo, layouts, lowering, stacks
from .evaluate import Evaluator
from .stacks import Stacks
from .stages import Stages
from .transfer import is_here, send, stand_in, where

Key = tuple[str, int | None, int]  # a module, a microbatch, the number of a result


class Pipeline:
    """One step: arrays of the program's parameters in, arrays of its results out.

    Modules are dispatched without waiting, so the devices of different stages run beside each other, each its
    own modules in the schedule's order.
    """

    def __init__(self, stages: Stages, meshes: Sequence[Mesh], of_stacks: Stacks) -> None:
        self.stages, self.stacks = stages, of_stacks
        self.meshes = {m["name"]: meshes[m["stage"]] for m in stages.manifest["modules"]}
        self.ends = {name: self._ends(name) for name in stages.modules}
        self.inputs = {
            name: [NamedSharding(self.meshes[name], end.spec) for end in ends]
            for name, ends in self.ends.items()
        }
        self.starts = self._starts()
        self.programs = {name: self._program(name) for name in stages.modules}
        self.dropped = self._last_reads()
        self.functions: dict[tuple[str, int], Callable] = {}

    def _ends(self, name: str) -> list[lowering.End]:
        """How a module's parameters lie on its stage's devices."""
        module, mesh = self.stages.modules[name], self.meshes[name]
        if "phzc.spmd" in module.notes:
            return lowering.parameters(module, mesh)
        said = [(p.attrs.get("sharding"), len(p.shape.dims)) for p in module.parameters]
        return [lowering.End.of(text, "", rank, mesh) for text, rank in said]

    def types(self, name: str) -> list[jax.ShapeDtypeStruct]:
        """The types of the arrays that a module takes."""
        return self._types(name, "parameters", self.ends[name])

    def _outs(self, name: str) -> list[lowering.End]:
        """How a module's results lie on its stage's devices."""
        module, mesh = self.stages.modules[name], self.meshes[name]
        if "phzc.spmd" in module.notes:
            return lowering.results(module, mesh)
        root = module.root(module.entry)
        ranks = [len(shape.dims) for shape in root.shape.elements]
        specs = layouts.specs_of(root.attrs.get("sharding"), ranks, dict(mesh.shape))
        return [lowering.End(spec) for spec in specs]

    def made(self, name: str) -> list[jax.ShapeDtypeStruct]:
        """The types of the arrays that a module makes."""
        return self._types(name, "results", self._outs(name))

    def _types(self, name: str, what: str, ends: list[lowering.End]) -> list[jax.ShapeDtypeStruct]:
        mesh = self.meshes[name]
        shapes = [hlo.parse_shape(one["shape"]) for one in self.stages.entries[name][what]]
        pairs = zip(shapes, ends, strict=True)
        return [
            jax.ShapeDtypeStruct(end.dims(s.dims, mesh), s.numpy, sharding=NamedSharding(mesh, end.spec))
            for s, end in pairs
        ]

    def _program(self, name: str) -> Callable[..., list[jax.Array]]:
        module, mesh = self.stages.modules[name], self.meshes[name]
        made = self.made(name)
        if not is_here(NamedSharding(mesh, PartitionSpec())):
            return lambda *_: [stand_in(t.shape, t.dtype, t.sharding) for t in made]
        if "phzc.spmd" in module.notes:
            run = lowering.of_devices(module, mesh)
        else:
            run = Evaluator(module, place=lowering.placing(mesh))
        given = [type_.sharding for type_ in made]
        return jax.jit(run, in_shardings=tuple(self.inputs[name]), out_shardings=given)

    def _starts(self) -> list[np.ndarray]:
        """What each accumulator holds before the first microbatch: of a sum that is left undone, all
        summands."""
        starts = self.stages.starts()
        for name, entry in self.stages.entries.items():
            for source, end in zip(entry["parameters"], self.ends[name], strict=True):
                if source["from"] == "accumulator" and end.axes:
                    at = source["accumulator"]
                    dims = hlo.parse_shape(source["shape"]).dims
                    starts[at] = np.zeros(end.dims(dims, self.meshes[name]), starts[at].dtype)
        return starts

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

    def parts(self, whole: jax.Array, dim: int) -> list[jax.Array]:
        """The microbatches of a parameter, where it is."""
        run = self._function("parts", dim, lambda x: list(self.stages.split(x, dim)))
        return where(whole.sharding, run, whole)

    def joined(self, parts: list[jax.Array], dim: int) -> jax.Array:
        """The result that the parts of all microbatches are, where they are."""
        run = self._function("joined", dim, lambda *x: self.stages.join(jax.numpy.stack(x), dim))
        return where(parts[0].sharding, run, *parts)

    def apart(self, stack: jax.Array, n: int) -> list[jax.Array]:
        """The layers of a stack, where it is."""
        return where(stack.sharding, self._function("apart", n, lambda x: stacks.apart(x, n)), stack)

    def together(self, layers: list[jax.Array]) -> jax.Array:
        """The stack of some layers, where the first one is."""
        held = layers[0].sharding
        run = self._function("together", len(layers), lambda *x: stacks.together(list(x)))
        return where(held, run, *[send(layer, held) for layer in layers])

    def _function(self, kind: str, number: int, run: Callable) -> Callable:
        """The first function of a kind that was made: another one would be compiled anew."""
        return self.functions.setdefault((kind, number), run)

    def __call__(self, *arrays: jax.Array) -> list[jax.Array]:
        """The results of one step."""
        step = _Run(self, self.stacks.split(arrays, self.apart))
        for at, run in enumerate(self.stages.manifest["order"]):
            step.run(run["module"], run["microbatch"])
            for key in self.dropped.get(at, ()):
                del step.made[key]
        results = [step.result(result) for result in self.stages.manifest["results"]]
        return self.stacks.join(results, self.together)


class _Run:
    """The values of one step while its modules run."""

    def __init__(self, pipeline: Pipeline, whole: list[jax.Array]) -> None:
        self.pipeline, self.stages, self.whole = pipeline, pipeline.stages, whole
        self.made: dict[Key, jax.Array] = {}
        self.ran: set[tuple[str, int | None]] = set()
        self.placed: dict[tuple[Any, ...], jax.Array] = {}
        self.sums: list[Any] = list(pipeline.starts)

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
        return found if to is None else send(found, to)

    def parameter(self, source: dict, microbatch: int | None, to: NamedSharding | None) -> jax.Array:
        """A parameter of the program, sent to a stage once per step; of a batch the microbatch's part."""
        number, dim = source["parameter"], source.get("split_dim")
        if to is None:
            return self.whole[number]
        if dim is None or microbatch is None:
            if (number, to) not in self.placed:
                self.placed[number, to] = send(self.whole[number], to)
            return self.placed[number, to]
        if (number, dim) not in self.placed:
            self.placed[number, dim] = self.pipeline.parts(self.whole[number], dim)
        return send(self.placed[number, dim][microbatch], to)

    def result(self, source: dict) -> jax.Array:
        """A result of the step; the parts of all microbatches joined."""
        if source["join_dim"] is None or source["from"] == "program":
            return self.value(source, None)
        parts = [self.value(source, at) for at in range(self.stages.n)]
        return self.pipeline.joined(parts, source["join_dim"])
