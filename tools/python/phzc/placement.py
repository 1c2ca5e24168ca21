"""Where a plan has each argument and each result: stages and layouts, as pytrees like those of the user's
step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import hlo, layouts, modules
from .stacks import Stacks
from .step import Leaf, PyTree, Side, Step, is_like

Place = tuple[int, PartitionSpec]  # a stage, and the layout on its mesh


@dataclass
class Placement:
    """The layouts of a planned program's parameters and results. `stages`: the plan's, as plan.json has
    them."""

    step: Step
    module: hlo.Module
    stages: list[dict]

    @cached_property
    def stacks(self) -> Stacks:
        """The loops over layers that the plan unrolls."""
        return Stacks.of(self.module)

    @cached_property
    def inputs(self) -> list[Place]:
        """Of each array of the arguments; whole on the first stage where nothing reads it. Of a stack: its
        first layer."""
        found = {at: self._place(instr) for at, instr in self.parameters.items()}
        return [found.get(at, (0, PartitionSpec())) for at in range(len(self.step.inputs.arrays))]

    @cached_property
    def parameters(self) -> dict[int, hlo.Instr]:
        """Number of an array of the arguments -> the parameter that it is; of a stack: of its first layer."""
        firsts = self.stacks.first(self.stacks.parameters, len(self.step.used))
        return {at: self.module.parameters[k] for at, k in zip(self.step.used, firsts, strict=True)}

    @cached_property
    def outputs(self) -> list[Place]:
        """Of each array of the results."""
        root = self.module.root(self.module.entry)
        by_name = {instr.name: instr for instr in self.module.computations[self.module.entry]}
        makers = [by_name[name] for name in root.operands] if root.opcode == "tuple" else [root]
        firsts = self.stacks.first(self.stacks.results, len(self.step.outputs.arrays))
        return [self._place(makers[k]) for k in firsts]

    def _place(self, instr: hlo.Instr) -> Place:
        stage = int(instr.note("phzc.stage") or 0)
        axes = layouts.axes_of(self.stages[stage]["mesh"])
        return stage, layouts.spec_of(instr.attrs.get("sharding"), len(instr.shape.dims), axes)

    def tree(self, side: Side, places: list[Place], value: Callable[[int, PartitionSpec], Any]) -> PyTree:
        """A pytree like the arguments or the results of `value(stage, layout)`; None for what is no array."""
        return side.unflatten(leaves(side, places, value), lambda leaf: None)

    def named(self, side: Side, places: list[Place], meshes: list[Mesh]) -> list[NamedSharding]:
        """The sharding of each array."""
        return leaves(side, places, lambda stage, spec: NamedSharding(meshes[stage], spec))

    def part_like(self, value: PyTree, meshes: list[Mesh]) -> PyTree:
        """The shardings of the argument, or of the part of one, that is like a value: of modules of NNX,
        their state.

        Raises `ValueError` where none is.
        """
        wanted = modules.state_of(value)
        named = self.named(self.step.inputs, self.inputs, meshes)
        for first, part in _parts(self.step.inputs):
            if is_like(part, wanted):
                given = iter(named[first : first + sum(leaf.aval is not None for leaf in part)])
                filled = [next(given) if leaf.aval is not None else None for leaf in part]
                return jax.tree.unflatten(jax.tree.structure(wanted), filled)
        raise ValueError("no argument of the planned step has the arrays of this value")


def leaves(side: Side, places: list[Place], value: Callable[[int, PartitionSpec], Any]) -> list[Any]:
    """A value per array, by its stage and layout."""
    return [value(at, _of_value(leaf, spec)) for leaf, (at, spec) in zip(side.arrays, places, strict=True)]


def _of_value(leaf: Leaf, spec: PartitionSpec) -> PartitionSpec:
    """The layout of an array of typed keys, whose bits have one dimension more."""
    return PartitionSpec(*spec[: len(leaf.aval.shape)])


def _parts(side: Side) -> Iterator[tuple[int, list[Leaf]]]:
    """The arguments and their parts, from the outside: the number of the first array, and the leaves."""
    level, first = [(0, side.tree)], [0]
    for leaf in side.leaves:
        first.append(first[-1] + (leaf.aval is not None))
    while level:
        yield from ((first[at], side.leaves[at : at + tree.num_leaves]) for at, tree in level)
        level = [pair for at, tree in level for pair in _children(at, tree)]


def _children(at: int, tree: Any) -> Iterator[tuple[int, Any]]:
    for child in tree.children():
        yield at, child
        at += child.num_leaves
