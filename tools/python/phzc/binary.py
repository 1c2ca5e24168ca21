"""Finds and runs the `phzc` binary: that of this installation first, else the one on the search path."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path


class PhzcError(RuntimeError):
    """What `phzc` said when it refused a program or an option."""


def find() -> Path:
    """The binary beside the package, then in the environment's scripts, then on the search path."""
    for place in (Path(__file__).parent / "phzc", Path(sysconfig.get_path("scripts")) / "phzc"):
        if place.is_file():
            return place
    found = shutil.which("phzc")
    if found is None:
        raise PhzcError(
            "no `phzc` binary: install this package's wheel (`pip install tools/python`), or put the binary "
            "of `cargo install --path .` on the search path, or name one: `phzc.plan(..., binary=PATH)`"
        )
    return Path(found)


def run(binary: Path | None, args: Sequence[str | Path]) -> str:
    """Runs `phzc` and returns what it printed, the summary included.

    Raises `PhzcError` with its message where it fails.
    """
    command = [str(binary or find()), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PhzcError(f"phzc {' '.join(command[1:])}\n{done.stderr.strip()}")
    return done.stdout + done.stderr
