#!/usr/bin/env python3
"""Runs plans whose microbatches are written out (`--write-microbatches`) through XLA.

XLA has to accept the text, insert the collectives that phzc predicts for it, byte by byte, and compute what the program before planning
does, over two steps.
"""

import dataclasses
import pathlib
import sys
import tempfile

import common
import suite
from common import HERE, call, programs, show

NEAR = 1e-6  # how far the ratio of bytes may be from 1


@dataclasses.dataclass
class Case:
    """A program, a mesh and microbatches."""

    name: str
    mesh: str
    microbatches: int


CASES = (
    Case("mlp", "2x4", 4),
    Case("mlp", "8", 2),
    Case("gpt", "2x4", 4),
    Case("gpt_scan", "2x4", 2),
    Case("llama", "4x2", 2),
    Case("moe", "2x4", 4),
)


def judge(case, program, args, folder):
    """The verdict of `judge.py all` on the text."""
    after, plan, verdict = folder / "after.ir", folder / "plan.json", folder / "verdict.json"
    passes = f"fuse,shard{{mesh={case.mesh}}},place{{stages=1,microbatches={case.microbatches}}}"
    command = [args.phzc, program, "--passes", passes, "--cluster", args.cluster, "--write-microbatches", "-q", "-o", after]
    judging = [sys.executable, HERE / "judge.py", "all", after, "--json", verdict, "--reference", program,
               "--plan", plan, "--phzc", args.phzc]
    error = (call(command, args.timeout) or suite.plan_as_xla_reads_it(after, plan, args)
             or call(judging, args.timeout))
    return suite.json.loads(verdict.read_text()) if verdict.exists() else {"error": error}


def is_exact(verdict):
    """Whether it passed and XLA moves the bytes that were predicted."""
    ratio = verdict.get("spmd", {}).get("ratio")
    return suite.passed(verdict) and ratio is not None and abs(ratio - 1) < NEAR


def main():
    args = common.arguments("tests/xla/run accumulate", __doc__, "step").parse_args()
    common.expect(args.phzc)
    rows, failed = [], 0
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        (_, program), = programs((case.name,))[0]
        with tempfile.TemporaryDirectory(prefix="phzc-accumulate-") as folder:
            verdict = judge(case, program, args, pathlib.Path(folder))
        failed += not is_exact(verdict)
        cells = suite.row(case.name, verdict)
        rows.append([cells[0], case.mesh, str(case.microbatches), *cells[1:-1], "ok" if is_exact(verdict) else "FAILED"])
        print(f"{case.name}: {rows[-1][-1]} {verdict.get('error') or ''}", file=sys.stderr)
    print("\nGradient accumulation written out: executions and bytes per device and step, predicted/inserted.")
    show(rows, ["program", "mesh", "microbatches", *suite.HEAD[1:]])
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
