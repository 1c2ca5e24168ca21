"""How the tests run steps and count collectives."""

import collections
import json
import pathlib
import tempfile

import jax
import judge  # tests/xla
import numpy as np
from phzc import binary

PARTITIONED = "after_spmd-partitioning"


def losses(step, state, args, steps=10):
    """The losses of some steps: of steps that return new states and the loss, and of steps that change their
    state."""
    found = []
    for _ in range(steps):
        out = step(*state, *args)
        if isinstance(out, tuple):
            *state, out = out
        found.append(float(out))
    return np.array(found)


def as_gspmd(plan, folder):
    """The same of a plan, as phzc prices its text for XLA's partitioner, which has no reduce-scatter."""
    text = plan.after.read_text().replace('phzc.mesh="', 'phzc.partitioner="gspmd",phzc.mesh="', 1)
    given, figures = folder / "gspmd.ir", folder / "gspmd.json"
    given.write_text(text)
    command = [given, "--passes", "", "--cluster", plan.cluster, "-q", "-o", given, "--plan", figures]
    binary.run(plan.binary, command)
    return judge.predicted(json.loads(figures.read_text()))


def inserted(step):
    """Kind of collective -> how often it runs and its bytes, in what XLA's partitioner makes of a planned
    step."""
    rows = _partitioned(step.lower())
    assert rows is not None, "XLA partitions a program of several devices"
    return judge.by_kind(rows)


def inserted_by_stages(step):
    """The same of a pipeline, on the devices of its stages together: each module's, as often as the schedule
    runs the module."""
    pipeline, rows = step._flat, []
    n_runs = collections.Counter(run["module"] for run in pipeline.stages.manifest["order"])
    for name, program in pipeline.programs.items():
        own = _partitioned(program.lower(*pipeline.types(name))) or []
        rows += [{**row, "runs": row["runs"] * n_runs[name]} for row in own]
    return judge.by_kind(rows)


def _partitioned(lowered):
    """The collectives of a program that XLA has partitioned, a row each; `None` where it has left it as it
    was."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_pass_re": "spmd-partitioning",
            "xla_backend_optimization_level": 0,
            "xla_llvm_disable_expensive_passes": True,
        }
        lowered.compile(options)
        texts = [path.read_text() for path in pathlib.Path(folder).glob(f"*{PARTITIONED}*.txt")]
    if not texts:
        return None
    rows, unknown = judge.collectives(max(texts, key=len))
    assert not unknown, "every loop has a known length"
    return rows
