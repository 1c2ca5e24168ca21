"""`plan`: plans a step, and what a plan says: mesh, shardings, figures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import binary as binaries
from . import display, hlo, layouts, lowering, modules
from .pipeline import Pipeline
from .planned import JittedStep, PlannedStep, Rewrap
from .stacks import Stacks
from .stages import Stages, accumulated
from .step import Leaf, PyTree, Step, trace


def plan(
    fn: Callable,
    *args: PyTree,
    cluster: str | Path = "a100-8",
    stages: int | None = None,
    microbatches: int | None = None,
    passes: str | None = None,
    donate_argnums: Sequence[int] | None = None,
    static_argnums: Sequence[int] = (),
    options: Sequence[str] = (),
    binary: Path | None = None,
) -> Plan:
    """Plans `fn(*args)`, one training or inference step, on a cluster.

    `args` are pytrees of arrays or `jax.ShapeDtypeStruct`, modules of Flax NNX and Equinox among them. `cluster` is a
    name (`h100-8x2`: two nodes of eight) or a TOML file. `stages` and `microbatches` fix the numbers of pipeline stages
    and of microbatches, `passes` the whole pipeline of passes; `options` are further arguments of `phzc`.
    `donate_argnums` default to what a jitted `fn` donates. Raises `PhzcError` where phzc refuses the program.
    """
    fn, args, donate_argnums, rewrap = modules.adapted(fn, args, donate_argnums)
    step = trace(fn, args, donate_argnums, static_argnums)
    command = ["--passes", passes or _passes(stages, microbatches), "--cluster", str(cluster), *options]
    made = Plan(step, str(cluster), rewrap, binary)
    made.program.write_text(step.text)
    made._said = binaries.run(binary, [made.program, *command, "-o", made.after, "--plan", made.folder / "plan.json"])
    made._command = command
    return made


def _passes(stages: int | None, microbatches: int | None) -> str:
    given = {"stages": stages, "microbatches": microbatches}
    wanted = ",".join(f"{key}={value}" for key, value in given.items() if value is not None)
    return f"fuse,shard,place{{{wanted}}}" if wanted else "fuse,shard,place"


@dataclass
class Plan:
    """A plan of a step. `phzc.plan` makes it."""

    step: Step
    cluster: str
    rewrap: Rewrap | None = field(default=None, repr=False)
    binary: Path | None = field(default=None, repr=False)
    _folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="phzc-"), repr=False)
    _said: str = field(default="", repr=False)
    _command: list[str] = field(default_factory=list, repr=False)

    # ---- files ----

    @property
    def folder(self) -> Path:
        """Where the plan's files are while it lives."""
        return Path(self._folder.name)

    @property
    def program(self) -> Path:
        """The step's StableHLO."""
        return self.folder / "program.mlir"

    @property
    def after(self) -> Path:
        """The planned program: HLO text with a layout on every instruction (docs/formats.md)."""
        return self.folder / "after.ir"

    @cached_property
    def module(self) -> hlo.Module:
        """The planned program, read."""
        return hlo.parse(self.after.read_text())

    @cached_property
    def figures(self) -> dict:
        """Time, memory and communication per stage: the keys of docs/plan-schema.md."""
        return json.loads((self.folder / "plan.json").read_text())

    # ---- layouts ----

    @property
    def n_stages(self) -> int:
        """Pipeline stages."""
        return len(self.figures["stages"])

    @property
    def n_microbatches(self) -> int:
        """Microbatches of one step."""
        return self.figures["n_microbatches"]

    @cached_property
    def meshes(self) -> list[Mesh]:
        """The mesh of each pipeline stage, over this process's devices. Raises `ValueError` where these are too few."""
        stages = self.figures["stages"]
        return [layouts.mesh_of(layouts.axes_of(s["mesh"]), s["devices"][0]) for s in stages]

    @property
    def mesh(self) -> Mesh:
        """The mesh of a plan of one stage."""
        if self.n_stages > 1:
            raise ValueError(f"the plan has {self.n_stages} stages, each with its own mesh: plan.meshes")
        return self.meshes[0]

    @cached_property
    def _input_specs(self) -> list[tuple[int, PartitionSpec]]:
        """Stage and layout of each array of the arguments; whole on the first stage where it is not read."""
        firsts = self.stacks.first(self.stacks.parameters, len(self.step.used))
        found = {at: self._placed(self.module.parameters[k]) for at, k in zip(self.step.used, firsts, strict=True)}
        return [found.get(at, (0, PartitionSpec())) for at in range(len(self.step.inputs.arrays))]

    @cached_property
    def _output_specs(self) -> list[tuple[int, PartitionSpec]]:
        root = self.module.root(self.module.entry)
        by_name = {instr.name: instr for instr in self.module.computations[self.module.entry]}
        makers = [by_name[name] for name in root.operands] if root.opcode == "tuple" else [root]
        firsts = self.stacks.first(self.stacks.results, len(self.step.outputs.arrays))
        return [self._placed(makers[k]) for k in firsts]

    def _placed(self, instr: hlo.Instr) -> tuple[int, PartitionSpec]:
        stage = int(instr.note("phzc.stage") or 0)
        axes = layouts.axes_of(self.figures["stages"][stage]["mesh"])
        return stage, layouts.spec_of(instr.attrs.get("sharding"), len(instr.shape.dims), axes)

    @cached_property
    def stacks(self) -> Stacks:
        """The loops over layers that the plan unrolls."""
        return Stacks.of(self.module)

    @property
    def in_specs(self) -> PyTree:
        """A `PartitionSpec` per array, as a pytree like the arguments; None for what is no array."""
        specs = [_of_value(leaf, spec) for leaf, (_, spec) in zip(self.step.inputs.arrays, self._input_specs)]
        return self.step.inputs.unflatten(specs, lambda leaf: None)

    @property
    def out_specs(self) -> PyTree:
        """A `PartitionSpec` per array, as a pytree like the results."""
        specs = [_of_value(leaf, spec) for leaf, (_, spec) in zip(self.step.outputs.arrays, self._output_specs)]
        return self.step.outputs.unflatten(specs, lambda leaf: None)

    @property
    def in_shardings(self) -> PyTree:
        """A `NamedSharding` per array, as a pytree like the arguments (of NNX: like their state)."""
        return self.step.inputs.unflatten(self._named(self.step.inputs.arrays, self._input_specs), lambda leaf: None)

    @property
    def out_shardings(self) -> PyTree:
        """A `NamedSharding` per array, as a pytree like the results."""
        return self.step.outputs.unflatten(self._named(self.step.outputs.arrays, self._output_specs), lambda leaf: None)

    def _named(self, leaves: list[Leaf], specs: list[tuple[int, PartitionSpec]]) -> list[NamedSharding]:
        pairs = zip(leaves, specs, strict=True)
        return [NamedSharding(self.meshes[stage], _of_value(leaf, spec)) for leaf, (stage, spec) in pairs]

    @property
    def layouts(self) -> dict[str, PartitionSpec]:
        """Key path of each array of the arguments -> its layout."""
        pairs = zip(self.step.inputs.arrays, self._input_specs, strict=True)
        return {leaf.path: _of_value(leaf, spec) for leaf, (_, spec) in pairs}

    # ---- what a person reads ----

    def summary(self) -> str:
        """Time, stages, memory, communication, the largest tensors: what `phzc` prints."""
        return self._said.strip()

    def explain(self, path: str) -> str:
        """Why an argument, by its key path or a part of it, or an instruction is laid out as it is, and what it would cost otherwise.

        Raises `KeyError` where no argument or several have that path.
        """
        name = self._name_of(path)
        command = [self.program, *self._command, "--explain", name, "-o", self.folder / "explained.ir"]
        said = binaries.run(self.binary, command)
        return said.replace(self.summary(), "").strip()

    def _name_of(self, path: str) -> str:
        if any(i.name == path for i in self.module.computations[self.module.entry]):
            return path
        firsts = self.stacks.first(self.stacks.parameters, len(self.step.used))
        named = {self.step.inputs.arrays[at].path: k for at, k in zip(self.step.used, firsts, strict=True)}
        found = [p for p in named if p == path] or [p for p in named if path in p]
        if len(found) != 1:
            near = ", ".join(found or named)
            raise KeyError(f"`{path}` is {'more than one argument' if found else 'no argument that is read'}: {near[:500]}")
        return self.module.parameters[named[found[0]]].name

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return display.html(self)

    # ---- the step ----

    def jit(self, how: str = "exact") -> JittedStep:
        """The step as planned, called like the one that was planned, as one XLA program.

        `exact`: the plan's own collectives, one by one (`jax.shard_map`); `constraints`: every inner layout as a sharding
        constraint, the collectives are XLA's. Several microbatches are a loop that sums gradients, with constraints.
        Raises `ValueError` for plans of several stages, `PhzcError` where a plan has no program of one device.
        """
        if how not in ("exact", "constraints"):
            raise ValueError(f"`{how}` is no way to run a plan: exact, constraints")
        if self.n_stages > 1:
            raise ValueError(f"the plan has {self.n_stages} stages: plan.pipeline(), or phzc.plan(..., stages=1)")
        if self.n_microbatches > 1:
            flat = accumulated(self._stages(), self.mesh, self.stacks)
        elif how == "constraints":
            flat = lowering.constrained(self.module, self.mesh, self.stacks)
        else:
            flat = lowering.exact(hlo.parse(self.device_program()), self.mesh, self.stacks)
        given = self._named(self.step.outputs.arrays, self._output_specs)
        return JittedStep(self.step, flat, self._wanted(), given, self.rewrap)

    def pipeline(self) -> PlannedStep:
        """The step as planned, called like the one that was planned: each stage on its own devices, one controller."""
        flat = Pipeline(self._stages(), self.meshes, self.stacks)
        return PlannedStep(self.step, flat, self._wanted(), self.rewrap)

    def _wanted(self) -> list[NamedSharding]:
        named = self._named(self.step.inputs.arrays, self._input_specs)
        return [named[at] for at in self.step.used]

    def _stages(self) -> Stages:
        folder = self.folder / "stages"
        command = [self.after, "--passes", "", "--cluster", self.cluster, "-q", "--emit", "stages", "-o", folder]
        binaries.run(self.binary, command)
        return Stages(folder)

    def device_program(self) -> str:
        """HLO text of what each device runs: local shapes, explicit collectives. Raises `PhzcError` where it cannot be written."""
        path = self.folder / "device.ir"
        command = [self.after, "--passes", "spmd", "--cluster", self.cluster, "-q", "-o", path]
        binaries.run(self.binary, command)
        return path.read_text()


def _of_value(leaf: Leaf, spec: PartitionSpec) -> PartitionSpec:
    """The layout of an array of typed keys, whose bits have one dimension more."""
    return PartitionSpec(*spec[: len(leaf.aval.shape)])
