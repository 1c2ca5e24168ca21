#!/usr/bin/env python3
"""What `phzc verify` costs: plans each program for eight A100s, verifies the plan, and prints a table.

    tools/verify_costs.py target/release/phzc ../shared/corpus/*.hlo* [--pieces]

One row per program, as docs/verify.md has them: instructions, verdict, what was compared whole or in pieces (shares of the
instructions and of the operations), CPU seconds and peak memory of `verify` alone. The exit code is 1 if a plan is not equal.
"""

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile

VERDICTS = {0: "equal", 1: "DIFFERS or refused", 3: "not proven"}


def run(command):
    """Exit code, output, CPU seconds and peak MiB of a command."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    return process.returncode, text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def instructions(program):
    """How many a program's text has."""
    unpack = gzip.open if program.endswith(".gz") else open
    with unpack(program, "rt") as text:
        return sum(" = " in line for line in text)


def compared(text):
    """What `verify` says that it compared; else its error."""
    shares = re.search(r"(\S+ %) of the instructions, (\S+ %) of the operations", text)
    if shares:
        return f"in pieces: {shares[1]} of instructions, {shares[2]} of operations"
    whole = re.search(r"(\d+ of \d+) outputs? equal, largest error (\S+)", text)
    if whole:
        return f"whole: {whole[1]} outputs, largest error {whole[2]}"
    return (text.strip().splitlines() or ["nothing was said"])[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phzc")
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--cluster", default="a100-8x1")
    parser.add_argument("--passes", default="fuse,shard,place")
    parser.add_argument("--pieces", action="store_true", help="prove in pieces what could be run whole, too")
    parser.add_argument("--plans", help="directory that keeps the plans, and has some already")
    args = parser.parse_args()
    folder = args.plans or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    print("| program | instructions | verdict | compared | CPU s | MiB |\n|---|---:|---|---|---:|---:|")
    is_good = True
    for program in args.programs:
        name = re.sub(r"\.hlo(\.gz)?$", "", os.path.basename(program))
        plan = os.path.join(folder, name + ".ir")
        if not os.path.exists(plan):
            command = [args.phzc, program, "--cluster", args.cluster, "--passes", args.passes, "-q", "-o", plan]
            code, text, _, _ = run(command)
            if code != 0:
                print(f"| {name} | {instructions(program)} | no plan | {text.splitlines()[0]} | | |", flush=True)
                continue
        command = [args.phzc, "verify", program, plan, "--fill-elided"] + ["--pieces"] * args.pieces
        code, text, secs, mib = run(command)
        is_good &= code == 0
        verdict = VERDICTS.get(code, code)
        print(f"| {name} | {instructions(program)} | {verdict} | {compared(text)} | {secs:.1f} | {mib:.0f} |", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
