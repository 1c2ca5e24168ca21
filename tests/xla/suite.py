"""Plans a list of programs with phzc and has `judge.py` judge each dump; one table at the end."""

import gzip
import json
import math
import pathlib
import re
import sys
import tempfile

import common
import hlo
from common import CORPUS, HERE, call, programs, show

QUICK = ("mlp", "gpt", "gpt_scan", "llama", "moe", "stencil", "uneven", "mlp_tiny", "llama_tiny", "moe_gshard_tiny")
FULL = (*QUICK, "gpt2_small.ir", "gpt2_small", "gpt2_small_scan", "gpt2_small_fwd", "bert_large",
        "vit_b16", "resnet50", "t5_base", "llama_7b_scan", "moe_gshard", "gpt_1p3b")
RUN_LIMIT = 32 << 20  # bytes of parameters up to which a program is also executed
NEAR = 0.10  # byte ratios further from 1 are listed
COLUMNS = (("AR+RS", ("all-reduce", "reduce-scatter")), ("AG", ("all-gather",)),
           ("A2A", ("all-to-all",)), ("CP", ("collective-permute",)))


# The first line of a program that asks for its passes, as golden files do.
RUN = re.compile(r"// RUN: phzc %s --passes (\S+)")

# A note on an instruction, with the comma that parts it from another.
PARTIAL = re.compile(r',phzc\.partial="[^"]*"|phzc\.partial="[^"]*",?')


def asked(program):
    """The passes that a program's first line asks for."""
    found = RUN.match(hlo.read_file(program))
    return found[1] if found else None


def judge(name, source, args, folder):
    """Plan, then judge; every failure becomes an `error` in the verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    program = source
    if source.suffix == ".gz":
        program = folder / f"{source.name.removesuffix('.gz')}"
        program.write_bytes(gzip.decompress(source.read_bytes()))
    after, plan, verdict = folder / "after.ir", folder / "plan.json", folder / "verdict.json"
    command = [args.phzc, program, "--passes", asked(program) or args.passes, "--cluster",
               args.cluster, "-o", after, "--plan", plan]
    error = call(command, args.timeout)
    if error:
        return {"error": f"phzc: {error}"}
    microbatches = json.loads(plan.read_text())["n_microbatches"]
    error = plan_as_xla_reads_it(after, plan, args)
    if error:
        return {"error": f"phzc, as XLA reads the text: {error}"}
    module = hlo.parse(hlo.read_file(program))
    command = [sys.executable, HERE / "judge.py", "all", after, "--json", verdict,
               "--reference", program, "--plan", plan, "--phzc", args.phzc]
    if sum(p.shape.bytes for p in module.parameters) > RUN_LIMIT:
        command += ["--no-run"]
    error = call(command, args.timeout)
    if verdict.exists():
        return json.loads(verdict.read_text()) | {"microbatches": microbatches}
    return {"error": f"judge: {error}"}


def plan_as_xla_reads_it(after, plan, args):
    """Writes the plan of the text as GSPMD partitions it.

    It sums over several mesh axes one loop after the other, each time the whole value. It compiles the whole batch at once: microbatches are a note and a price; what is gathered per microbatch is in
    the text once. And it reduces every sum where its summands are made, whatever is to be added to it.
    """
    text, single = after.read_text(), after.with_suffix(".single.ir")
    text = re.sub(r'(n_microbatches\\":)\d+', r"\g<1>1", text, count=1)
    text = text.replace('phzc.mesh="', 'phzc.partitioner="gspmd",phzc.mesh="', 1)
    single.write_text(PARTIAL.sub("", text))
    command = [args.phzc, single, "--passes", "", "--cluster", args.cluster, "--quiet",
               "-o", single, "--plan", plan]
    return call(command, args.timeout)


def passed(verdict):
    return verdict.get("ok", False) and "error" not in verdict


# ---- table ------------------------------------------------------------------------------------

def row(name, verdict):
    spmd, run = verdict.get("spmd", {}), verdict.get("run")
    parse = verdict.get("parse")
    cells = [name, "-" if parse is None else "yes" if parse["ok"] else "NO"]
    for _, kinds in COLUMNS:
        cells.append(cell(spmd.get("predicted"), spmd.get("collectives", {}), kinds))
    ratio = spmd.get("ratio")
    cells.append("-" if ratio is None else f"{ratio:.3f}")
    if run is None:
        cells.append("not run")
    else:
        cells.append(f"{run['max_relative_error']:.1e}" if "max_relative_error" in run else "-")
    cells.append("ok" if passed(verdict) else "FAILED")
    return cells


def cell(plan, inserted, kinds):
    """`12/12 3.4M/3.4M`: predicted/inserted runs and bytes."""
    real = total(inserted, kinds)
    if plan is None:
        return f"{real[0]} {human(real[1])}" if real[0] else ""
    said = total(plan, kinds)
    if not said[0] and not real[0]:
        return ""
    return f"{said[0]}/{real[0]} {human(said[1])}/{human(real[1])}"


def total(side, kinds):
    return [sum(side[k][key] for k in kinds if k in side) for key in ("runs", "bytes")]


def human(size):
    for unit in ("", "k", "M", "G", "T"):
        if abs(size) < 1000 or unit == "T":
            return f"{size:.3g}{unit}" if unit else f"{size:.0f}"
        size /= 1000


HEAD = ["program", "parsed", *(name for name, _ in COLUMNS), "ratio", "max error", "verdict"]


def arguments():
    parser = common.arguments("tests/xla/run", __doc__, "step")
    parser.add_argument("--quick", action="store_true", help="the small programs (default)")
    parser.add_argument("--passes", default="fuse,shard,place")
    parser.add_argument("--keep", type=pathlib.Path, help="leave dumps and verdicts here")
    return parser.parse_args()


def main():
    args = arguments()
    common.expect(args.phzc)
    found, missing = programs(args.only or (FULL if args.full else QUICK))
    with tempfile.TemporaryDirectory(prefix="phzc-judge-") as scratch:
        folder = args.keep or pathlib.Path(scratch)
        verdicts = []
        for name, source in found:
            verdicts.append((name, judge(name, source, args, folder / name)))
            print(f"{name}: {'ok' if passed(verdicts[-1][1]) else 'FAILED'}", file=sys.stderr)
    return report(verdicts, missing)


def report(verdicts, missing):
    print("\nExecutions and bytes per device and step, predicted/inserted.")
    show([row(name, verdict) for name, verdict in verdicts], HEAD)
    for name, verdict in verdicts:
        parse, run = verdict.get("parse", {}), verdict.get("run", {})
        error = verdict.get("error") or parse.get("error") or run.get("error")
        if error:
            print(f"\n{name}: {error}")
        spmd = verdict.get("spmd", {})
        if verdict.get("microbatches", 1) > 1:
            print(f"{name}: planned with {verdict['microbatches']} microbatches, compared as one batch")
        ratio = spmd.get("ratio", 1.0)
        if ratio is None or not math.isclose(ratio, 1.0, abs_tol=NEAR):
            print(f"{name}: bytes inserted are {ratio} of those predicted")
    if missing:
        where = "" if CORPUS.exists() else f" ({CORPUS} does not exist)"
        print(f"SKIPPED, not here{where}: {', '.join(missing)}")
    failed = sum(not passed(verdict) for _, verdict in verdicts)
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
