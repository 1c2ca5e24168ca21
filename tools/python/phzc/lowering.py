"""A plan of one stage as a function of flat arrays, in two ways."""

from __future__ import annotations

import jax

from . import hlo, layouts
from .evaluate import Evaluator, Place
from .hlo import Instr, Module
from .planned import Flat
from .stacks import Stacks


def exact(local: Module, mesh: jax.sharding.Mesh, stacks: Stacks) -> Flat:
    """The program of one device that `phzc --passes spmd` writes, under `jax.shard_map`.

    Its collectives are the plan's, one by one; XLA's partitioner has nothing to choose.
    """
    axes = dict(mesh.shape)
    ins = [layouts.spec_of(p.note("phzc.global"), len(p.shape.dims), axes) for p in local.parameters]
    root = local.root(local.entry)
    shapes = root.shape.elements
    texts = hlo.split(root.note("phzc.global") or "")
    outs = [layouts.spec_of(text, len(s.dims), axes) for text, s in zip(texts, shapes, strict=True)]
    step = jax.shard_map(
        Evaluator(local, axes), mesh=mesh, in_specs=tuple(ins), out_specs=outs, check_vma=False
    )
    return lambda *arrays: stacks.join(step(*stacks.split(arrays)))


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
