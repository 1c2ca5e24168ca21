"""Has the drivers of sweeps run one each, with a part killed in the middle: `judge.py slurm|ray PHZC`."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
N_PARTS = 2


def fleet(folder):
    """The example with enough clusters for a part to be in its middle."""
    text = (ROOT / "examples/fleet.toml").read_text()
    path = folder / "fleet.toml"
    path.write_text(text.replace("count = [0, 4]", "count = [0, 6]").replace("count = [0, 2]", "count = [0, 5]"))
    return path


def is_begun(lines):
    """Whether a file of results has a point, behind its first line."""
    return lines.exists() and lines.read_bytes().count(b"\n") > 1


def wait_for(what, is_there, process):
    while not is_there():
        if process.poll() is not None:
            sys.exit(f"it ended before {what}: {process.returncode}")
        time.sleep(0.005)


def slurm(phzc, folder):
    """The batch script under a stub of `srun` and of the array's variables; task 7 is killed and queued again."""
    stubs = folder / "stubs"
    stubs.mkdir()
    (stubs / "srun").write_text('#!/bin/bash\nexec "$@"\n')
    (stubs / "srun").chmod(0o755)
    script, path = ROOT / "tools/sweep/slurm.sbatch", fleet(folder)

    def task(number):
        array = {"ID": number, "MIN": 7, "MAX": 8, "COUNT": N_PARTS, "STEP": 1}
        variables = {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in array.items()}
        environment = {**os.environ, **variables, "PATH": f"{stubs}:{os.environ['PATH']}"}
        return subprocess.Popen(["bash", script, phzc, path, folder / "parts"], env=environment)

    first = task(7)
    lines = folder / "parts/part-1.jsonl"
    wait_for("its first point", lambda: is_begun(lines), first)
    first.kill()
    first.wait()
    n_left = lines.read_bytes().count(b"\n")
    for number in [7, 8]:
        assert task(number).wait() == 0
    parts = sorted((folder / "parts").glob("part-*.jsonl"))
    merged = subprocess.run([phzc, "sweep", path, "--merge", *parts], capture_output=True, check=True)
    return merged.stdout, f"part 1 was killed with {n_left} lines"


def ray(phzc, folder):
    """Two workers on this machine; the one that has part 1 is killed, and what it runs."""
    driver, path, parts = ROOT / "tools/sweep/ray_sweep.py", fleet(folder), folder / "parts"
    command = [sys.executable, driver, "--phzc", phzc, "--parts", str(N_PARTS), path, parts]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    lines = parts / "part-1.jsonl"
    wait_for("its first point", lambda: is_begun(lines), process)
    pid = int((parts / "part-1.lock").read_text())
    # The worker first: what it runs is ended before another looks for its lines.
    parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(parent, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    n_left = lines.read_bytes().count(b"\n")
    output, _ = process.communicate()
    assert process.returncode == 0, process.returncode
    again = int((parts / "part-1.lock").read_text())
    assert again != pid, "the killed part was not started again"
    return output, f"the worker of part 1 was killed with {n_left} lines"


def main():
    name, phzc = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        output, what = {"slurm": slurm, "ray": ray}[name](phzc, folder)
        whole = subprocess.run([phzc, "sweep", folder / "fleet.toml"], capture_output=True, check=True)
    assert output == whole.stdout, (output.decode(), whole.stdout.decode())
    print(f"{name}: {what}; the same {len(output)} bytes as one unsplit sweep")


main()
