"""Judges the families that phzc writes, at their size `tiny`, by XLA and by their twins in plain JAX.

Per family: the loss (and new states) of the forward program by `phzc eval`, by XLA and by the twin; every
parameter's gradient by `grad` and by `jax.grad`; a step by `optimizer` and by optax. Errors are largest
differences over largest values. `--flops` compares the FLOPs of named sizes instead.
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
import steps  # noqa: E402
from judge import relative_error  # noqa: E402
from common import ROOT, expect, show  # noqa: E402
from twins import FAMILIES, Failure, Named, Program, call, loss, split  # noqa: E402

TINY = ["--size", "tiny", "--dtype", "f32", "--forward"]
ROUNDING = 1e-6  # of the largest gradient: less is zero but for rounding
HEAD = ["family", "loss", "by XLA", "by twin", "gradients", "worst", "zero", *steps.KINDS, "verdict"]


class Case:
    """A family's forward program, inputs for it, and what its twin makes of them."""

    def __init__(self, family: str, args: argparse.Namespace, folder: pathlib.Path) -> None:
        self.args, self.folder, self.forward = args, folder, folder / "forward.ir"
        program = Program(args.phzc, family, TINY, args.timeout)
        program.write(self.forward)
        self.given = program.draw(args.seed)
        of_params = jax.jit(jax.value_and_grad(loss(program), has_aux=True))
        (value, states), self.grads = of_params(*split(self.given))
        names = [name.removeprefix("state.") for name in program.inputs if name.startswith("state.")]
        self.results = [value, *(states[name] for name in names)]
        self.params = [name.removeprefix("params.") for name in program.inputs if name.startswith("params.")]

    def run(self, program: pathlib.Path, given: Named) -> list[np.ndarray]:
        """The results of `phzc eval`."""
        inputs, outputs = self.folder / "inputs.npz", self.folder / "outputs.npz"
        np.savez(inputs, **{str(index): array for index, array in enumerate(given.values())})
        call([self.args.phzc, "eval", program, "--input", inputs, "-o", outputs], self.args.timeout)
        with np.load(outputs) as file:
            return [file[str(index)] for index in range(len(file.files))]

    def passed(self, passes: str) -> pathlib.Path:
        """What passes make of the forward program."""
        made = self.folder / "made.ir"
        call([self.args.phzc, self.forward, "--passes", passes, "--quiet", "-o", made], self.args.timeout)
        return made

    def losses(self) -> tuple[list[str], bool]:
        found = self.run(self.forward, self.given)
        by_xla = xla.Program(self.forward.read_text(), 1, optimize=True).run(list(self.given.values()))
        errors = [worst(by_xla, found), worst(self.results, found)]
        return [f"{found[0]:.6f}", *map("{:.1e}".format, errors)], max(errors) <= self.args.tolerance

    def gradients(self) -> tuple[list[str], bool]:
        """By parameter; they follow the program's own results."""
        found = self.run(self.passed("grad"), self.given)[len(self.results):]
        least = ROUNDING * max(np.abs(gradient).max() for gradient in self.grads.values())
        pairs = zip(self.params, found, strict=True)
        errors = {name: gradient_error(self.grads[name], got, least) for name, got in pairs}
        name = max(errors, key=errors.get)
        n_zero = sum(np.abs(gradient).max() <= least for gradient in self.grads.values())
        return [f"{errors[name]:.1e}", name, f"{n_zero}/{len(errors)}"], errors[name] <= self.args.gradient_tolerance

    def step(self, kind: str) -> tuple[list[str], bool]:
        """New parameters and states; the program's own results come before them."""
        program = self.passed(f"grad,optimizer{{kind={steps.KINDS[kind][0]}}}")
        states = steps.drawn(kind, self.given, self.args.seed)
        found = self.run(program, self.given | states)
        wanted = [*self.results, *steps.wanted(kind, self.given, states, self.grads)]
        error = worst(wanted, found)
        return [f"{error:.1e}"], error <= self.args.tolerance


def gradient_error(wanted: np.ndarray, found: np.ndarray, least: float) -> float:
    """The relative error; none where both are nothing but rounding, as of a key's bias, which changes no softmax."""
    if max(np.abs(wanted).max(), np.abs(found).max()) <= least:
        return 0.0
    return worst([wanted], [found])


def worst(wanted: list, found: list) -> float:
    """The largest relative error of pairs of arrays."""
    if len(wanted) != len(found):
        raise Failure(f"{len(found)} results, not {len(wanted)}")
    return max(relative_error(np.float64(a), np.float64(b)) for a, b in zip(wanted, found, strict=True))


def row(family: str, args: argparse.Namespace, folder: pathlib.Path) -> list[str]:
    """A family's line of the table."""
    case = Case(family, args, folder)
    parts = [(3, case.losses), (3, case.gradients), *((1, lambda k=kind: case.step(k)) for kind in steps.KINDS)]
    cells, verdict = [family], "ok"
    for n_cells, part in parts:
        try:
            made, ok = part()
            verdict = verdict if ok or verdict != "ok" else "FAILED"
        except Failure as error:
            made, verdict = ["-"] * n_cells, f"FAILED: {error}"
        cells += made
    return [*cells, verdict]


def judge(args: argparse.Namespace) -> list[list[str]]:
    rows = []
    for family in args.only or FAMILIES:
        with tempfile.TemporaryDirectory(prefix="phzc-zoo-") as folder:
            rows.append(row(family, args, pathlib.Path(folder)))
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
    parser.add_argument("--timeout", type=int, default=900, help="seconds per command")
    args = parser.parse_args()
    expect(args.phzc)
    rows = flops.judge(args) if args.flops else judge(args)
    show(rows, flops.HEAD if args.flops else HEAD)
    failed = sum(cells[-1] != "ok" for cells in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
