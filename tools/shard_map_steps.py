#!/usr/bin/env python3
"""Writes tests/regions/*: steps with parts that are written for one device, JAX's `shard_map`.

`tools/shard_map_steps.py [DIRECTORY]`, with the packages of tools/requirements.txt. Each program is written for GSPMD
and for Shardy, as HLO, and for Shardy as StableHLO.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOTH = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
ROW = Mesh(np.array(jax.devices()), ("data",))
BATCH, WIDTH, WIDE, EXPERTS, LAYERS = 64, 32, 128, 8, 3


def f32(*shape):
    return jnp.zeros(shape, jnp.float32)


def mapped(mesh, ins, outs, **options):
    return lambda function: jax.shard_map(function, mesh=mesh, in_specs=ins, out_specs=outs, **options)


@mapped(BOTH, (P("data"), P(None, "model"), P("model")), P("data"))
def products(x, w1, w2):
    """Megatron's pair: columns, rows, and the sum of what they make."""
    return jax.lax.psum(jax.nn.gelu(x @ w1) @ w2, "model")


def descent(loss):
    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda param, grad: param - 0.1 * grad, params, grads), value

    return step


def tensor(params, x):
    """A product around the pair, and one behind it."""
    h = jnp.tanh(x @ params["in"])
    return jnp.mean(((h + products(h, params["w1"], params["w2"])) @ params["out"]) ** 2)


def layers(params, x, body=lambda body: body):
    """The pair in a loop over layers."""
    @body
    def layer(h, weights):
        return jnp.tanh(h + products(h, *weights)), None

    return jnp.mean(jax.lax.scan(layer, x, (params["w1"], params["w2"]))[0] ** 2)


@mapped(ROW, (P("data"), P("data")), P("data"))
def gathered(x, w):
    """Fully sharded weights: gathered to be used, their gradients scattered."""
    return x @ jax.lax.all_gather(w, "data", axis=0, tiled=True)


@mapped(ROW, (P(), P("data")), (P(), P()), check_vma=False)
def averaged(w, x):
    """Data parallelism by hand: the mean of gradients."""
    value, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return jax.lax.pmean(grad, "data"), jax.lax.pmean(value, "data")


@mapped(BOTH, (P(("data", "model")), P("model")), P(("data", "model")))
def experts(x, w):
    """Tokens go to the devices of their experts and back."""
    x = jax.lax.all_to_all(x, "model", split_axis=1, concat_axis=0, tiled=True)
    made = jax.nn.relu(jnp.einsum("ted,edf->tef", x, w))
    return jax.lax.all_to_all(made, "model", split_axis=0, concat_axis=1, tiled=True)


@mapped(BOTH, (P("data"), P()), P(), axis_names={"data"})
def partly(x, w):
    """One of two axes: the partitioner splits along the other one."""
    return jax.lax.psum(jnp.tanh(x @ w).sum(0), "data")


@mapped(BOTH, P("model"), P("model"))
def ring(x):
    """Each device's tile to the next one."""
    return jax.lax.ppermute(x, "model", [(at, (at + 1) % 4) for at in range(4)])


PAIR = {"w1": f32(WIDTH, WIDE), "w2": f32(WIDE, WIDTH)}
STACK = {"w1": f32(LAYERS, WIDTH, WIDE), "w2": f32(LAYERS, WIDE, WIDTH)}
X = f32(BATCH, WIDTH)
PROGRAMS = {
    "tensor": (descent(tensor), {**PAIR, "in": f32(WIDTH, WIDTH), "out": f32(WIDTH, WIDTH)}, X),
    "layers": (layers, STACK, X),
    "kept": (descent(layers), STACK, X),
    "remat": (descent(lambda params, x: layers(params, x, jax.checkpoint)), STACK, X),
    "fully": (descent(lambda w, x: jnp.mean(jnp.tanh(gathered(x, w)) ** 2)), f32(WIDTH, WIDTH), X),
    "mean": (lambda w, x: (w - 0.1 * averaged(w, x)[0], averaged(w, x)[1]), f32(WIDTH, WIDTH), X),
    "experts": (descent(lambda w, x: jnp.sum(experts(jnp.sin(x), w) ** 2)), f32(EXPERTS, WIDTH, WIDTH),
                f32(BATCH, EXPERTS, WIDTH)),
    "partly": (lambda x, w: partly(2 * x, w).sum(), X, f32(WIDTH, WIDE)),
    "ring": (lambda x: ring(2 * x) + 1, X),
}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/regions"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (step, *args) in PROGRAMS.items():
        for partitioner in ("shardy", "gspmd"):
            jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
            lowered = jax.jit(step).lower(*args)
            (folder / f"{name}.{partitioner}.hlo").write_text(lowered.compiler_ir("hlo").as_hlo_text())
            if partitioner == "shardy":
                (folder / f"{name}.shardy.mlir").write_text(lowered.as_text())


if __name__ == "__main__":
    main()
