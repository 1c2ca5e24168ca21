"""A family's program as phzc writes it, and its twin in plain JAX (`tools/families`), on the same inputs."""

import json
import math
import pathlib
import subprocess
import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import hlo
from common import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from families import FAMILIES  # noqa: E402

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16, "s32": jnp.int32}
Named = dict[str, np.ndarray]


class Failure(Exception):
    """Why there is no figure."""


def call(command: list, timeout: float) -> str:
    """What a command printed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command[1:3]))}: {done.stderr.strip()[-400:]}")
    return done.stdout


@dataclass
class Program:
    """What `phzc gen FAMILY OPTIONS` writes."""

    phzc: pathlib.Path
    family: str
    options: list[str]
    timeout: float = 900

    def __post_init__(self) -> None:
        about = json.loads(self.gen("--describe"))
        self.dims, self.flops = about["dims"], about["flops"]
        self.dtype = DTYPES[about["dtype"]]
        self.inputs = {name: hlo.parse_shape(shape) for name, shape in about["inputs"].items()}

    def gen(self, *more: str) -> str:
        return call([self.phzc, "gen", self.family, *self.options, *more], self.timeout)

    def write(self, path: pathlib.Path) -> None:
        path.write_text(self.gen())

    def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The inputs, for JAX."""
        return {name: jax.ShapeDtypeStruct(s.dims, DTYPES[s.dtype]) for name, s in self.inputs.items()}

    def draw(self, seed: int) -> Named:
        """Random inputs as a training run sees them: labels over all classes, products of scale 1."""
        rng = np.random.default_rng(seed)
        return {name: self.drawn(rng, name, shape) for name, shape in self.inputs.items()}

    def drawn(self, rng: np.random.Generator, name: str, shape: hlo.Shape) -> np.ndarray:
        if shape.dtype == "s32":
            return rng.integers(0, self.below(name), shape.dims, np.int32)
        values = rng.standard_normal(shape.dims, np.float32)
        if name.endswith((".scale", ".variance")):
            return np.abs(1 + values / 10)
        if name.startswith("batch."):
            return values
        fan_in = math.prod(shape.dims[:-1]) if name.endswith(WEIGHTS) else 100
        if name.endswith(".q.kernel"):
            fan_in *= self.dims.get("head-dim", 1)  # T5's scores are not scaled: its queries start small
        return values * GAIN / np.float32(fan_in) ** 0.5

    def below(self, name: str) -> int:
        """How many values an integer input has."""
        known = {"batch.token_type_ids": "types", "batch.labels": "classes"}
        size = self.dims.get(known.get(name, "vocab"), self.dims.get("vocab"))
        return 2 if name == "batch.next_sentence_label" else size


GAIN = np.float32(2)  # above 1, so that a wrong formula changes the loss
WEIGHTS = ("kernel", ".up", ".gate", ".down")


def loss(program: Program):
    """The twin as a function of trained arrays and of a step's data, both by name; what it returns besides too."""
    twin = FAMILIES[program.family]
    return lambda params, batch: twin(params, batch, program.dims, program.dtype)


def split(arrays: dict) -> tuple[dict, dict]:
    """The trained arrays, and what else a step takes, by the twin's names."""
    params = {name.removeprefix("params."): a for name, a in arrays.items() if name.startswith("params.")}
    batch = {name.removeprefix("batch."): a for name, a in arrays.items() if not name.startswith("params.")}
    return params, batch
