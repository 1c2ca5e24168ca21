"""Decoders: OPT with a dropout of random bits, GPT-J, Gemma 2."""

import jax
import jax.numpy as jnp
from jax import lax

from hard.layers import (Params, attend, attention, causal, cross_entropy, dropout, embed, gelu_tanh, heads, layer_norm,
                         linear, rms_norm)

Batch = dict[str, jax.Array]


def opt(p: Params, batch: Batch) -> jax.Array:
    """Zhang et al. 2022, size 1.3B. Each dropout folds its number into the step's key."""
    width, n_heads, layers, vocabulary, dtype = 2048, 32, 24, 50272, jnp.bfloat16
    key = jax.random.wrap_key_data(batch["key"], impl="threefry2x32")
    table, positions = p("tokens", vocabulary, width), batch["tokens"].shape[1]
    x = embed(table, batch["tokens"], dtype) + p("positions", 2050, width)[2:2 + positions].astype(dtype)
    for n in range(layers):
        q = p.scope(f"layers.{n}")
        normed = layer_norm(q, "norm1", x)
        y = attention(q, normed, normed, n_heads, causal(positions, positions))
        x = x + dropout(jax.random.fold_in(key, 2 * n), y)
        y = jax.nn.relu(linear(q, "up", layer_norm(q, "norm2", x), 4 * width))
        x = x + dropout(jax.random.fold_in(key, 2 * n + 1), linear(q, "down", y, width))
    return cross_entropy(layer_norm(p, "norm", x) @ table.T.astype(dtype), batch["labels"])


def gptj(p: Params, batch: Batch) -> jax.Array:
    """Wang and Komatsuzaki 2021, 6B: attention and MLP side by side, pairs of a head's first 64 channels turned."""
    width, n_heads, layers, vocabulary, dtype = 4096, 16, 28, 50400, jnp.bfloat16
    positions = batch["tokens"].shape[1]
    x = embed(p("tokens", vocabulary, width), batch["tokens"], dtype)
    for n in range(layers):
        q = p.scope(f"layers.{n}")
        normed = layer_norm(q, "norm", x)
        query, key, value = (heads(linear(q, name, normed, width, bias=False), n_heads) for name in "qkv")
        mixed = attend(turn_some(query), turn_some(key), value, causal(positions, positions))
        fed = linear(q, "down", gelu_tanh(linear(q, "up", normed, 4 * width)), width)
        x = x + linear(q, "o", mixed, width, bias=False) + fed
    return cross_entropy(linear(p, "head", layer_norm(p, "norm", x), vocabulary), batch["labels"])


def turn_some(x: jax.Array, turned: int = 64) -> jax.Array:
    """Rotary positions (Su et al. 2021) of a head's first channels, neighbours being pairs."""
    rates = jnp.exp(lax.iota(jnp.float32, turned // 2) * (-9.210340 / (turned // 2)))
    angles = lax.iota(jnp.float32, x.shape[1])[:, None] * rates[None]
    sin, cos = (jnp.stack([f(angles)] * 2, -1).reshape(1, -1, 1, turned).astype(x.dtype) for f in (jnp.sin, jnp.cos))
    some, rest = x[..., :turned], x[..., turned:]
    other = jnp.stack([-some[..., 1::2], some[..., ::2]], -1).reshape(some.shape)
    return jnp.concatenate([some * cos + other * sin, rest], -1)


def gemma(p: Params, batch: Batch) -> jax.Array:
    """Riviere et al. 2024, 2B: every other layer sees a window, scores and logits are capped, norms on both sides."""
    width, layers, vocabulary, dtype = 2304, 26, 256128, jnp.bfloat16
    table, positions = p("tokens", vocabulary, width), batch["tokens"].shape[1]
    x = embed(table, batch["tokens"], dtype) * jnp.asarray(width**0.5, dtype)
    for n in range(layers):
        q = p.scope(f"layers.{n}")
        seen = causal(positions, positions, None if n % 2 else 1024)
        x = x + rms_norm(q, "norm2", grouped_attention(q, rms_norm(q, "norm1", x), seen))
        normed = rms_norm(q, "norm3", x)
        gated = gelu_tanh(linear(q, "gate", normed, 4 * width, False)) * linear(q, "up", normed, 4 * width, False)
        x = x + rms_norm(q, "norm4", linear(q, "down", gated, width, False))
    logits = (rms_norm(p, "norm", x) @ table.T.astype(dtype)).astype(jnp.float32)
    return cross_entropy(30 * jnp.tanh(logits / 30), batch["labels"])


def grouped_attention(p: Params, x: jax.Array, seen: jax.Array) -> jax.Array:
    """Eight heads of queries and four of keys and values, 256 wide."""
    q = linear(p, "q", x, 8 * 256, False).reshape(*x.shape[:2], 4, 2, 256)
    k, v = (heads(linear(p, name, x, 4 * 256, False), 4) for name in "kv")
    mixed = attend(turn_halves(q), turn_halves(k), v, seen, cap=50.0)
    return linear(p, "o", mixed, x.shape[-1], False)


def turn_halves(x: jax.Array) -> jax.Array:
    """Rotary positions, a head's halves being pairs."""
    half = x.shape[-1] // 2
    rates = jnp.exp(lax.iota(jnp.float32, half) * (-9.210340 / half))
    angles = lax.iota(jnp.float32, x.shape[1])[:, None] * rates[None]
    shape = (1, x.shape[1], *(1,) * (x.ndim - 3), half)
    cos, sin = (f(angles).reshape(shape).astype(x.dtype) for f in (jnp.cos, jnp.sin))
    low, high = jnp.split(x, 2, -1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], -1)
