#!/usr/bin/env python3
"""Writes the programs of tests/annotations: training steps with dropout by typed random keys, as JAX lowers them.

`tools/typed_keys.py [DIRECTORY]`, with the packages of tests/xla/requirements.txt. A plain step, one that
rematerializes and one with its layers in a scan, each as HLO and as StableHLO, by Shardy and by GSPMD.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp

BATCH, WIDTH, LAYERS = 64, 128, 3


def layer(x, weight, key):
    """A layer with dropout."""
    hidden = jnp.tanh(x @ weight)
    return jnp.where(jax.random.bernoulli(key, 0.9, hidden.shape), hidden, 0)


def stacked(apply):
    """Layers one after another, each with a key of its own."""
    def forward(weights, x, key):
        for weight, own in zip(weights, jax.random.split(key, LAYERS)):
            x = apply(x, weight, own)
        return x
    return forward


def scanned(weights, x, key):
    """The same layers in a loop."""
    def body(x, args):
        return layer(x, *args), None
    return jax.lax.scan(body, x, (weights, jax.random.split(key, LAYERS)))[0]


FORMS = {"plain": stacked(layer), "remat": stacked(jax.checkpoint(layer)), "scan": scanned}


def step(forward):
    """One step of gradient descent."""
    def loss(weights, x, y, key):
        return jnp.mean((forward(weights, x, key) - y) ** 2)

    def update(weights, x, y, key):
        return weights - 0.1 * jax.grad(loss)(weights, x, y, key)
    return update


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/annotations")
    folder.mkdir(parents=True, exist_ok=True)
    arrays = (jnp.ones((LAYERS, WIDTH, WIDTH)), jnp.ones((BATCH, WIDTH)), jnp.ones((BATCH, WIDTH)), jax.random.key(0))
    for partitioner in ("shardy", "gspmd"):
        jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
        for name, forward in FORMS.items():
            lowered = jax.jit(step(forward), donate_argnums=0).lower(*arrays)
            for dialect, suffix in (("hlo", "hlo"), ("stablehlo", "mlir")):
                (folder / f"{name}.{partitioner}.{suffix}").write_text(lowered.as_text(dialect))


if __name__ == "__main__":
    main()
