#!/usr/bin/env python3
"""Compares the plans of two phzc binaries: tools/compare_plans.py OLD NEW [CLUSTER ...]

Every program of examples/ and of ../shared/corpus, with the default passes: what the report says that a step takes,
and whether the dumps are the same bytes. Exits with 1 if a plan of NEW takes longer by more than rounding, or is missing.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDING = 1e-6


def plan(binary, program, cluster, folder):
    """Seconds of a step and the dump; None where there is no plan."""
    out = folder / "after.ir"
    command = [binary, program, "--passes", "fuse,shard,place,estimate", "--cluster", cluster, "-q", "-o", out]
    done = subprocess.run(command + ["--dump-dir", folder], capture_output=True)
    if done.returncode != 0:
        return None
    return json.loads((folder / "plan.json").read_text())["time_secs"], out.read_bytes()


def main():
    old, new, *clusters = sys.argv[1:]
    programs = sorted(ROOT.glob("examples/*.ir")) + sorted((ROOT / "../shared/corpus").glob("*.hlo*"))
    n_slower = 0
    for cluster in clusters or ["a100-8", "h100-8x2"]:
        for program in programs:
            with tempfile.TemporaryDirectory() as folder:
                found = [plan(binary, program, cluster, pathlib.Path(folder)) for binary in (old, new)]
            if None in found:
                n_slower += found[0] is not None
                print(f"{program.name:32}{cluster:10} {'no plan' if found == [None, None] else 'ONE HAS NO PLAN'}")
                continue
            (before, text), (after, other) = found
            change = after / before - 1
            n_slower += change > ROUNDING
            same = "same bytes" if text == other else ""
            print(f"{program.name:32}{cluster:10}{1e3 * before:12.4f} ms{1e3 * after:12.4f} ms{100 * change:+8.2f} %  {same}")
    print(f"{n_slower} plans are slower")
    sys.exit(n_slower > 0)


main()
