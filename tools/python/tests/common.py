"""How the tests run steps and count collectives."""

import pathlib
import tempfile

import jax
import judge  # tests/xla
import numpy as np

PARTITIONED = "after_spmd-partitioning"


def losses(step, state, args, steps=10):
    """The losses of some steps: of steps that return new states and the loss, and of steps that change their state."""
    found, state = [], jax.tree.map(lambda x: x, state)  # objects of NNX are copied
    for _ in range(steps):
        out = step(*state, *args)
        if isinstance(out, tuple):
            *state, out = out
        found.append(float(out))
    return np.array(found)


def inserted(step):
    """Kind of collective -> how often it runs and its bytes, in what XLA's partitioner makes of a planned step."""
    with tempfile.TemporaryDirectory() as folder:
        step.lower().compile({"xla_dump_to": folder, "xla_dump_hlo_pass_re": "spmd-partitioning"})
        texts = [p.read_text() for p in pathlib.Path(folder).glob(f"*{PARTITIONED}*.txt")]
    assert texts, "XLA partitions a program of several devices"
    rows, unknown = judge.collectives(max(texts, key=len))
    assert not unknown, "every loop has a known length"
    return judge.by_kind(rows)


def ratios(plan, step):
    """Kind -> bytes inserted over bytes planned."""
    said, found = judge.predicted(plan.figures), inserted(step)
    assert said.keys() == found.keys(), (said, found)
    return {kind: found[kind]["bytes"] / said[kind]["bytes"] for kind in said}
