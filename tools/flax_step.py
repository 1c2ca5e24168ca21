#!/usr/bin/env python3
"""Writes tests/annotations/nnx.*: the training step of a Flax NNX decoder, as its user has it.

`tools/flax_step.py [DIRECTORY]`, with the packages of tools/requirements-flax.txt. Dropout by `nnx.Rngs`, whose
typed keys JAX constrains to a mesh without devices; grouped attention, rotary embeddings, Adam by `nnx.Optimizer`.
"""

import gzip
import pathlib
import sys

import jax
import jax.numpy as jnp
import optax
from flax import nnx

BATCH, LENGTH, WIDTH, HEADS, GROUPS, LAYERS, WORDS = 16, 64, 128, 8, 2, 2, 512
HEAD = WIDTH // HEADS


def rotated(x):
    """Rotary embeddings of `[batch, length, heads, head]` (Su et al., 2021, equation 34)."""
    angle = jnp.arange(LENGTH)[:, None] / 10_000.0 ** (jnp.arange(HEAD // 2) / (HEAD // 2))
    sin, cos = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Attention(nnx.Module):
    """Causal, keys and values shared by groups of heads."""

    def __init__(self, rngs):
        self.query = nnx.LinearGeneral(WIDTH, (HEADS, HEAD), use_bias=False, rngs=rngs)
        self.key = nnx.LinearGeneral(WIDTH, (GROUPS, HEAD), use_bias=False, rngs=rngs)
        self.value = nnx.LinearGeneral(WIDTH, (GROUPS, HEAD), use_bias=False, rngs=rngs)
        self.out = nnx.LinearGeneral((HEADS, HEAD), WIDTH, axis=(-2, -1), use_bias=False, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        query, key, value = rotated(self.query(x)), rotated(self.key(x)), self.value(x)
        query = query.reshape(*query.shape[:2], GROUPS, HEADS // GROUPS, HEAD)
        scores = jnp.einsum("bqgrh,bkgh->bgrqk", query, key) / HEAD**0.5
        scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e30)
        weights = self.dropout(jax.nn.softmax(scores))
        mixed = jnp.einsum("bgrqk,bkgh->bqgrh", weights, value)
        return self.out(mixed.reshape(*mixed.shape[:2], HEADS, HEAD))


class Layer(nnx.Module):
    """Attention and a gated perceptron, each behind a norm."""

    def __init__(self, rngs):
        self.norms = nnx.List([nnx.RMSNorm(WIDTH, rngs=rngs) for _ in range(2)])
        self.attention = Attention(rngs)
        self.gate = nnx.Linear(WIDTH, 4 * WIDTH, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, use_bias=False, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x))
        hidden = self.norms[1](x)
        return x + self.dropout(self.down(jax.nn.silu(self.gate(hidden)) * self.up(hidden)))


class Decoder(nnx.Module):
    """Token embeddings, layers, and logits."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.layers = nnx.List([Layer(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, WORDS, use_bias=False, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/annotations")
    folder.mkdir(parents=True, exist_ok=True)
    model = Decoder(nnx.Rngs(0))
    graph, state = nnx.split((model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)))

    def step(state, tokens, labels):
        model, optimizer = nnx.merge(graph, state)

        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(tokens), labels).mean()

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return nnx.state((model, optimizer)), value

    tokens = jnp.zeros((BATCH, LENGTH), jnp.int32)
    lowered = jax.jit(step, donate_argnums=0).lower(state, tokens, tokens)
    for dialect, suffix in (("hlo", "hlo"), ("stablehlo", "mlir")):
        text = lowered.as_text(dialect).encode()
        (folder / f"nnx.shardy.{suffix}.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main()
