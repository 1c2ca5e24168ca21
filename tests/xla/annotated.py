"""Compares the collectives that `estimate` predicts for programs that are sharded in part with those that XLA inserts.

`tests/xla/run annotated [PHZC] [--only NAME...]`: programs of the corpus and small ones that JAX writes, for GSPMD and
for Shardy, on 8 virtual devices; bytes of all collectives. Exit 1 where a program's ratio is further from 1 than its limit.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import xla  # isort: skip  (before jax)

import annotated_programs
import hlo
from common import CORPUS, ROOT, expect, show
from judge import by_kind, collectives, compare, predicted

CORPUS_PROGRAMS = ("llama_tiny.jit2x4_gspmd", "llama_tiny.jit2x4_shardy", "moe_gshard_mesh2x4")
LIMIT = 0.02


def programs():
    """(name, text) of every program."""
    for name in CORPUS_PROGRAMS:
        path = CORPUS / f"{name}.hlo"
        if path.exists():
            yield name, hlo.read_file(path)
    for name in annotated_programs.PROGRAMS:
        for partitioner in ("gspmd", "shardy"):
            yield f"{name}.{partitioner}", annotated_programs.text(name, partitioner == "shardy")


def judge(phzc, name, text, folder):
    """Rows (kind, predicted, inserted) and the ratio of predicted to inserted bytes."""
    program, plan = folder / f"{name}.hlo", folder / f"{name}.json"
    program.write_text(text)
    command = [phzc, program, "--passes", "estimate", "--plan", plan, "--quiet"]
    subprocess.run(command, capture_output=True, text=True, check=True)
    partitioned = xla.Program(text, hlo.parse(text).devices).partitioned
    (folder / f"{name}.partitioned.hlo").write_text(partitioned)
    inserted = by_kind(collectives(partitioned)[0])
    rows, _ = compare(predicted(json.loads(plan.read_text())), inserted)
    _, plan_total, real_total = rows[-1]
    return rows, plan_total["bytes"] / real_total["bytes"] if real_total["bytes"] else float(plan_total["bytes"] == 0)


def table_rows(name, rows, ratio, verdict):
    """A line per kind, the total with the verdict."""
    for kind, plan, real in rows:
        is_total = kind == "total"
        yield [name, kind, f"{plan['runs']:g} x {plan['bytes']:,.0f} B", f"{real['runs']:g} x {real['bytes']:,.0f} B",
               f"{ratio:.3f}" if is_total else "", verdict if is_total else ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phzc", nargs="?", type=pathlib.Path, default=ROOT / "target/release/phzc")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="just these")
    parser.add_argument("--keep", type=pathlib.Path, help="write programs, plans and partitioned text here")
    args = parser.parse_args()
    phzc = args.phzc.resolve()
    expect(phzc)
    lines, n_judged, n_far = [], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in programs():
            if args.only and not any(name.startswith(it) for it in args.only):
                continue
            rows, ratio = judge(phzc, name, text, folder)
            is_near = abs(ratio - 1) <= LIMIT
            n_judged, n_far = n_judged + 1, n_far + (not is_near)
            lines += table_rows(name, rows, ratio, "ok" if is_near else "FAILED")
    show(lines, ["program", "", "predicted", "inserted", "ratio", ""])
    print(f"{n_judged - n_far} of {n_judged} programs within their limit")
    sys.exit(bool(n_far) or not n_judged)


if __name__ == "__main__":
    main()
