#!/usr/bin/env python3
"""What XLA says of a phzc dump.

  judge.py parse FILE...                      does XLA's parser accept it?
  judge.py spmd FILE [--plan plan.json]       which collectives do its layouts cost?
  judge.py run FILE                           does the sharded program compute the same numbers?
  judge.py all FILE [--plan plan.json]        the three in one process

Each prints JSON lines or a table and exits 1 on a failure. `run` in this folder sets up Python.
"""

import argparse
import json
import math
import os
import re
import sys

import common
import hlo

KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "collective-permute")
REDUCING = ("all-reduce", "reduce-scatter")  # XLA spells the latter as the former and a slice


# ---- collectives ------------------------------------------------------------------------------

def collectives(text):
    """Every collective of a partitioned program: how often it runs, over whom, how many bytes."""
    module = hlo.parse(text)
    runs, unknown = hlo.run_counts(module)
    found = []
    for computation, body in module.computations.items():
        names = hlo.by_name(body)
        for instr in body:
            kind = instr.opcode.removesuffix("-start")
            if kind not in KINDS or runs[computation] == 0:
                continue
            taken = sum(names[o].shape.bytes for o in instr.operands)
            found.append({
                "kind": kind,
                "runs": runs[computation],
                "bytes": instr.shape.bytes if kind == "all-gather" else taken,
                "group": group_size(instr),
                "source": source(instr),
            })
    return found, unknown


