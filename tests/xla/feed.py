"""The inputs that phzc makes of a program, for one step and for the next: `phzc eval` is their only definition."""

import pathlib
import re
import subprocess
import tempfile

import ml_dtypes
import numpy as np

import hlo

FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
# What NumPy lacks, or calls otherwise, was written wider.
NUMPY = {"pred": np.bool_, "c64": np.complex64, "c128": np.complex128, **FLOATS}


def load(path):
    with np.load(path) as file:
        return [file[str(index)] for index in range(len(file.files))]


def typed(module, arrays):
    """The arrays in the parameters' own types."""
    leaves = [leaf for parameter in module.parameters for leaf in parameter.shape.leaves]
    pairs = zip(arrays, leaves, strict=True)
    return [np.asarray(a).astype(NUMPY.get(leaf.dtype, a.dtype)) for a, leaf in pairs]


def inputs(phzc, path, seed=1):
    """One whole array per array that the program takes; nothing of the program is kept."""
    with tempfile.TemporaryDirectory(prefix="phzc-inputs-") as folder:
        given = pathlib.Path(folder) / "inputs.npz"
        command = [phzc, "eval", path, "--seed", seed, "--write-inputs", given, "--inputs-only"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"phzc eval: {done.stderr.strip()[-400:]}")
        return typed(hlo.parse(hlo.read_file(path)), load(given))


class Second:
    """The inputs of a second step: each result goes back to the parameter whose buffer it reuses, if its values are
    finite and new. All else is what phzc makes of the next seed."""

    def __init__(self, module, given, made, fresh):
        self.fresh = fresh
        self.next = {}
        for output, leaf in aliases(module).items():
            values = np.asarray(made[output])
            if np.isfinite(np.asarray(values, np.float64)).all() and not np.array_equal(values, given[leaf]):
                self.next[leaf] = output

    def inputs(self, made):
        return [made[self.next[leaf]] if leaf in self.next else array for leaf, array in enumerate(self.fresh)]


def aliases(module):
    """Number of the result -> number of the array whose buffer it reuses, of programs that take and return flat arrays."""
    found = re.findall(r"\{(\d*)\}:\s*\((\d+),\s*\{\}", module.header)
    return {int(output or 0): int(parameter) for output, parameter in found}


class Layers:
    """What a plan of unrolled loops takes and returns, by its note: stacks of the program, layer by layer."""

    def __init__(self, text):
        note = re.search(r'phzc\.unstacked="parameters=([^;"]*);results=([^"]*)"', text)
        pairs = [dict(map(int, pair.split("x")) for pair in part.split(",") if pair) for part in note.groups()] if note else [{}, {}]
        self.parameters, self.results = pairs

    def split(self, arrays):
        parts = [np.split(array, self.parameters.get(number, 1)) if number in self.parameters else [array]
                 for number, array in enumerate(arrays)]
        return [part for all_of_one in parts for part in all_of_one]

    def join(self, results):
        rest, joined = list(results), []
        while rest:
            n = self.results.get(len(joined))
            joined.append(np.concatenate(rest[:n]) if n else rest[0])
            rest = rest[n or 1:]
        return joined
