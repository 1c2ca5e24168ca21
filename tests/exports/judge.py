"""Plans programs, exports them, and has the projects' own parsers read what was written."""

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import yaml

import stand_ins  # noqa: F401  (before what it stands in for)

OPT = "gen opt --size tiny --heads 8 --layers 4 --seq 256 --vocab 1024 --hidden 512 --ffn 2048 --global-batch 32"
LLAMA = "gen llama --size tiny --layers 8 --seq 256 --hidden 512 --ffn 1408 --kv-heads 4 --global-batch 32"
DEGREES = [
    (OPT, "a100-8", "--tensor-model-parallel-size 2 --micro-batch-size 4 --use-distributed-optimizer"),
    (OPT, "a100-8x2", "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --micro-batch-size 2"),
    (LLAMA, "a100-8", "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ett|tt|t|tttL --micro-batch-size 2"),
    (LLAMA, "a100-8", "--tensor-model-parallel-size 4 --sequence-parallel --recompute-granularity full --micro-batch-size 16"),
]


def numbers(arguments):
    """The numbers of a command line."""
    found = dict(re.findall(r"--([a-z-]+) (\d+)", arguments))
    return {name: int(value) for name, value in found.items()}


def torchtitan(text, path):
    """torchtitan's own manager; unknown keys are errors."""
    path.write_text(text)
    manager = importlib.import_module("torchtitan.config.manager")
    return manager.ConfigManager().parse_args([f"--job.config_file={path}"])


def deepspeed(values, world):
    """DeepSpeed's own configuration: its sums of batch sizes hold on so many data-parallel devices."""
    config = importlib.import_module("deepspeed.runtime.config")
    config.elasticity_enabled = lambda _: False
    config.dist.is_initialized = lambda: True
    config.dist.get_rank = lambda *_, **__: 0
    config.dist.get_world_size = lambda *_, **__: world
    return config.DeepSpeedConfig(values)


def megatron_layout(text):
    """Megatron-Core's own `parse_str_to_list`, taken out of its file, for that imports PyTorch."""
    spec = importlib.util.find_spec("megatron.core")
    source = Path(spec.submodule_search_locations[0]) / "transformer/pipeline_parallel_layer_layout.py"
    functions = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.FunctionDef)]
    parser = next(node for node in functions if node.name == "parse_str_to_list")
    parser.decorator_list = []
    kinds = types.SimpleNamespace(embedding="E", loss="L", decoder="t", mtp="m")
    scope = {"re": re, "LayerType": kinds}
    exec(compile(ast.Module([parser], []), str(source), "exec"), scope)
    return ["".join(stage) for stage in scope["parse_str_to_list"](text)]


def judge(phzc, directory, program, cluster, arguments):
    """One plan in all formats."""
    model, plan = directory / "model.ir", directory / "plan.ir"
    run = lambda *words: subprocess.run([phzc, *map(str, words)], check=True, capture_output=True, text=True).stdout  # noqa: E731
    run(*program.split(), "-o", model)
    run("price", model, "--cluster", cluster, "--megatron", arguments, "-o", plan)
    wanted = numbers(arguments)
    tensor, pipeline = (wanted.get(f"{name}-model-parallel-size", 1) for name in ("tensor", "pipeline"))
    devices = 16 if cluster.endswith("x2") else 8
    data = devices // (tensor * pipeline)
    emitted = {stack: run(plan, "--passes", "", "--emit", stack, "-q") for stack in ("megatron", "torchtitan", "deepspeed", "fsdp", "maxtext")}
    titan = torchtitan(emitted["torchtitan"], directory / "job.toml").parallelism
    assert (titan.tensor_parallel_degree, titan.pipeline_parallel_degree) == (tensor, pipeline), titan
    assert titan.data_parallel_shard_degree * titan.data_parallel_replicate_degree == data, titan
    read = deepspeed(json.loads(emitted["deepspeed"]), data)
    assert (read.train_batch_size, read.train_micro_batch_size_per_gpu) == (32, wanted["micro-batch-size"])
    keys = yaml.safe_load(emitted["maxtext"])
    degrees = [value for key, value in keys.items() if key.startswith(("ici_", "dcn_"))]
    product = 1
    for degree in degrees:
        product *= degree
    assert product == devices, keys
    assert all(entry["placements"] for entry in json.loads(emitted["fsdp"])["parameters"].values())
    subprocess.run(["bash", "-n"], input=emitted["megatron"], check=True, text=True)
    layout = re.search(r'--pipeline-model-parallel-layout "(.*)"', emitted["megatron"])
    if layout:
        asked = re.search(r"--pipeline-model-parallel-layout (\S+)", arguments).group(1)
        assert megatron_layout(layout.group(1)) == megatron_layout(asked), layout
    return f"{cluster}: data {data}, tensor {tensor}, pipeline {pipeline}{', a layout' if layout else ''}"


def refuses(parse):
    """Whether a parser refuses: one that takes everything judges nothing."""
    try:
        parse()
    except (AssertionError, ValueError):
        return True
    return False


def main():
    phzc = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for case in DEGREES:
            print("  " + judge(phzc, directory, *case))
        wrong = {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}
        assert refuses(lambda: deepspeed(wrong, 4)), "DeepSpeed's class checks nothing"
        assert refuses(lambda: torchtitan("[parallelism]\ntensor_degree = 2\n", directory / "wrong.toml"))
        assert refuses(lambda: megatron_layout("Etx|tL"))
    print(f"tests/exports: {len(DEGREES)} plans in five formats, as torchtitan, DeepSpeed and Megatron-Core read them")


main()
