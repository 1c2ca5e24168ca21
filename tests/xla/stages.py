#!/usr/bin/env python3
"""Runs the modules of `phzc --emit stages` through XLA, microbatch by microbatch, and compares with the whole step.

Each module is compiled by XLA alone, with its layouts on the virtual devices of its stage, or (`--single`, and for large programs)
without them on one. The manifest says what goes where and what runs when; nothing else is known here. Adam's moments start at zero, so
the updated moments are the gradients.
"""

import dataclasses
import json
import pathlib
import re
import sys
import tempfile
import time

import numpy as np

import common
import feed
import hlo
import xla
from judge import relative_error
from common import programs, show

TOLERANCE = 1e-4


@dataclasses.dataclass
class Case:
    """A program (of examples/ or the corpus, or what `phzc gen` writes) and how it is cut."""

    name: str
    stages: int
    microbatches: int
    gen: tuple = ()
    large: bool = False
    recompute: str = "auto"


CASES = (
    Case("mlp", 2, 4),
    Case("gpt", 4, 4),
    Case("gpt", 2, 1),
    Case("gpt_scan", 2, 4),
    Case("llama", 2, 2),
    Case("moe", 2, 2),
    Case("llama_tiny", 4, 4),
    Case("gpt", 3, 4),
    Case("moe", 5, 2),
    Case("gpt", 2, 4, recompute="all"),
    Case("llama_tiny", 2, 2, recompute="all"),
    Case("gen llama", 4, 4, ("llama", "--dtype", "f32")),
    Case("gen gpt tied", 2, 8, ("gpt", "--dtype", "f32", "--tied", "1", "--optimizer", "adam")),
    Case("gen gpt2-small", 4, 4, ("gpt", "--size", "gpt2-small", "--seq", "128", "--dtype", "f32"), large=True),
)


class Step:
    """The step's values while its modules run."""

    def __init__(self, folder, inputs, single):
        self.folder, self.inputs = folder, inputs
        self.manifest = json.loads((folder / "stages.json").read_text())
        self.entries = {entry["name"]: entry for entry in self.manifest["modules"]}
        self.programs = {name: self.compiled(entry, single) for name, entry in self.entries.items()}
        self.sums = [filled(hlo.parse_shape(a["shape"]), a["start"]) for a in self.manifest["accumulators"]]
        self.made = {}

    def compiled(self, entry, single):
        text = (self.folder / entry["file"]).read_text()
        devices = 1 if single else hlo.parse(text).devices
        return xla.Program(xla.unsharded(text) if devices <= 1 else text, max(devices, 1), optimize=single)

    def run(self):
        """All modules in order; the arrays of the program's result."""
        for step in self.manifest["order"]:
            name, microbatch = step["module"], step["microbatch"]
            entry = self.entries[name]
            given = [self.value(source, microbatch) for source in entry["parameters"]]
            for array, source in zip(given, entry["parameters"], strict=True):
                assert list(array.shape) == list(hlo.parse_shape(source["shape"]).dims), (name, source)
            results = self.programs[name].run(given)
            assert len(results) == len(entry["results"]), name
            for result, array in zip(entry["results"], results, strict=True):
                if "accumulator" in result:
                    self.sums[result["accumulator"]] = array
            self.made[name, microbatch] = results
        return [self.result(result) for result in self.manifest["results"]]

    def value(self, source, microbatch):
        kind = source["from"]
        if kind == "program":
            whole = self.inputs[source["parameter"], source["leaf"]]
            if source["split_dim"] is None or microbatch is None:
                return whole
            return np.split(whole, self.manifest["n_microbatches"], axis=source["split_dim"])[microbatch]
        if kind == "accumulator":
            return self.sums[source["accumulator"]]
        if kind == "microbatch":
            return np.uint32(microbatch)
        # what an update makes has no microbatch; once per step the last microbatch's is meant
        last = self.manifest["n_microbatches"] - 1
        keys = [(source["module"], microbatch), (source["module"], None), (source["module"], last)]
        return next(self.made[key] for key in keys if key in self.made)[source["result"]]

    def result(self, result):
        if result["join_dim"] is None or result["from"] == "program":
            return self.value(result, None)
        parts = [self.value(result, at) for at in range(self.manifest["n_microbatches"])]
        return np.concatenate(parts, axis=result["join_dim"])


