"""Times HLO programs on one GPU: seconds of a step and of each kernel, and bytes that XLA allots.

Usage: python tools/gpu/programs.py FOLDER OUT [SECONDS]

FOLDER holds `.hlo`, `.hlo.gz` or `.ir` texts, as `sources.py` writes them from a table of programs. OUT gets
`steps.tsv` (a row per program that ran), and per program `NAME.kernels.tsv.gz` (name and seconds of what ran),
`NAME.opt.hlo.gz` (the text after XLA's passes) and `NAME.log`. After SECONDS no further program is begun. Inputs
are random, weights and moments positive and small.
"""

import glob
import gzip
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib import _hlo, _jax  # noqa: E402

COLUMNS = ("program", "device", "secs", "secs_least", "kernel_secs", "n_kernels", "argument_bytes",
           "output_bytes", "alias_bytes", "temp_bytes", "peak_bytes", "compile_secs", "software")


def aliases(text):
    """Pairs of an output's place and the parameter that it takes the buffer of."""
    header = text[:text.index("\n")]
    pairs = re.findall(r"\{(\d*)\}: \((\d+), \{\}", header)
    return [(int(output or 0), int(parameter)) for output, parameter in pairs]


def read(path):
    text = gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()
    return path.name.split(".")[0], text


class Program:
    """A compiled program, and the shapes of what it is given."""

    def __init__(self, text):
        start, device = time.time(), jax.devices()[0]
        proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        options = _jax.CompileOptions()
        options.num_replicas = options.num_partitions = 1
        self.shapes = _hlo.XlaComputation(proto).program_shape().parameter_shapes()
        self.executable = device.client.compile_and_load(
            _jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList((device,)), options)
        self.donated = aliases(text)
        self.compile_secs = time.time() - start

    def inputs(self):
        keys = jax.random.split(jax.random.key(0), len(self.shapes))
        return [random(key, shape) for key, shape in zip(keys, self.shapes, strict=True)]

    def step(self, inputs):
        """Runs once and puts what takes a donated input's place into `inputs`, as a training loop does."""
        results = self.executable.execute_sharded(inputs).disassemble_into_single_device_arrays()
        for output, parameter in self.donated:
            inputs[parameter] = results[output][0]
        return results


def random(key, shape):
    dims, dtype = shape.dimensions(), shape.numpy_dtype()
    if dtype == np.bool_:
        return jax.random.bernoulli(key, 0.5, dims)
    if jnp.issubdtype(dtype, jnp.floating):
        return jax.random.uniform(key, dims, jnp.float32, 0.0, 0.02).astype(dtype)
    return jax.random.randint(key, dims, 1, 1000).astype(dtype) if dims else jnp.ones(dims, dtype)


def timed(program, inputs, budget_secs):
    """Seconds per step: the median and the least of runs that are synchronised one by one."""
    times, start = [], time.time()
    while len(times) < 3 or (time.time() - start < budget_secs and len(times) < 30):
        begun = time.perf_counter()
        jax.block_until_ready(program.step(inputs))
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:]), min(times[1:])


def kernels(program, inputs):
    """Name and seconds of every kernel of one step, as CUPTI saw them."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(program.step(inputs))
        found = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
        data = jax.profiler.ProfileData.from_file(found[0])
        rows = []
        for plane in data.planes:
            if not plane.name.startswith("/device:GPU"):
                continue
            for line in plane.lines:
                if line.name.startswith("Stream"):
                    for event in line.events:
                        stats = dict(event.stats)
                        rows.append((event.start_ns, event.duration_ns * 1e-9, event.name,
                                     stats.get("hlo_op", ""), line.name))
        return sorted(rows)


def measure(name, program, out):
    inputs = program.inputs()
    jax.block_until_ready(program.step(inputs))
    secs, least = timed(program, inputs, 2.0)
    try:
        rows = kernels(program, inputs)
    except Exception as error:  # noqa: BLE001: a step's time is worth keeping without its kernels
        print("no kernels:", name, error, flush=True)
        rows = []
    with gzip.open(out / f"{name}.kernels.tsv.gz", "wt") as file:
        for start, kernel_secs, kernel, op, stream in rows:
            file.write(f"{start}\t{kernel_secs:.9f}\t{op}\t{kernel[:120]}\t{stream}\n")
    memory = program.executable.get_compiled_memory_stats()
    row = [name, jax.devices()[0].device_kind, f"{secs:.6f}", f"{least:.6f}",
           f"{sum(row[1] for row in rows):.6f}", len(rows), memory.argument_size_in_bytes,
           memory.output_size_in_bytes, memory.alias_size_in_bytes, memory.temp_size_in_bytes,
           getattr(memory, "peak_memory_in_bytes", ""), f"{program.compile_secs:.0f}", f"jax {jax.__version__}"]
    with open(out / "steps.tsv", "a") as file:
        file.write("\t".join(map(str, row)) + "\n")
    print(*row[:6], flush=True)


def one(path, out):
    """Compiles, says so, and measures when it is told to: nobody else may use the GPU meanwhile."""
    name, text = read(path)
    program = Program(text)
    optimized = program.executable.hlo_modules()[0].to_string()
    with gzip.open(out / f"{name}.opt.hlo.gz", "wt") as file:
        file.write(optimized)
    print("compiled", flush=True)
    if sys.stdin.readline():
        measure(name, program, out)


def start(path, out):
    command = [sys.executable, __file__, "--one", str(path), str(out)]
    log = open(out / f"{path.name.split('.')[0]}.log", "w")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)


def main():
    if sys.argv[1] == "--one":
        return one(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    deadline = time.time() + float(sys.argv[3] if len(sys.argv) > 3 else 1e9)
    out.mkdir(parents=True, exist_ok=True)
    (out / "steps.tsv").write_text("\t".join(COLUMNS) + "\n")
    paths = sorted((p for p in folder.iterdir() if p.is_file()), key=lambda p: p.stat().st_size)
    at_once = int(os.environ.get("PROGRAMS_AT_ONCE", "8"))
    for first in range(0, len(paths), at_once):
        batch = {path: start(path, out) for path in paths[first:first + at_once]}
        compiled = {path: child.stdout.readline() for path, child in batch.items()}
        for path, child in batch.items():
            if compiled[path] and time.time() < deadline:
                said = child.communicate("go\n")[0].strip()
                print(said if child.returncode == 0 else f"failed, see its log: {path.name}", flush=True)
            else:
                child.kill()
                print("not measured:", path.name, flush=True)


if __name__ == "__main__":
    main()