def group_size(instr):
    """Devices that take part in one group; for a permute, the pairs that move data."""
    pairs = instr.attrs.get("source_target_pairs")
    if pairs:
        return sum(a != b for a, b in re.findall(r"\{(\d+),(\d+)\}", pairs))
    groups = instr.attrs.get("replica_groups", "{}")
    if groups.startswith("mesh"):
        mesh, _, chosen = groups.partition("]")
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh))
        axes = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", chosen[chosen.rindex("{"):])
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    if groups.startswith("["):
        return int(re.match(r"\[\d+,(\d+)\]", groups)[1])
    first = re.search(r"\{([\d,\s]+)\}", groups)
    return len(first[1].split(",")) if first else None


def source(instr):
    """The instruction of the dump that the collective came from."""
    named = re.search(r'op_name="([^"]*)"', instr.attrs.get("metadata", ""))
    return named[1] if named else instr.name


def by_kind(rows):
    """kind -> count, runs, bytes (over all runs) and group sizes."""
    totals = {}
    for row in rows:
        kind = totals.setdefault(row["kind"], {"count": 0, "runs": 0, "bytes": 0, "groups": {}})
        kind["count"] += 1
        kind["runs"] += row["runs"]
        kind["bytes"] += row["runs"] * row["bytes"]
        size = str(row["group"])
        kind["groups"][size] = kind["groups"].get(size, 0) + row["runs"]
    return totals


def predicted(plan):
    """kind -> runs and bytes, from phzc's plan."""
    totals = {}
    for entry in plan.get("collectives", []):
        name = entry["kind"].replace("_", "-").lower()
        kind = totals.setdefault(name, {"runs": 0, "bytes": 0})
        kind["runs"] += entry["count"]
        kind["bytes"] += entry["bytes"]
    return totals


def compare(plan, inserted):
    """Rows (kind, predicted runs and bytes, inserted runs and bytes) and the byte ratio."""
    empty = {"runs": 0, "bytes": 0}
    rows = []
    for kind in [k for k in KINDS if k in plan or k in inserted]:
        rows.append((kind, plan.get(kind, empty), inserted.get(kind, empty)))
    merged = [{key: sum(side.get(kind, empty)[key] for kind in REDUCING) for key in empty}
              for side in (plan, inserted)]
    if any(side["runs"] for side in merged):
        rows.append((" + ".join(REDUCING), *merged))
    total = [{key: sum(side.get(kind, empty)[key] for kind in KINDS) for key in empty}
             for side in (plan, inserted)]
    rows.append(("total", *total))
    ratio = total[1]["bytes"] / total[0]["bytes"] if total[0]["bytes"] else None
    if ratio is None and total[1]["bytes"] == 0:
        ratio = 1.0
    return rows, ratio


def table(rows):
    lines = [f"{'':30} {'predicted':>22} {'inserted':>22} {'ratio':>7}"]
    for name, plan, real in rows:
        ratio = f"{real['bytes'] / plan['bytes']:.3f}" if plan["bytes"] else "-"
        cells = [f"{side['runs']} x {side['bytes']:,} B" for side in (plan, real)]
        lines.append(f"{name:30} {cells[0]:>22} {cells[1]:>22} {ratio:>7}")
    return "\n".join(lines)


# ---- verdicts ---------------------------------------------------------------------------------

def read(path):
    """The text, and XLA with as many devices as it asks for."""
    text = hlo.read_file(path)
    module = hlo.parse(text)
    os.environ["PHZC_XLA_DEVICES"] = str(max(module.devices, 1))
    import xla
    return text, module, xla


def judge_parse(path):
    import xla
    try:
        module = xla.parse(hlo.read_file(path))
    except Exception as error:  # XLA's own exception types differ between versions
        return {"file": path, "ok": False, "error": str(error)[:2000]}
    instructions = sum(len(c.instructions()) for c in module.computations())
    return {"file": path, "ok": True, "computations": len(module.computations()),
            "instructions": instructions}


def judge_spmd(path, plan=None, program=None, save=None):
    text, module, xla = read(path)
    program = program or xla.Program(text, module.devices)
    if save:
        with open(save, "w") as file:
            file.write(program.partitioned or "")
    rows, unknown = collectives(program.partitioned) if program.partitioned else ([], [])
    verdict = {
        "file": path,
        "devices": module.devices,
        "collectives": by_kind(rows),
        "memory": program.memory(),
        "loops_of_unknown_length": unknown,
        "seconds": program.seconds,
        "instances": sorted(rows, key=lambda r: -r["runs"] * r["bytes"]),
    }
    if plan:
        with open(plan) as file:
            verdict["predicted"] = predicted(json.load(file))
        verdict["rows"], verdict["ratio"] = compare(verdict["predicted"], verdict["collectives"])
    return verdict


def judge_run(path, phzc, seed=1, tolerance=1e-4, program=None, reference=None):
    """Compares two steps with `reference`, the program before planning, or else with itself unsharded."""
    text, module, xla = read(path)
    import numpy as np

    import feed
    plain = hlo.read_file(reference) if reference else text
    if re.search(r"constant\(\{\.\.\.\}\)", plain):
        return {"file": path, "ok": False, "error": "elided constants: XLA would make them up"}
    single = xla.Program(xla.unsharded(plain), 1)
    program = program or xla.Program(text, module.devices)
    given, fresh = (feed.inputs(phzc, reference or path, seed + step) for step in range(2))
    layers = feed.Layers(text)
    whole, parts = single.run(given), layers.join(program.run(layers.split(given)))
    second = feed.Second(hlo.parse(plain), given, whole, fresh)
    steps = [(whole, parts), (single.run(second.inputs(whole)), layers.join(program.run(layers.split(second.inputs(parts)))))]
    errors = []
    for want, got in (pair for step in steps for pair in zip(*step, strict=True)):
        if want.shape != got.shape:
            return {"file": path, "ok": False, "error": f"output of {got.shape}, not {want.shape}"}
        errors.append(relative_error(np.asarray(want, np.float64), np.asarray(got, np.float64)))
    errors = [max(step) for step in zip(errors[:len(whole)], errors[len(whole):], strict=True)]
    still = sum(bool(np.all(want == 0)) for want in whole)
    worst = max(errors, default=0.0)
    return {"file": path, "ok": bool(worst <= tolerance), "max_relative_error": worst,
            "outputs": len(errors), "errors": errors, "steps": len(steps), "all_zero_outputs": still}


def relative_error(want, got):
    """Largest difference over largest value; infinite where only one side is finite."""
    import numpy as np
    if want.size == 0:
        return 0.0
    finite = np.isfinite(want)
    if (finite != np.isfinite(got)).any() or not finite.any():
        return math.inf
    scale = np.abs(want[finite]).max()
    return float(np.abs(want[finite] - got[finite]).max() / (scale or 1.0))


def judge_all(path, plan, run, **options):
    """One verdict of all three; a failure stays where it happened."""
    verdict = {"file": path, "parse": judge_with_devices(path)}
    if not verdict["parse"]["ok"]:
        return verdict | {"ok": False}
    try:
        text, module, xla = read(path)
        program = xla.Program(text, module.devices)
        verdict["spmd"] = judge_spmd(path, plan, program)
        if run:
            verdict["run"] = judge_run(path, program=program, **options)
    except Exception as error:
        return verdict | {"ok": False, "error": str(error)[:2000]}
    return verdict | {"ok": verdict.get("run", {"ok": True})["ok"]}


def judge_with_devices(path):
    """`parse` before anything else has chosen the device count."""
    text = hlo.read_file(path)
    try:
        devices = hlo.parse(text).devices
    except Exception:  # XLA's parser will say what is wrong
        devices = 1
    os.environ["PHZC_XLA_DEVICES"] = str(max(devices, 1))
    return judge_parse(path)


# ---- command line -----------------------------------------------------------------------------

def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    parse = commands.add_parser("parse")
    parse.add_argument("files", nargs="+")
    for name in ("spmd", "run", "all"):
        command = commands.add_parser(name)
        command.add_argument("file")
        command.add_argument("--json", help="write the verdict here, every collective listed")
        if name != "run":
            command.add_argument("--plan", help="phzc's plan.json, to compare with")
        if name == "spmd":
            command.add_argument("--save", help="write the partitioned program here")
            command.add_argument("--explain", type=int, default=0, metavar="N",
                                 help="list the N largest collectives and where they come from")
        if name != "spmd":
            command.add_argument("--reference", help="the program before planning")
            command.add_argument("--phzc", default=str(common.ROOT / "target/release/phzc"))
            command.add_argument("--seed", type=int, default=1)
            command.add_argument("--tolerance", type=float, default=1e-4)
        if name == "all":
            command.add_argument("--no-run", action="store_true", help="do not execute")
    return parser.parse_args()


def main():
    args = arguments()
    if args.command == "parse":
        verdicts = [judge_parse(path) for path in args.files]
        for verdict in verdicts:
            print(json.dumps(verdict))
        return 0 if all(v["ok"] for v in verdicts) else 1
    if args.command == "spmd":
        verdict = judge_spmd(args.file, args.plan, save=args.save)
        show_spmd(verdict, args.explain)
    else:
        options = {"phzc": args.phzc, "seed": args.seed, "tolerance": args.tolerance,
                   "reference": args.reference}
        if args.command == "run":
            verdict = judge_run(args.file, **options)
            print(json.dumps({k: v for k, v in verdict.items() if k != "errors"}))
        else:
            verdict = judge_all(args.file, args.plan, not args.no_run, **options)
            if not args.json:
                print(json.dumps(verdict))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(verdict, file, indent=1)
    return 0 if verdict.get("ok", True) else 1


def show_spmd(verdict, explain):
    if "rows" in verdict:
        print(table(verdict["rows"]))
    for kind, total in verdict["collectives"].items():
        sizes = ", ".join(f"{n} of {size}" for size, n in total["groups"].items())
        print(f"{kind:20} {total['count']:5} in the text {total['runs']:6} runs "
              f"{total['bytes']:16,} B  groups: {sizes}")
    print("per device: " + ", ".join(f"{k} {v:,} B" for k, v in verdict["memory"].items()))
    if verdict["loops_of_unknown_length"]:
        print("counted once: " + ", ".join(verdict["loops_of_unknown_length"]))
    for row in verdict["instances"][:explain]:
        print(f"  {row['runs']:5} x {row['bytes']:12,} B  {row['kind']:18} "
              f"of {row['group']}  {row['source']}")


if __name__ == "__main__":
    sys.exit(main())