def filled(shape, start):
    """What an accumulator holds before the first microbatch."""
    if shape.dtype in feed.FLOATS:
        return np.full(shape.dims, {"zero": 0, "one": 1, "lowest": -np.inf, "highest": np.inf}[start], feed.FLOATS[shape.dtype])
    if shape.dtype == "pred":
        return np.full(shape.dims, start in ("one", "ones", "highest"))
    sign, width = re.fullmatch(r"([su])(\d+)", shape.dtype).groups()
    ends = np.iinfo(f"{'int' if sign == 's' else 'uint'}{width}")
    ones = -1 if sign == "s" else ends.max
    element = {"zero": 0, "one": 1, "ones": ones, "lowest": ends.min, "highest": ends.max}[start]
    return np.full(shape.dims, element, ends.dtype)


def program(case, args, folder):
    """The whole step's file; None if it is not here."""
    if not case.gen:
        found, _ = programs((case.name,))
        return found[0][1] if found else None
    path = folder / "program.ir"
    call([args.phzc, "gen", *case.gen, "--global-batch", 8, "-o", path], args)
    return path


def call(command, args):
    problem = common.call(command, args.timeout)
    if problem:
        raise RuntimeError(f"{command[1]}: {problem}")


def judge(case, args, folder):
    """Modules, results, and the largest relative error of any; None if the program is not here."""
    path = program(case, args, folder)
    if path is None:
        return None
    passes = f"fuse,shard,place{{stages={case.stages},microbatches={case.microbatches},recompute={case.recompute}}}"
    call([args.phzc, path, "--passes", passes, "--cluster", args.cluster, "-q", "--emit", "stages", "-o", folder / "stages"], args)
    text = hlo.read_file(path)
    module = hlo.parse(text)
    arrays = feed.inputs(args.phzc, path)
    manifest = json.loads((folder / "stages" / "stages.json").read_text())
    is_unrolled = len(manifest["results"]) != len(module.root(module.entry).shape.leaves)
    layers = feed.Layers(hlo.read_file(common.unrolled(args, path, folder)) if is_unrolled else "")
    parameters = hlo.parse(hlo.read_file(folder / "unrolled.ir")).parameters if is_unrolled else module.parameters
    keys = [(number, leaf) for number, parameter in enumerate(parameters)
            for leaf in range(len(parameter.shape.leaves))]
    wanted = xla.Program(xla.unsharded(text), 1, optimize=case.large).run(arrays)
    step = Step(folder / "stages", dict(zip(keys, layers.split(arrays), strict=True)), args.single or case.large)
    found = layers.join(step.run())
    assert len(found) == len(wanted), "every result of the program is there"
    errors = [relative_error(np.asarray(w, np.float64), np.asarray(f, np.float64)) for w, f in zip(wanted, found, strict=True)]
    return len(step.programs), len(errors), max(errors)


def main():
    parser = common.arguments("tests/xla/run stages", __doc__, "command")
    parser.add_argument("--single", action="store_true", help="run every module on one device, without its layouts")
    args = parser.parse_args()
    common.expect(args.phzc)
    rows = []
    for case in CASES:
        if case.name in args.only if args.only else args.full or not case.large:
            start = time.time()
            with tempfile.TemporaryDirectory(prefix="phzc-stages-") as folder:
                try:
                    judged = judge(case, args, pathlib.Path(folder))
                    if judged is None:
                        print(f"{case.name}: SKIPPED, not here", file=sys.stderr)
                        continue
                    n_modules, n_results, worst = judged
                    cells = [str(n_modules), str(n_results), f"{worst:.1e}", "ok" if worst < TOLERANCE else "FAILED"]
                except (RuntimeError, AssertionError) as problem:
                    cells = ["-", "-", "-", f"FAILED: {str(problem)[:400]}"]
            seconds = f"{time.time() - start:.1f}"
            name = case.name if case.recompute == "auto" else f"{case.name}, recompute={case.recompute}"
            rows.append([name, str(case.stages), str(case.microbatches), *cells[:3], seconds, cells[3]])
            print(f"{case.name}: {rows[-1][-1]}", file=sys.stderr)
    print("\nThe modules of the stages, run by XLA microbatch by microbatch, against the whole step.")
    show(rows, ["program", "stages", "microbatches", "modules", "results", "max error", "s", "verdict"])
    failed = sum(row[-1] != "ok" for row in rows)
    print(f"{len(rows) - failed} as the whole step, {failed} not")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
