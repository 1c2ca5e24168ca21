"""Plans the programs of a table of tests/measured again, and writes the texts that `programs.py` times."""

import argparse
import csv
import json
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
ACCELERATOR = ROOT / "cost/accels/h100-80.toml"
SHARDING = r", sharding=\{(?:[^{}]|\{[^{}]*\})*\}"
NOTES = r", frontend_attributes=\{[^}]*\}"
COLUMNS = ("program", "predicted_secs", "predicted_bytes", "predicted_recompute_secs")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="FOLDER gets PROGRAM__LIMIT.hlo or PROGRAM__mbN.hlo per row, and predicted.tsv.")
    parser.add_argument("table", type=pathlib.Path, help="planned.tsv or microbatches.tsv")
    parser.add_argument("folder", type=pathlib.Path, help="where the programs go")
    parser.add_argument("phzc", help="path of the phzc to plan with")
    parser.add_argument("--only", default="", help="regular expression that names of programs must match")
    return parser.parse_args()


def name(row):
    """The file's name of a row; it has no dot, for `programs.py` cuts names there."""
    label = f"mb{row['microbatch']}" if "microbatch" in row else row["limit"].replace("0.", "")
    return row["program"] + ("" if label == "given" else f"__{label}")


def cluster(limit_bytes):
    """One H100 of which a program can use so many bytes, as a cluster's description."""
    top, _, rest = ACCELERATOR.read_text().partition("\n[")
    usable = float(re.search(r"(?m)^usable = (\S+)", top)[1])
    top = re.sub(r"(?m)^(name|aliases) = .*\n", "", top)
    top = re.sub(r"(?m)^hbm_bytes = .*", f"hbm_bytes = {int(limit_bytes / usable)}", top)
    rest = re.sub(r"(?m)^(\[+)", r"\1accelerator.", "[" + rest)
    return f'name = "h100-cut"\nper_node = 1\nnodes = 1\n\n[accelerator]\nname = "h100-cut"\n{top}\n{rest}'


def stripped(text):
    """The program as XLA gets it: no shardings, which a single device has no use for, and no notes.

    XLA compiles and tunes equal layers once only where their instructions have equal attributes.
    """
    head, *lines = re.sub(r"(?m) // .*$", "", text).splitlines()
    lines = [re.sub(f"{SHARDING}|{NOTES}", "", line) for line in lines]
    return "\n".join([re.sub(SHARDING, "", head), *lines]) + "\n"


def given(phzc, source, folder):
    """The path of a row's program as it is before any pass."""
    if not source.startswith("gen "):
        return SHARED / source
    path = folder / "given.ir"
    subprocess.run([phzc, *source.split(), "-o", path], check=True)
    return path


def planned(phzc, row, folder):
    """The planned program's text and the plan's figures; nothing where no plan fits."""
    machine, out, plan = "h100-1", folder / "planned.ir", folder / "plan.json"
    if row.get("limit_bytes"):
        machine = folder / "cut.toml"
        machine.write_text(cluster(int(row["limit_bytes"])))
    source = given(phzc, row["source"], folder)
    passes = row.get("passes", "")
    command = [phzc, source, "--cluster", machine, "--passes", passes, "-o", out, "--plan", plan, "-q"]
    if subprocess.run(command).returncode:
        return None
    return stripped(out.read_text()), json.loads(plan.read_text())


def figures(plan):
    stage = plan["stages"][0]
    return f"{plan['time_secs']:.6f}", int(stage["memory_bytes"]), f"{stage['recompute_secs']:.6f}"


def main():
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    with (open(options.table) as rows, open(options.folder / "predicted.tsv", "w") as predicted,
          tempfile.TemporaryDirectory() as scratch):
        print(*COLUMNS, sep="\t", file=predicted)
        for row in csv.DictReader(rows, delimiter="\t"):
            if not re.search(options.only, name(row)):
                continue
            if found := planned(options.phzc, row, pathlib.Path(scratch)):
                text, plan = found
                (options.folder / f"{name(row)}.hlo").write_text(text)
                print(name(row), *figures(plan), sep="\t", file=predicted, flush=True)
            else:
                print("not planned:", name(row), flush=True)


if __name__ == "__main__":
    main()
