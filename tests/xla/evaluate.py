#!/usr/bin/env python3
"""Compares `phzc eval` with XLA on CPU: the same inputs, output by output, and the time that both take."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

os.environ["PHZC_XLA_DEVICES"] = "1"

import numpy as np  # noqa: E402

import hlo  # noqa: E402
import xla  # noqa: E402
from feed import load, typed  # noqa: E402
from judge import relative_error  # noqa: E402
from common import HERE, ROOT, expect, programs, show  # noqa: E402

PROGRAMS = ("mlp", "gpt", "gpt_scan", "llama", "moe", "mlp_tiny", "llama_tiny", "moe_gshard_tiny")


def compare(phzc, path, args, folder):
    """A row of the table, or a `str` that says why there is none."""
    text = hlo.read_file(path)
    if re.search(r"constant\(\{\.\.\.\}\)", text):
        return "elided constants: XLA would make them up"
    given, made = folder / "inputs.npz", folder / "outputs.npz"
    command = [phzc, "eval", path, "--seed", str(args.seed), "--write-inputs", given, "-o", made]
    start = time.time()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          timeout=args.timeout)
    seconds = time.time() - start
    if done.returncode:
        return f"phzc eval: {done.stderr.strip()[-400:]}"
    # Without the flag XLA leaves out roundings to narrow types between two ops.
    exact = [("xla_allow_excess_precision", False)]
    whole = xla.Program(xla.unsharded(text), 1, optimize=True, extra=exact)
    arrays = typed(hlo.parse(text), load(given))
    wanted = whole.run(arrays)
    start = time.time()
    whole.run(arrays)
    xla_seconds = time.time() - start
    found = load(made)
    if len(wanted) != len(found):
        return f"{len(found)} outputs, XLA has {len(wanted)}"
    errors = [error(want, got) for want, got in zip(wanted, found, strict=True)]
    for index, worst in enumerate(errors):
        if worst > args.tolerance:
            print(f"  output {index}: {worst:.1e}", file=sys.stderr)
    still = sum(bool(np.all(want == 0)) for want in wanted)
    return {"errors": errors, "seconds": seconds, "xla_seconds": xla_seconds, "still": still}


def error(want, got):
    """Largest difference over largest value; integers and truth values must be equal."""
    if want.shape != got.shape:
        return float("inf")
    if want.dtype.kind in "biu":
        return 0.0 if np.array_equal(want, got) else float("inf")
    if want.dtype.kind == "c":
        return max(error(want.real, got.real), error(want.imag, got.imag))
    return relative_error(np.asarray(want, np.float64), np.asarray(got, np.float64))


def row(name, found, args):
    if isinstance(found, str):
        return [name, "-", "-", "-", "-", "-", f"FAILED: {found}"]
    worst = max(found["errors"], default=0.0)
    ok = worst <= args.tolerance and found["still"] < len(found["errors"])
    ratio = found["seconds"] / found["xla_seconds"]
    return [name, str(len(found["errors"])), str(found["still"]), f"{worst:.1e}",
            f"{found['seconds']:.3f}", f"{found['xla_seconds']:.3f} (x{ratio:.1f})",
            "ok" if ok else "FAILED"]


def main():
    parser = argparse.ArgumentParser(prog="tests/xla/run evaluate", description=__doc__)
    parser.add_argument("phzc", nargs="?", default=str(ROOT / "target/release/phzc"))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--timeout", type=int, default=900, help="seconds per program")
    args = parser.parse_args()
    expect(args.phzc)
    files = [(p, pathlib.Path(p)) for p in args.programs if pathlib.Path(p).exists()]
    named = [p for p in args.programs if not pathlib.Path(p).exists()]
    known, missing = programs(named or (() if files else PROGRAMS))
    if not args.programs:
        files = [(f"ops/{p.stem}", p) for p in sorted((HERE / "ops").glob("*.ir"))]
    rows = []
    for name, path in files + known:
        with tempfile.TemporaryDirectory(prefix="phzc-eval-") as folder:
            rows.append(row(name, compare(args.phzc, path, args, pathlib.Path(folder)), args))
        print(f"{name}: {rows[-1][-1]}", file=sys.stderr)
    show(rows, ["program", "outputs", "zero", "max error", "eval s", "XLA s", "verdict"])
    if missing:
        print(f"SKIPPED, not here: {', '.join(missing)}")
    failed = sum(cells[-1] != "ok" for cells in rows)
    print(f"{len(rows) - failed} as XLA, {failed} not")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
