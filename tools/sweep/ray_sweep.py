"""Runs the parts of a `phzc sweep` on a Ray cluster and joins them (docs/sweep.md).

    python tools/sweep/ray_sweep.py --phzc PHZC --parts 8 [--address auto] FLEET.toml FOLDER [-- --cost fasop]

Each part is a task of Ray; one whose worker dies is started again, on any machine, and goes on behind its whole lines where
it finds them. FOLDER is where workers write, shared or not: what they wrote comes back to the machine that asked, and the front
of all parts is printed as one unsplit sweep prints it.
"""

import argparse
import fcntl
import os
import pathlib
import subprocess
import sys

import ray


@ray.remote(max_retries=-1)
def run_part(phzc, fleet, options, folder, part, n_parts):
    """Computes one part; its lines, or what phzc says is wrong."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines, copy = folder / f"part-{part}.jsonl", folder / f"part-{part}.toml"
    # The lock is phzc's as well: where only the worker died, the next one waits for what it left running.
    with open(folder / f"part-{part}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy.write_text(fleet)
        command = [phzc, "sweep", str(copy), *options, "--part", f"{part}/{n_parts}", "-o", str(lines)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, pass_fds=[lock.fileno()], stdout=pipe, stderr=pipe, text=True)
        lock.write(f"{process.pid}\n")
        lock.flush()
        _, error = process.communicate()
    if process.returncode < 0:
        # Killed: as if the worker had been.
        raise RuntimeError(f"phzc was ended by signal {-process.returncode}")
    return (lines.read_text(), None) if process.returncode == 0 else (None, error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phzc", default="phzc", help="the program, on every machine")
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--address", help="a running Ray cluster; without it, workers on this machine")
    parser.add_argument("--workers", type=int, default=2, help="on this machine, without an address")
    parser.add_argument("fleet", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("options", nargs="*", help="for phzc sweep, behind --")
    args = parser.parse_args()
    if args.parts < 1:
        parser.error("--parts: expected one or more")
    local = {} if args.address else {"num_cpus": args.workers, "include_dashboard": False}
    # Ray's words about workers that died go to stdout: that has the front alone.
    front = os.dup(1)
    os.dup2(2, 1)
    ray.init(address=args.address or "local", log_to_driver=False, logging_level="error", **local)
    fleet, folder = args.fleet.read_text(), args.folder.resolve()
    task = run_part.options(retry_exceptions=[RuntimeError])
    numbers = range(1, args.parts + 1)
    tasks = [task.remote(args.phzc, fleet, args.options, str(folder), part, args.parts) for part in numbers]
    paths = []
    for part, (lines, error) in zip(numbers, ray.get(tasks)):
        if error is not None:
            sys.exit(f"part {part}: {error}")
        paths.append(folder / f"part-{part}.jsonl")
        folder.mkdir(parents=True, exist_ok=True)
        paths[-1].write_text(lines)
    ray.shutdown()
    merge = [args.phzc, "sweep", str(args.fleet), *args.options, "--merge", *map(str, paths)]
    sys.exit(subprocess.run(merge, stdout=front).returncode)


if __name__ == "__main__":
    main()
