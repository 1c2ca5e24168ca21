"""Judges the families that phzc writes, at their size `tiny`, by XLA and by their twins in plain JAX.

Per family: the loss (and new states) of the forward program by `phzc eval`, by XLA and by the twin; every
parameter's gradient by `grad` and by `jax.grad`; a step by `optimizer` and by optax. `--flops` compares the
FLOPs of named sizes instead.
"""

import argparse
import os
import pathlib
import sys
import tempfile

os.environ["PHZC_XLA_DEVICES"] = "1"

import xla  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402

import flops  # noqa: E402
from judge import relative_error  # noqa: E402
from suite import ROOT, show  # noqa: E402
from twins import FAMILIES, Failure, Named, Program, call, loss, split  # noqa: E402

HEAD = ["family", "loss", "by XLA", "by twin", "gradients", "worst", "verdict"]
TINY = ["--size", "tiny", "--dtype", "f32"]


def run(args: argparse.Namespace, path: pathlib.Path, given: Named) -> list[np.ndarray]:
    """The results of `phzc eval`."""
    inputs, outputs = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    np.savez(inputs, **{str(index): array for index, array in enumerate(given.values())})
    call([args.phzc, "eval", path, "--input", inputs, "-o", outputs], args.timeout)
    with np.load(outputs) as file:
        return [file[str(index)] for index in range(len(file.files))]


def worst(wanted: list, found: list) -> float:
    """The largest relative error of pairs of arrays."""
    return max(relative_error(np.float64(a), np.float64(b)) for a, b in zip(wanted, found, strict=True))


def row(family: str, args: argparse.Namespace, folder: pathlib.Path) -> list[str]:
    """A family's line of the table."""
    program = Program(args.phzc, family, [*TINY, "--forward"], args.timeout)
    given, path = program.draw(args.seed), folder / "forward.ir"
    program.write(path)
    params, data = split(given)
    (value, states), grads = jax.jit(jax.value_and_grad(loss(program), has_aux=True))(params, data)
    states = [states[name.removeprefix("state.")] for name in program.inputs if name.startswith("state.")]
    found = run(args, path, given)
    by_xla = worst(xla.Program(path.read_text(), 1, optimize=True).run(list(given.values())), found)
    by_twin = worst([value, *states], found)
    errors = gradient_errors(args, path, given, grads, len(found))
    name, error = max(errors.items(), key=lambda item: item[1])
    ok = max(by_xla, by_twin) <= args.tolerance and error <= args.gradient_tolerance
    return [family, f"{found[0]:.6f}", f"{by_xla:.1e}", f"{by_twin:.1e}", f"{error:.1e} of {len(errors)}", name,
            "ok" if ok else "FAILED"]


def gradient_errors(args: argparse.Namespace, path: pathlib.Path, given: Named, wanted: Named,
                    n_results: int) -> dict[str, float]:
    """Each trained array's relative error; gradients follow the program's own results."""
    differentiated = path.with_name("gradients.ir")
    call([args.phzc, path, "--passes", "grad", "--quiet", "-o", differentiated], args.timeout)
    found = run(args, differentiated, given)[n_results:]
    if len(found) != len(wanted):
        raise Failure(f"{len(found)} gradients of {len(wanted)} parameters")
    names = [name.removeprefix("params.") for name in given if name.startswith("params.")]
    return {name: worst([wanted[name]], [got]) for name, got in zip(names, found, strict=True)}


def judge(args: argparse.Namespace) -> list[list[str]]:
    rows = []
    for family in args.only or FAMILIES:
        with tempfile.TemporaryDirectory(prefix="phzc-zoo-") as folder:
            try:
                rows.append(row(family, args, pathlib.Path(folder)))
            except Failure as error:
                rows.append([family, *["-"] * (len(HEAD) - 2), f"FAILED: {error}"])
        print(f"{family}: {rows[-1][-1]}", file=sys.stderr)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/xla/run zoo", description=__doc__)
    parser.add_argument("phzc", nargs="?", type=pathlib.Path, default=ROOT / "target/release/phzc")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, metavar="FAMILY", help="just these")
    parser.add_argument("--flops", action="store_true", help="compare FLOPs of named sizes with XLA's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-5, help="of losses, states and steps")
    parser.add_argument("--gradient-tolerance", type=float, default=1e-4)
    parser.add_argument("--timeout", type=int, default=900, help="seconds per step")
    args = parser.parse_args()
    if not args.phzc.exists():
        sys.exit(f"tests/xla: no {args.phzc}: build it first (cargo build --release)")
    rows = flops.judge(args) if args.flops else judge(args)
    show(rows, flops.HEAD if args.flops else HEAD)
    failed = sum(cells[-1] != "ok" for cells in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
