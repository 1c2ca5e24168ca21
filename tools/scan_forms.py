#!/usr/bin/env python3
"""Writes one training step in four forms: layers in a row or in `lax.scan`, with and without `jax.checkpoint`.

`tools/scan_forms.py DIRECTORY [LAYERS…]`, with the packages of tools/requirements.txt. Two models, forward,
backward and AdamW: a decoder (f32 parameters, bf16 products) and a residual MLP. All arguments are shapes.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import functools
import pathlib
import sys

import jax
import jax.numpy as jnp

BATCH, SEQ, WIDTH, WIDE, HEADS, VOCAB = 32, 512, 1024, 4096, 16, 8192
ROWS = 16384
FORMS = {"unrolled": (False, False), "unrolled-remat": (False, True), "scan": (True, False), "scan-remat": (True, True)}


def product(x, w):
    return x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)


def norm(x, scale):
    x = x.astype(jnp.float32)
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * scale


def attention(x, p):
    query, key, value = (product(x, p[name]).reshape(*x.shape[:2], HEADS, -1) for name in ("query", "key", "value"))
    scores = jnp.einsum("bshd,bthd->bhst", query, key).astype(jnp.float32) * (WIDTH // HEADS) ** -0.5
    scores = jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -1e30)
    mixed = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores).astype(value.dtype), value)
    return product(mixed.reshape(x.shape), p["out"])


def decoder_layer(x, p):
    x = x + attention(norm(x, p["norm1"]), p)
    return x + product(jax.nn.gelu(product(norm(x, p["norm2"]), p["up"])), p["down"])


def mlp_layer(x, p):
    return x + product(jax.nn.relu(product(x, p["up"])), p["down"])


def through(layer, x, layers, scanned, again):
    """`x` behind all layers: a list of their parameters, or stacks of these."""
    layer = jax.checkpoint(layer) if again else layer
    if scanned:
        return jax.lax.scan(lambda x, p: (layer(x, p), None), x, layers)[0]
    return functools.reduce(layer, layers, x)


def decoder_loss(params, tokens, labels, *form):
    x = (params["embed"][tokens] + params["position"]).astype(jnp.bfloat16)
    x = norm(through(decoder_layer, x, params["layers"], *form), params["norm"])
    scores = jax.nn.log_softmax(product(x, params["head"]).astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(scores, labels[..., None], -1))


def mlp_loss(params, x, wanted, *form):
    return jnp.mean((through(mlp_layer, x, params["layers"], *form).astype(jnp.float32) - wanted) ** 2)


def adamw(params, state, grads):
    time = state["step"] + 1
    rate = 1e-3 * jnp.sqrt(1 - 0.999**time) / (1 - 0.9**time)
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["nu"], grads)
    new = jax.tree.map(lambda p, m, v: 0.99999 * p - rate * m / (jnp.sqrt(v) + 1e-8), params, mu, nu)
    return new, {"mu": mu, "nu": nu, "step": time}


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def stacked(layer, count, scanned):
    if scanned:
        return jax.tree.map(lambda leaf: f32(count, *leaf.shape), layer)
    return [layer] * count


def decoder(count, scanned):
    layer = {name: f32(WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
    layer |= {"norm1": f32(WIDTH), "norm2": f32(WIDTH), "up": f32(WIDTH, WIDE), "down": f32(WIDE, WIDTH)}
    ends = {"embed": f32(VOCAB, WIDTH), "position": f32(SEQ, WIDTH), "norm": f32(WIDTH), "head": f32(WIDTH, VOCAB)}
    tokens = jax.ShapeDtypeStruct((BATCH, SEQ), jnp.int32)
    return decoder_loss, {**ends, "layers": stacked(layer, count, scanned)}, tokens, tokens


def mlp(count, scanned):
    layer = {"up": f32(WIDTH, WIDE), "down": f32(WIDE, WIDTH)}
    x = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.bfloat16)
    return mlp_loss, {"layers": stacked(layer, count, scanned)}, x, f32(ROWS, WIDTH)


def text(model, count, scanned, again):
    loss, params, *batch = model(count, scanned)

    def step(params, state, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch, scanned, again)
        return *adamw(params, state, grads), value

    state = {"mu": params, "nu": params, "step": f32()}
    lowered = jax.jit(step, donate_argnums=(0, 1)).lower(params, state, *batch)
    return lowered.compiler_ir("hlo").as_hlo_text()


def main():
    folder, counts = pathlib.Path(sys.argv[1]), [int(count) for count in sys.argv[2:]] or [4, 12]
    folder.mkdir(parents=True, exist_ok=True)
    for model in (decoder, mlp):
        for count in counts:
            for form, how in FORMS.items():
                (folder / f"{model.__name__}-{count}.{form}.hlo").write_text(text(model, count, *how))


if __name__ == "__main__":
    main()
