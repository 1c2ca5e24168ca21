"""Compiles HLO programs for a GPU that need not be there, and prints the memory that XLA would allot."""

import argparse
import gzip
import os
import pathlib
import time

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jax._src.interpreters import mlir  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jaxlib import _hlo, _jax  # noqa: E402

from programs import read  # noqa: E402

TARGET = pathlib.Path(__file__).with_name("h100.textproto")
COLUMNS = ("program", "argument_bytes", "temp_bytes", "peak_bytes", "compile_secs")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="OUT gets memory.tsv, a row per program, and NAME.opt.hlo.gz, the text after XLA's passes.\n"
               "Nothing is tuned: products run by the default of their kind; bytes differ a little from a GPU's.\n"
               "Needs jax and jax-cuda13-plugin, jax-cuda13-pjrt, nvidia-cuda-nvcc, nvidia-nvvm; no GPU.")
    parser.add_argument("out", type=pathlib.Path, help="where the table and the compiled programs go")
    parser.add_argument("programs", type=pathlib.Path, nargs="+", help=".hlo, .hlo.gz or .ir")
    parser.add_argument("--target", type=pathlib.Path, default=TARGET, help="a GPU's description (default: H100)")
    return parser.parse_args()


def compiled(text, device):
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    options = _jax.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    with mlir.make_ir_context():
        module = mlir.ir.Module.parse(_jax.mlir.hlo_to_stablehlo(proto))
        devices = _jax.DeviceList((device,))
        return device.client.compile(module, executable_devices=devices, compile_options=options)


def row(path, device, out):
    begun = time.time()
    name, text = read(path)
    program = compiled(text, device)
    with gzip.open(out / f"{name}.opt.hlo.gz", "wt") as file:
        file.write(program.hlo_modules()[0].to_string())
    memory = program.get_compiled_memory_stats()
    return (name, memory.argument_size_in_bytes, memory.temp_size_in_bytes, memory.peak_memory_in_bytes,
            f"{time.time() - begun:.0f}")


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.target.read_text()
    topology = topologies.get_topology_desc(platform="cuda", target_config=target, topology="1x1x1")
    with open(options.out / "memory.tsv", "w") as table:
        print(*COLUMNS, sep="\t", file=table)
        for path in options.programs:
            try:
                found = row(path, topology.devices[0], options.out)
            except Exception as error:  # noqa: BLE001: the other programs are compiled all the same
                print("failed:", path.name, str(error).split("\n")[0][:300], flush=True)
                continue
            print(*found, flush=True)
            print(*found, sep="\t", file=table, flush=True)


if __name__ == "__main__":
    main()
