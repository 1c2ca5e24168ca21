#!/usr/bin/env python3
"""Runs programs that `spmd` wrote: does each device's program compute its part of the original's results?

  local.py                                          plans the quick programs on several meshes, one table
  local.py one LOCAL --reference ORIGINAL [--plan plan.json]

The program runs as one replica per device: jaxlib cannot compile a partitioned program that has its
collectives already. Replica ids then stand for partition ids. Its collectives, counted, must be those of
plan.json: kind by kind, as often and with as many bytes.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import hlo
import judge
import suite
from common import call, programs, show

# One-axis, two-axis and three-axis meshes of eight devices.
MESHES = ("8", "2x4", "2x2x2")
# A program of more instructions runs on one of them, the next one on the next, unless `--full`: XLA compiles it for
# most of a minute.
MAX_INSTRUCTIONS = 500
TOLERANCE = 1e-4


# ---- one program ------------------------------------------------------------------------------

def as_replicas(text, devices):
    """The same program with replica ids for partition ids, and no header that speaks of partitions."""
    text = re.sub(r", num_partitions=\d+", f", replica_count={devices}", text, count=1)
    text = re.sub(r", (?:input_output_alias|buffer_donor)=\{(?:[^{}]|\{[^{}]*\})*\}", "", text)
    text = text.replace(" partition-id()", " replica-id()")
    # Without a flag for global ids a channel would make the ids those of partitions.
    return "\n".join(
        re.sub(r", channel_id=\d+", "", line)
        if re.search(r" (all-to-all|collective-permute)\(", line) else line
        for line in text.split("\n"))


def compile_replicas(xla, text, devices):
    import jax
    import numpy as np
    from jaxlib import _jax
    options = xla.compile_options(1, "", False, [])
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = devices
    assignment = _jax.DeviceAssignment.create(np.arange(devices).reshape(devices, 1))
    options.device_assignment = build.device_assignment = assignment
    proto = xla.parse(as_replicas(text, devices)).as_serialized_hlo_module_proto()
    chosen = jax.devices()[:devices]
    return chosen[0].client.compile_and_load(
        _jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList(tuple(chosen)), options)


def global_layouts(instr):
    """The layouts that a note of `spmd` gives the leaves of the whole value."""
    note = re.search(r'phzc\.global="([^"]*)"', instr.attrs["frontend_attributes"])[1]
    return hlo.split(note)


def tiles(layout, rank, devices):
    """Tiles per dimension, and each device's tile."""
    import numpy as np
    if layout == "{replicated}":
        return [1] * rank, dict.fromkeys(range(devices), (0,) * rank)
    found = re.match(r"\{devices=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", layout)
    dims, source, order = ([int(n) for n in part.split(",")] if part else None
                           for part in found.groups())
    ids = np.arange(math.prod(source)).reshape(source).transpose(order).reshape(dims)
    return dims[:rank], {int(ids[at]): at[:rank] for at in np.ndindex(*dims)}


