"""A plan of one stage as a function of flat arrays, in two ways."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
from jax.sharding import PartitionSpec

from . import hlo, layouts
from .evaluate import Evaluator, Place
from .hlo import Instr, Module
from .planned import Flat
from .stacks import Stacks


def exact(local: Module, mesh: jax.sharding.Mesh, stacks: Stacks) -> Flat:
    """The program of one device that `phzc --passes spmd` writes, under `jax.shard_map`.

    Its collectives are the plan's, one by one; XLA's partitioner has nothing to choose.
    """
    step = of_devices(local, mesh)
    return lambda *arrays: stacks.join(step(*stacks.split(arrays)))


def of_devices(local: Module, mesh: jax.sharding.Mesh) -> Flat:
    """The same of any program of one device: a function of whole arrays, or of all devices' summands."""
    ins, outs = parameters(local, mesh), results(local, mesh)
    inner = Evaluator(local, dict(mesh.shape))

    def run(*arrays: jax.Array) -> list[jax.Array]:
        own = [x[0] if end.axes else x for x, end in zip(arrays, ins, strict=True)]
        made = zip(inner(*own), outs, strict=True)
        return [x[None] if end.axes else x for x, end in made]

    specs = tuple(end.spec for end in ins), [end.spec for end in outs]
    return jax.shard_map(run, mesh=mesh, in_specs=specs[0], out_specs=specs[1], check_vma=False)


@dataclass(frozen=True)
class End:
    """A parameter or a result of a program of one device: its layout as a whole array.

    Where it is a sum that is still to be done over some `axes`, one summand per device, the array has all
    summands along a dimension of its own, the first.
    """

    spec: PartitionSpec
    axes: tuple[str, ...] = ()

    @staticmethod
    def of(layout: str | None, axes: str, rank: int, mesh: jax.sharding.Mesh) -> End:
        """By phzc's notes."""
        spec = layouts.spec_of(layout, rank, dict(mesh.shape))
        if not axes:
            return End(spec)
        names = tuple(mesh.axis_names["xyzw".index(axis)] for axis in axes)
        return End(PartitionSpec(names, *spec), names)

    def dims(self, dims: tuple[int, ...], mesh: jax.sharding.Mesh) -> tuple[int, ...]:
        """The sizes of the array, by those of the value."""
        return (math.prod(mesh.shape[axis] for axis in self.axes), *dims) if self.axes else dims


def parameters(local: Module, mesh: jax.sharding.Mesh) -> list[End]:
    """The parameters of a program of one device."""
    found = [(p.note("phzc.global"), p.note("phzc.partial") or "", p) for p in local.parameters]
    return [End.of(layout, axes, len(p.shape.dims), mesh) for layout, axes, p in found]


def results(local: Module, mesh: jax.sharding.Mesh) -> list[End]:
    """Its results."""
    root = local.root(local.entry)
    shapes = root.shape.elements
    said = hlo.split(root.note("phzc.global") or "")
    axes = (root.note("phzc.partial") or "," * (len(shapes) - 1)).split(",")
    return [
        End.of(text, names, len(shape.dims), mesh)
        for text, names, shape in zip(said, axes, shapes, strict=True)
    ]


def constrained(module: Module, mesh: jax.sharding.Mesh, stacks: Stacks) -> Flat:
    """The whole program with a sharding constraint on every value; XLA's partitioner inserts the
    collectives."""
    step = Evaluator(module, place=placing(mesh))
    return lambda *arrays: stacks.join(step(*stacks.split(arrays)))


def placing(mesh: jax.sharding.Mesh) -> Place:
    """Puts a sharding constraint on each array that the text gives a layout."""

    def place(instr: Instr, value: jax.Array) -> jax.Array:
        text = instr.attrs.get("sharding")
        return value if text is None or text.startswith("{{") else layouts.constrain(value, text, mesh)

    return place
