"""XLA on virtual CPU devices: parse, partition, execute. Import this before jax."""

import glob
import os
import re
import shutil
import tempfile
import time

DEVICES = int(os.environ.get("PHZC_XLA_DEVICES", "8"))
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + f" --xla_force_host_platform_device_count={DEVICES}"
)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib import _hlo, _jax  # noqa: E402

import hlo  # noqa: E402

PARTITIONED = "after_spmd-partitioning"
# In the header of a program that was lowered for Shardy.
MESHES = "xla.sdy.meshes="


def parse(text):
    """XLA's own module; raises with XLA's message when the text is rejected."""
    return _hlo.hlo_module_from_text(text)


class Program:
    """A compiled module and, for several devices, its text right after partitioning."""

    def __init__(self, text, devices, optimize=False, extra=()):
        # jaxlib 0.10.2 compiles StableHLO only
        is_shardy = MESHES in text
        shielded = shardings_removed(text) if is_shardy else shield_invariants(text)
        proto = parse(shielded).as_serialized_hlo_module_proto()
        folder = tempfile.mkdtemp(prefix="phzc-xla-")
        try:
            options = compile_options(devices, folder, optimize, extra)
            options.executable_build_options.use_shardy_partitioner = is_shardy
            self.devices, start = jax.devices()[:devices], time.time()
            self.executable = self.devices[0].client.compile_and_load(
                _jax.mlir.hlo_to_stablehlo(proto), _jax.DeviceList(tuple(self.devices)), options)
            self.seconds = round(time.time() - start, 1)
            dumps = glob.glob(os.path.join(folder, f"*{PARTITIONED}*.txt"))
            self.partitioned = open(dumps[0]).read() if dumps else None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def memory(self):
        """Bytes per device; `temp` is the CPU backend's, good for ranking only."""
        stats = self.executable.get_compiled_memory_stats()
        return {
            "argument": stats.argument_size_in_bytes,
            "output": stats.output_size_in_bytes,
            "alias": stats.alias_size_in_bytes,
            "temp": stats.temp_size_in_bytes,
        }

    def run(self, inputs):
        """Whole outputs for whole inputs."""
        if len(self.devices) == 1:
            arrays = [jax.device_put(x, self.devices[0]) for x in inputs]
        else:
            arrays = [
                jax.make_array_from_callback(x.shape, self._sharding(s), lambda i, x=x: x[i])
                for x, s in zip(inputs, self.executable.get_parameter_shardings(), strict=True)
            ]
        results = self.executable.execute_sharded(arrays).disassemble_into_single_device_arrays()
        if len(self.devices) == 1:
            return [np.asarray(shards[0]) for shards in results]
        layouts = self.executable.get_output_shardings()
        return [self._gather(shards, s) for shards, s in zip(results, layouts, strict=True)]

    def _sharding(self, proto):
        from jax._src.sharding_impls import GSPMDSharding
        return GSPMDSharding(tuple(self.devices), _hlo.HloSharding.from_proto(proto))

    def _gather(self, shards, proto):
        local = [np.asarray(s) for s in shards]
        layout = self._sharding(proto)
        if layout.is_fully_replicated:
            return local[0]
        tiles = _tiles(layout, local[0].ndim)
        shape = tuple(d * t for d, t in zip(local[0].shape, tiles, strict=True))
        whole = np.empty(shape, local[0].dtype)
        for device, index in layout.devices_indices_map(shape).items():
            whole[index] = local[device.id]
        return whole


def _tiles(layout, rank):
    return layout._hlo_sharding.tile_assignment_dimensions()[:rank]


def compile_options(devices, folder, optimize, extra):
    options = _jax.CompileOptions()
    build = options.executable_build_options
    options.num_replicas = build.num_replicas = 1
    options.num_partitions = build.num_partitions = devices
    build.use_spmd_partitioning = devices > 1
    assignment = _jax.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    options.device_assignment = build.device_assignment = assignment
    flags = list(extra)
    if devices > 1:
        flags += [("xla_dump_to", folder), ("xla_dump_hlo_as_text", True),
                  ("xla_dump_hlo_pass_re", "spmd-partitioning")]
    if not optimize:
        flags += [("xla_backend_optimization_level", 0),
                  ("xla_llvm_disable_expensive_passes", True)]
    options.env_option_overrides = flags
    return options


def unsharded(text):
    """The same program for one device: no shardings, no partitions."""
    return re.sub(r"num_partitions=\d+", "num_partitions=1", shardings_removed(text))


def shardings_removed(text):
    """Without `sharding={…}`; of a program for Shardy these repeat its frontend attributes, and XLA would turn to GSPMD."""
    balanced = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
    return re.sub(r", sharding=" + balanced, "", text)


def shield_invariants(text):
    """Hides loop-carried values that a body hands on untouched behind a `Sharding` call.

    On its way through StableHLO a `while` loses such values but keeps its tuple sharding, whose
    length is then wrong. The call moves nothing: it states the layout that the loop gives.
    """
    module = hlo.parse(text)
    edits = {}
    for body in module.computations.values():
        for loop in body:
            if loop.opcode == "while" and loop.attrs.get("sharding", "").startswith("{{"):
                name = loop.attrs["body"].lstrip("%")
                edits[name] = invariants(module, name, hlo.split(loop.attrs["sharding"][1:-1]))
    lines, current = [], None
    for line in text.split("\n"):
        start = hlo.COMPUTATION.match(hlo.strip_comments(line))
        if start and " = " not in line.split("(")[0]:
            current = start[2]
        if re.match(r"\s*ROOT ", line):
            for name, call in edits.pop(current, {}).items():
                lines.append(call)
                line = re.sub(rf"(?<=[(\s,%]){re.escape(name)}(?=[,)\s])", f"{name}.kept", line)
        lines.append(line)
    return "\n".join(lines)


def invariants(module, body, shardings):
    """Name of each carried value that `body` returns as it came -> the line of its call."""
    root, names = module.root(body), hlo.by_name(module.computations[body])
    calls = {}
    for index, name in enumerate(root.operands if root.opcode == "tuple" else []):
        value = names[name]
        if (value.opcode, value.attrs.get("index")) != ("get-tuple-element", str(index)):
            continue
        dims = ",".join(map(str, value.shape.dims))
        calls[name] = (f"  {name}.kept = {value.shape.dtype}[{dims}] custom-call({name}), "
                       f'custom_call_target="Sharding", sharding={shardings[index]}')
    return calls
