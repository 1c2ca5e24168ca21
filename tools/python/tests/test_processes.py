"""A planned step over the devices of several processes, as on several hosts."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
from phzc import binary as binaries

PROCESS = pathlib.Path(__file__).with_name("process.py")
N_PROCESSES = 2


def run(planning, *what):
    """What each of the processes says of a planned step."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    binary = planning["binary"] or binaries.find()
    shared = [str(word) for word in (N_PROCESSES, port, binary, planning["cluster"], *what)]
    environment = {**os.environ, "PYTHONPATH": str(PROCESS.parents[1])}

    def started(rank):
        command = [sys.executable, str(PROCESS), str(rank), *shared]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    running = [started(rank) for rank in range(N_PROCESSES)]
    said = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0] * N_PROCESSES, said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


def test_two_processes_run_one_planned_step(planning):
    for found in run(planning, "mlp_adam", 1, "1f1b"):
        assert found["split"], "something is split"
        np.testing.assert_allclose(found["planned"], found["whole"], rtol=1e-5)
        assert found["planned"][-1] < found["planned"][0]


@pytest.mark.parametrize(
    ("name", "stages", "schedule"),
    [("mlp_adam", 2, "1f1b"), ("mlp_adam", 4, "1f1b"), ("linen_mlp", 2, "interleaved:2")],
)
def test_the_stages_of_a_pipeline_are_on_two_processes(name, stages, schedule, planning):
    said = run(planning, name, stages, schedule)
    assert {process for mesh in said[0]["processes"] for process in mesh} == {0, 1}
    have = [found for found in said if found["planned"]]
    assert have, "somebody has the loss"
    for found in have:
        np.testing.assert_allclose(found["planned"], found["whole"], rtol=1e-5)
