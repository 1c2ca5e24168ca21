#!/usr/bin/env python3
"""Compares what the devices of `shard_map` regions compute, by XLA's partitioner, with the whole program of `unmap`.

`tests/xla/run regions [PHZC]`: every program of tests/regions that folds, on 8 virtual devices and on one.
"""

import argparse
import pathlib
import subprocess
import sys

import xla  # isort: skip  (before jax)
import numpy as np

import hlo
from common import HERE, ROOT, expect, show
from judge import relative_error

FILES = HERE.parent / "regions"
TOLERANCE = 1e-5
# Those that are refused.
NAMED = ("kept", "ring")


def inputs(text):
    """Normal numbers for every parameter."""
    random = np.random.default_rng(1)
    return [random.standard_normal(parameter.shape.dims).astype(np.float32)
            for parameter in hlo.parse(text).parameters]


def compare(phzc, path):
    """The largest error of all results."""
    text = path.read_text()
    command = [phzc, path, "--passes", "unmap", "--quiet"]
    whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    given = inputs(text)
    wanted = xla.Program(text, 8).run(given)
    found = xla.Program(xla.unsharded(whole), 1).run(given)
    if len(wanted) != len(found) or all(np.all(want == 0) for want in wanted):
        return float("inf")
    return max(relative_error(np.asarray(want, np.float64), np.asarray(got, np.float64))
               for want, got in zip(wanted, found, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phzc", nargs="?", type=pathlib.Path, default=ROOT / "target/release/phzc")
    phzc = parser.parse_args().phzc.resolve()
    expect(phzc)
    paths = [path for path in sorted(FILES.glob("*.gspmd.hlo")) if path.name.split(".")[0] not in NAMED]
    rows, n_wrong = [], 0
    for path in paths:
        error = compare(phzc, path)
        n_wrong += not error <= TOLERANCE
        rows.append([path.name, f"{error:.1e}", "ok" if error <= TOLERANCE else "FAILED"])
    show(rows, ["program", "error", ""])
    print(f"{len(rows) - n_wrong} regions compute what their devices do, {n_wrong} do not")
    sys.exit(bool(n_wrong) or not rows)


if __name__ == "__main__":
    main()
