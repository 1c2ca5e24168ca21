"""Compares `phzc eval` of exported programs with PyTorch: `judge.py PHZC [NAME...]`.

Exports every model of `models.py` anew, with stack traces, weights and all as PyTorch writes them, runs the module on its
inputs in PyTorch and the archive in phzc, and plans it. Prints the largest difference over the largest value; exits
with 1 if any is above 1e-5.
"""

import pathlib
import subprocess
import sys
import tempfile
import warnings

import models
import numpy as np

TOLERANCE = 1e-5


def error(found, wanted):
    if found.shape != wanted.shape or not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return np.inf
    scale = max(np.max(np.abs(wanted), initial=0), 1e-30)
    return float(np.max(np.abs(found.astype(np.float64) - wanted), initial=0) / scale)


def judge(phzc, name, directory):
    """The largest error, and the numbers of nodes and of instructions."""
    models.packed = lambda data: data
    program = models.export(directory, name)
    archive, text, made = directory / f"{name}.pt2", directory / "a.ir", directory / "out.npz"
    sizes = {}
    for spec in program.graph_signature.input_specs:
        value = next(node for node in program.graph.nodes if node.name == spec.arg.name).meta.get("val")
        for dim in getattr(value, "shape", ()) if spec.kind.name == "USER_INPUT" else ():
            if not isinstance(dim, int):
                sizes[str(dim.node.expr)] = dim.node.hint
    given = [part for dim, size in sizes.items() for part in ("--dim", f"{dim}={size}")]

    def run(*args):
        subprocess.run([phzc, *map(str, args)], check=True, capture_output=True, text=True)

    run("eval", archive, *given, "--input", directory / f"{name}.in.npz", "-o", made)
    run("convert", archive, *given, "-o", text)
    found, wanted = np.load(made), np.load(directory / f"{name}.out.npz")
    assert len(found.files) == len(wanted.files), f"{len(found.files)} results, not {len(wanted.files)}"
    worst = max(error(found[str(n)], wanted[f"arr_{n}"]) for n in range(len(wanted.files)))
    return worst, len(program.graph.nodes), sum(" = " in line for line in text.read_text().splitlines())


def main():
    warnings.filterwarnings("ignore")
    phzc, wanted = sys.argv[1], sys.argv[2:] or models.MODELS
    print(f"{'model':<16} {'nodes':>6} {'instrs':>7} {'error':>9}")
    failed = 0
    for name in wanted:
        try:
            with tempfile.TemporaryDirectory() as directory:
                worst, nodes, instrs = judge(phzc, name, pathlib.Path(directory))
            is_wrong = not worst <= TOLERANCE
            print(f"{name:<16} {nodes:>6} {instrs:>7} {worst:>9.1e}{'  WRONG' if is_wrong else ''}", flush=True)
        except (subprocess.CalledProcessError, AssertionError) as failure:
            is_wrong = True
            print(f"{name:<16} {getattr(failure, 'stderr', str(failure)).strip()[:2000]}", flush=True)
        failed += is_wrong
    print(f"{failed} wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
