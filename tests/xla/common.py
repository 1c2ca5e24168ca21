"""What the scripts of this folder share: where programs are, how phzc is called, arguments, tables."""

import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
SLOW_CLUSTER = HERE.parent / "clusters" / "slow-8.toml"


def programs(names):
    """(name, file) of each program that is here, and the names that are not."""
    found, missing = [], []
    for name in names:
        stem = name.removesuffix(".ir")
        places = [HERE / "programs" / f"{stem}.ir", ROOT / "examples" / f"{stem}.ir"]
        if not name.endswith(".ir"):
            places += [CORPUS / f"{stem}.hlo", CORPUS / f"{stem}.hlo.gz"]
        # `gpt2_small.ir` is the example and `gpt2_small` the corpus program of that name
        places = [p for p in places if p.exists()]
        if places:
            found.append((name, places[-1] if not name.endswith(".ir") else places[0]))
        else:
            missing.append(name)
    return found, missing


def call(command, timeout):
    """None, or the end of what a failed command said."""
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {timeout} s"
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip()
    return f"exit {done.returncode}: {said[-600:]}"


def arguments(name, doc, timeout_of):
    """A parser with the arguments that suites have in common."""
    parser = argparse.ArgumentParser(prog=name, description=doc)
    parser.add_argument("phzc", nargs="?", default=str(ROOT / "target/release/phzc"))
    parser.add_argument("--full", action="store_true", help="the large programs too")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="just these")
    parser.add_argument("--cluster", default=str(SLOW_CLUSTER))
    parser.add_argument("--timeout", type=int, default=900, help=f"seconds per {timeout_of}")
    return parser


def expect(phzc):
    """Ends the script if phzc is not built."""
    if not pathlib.Path(phzc).exists():
        sys.exit(f"tests/xla: no {phzc}: build it first (cargo build --release)")


def unrolled(args, program, folder):
    """The program as a plan of its unrolled loops takes and returns it; `phzc verify` shows that both compute the same."""
    path = folder / "unrolled.ir"
    error = call([args.phzc, program, "--passes", "unroll", "-q", "-o", path], args.timeout)
    if error:
        raise RuntimeError(f"phzc --passes unroll: {error}")
    return path


def show(rows, head):
    """A table on standard output: columns as wide as their widest cell."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    for cells in [head, *rows]:
        print("  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip())
