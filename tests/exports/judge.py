"""Plans programs, exports them, and has the projects' own parsers read what was written."""

import dataclasses
import importlib
import json
import re
import subprocess
import sys
import tempfile
import warnings
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


def megatron(script):
    """Megatron-Core's own configuration, of the arguments that set a field of it, and the layers of each stage where
    these are given. The parser of the command line is no part of the package."""
    config = importlib.import_module("megatron.core.transformer.transformer_config").TransformerConfig
    known = {field.name for field in dataclasses.fields(config)}
    listed = re.findall(r"^  --([a-z0-9-]+) ?(.*)$", script, re.MULTILINE)
    given = {name.replace("-", "_"): value.strip('"') for name, value in listed}
    values = {name: read(value) for name, value in given.items() if name in known}
    assert {"tensor_model_parallel_size", "pipeline_model_parallel_size", "num_layers"} <= values.keys(), given
    # The model's, which the user adds; a type of PyTorch is asked for beside stages.
    layers = values.pop("pipeline_model_parallel_layout", None)
    model = {"hidden_size": 512, "num_attention_heads": 8, "pipeline_dtype": "bf16"}
    found = config(**model, **values)
    return found, layers and megatron_layout(layers)


def read(value):
    """An argument's value: a flag, a number or a word."""
    return int(value) if value.isdecimal() else value or True


def megatron_layout(text):
    """Megatron-Core's own reading of a layout."""
    module = importlib.import_module("megatron.core.transformer.pipeline_parallel_layer_layout")
    stages = module.PipelineParallelLayerLayout.parse_str_to_list(text)
    return ["".join(str(layer) for layer in stage) for stage in stages]


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
    config, layout = megatron(emitted["megatron"])
    assert (config.tensor_model_parallel_size, config.pipeline_model_parallel_size) == (tensor, pipeline), config
    assert config.sequence_parallel == ("--sequence-parallel" in arguments), config
    assert (config.recompute_granularity == "full") == ("granularity full" in arguments), config
    if layout:
        asked = re.search(r"--pipeline-model-parallel-layout (\S+)", arguments).group(1)
        assert layout == megatron_layout(asked), layout
    return f"{cluster}: data {data}, tensor {tensor}, pipeline {pipeline}{', a layout' if layout else ''}"


def refuses(parse):
    """Whether a parser refuses: one that takes everything judges nothing."""
    try:
        parse()
    except (AssertionError, ValueError, TypeError):
        return True
    return False


def main():
    phzc = str(Path(sys.argv[1]).resolve())
    # Types of PyTorch are stand-ins, and what no argument sets has defaults that are deprecated: no news.
    warnings.filterwarnings("ignore", message=".*is not a Python type|full scope is deprecated")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for case in DEGREES:
            print("  " + judge(phzc, directory, *case))
        wrong = {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3}
        assert refuses(lambda: deepspeed(wrong, 4)), "DeepSpeed's class checks nothing"
        assert refuses(lambda: torchtitan("[parallelism]\ntensor_degree = 2\n", directory / "wrong.toml"))
        assert refuses(lambda: megatron_layout("Etx|tL"))
        script = "  --tensor-model-parallel-size 2\n  --pipeline-model-parallel-size 1\n  --num-layers 4\n"
        assert refuses(lambda: megatron(script + "  --recompute-granularity half\n")), "Megatron's class checks nothing"
    print(f"tests/exports: {len(DEGREES)} plans in five formats, as torchtitan, DeepSpeed and Megatron-Core read them")


main()
