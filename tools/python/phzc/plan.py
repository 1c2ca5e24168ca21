"""`plan`: plans a step, and what a plan says: mesh, shardings, figures."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import binary as binaries
from . import display, hlo, layouts, lowering, modules
from .binary import PhzcError
from .calls import refuse_callbacks
from .pipeline import Pipeline
from .placement import Placement, leaves
from .planned import JittedStep, PlannedStep, Rewrap
from .stages import Stages, accumulated
from .step import PyTree, Step, trace


def plan(
    fn: Callable,
    *args: PyTree,
    cluster: str | Path = "a100-8",
    stages: int | None = 1,
    microbatches: int | None = None,
    passes: str | None = None,
    donate_argnums: Sequence[int] | None = None,
    static_argnums: Sequence[int] = (),
    options: Sequence[str] = (),
    profile: str | Path | None = None,
    binary: Path | None = None,
) -> Plan:
    """Plans `fn(*args)`, one training or inference step, on a cluster.

    `args` are pytrees of arrays or `jax.ShapeDtypeStruct`, modules of Flax NNX and Equinox among them.
    `cluster` is a name (`h100-8x2`: two nodes of eight) or a TOML file. `stages` is the number of pipeline
    stages: 1 is what `Plan.jit` runs, None leaves it to the planner. `microbatches` fixes their number,
    `passes` the whole pipeline of passes; `options` are further arguments of `phzc`. `profile` is a directory
    of measured costs, which come before all formulas (`phzc.tune`). `donate_argnums` default to what a jitted `fn` donates. Raises `PhzcError` where phzc refuses the program.
    """
    of = modules.adapted(fn, args, donate_argnums)
    step = trace(of.fn, of.args, of.donate_argnums, static_argnums, of.named)
    measured = [] if profile is None else ["--profile", str(profile)]
    planned = ["--passes", passes or _passes(stages, microbatches), "--cluster", str(cluster)]
    command = [*planned, *measured, *options]
    return Plan(step, str(cluster), command, binary, of.rewrap)


def tune(fn: Callable, *args: PyTree, profile: str | Path, measure: str | None = None, **planning: Any) -> Plan:
    """Plans `fn(*args)` on this process's devices by costs that are measured on them: plans, measures what the
    plan and its rivals lack, plans again, until the plan stays.

    `profile` is the directory of what was measured; what it has is not measured again. `measure` is the command
    that measures (default: `python -m phzc.measure` on as many devices); `planning` is as for `phzc.plan`.
    What was planned in each round is in the plan's `rounds`.
    """
    first = plan(fn, *args, **planning)
    pipeline = first.command[: first.command.index("--cluster") + 2]
    command = measure or _measuring()
    said = binaries.run(
        planning.get("binary"), ["tune", first.program, *pipeline, "-o", profile, "--measure", command]
    )
    first.command += ["--profile", str(profile)]
    planned = Path(profile) / "plan.ir"
    first.read(planned, "--passes", "", "--cluster", first.cluster, "--profile", profile)
    first.rounds = said.strip()
    return first


def _measuring() -> str:
    on_cpu = jax.devices()[0].platform == "cpu"
    return f"{sys.executable} -m phzc.measure" + (f" --cpu-devices {jax.device_count()}" if on_cpu else "")


def _passes(stages: int | None, microbatches: int | None) -> str:
    given = {"stages": stages, "microbatches": microbatches}
    wanted = ",".join(f"{key}={value}" for key, value in given.items() if value is not None)
    return f"fuse,shard,place{{{wanted}}}" if wanted else "fuse,shard,place"


@dataclass
class Plan:
    """A plan of a step. `phzc.plan` makes it."""

    step: Step
    cluster: str
    command: list[str]
    binary: Path | None = field(default=None, repr=False)
    rewrap: Rewrap | None = field(default=None, repr=False)
    rounds: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="phzc-")
        self.program.write_text(self.step.text)
        self.read(self.program, *self.command)

    def read(self, *command: str | Path) -> None:
        """Takes the plan that a command of `phzc` writes for this one."""
        self._said = self._phzc(*command, "-o", self.after, "--plan", self.folder / "plan.json")

    def _phzc(self, *args: str | Path) -> str:
        return binaries.run(self.binary, args)

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
        """The mesh of each pipeline stage, over this process's devices. Raises `ValueError` where these are
        too few."""
        stages = self.figures["stages"]
        return [layouts.mesh_of(layouts.axes_of(s["mesh"]), s["devices"][0]) for s in stages]

    @property
    def mesh(self) -> Mesh:
        """The mesh of a plan of one stage."""
        if self.n_stages > 1:
            raise ValueError(f"the plan has {self.n_stages} stages, each with its own mesh: plan.meshes")
        return self.meshes[0]

    @cached_property
    def placement(self) -> Placement:
        """Stage and layout of each argument and result."""
        return Placement(self.step, self.module, self.figures["stages"])

    @property
    def in_specs(self) -> PyTree:
        """A `PartitionSpec` per array, as a pytree like the arguments; None for what is no array."""
        return self.placement.tree(self.step.inputs, self.placement.inputs, lambda _, spec: spec)

    @property
    def out_specs(self) -> PyTree:
        """A `PartitionSpec` per array, as a pytree like the results."""
        return self.placement.tree(self.step.outputs, self.placement.outputs, lambda _, spec: spec)

    @property
    def in_shardings(self) -> PyTree:
        """A `NamedSharding` per array, as a pytree like the arguments (of NNX: like their state)."""
        return self.placement.tree(self.step.inputs, self.placement.inputs, self._sharding)

    @property
    def out_shardings(self) -> PyTree:
        """A `NamedSharding` per array, as a pytree like the results."""
        return self.placement.tree(self.step.outputs, self.placement.outputs, self._sharding)

    def _sharding(self, stage: int, spec: PartitionSpec) -> NamedSharding:
        return NamedSharding(self.meshes[stage], spec)

    def shardings_for(self, value: PyTree) -> PyTree:
        """The shardings of a model or of any other argument, or part of one, that looks like `value`: a
        pytree like it.

        Of modules of Flax NNX it is like `nnx.state(value)`. Raises `ValueError` where no argument is like
        it.
        """
        return self.placement.part_like(value, self.meshes)

    @property
    def layouts(self) -> dict[str, PartitionSpec]:
        """Key path of each array of the arguments -> its layout."""
        specs = leaves(self.step.inputs, self.placement.inputs, lambda _, spec: spec)
        return dict(zip((leaf.path for leaf in self.step.inputs.arrays), specs, strict=True))

    # ---- what a person reads ----

    def summary(self) -> str:
        """Time, stages, memory, communication, the largest tensors: what `phzc` prints."""
        return self._said.strip()

    def explain(self, path: str) -> str:
        """Why an argument, by its key path or a part of it, or an instruction is laid out as it is, and what
        it would cost otherwise.

        Raises `KeyError` where no argument or several have that path.
        """
        name = self._name_of(path)
        folder, unused = self.folder / "explained", self.folder / "explained.ir"
        self._phzc(self.program, *self.command, "--explain", name, "--dump-dir", folder, "-o", unused)
        return (folder / "explain.txt").read_text().strip()

    def _name_of(self, path: str) -> str:
        if any(i.name == path for i in self.module.computations[self.module.entry]):
            return path
        named = {self.step.inputs.arrays[at].path: p.name for at, p in self.placement.parameters.items()}
        found = [p for p in named if p == path] or [p for p in named if path in p]
        if len(found) != 1:
            problem = "more than one argument" if found else "no argument that is read"
            raise KeyError(f"`{path}` is {problem}: {', '.join(found or named)[:500]}")
        return named[found[0]]

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return display.html(self)

    # ---- the step ----

    def jit(self, how: str = "exact") -> JittedStep:
        """The step as planned, called like the one that was planned, as one XLA program.

        `exact`: the plan's own collectives, one by one (`jax.shard_map`); `constraints`: every inner layout
        as a sharding constraint, the collectives are XLA's. Several microbatches are a loop that sums
        gradients, with constraints. Raises `ValueError` for plans of several stages, `PhzcError` where a plan
        has no program of one device.
        """
        _check(how)
        if self.n_stages > 1:
            raise ValueError(
                f"the plan has {self.n_stages} stages: plan.pipeline(), or phzc.plan(..., stages=1)"
            )
        refuse_callbacks(self.module)
        stacks = self.placement.stacks
        if self.n_microbatches > 1:
            flat = accumulated(self._stages(), self.mesh, stacks)
        elif how == "constraints":
            flat = lowering.constrained(self.module, self.mesh, stacks)
        else:
            flat = lowering.exact(hlo.parse(self.device_program()), self.mesh, stacks)
        given = self.placement.named(self.step.outputs, self.placement.outputs, self.meshes)
        return JittedStep(self.step, flat, self._wanted(), given, self.rewrap)

    def pipeline(self, how: str = "exact") -> PlannedStep:
        """The step as planned, called like the one that was planned: each stage on its own devices, one
        controller. `how` is as for `jit`; where the stages' programs of devices cannot be written, a warning
        says so, and it is `constraints`."""
        _check(how)
        refuse_callbacks(self.module)
        flat = Pipeline(self._stages_run(how), self.meshes, self.placement.stacks)
        return PlannedStep(self.step, flat, self._wanted(), self.rewrap)

    def _wanted(self) -> list[NamedSharding]:
        named = self.placement.named(self.step.inputs, self.placement.inputs, self.meshes)
        return [named[at] for at in self.step.used]

    def _stages_run(self, how: str) -> Stages:
        """The stages as programs of devices, where these can be written."""
        if how == "exact":
            try:
                return self._stages("device-stages")
            except PhzcError as error:
                said = f"stages run with constraints, not with the plan's collectives: {error}"
                warnings.warn(said, stacklevel=3)
        return self._stages()

    def _stages(self, emitted: str = "stages") -> Stages:
        folder = self.folder / emitted
        self._phzc(
            self.after, "--passes", "", "--cluster", self.cluster, "-q", "--emit", emitted, "-o", folder
        )
        return Stages(folder)

    def device_program(self) -> str:
        """HLO text of what each device runs: local shapes, explicit collectives. Raises `PhzcError` where it
        cannot be written."""
        path = self.folder / "device.ir"
        self._phzc(self.after, "--passes", "spmd", "--cluster", self.cluster, "-q", "-o", path)
        return path.read_text()


def _check(how: str) -> None:
    if how not in ("exact", "constraints"):
        raise ValueError(f"`{how}` is no way to run a plan: exact, constraints")