def part(whole, layout, device, devices):
    """A device's part of a whole array."""
    counts, where = tiles(layout, whole.ndim, devices)
    sizes = [size // count for size, count in zip(whole.shape, counts, strict=True)]
    return whole[tuple(slice(at * size, (at + 1) * size)
                       for at, size in zip(where[device], sizes, strict=True))]


def execute(executable, parts):
    """Runs with `parts[input][device]`; results as `[output][device]`."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    chosen = jax.devices()[:len(parts[0])]
    same = NamedSharding(Mesh(np.array(chosen), ("d",)), PartitionSpec())
    arrays = [
        jax.make_array_from_single_device_arrays(
            shards[0].shape, same,
            [jax.device_put(np.array(shard), device)
             for shard, device in zip(shards, chosen, strict=True)])
        for shards in parts]
    results = executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
    return [[np.asarray(shard) for shard in shards] for shards in results]


def run_local(path, reference, phzc, seed=1):
    """The largest relative error of each output of the original, over all devices and two steps."""
    text, plain = hlo.read_file(path), hlo.read_file(reference)
    module = hlo.parse(text)
    os.environ["PHZC_XLA_DEVICES"] = str(max(module.devices, 1))
    import feed
    import xla
    single = xla.Program(xla.unsharded(plain), 1)
    given, fresh = (feed.inputs(phzc, reference, seed + step) for step in range(2))
    whole = single.run(given)
    second = feed.Second(hlo.parse(plain), given, whole, fresh).inputs(whole)
    executable = compile_replicas(xla, text, module.devices)
    errors = [step_errors(module, executable, *step) for step in ((given, whole), (second, single.run(second)))]
    return [max(steps) for steps in zip(*errors, strict=True)]


def step_errors(module, executable, arrays, whole):
    """The largest relative error of each output over all devices, in one step from the same inputs."""
    import numpy as np
    devices = module.devices
    layouts = [global_layouts(parameter)[0] for parameter in module.parameters]
    parts = [[part(array, layout, device, devices) for device in range(devices)]
             for array, layout in zip(arrays, layouts, strict=True)]
    results = execute(executable, parts)
    errors = []
    for want, shards, layout in zip(whole, results, global_layouts(module.root(module.entry)), strict=True):
        scale = float(np.abs(np.asarray(want, np.float64)).max(initial=0.0)) or 1.0
        worst = 0.0
        for device, got in enumerate(shards):
            wanted = np.asarray(part(want, layout, device, devices), np.float64)
            if wanted.shape != got.shape or not np.array_equal(np.isfinite(wanted), np.isfinite(got)):
                worst = math.inf
            elif wanted.size:
                worst = max(worst, float(np.abs(wanted - np.asarray(got, np.float64)).max()) / scale)
        errors.append(worst)
    return errors


def differences(text, plan):
    """Kinds of collectives of which the program has other counts or bytes than the plan."""
    rows, unknown = judge.collectives(text)
    found, said = judge.by_kind(rows), judge.predicted(plan)
    nothing = {"runs": 0, "bytes": 0}
    lines = []
    for kind in judge.KINDS:
        a, b = said.get(kind, nothing), found.get(kind, nothing)
        if any(a[key] != b[key] for key in nothing):
            lines.append(f"{kind}: priced {a['runs']:g} of {a['bytes']:g} B, "
                         f"found {b['runs']:g} of {b['bytes']:g} B")
    return lines + [f"loop of unknown length: {name}" for name in unknown], found


def judge_local(path, reference, plan, phzc):
    verdict = {"file": str(path)}
    if plan:
        with open(plan) as file:
            lines, found = differences(hlo.read_file(path), json.load(file))
        verdict |= {"collectives": found, "differences": lines}
    errors = run_local(path, reference, phzc)
    worst = max(errors, default=0.0)
    verdict |= {"outputs": len(errors), "max_relative_error": worst}
    return verdict | {"ok": worst <= TOLERANCE and not verdict.get("differences")}


# ---- many programs ----------------------------------------------------------------------------

def judge_program(source, mesh, args, folder):
    """Plans, lowers, runs; every failure becomes an `error` in the verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    after, local, verdict = folder / "after.ir", folder / "local.ir", folder / "verdict.json"
    before = (suite.asked(source) or "").partition("fuse,")[0]
    passes = f"{before}fuse,shard{{mesh={mesh}}}"
    common = ["--cluster", args.cluster, "--quiet"]
    error = (
        call([args.phzc, source, "--passes", passes, *common, "-o", after,
                    "--dump-dir", folder], args.timeout)
        or call([args.phzc, after, "--passes", "spmd", *common, "-o", local], args.timeout)
        or call([sys.executable, __file__, "one", local, "--reference", source,
                       "--plan", folder / "plan.json", "--json", verdict, "--judged", args.phzc], args.timeout))
    if verdict.exists():
        return json.loads(verdict.read_text())
    return {"ok": False, "error": error}


def on_meshes(found, every):
    """Programs with a mesh each: small ones, or if wanted all, with every mesh."""
    turns = itertools.cycle(MESHES)
    for name, source in found:
        module = hlo.parse(hlo.read_file(source))
        is_small = sum(map(len, module.computations.values())) <= MAX_INSTRUCTIONS
        for mesh in MESHES if every or is_small else [next(turns)]:
            yield name, source, mesh


def judge_all(args, folder):
    """A table of programs and meshes; the number of failures."""
    found, missing = programs(args.only or suite.QUICK)
    rows, notes = [], []
    for name, source, mesh in on_meshes(found, args.full or args.only):
        verdict = judge_program(source, mesh, args, folder / f"{name}.{mesh}")
        cells = [name, mesh]
        for _, kinds in suite.COLUMNS:
            runs, size = suite.total(verdict.get("collectives", {}), kinds)
            cells.append(f"{runs:g} {suite.human(size)}" if runs else "")
        error = verdict.get("max_relative_error")
        same = "-" if "differences" not in verdict else "NO" if verdict["differences"] else "yes"
        cells += [same, "-" if error is None else f"{error:.1e}", "ok" if verdict["ok"] else "FAILED"]
        rows.append(cells)
        print(f"{name} on {mesh}: {cells[-1]}", file=sys.stderr)
        problems = [*verdict.get("differences", []), *filter(None, [verdict.get("error")])]
        notes += [f"{name} on {mesh}: {problem}" for problem in problems]
    head = ["program", "mesh", *(name for name, _ in suite.COLUMNS), "as priced", "max error", "verdict"]
    print("\nEach device's program (spmd): executions and bytes of its collectives per step.")
    show(rows, head)
    print("\n".join(notes))
    if missing:
        print(f"SKIPPED, not here: {', '.join(missing)}")
    failed = sum(row[-1] != "ok" for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return failed if rows else 1


def arguments():
    if sys.argv[1:2] != ["one"]:
        return suite.arguments()
    parser = argparse.ArgumentParser(prog="local.py one")
    parser.add_argument("file")
    parser.add_argument("--reference", required=True, help="the program before planning")
    parser.add_argument("--plan", help="phzc's plan.json, to compare with")
    parser.add_argument("--json", help="write the verdict here")
    parser.add_argument("--judged", required=True, help="the phzc that makes the inputs")
    return parser.parse_args(sys.argv[2:])


def main():
    args = arguments()
    if hasattr(args, "phzc"):
        with tempfile.TemporaryDirectory(prefix="phzc-local-") as scratch:
            return 1 if judge_all(args, args.keep or pathlib.Path(scratch)) else 0
    verdict = judge_local(args.file, args.reference, args.plan, args.judged)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(verdict))
    else:
        print(json.dumps(verdict, indent=1))
    return 0 if verdict["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
