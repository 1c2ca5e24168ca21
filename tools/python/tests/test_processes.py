"""A planned step over the devices of several processes, as on several hosts."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
from phzc import binary as binaries

PROCESS = pathlib.Path(__file__).with_name("process.py")
N_PROCESSES = 2


def test_two_processes_run_one_planned_step(planning):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = map(str, (N_PROCESSES, port, planning["binary"] or binaries.find(), planning["cluster"]))
    command = [sys.executable, str(PROCESS), "RANK", *shared]
    environment = {**os.environ, "PYTHONPATH": str(PROCESS.parents[1])}

    def started(rank):
        own = [str(rank) if part == "RANK" else part for part in command]
        return subprocess.Popen(own, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = [started(rank) for rank in range(N_PROCESSES)]
    said = [process.communicate(timeout=240) for process in running]
    assert [process.returncode for process in running] == [0] * N_PROCESSES, said
    found = json.loads(said[0][0].splitlines()[-1])
    assert found["split"], "something is split"
    np.testing.assert_allclose(found["planned"], found["whole"], rtol=1e-5)
    assert found["planned"][-1] < found["planned"][0]
