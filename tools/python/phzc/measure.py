"""`python -m phzc.measure DIR`: times the programs of a profile on this machine's devices.

Each program is what one device runs; it is run on all devices at once, as in a step, many times over in one
XLA program, so that starting it from Python does not count. Programs take turns: whatever else the machine
does for a while then falls on one sample of each, not on all samples of one. What `measured.json` has is kept;
but where the step of a plan is new, those of all plans are measured beside it, so that they can be compared.
What the profile asks for once more (`again` of its manifest) is measured by more samples, in turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import hlo, layouts
from .evaluate import Evaluator

SCHEMA = 1
SAMPLES = 9
TIMES_AGAIN = 3  # as many samples of what is compared in the end
SAMPLE_SECS = 0.03  # a sample runs its program so often that it takes about as long
MOST_TIMES = 10_000
Timed = Callable[[int], float]


def measure(folder: Path, n_samples: int = SAMPLES) -> dict:
    """Times what the profile in `folder` lacks, and writes `measured.json` there, which it returns.

    Raises `ValueError` where the profile is of more devices than there are, or was begun on other ones.
    """
    manifest = json.loads((folder / "manifest.json").read_text())
    path = folder / "measured.json"
    done = json.loads(path.read_text()) if path.exists() else {"schema": SCHEMA, "on": _here(), "entries": {}}
    if {**done["on"], "date": ""} != {**_here(), "date": ""}:
        raise ValueError(f"`{path}` was measured on {done['on']}, this is {_here()}: use another directory")
    again = manifest.get("again", [])
    missing = [e for e in manifest["entries"] if e["key"] not in done["entries"] or e["key"] in again]
    if not again and any(entry["kind"] == "step" for entry in missing):
        missing += [entry for entry in manifest["entries"] if entry["kind"] == "step" and entry not in missing]
    timers: dict[str, Timed] = {}
    for at, entry in enumerate(missing):
        _say(f"compiling {at + 1} of {len(missing)}")
        try:
            timers[entry["key"]] = timer(hlo.parse((folder / entry["file"]).read_text()))
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            done["entries"][entry["key"]] = {"error": str(error).splitlines()[0][:200]}
    done["entries"] |= _timed(timers, n_samples * TIMES_AGAIN if again else n_samples)
    _write(path, done)
    _say(f"{len(timers)} measured, {len(missing) - len(timers)} cannot be run\n")
    return done


def _here() -> dict:
    device = jax.devices()[0]
    kind = {"device": device.device_kind, "platform": device.platform, "n_devices": jax.device_count()}
    return {**kind, "jax": jax.__version__, "date": datetime.date.today().isoformat()}


def _timed(timers: dict[str, Timed], n_samples: int) -> dict[str, dict]:
    """The median of each program's samples, its spread (half of the middle half), and how often it ran in a
    sample."""
    times = {key: _enough(timed) for key, timed in timers.items()}
    samples: dict[str, list[float]] = {key: [] for key in timers}
    for at in range(n_samples):
        _say(f"sample {at + 1} of {n_samples}")
        # Every other time in reverse: nobody is always the first after another.
        for key in sorted(timers, reverse=at % 2 == 1):
            samples[key].append(timers[key](times[key]) / times[key])
    return {key: _summary(of, times[key]) for key, of in samples.items()}


def _summary(samples: list[float], times: int) -> dict:
    quarters = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
    spread = (quarters[2] - quarters[0]) / 2
    median = statistics.median(samples)
    return {"median_secs": median, "spread_secs": spread, "samples": len(samples), "times": times}


def _enough(timed: Timed) -> int:
    """How often a program runs in a sample; warms it up."""
    timed(1)
    times = 1
    while times < MOST_TIMES and (secs := timed(times)) < SAMPLE_SECS:
        times = min(MOST_TIMES, max(2 * times, math.ceil(times * SAMPLE_SECS / max(secs, 1e-6))))
    return times


def timer(module: hlo.Module) -> Timed:
    """A function that runs one device's program so many times on all devices, and says how many seconds that
    takes."""
    axes = layouts.axes_of(module.notes["phzc.spmd"])
    mesh = layouts.mesh_of(axes)
    step, shapes = Evaluator(module, axes), [p.shape for p in module.parameters]
    outs = jax.eval_shape(
        jax.shard_map(step, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec(), check_vma=False),
        *[jax.ShapeDtypeStruct(s.dims, s.numpy) for s in shapes],
    )

    def repeated(n: jax.Array, *values: jax.Array) -> list[jax.Array]:
        def once(_: jax.Array, carried: tuple) -> tuple:
            given, made = carried
            # The next run depends on the last one, so that none is left out or moved out of the loop.
            given, made = lax.optimization_barrier((given, made))
            return given, list(step(*given))

        made = [jnp.zeros(out.shape, out.dtype) for out in outs]
        return lax.fori_loop(0, n, once, (list(values), made))[1]

    spec = PartitionSpec(tuple(axes))
    run = jax.jit(
        jax.shard_map(
            lambda n, *values: [out[None] for out in repeated(n, *(value[0] for value in values))],
            mesh=mesh,
            in_specs=(PartitionSpec(), *[spec] * len(shapes)),
            out_specs=spec,
            check_vma=False,
        )
    )
    values = [_value(shape, mesh, spec) for shape in shapes]
    jax.block_until_ready(run(1, *values))

    def timed(times: int) -> float:
        start = time.perf_counter()
        jax.block_until_ready(run(times, *values))
        return time.perf_counter() - start

    return timed


def _value(shape: hlo.Shape, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    """An array for every device: numbers near one, small counts."""
    dims = (math.prod(mesh.shape.values()), *shape.dims)
    drawn = np.random.default_rng(0).uniform(0.5, 1.5, dims)
    return jax.device_put(drawn.astype(shape.numpy), NamedSharding(mesh, spec))


def _write(path: Path, done: dict) -> None:
    """Whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    beside.write_text(json.dumps(done, indent=2, sort_keys=True) + "\n")
    beside.rename(path)


def _say(text: str) -> None:
    if sys.stderr.isatty() or text.endswith("\n"):
        sys.stderr.write(f"\r{text}" if sys.stderr.isatty() else text)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m phzc.measure", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `phzc profile` wrote")
    parser.add_argument("--cpu-devices", type=int, metavar="N", help="measure on N virtual devices of the CPU")
    parser.add_argument("--samples", type=int, default=SAMPLES, metavar="N", help="samples of each program")
    args = parser.parse_args()
    if args.cpu_devices:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", args.cpu_devices)
    try:
        measure(args.folder, args.samples)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
