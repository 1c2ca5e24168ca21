"""Speech: Whisper and wav2vec 2.0."""

import jax
import jax.numpy as jnp
from jax import lax

from hard.layers import (Params, attention, causal, conv, convolve, cross_entropy, embed, gelu, group_norm, layer_norm,
                         linear, sinusoids)

Batch = dict[str, jax.Array]


def whisper(p: Params, batch: Batch) -> jax.Array:
    """Radford et al. 2022, size small: two convolutions, an encoder, a decoder that also looks at it."""
    width, n_heads, layers, vocabulary = 768, 12, 12, 51865
    x = gelu(conv(p, "encoder.conv1", batch["mels"].astype(jnp.bfloat16), width, 3, padding=[(1, 1)]))
    x = gelu(conv(p, "encoder.conv2", x, width, 3, stride=2, padding=[(1, 1)]))
    x = x + sinusoids(lax.iota(jnp.float32, x.shape[1]), width).astype(x.dtype)
    for n in range(layers):
        q = p.scope(f"encoder.{n}")
        normed = layer_norm(q, "norm1", x)
        x = x + attention(q.scope("self"), normed, normed, n_heads, key_bias=False)
        x = x + feed(q, layer_norm(q, "norm2", x))
    x = layer_norm(p, "encoder.norm", x)
    table = p("decoder.tokens", vocabulary, width)
    positions = batch["tokens"].shape[1]
    y = embed(table, batch["tokens"], x.dtype) + p("decoder.positions", positions, width).astype(x.dtype)
    for n in range(layers):
        q = p.scope(f"decoder.{n}")
        normed = layer_norm(q, "norm1", y)
        y = y + attention(q.scope("self"), normed, normed, n_heads, causal(positions, positions), key_bias=False)
        y = y + attention(q.scope("cross"), layer_norm(q, "norm2", y), x, n_heads, key_bias=False)
        y = y + feed(q, layer_norm(q, "norm3", y))
    y = layer_norm(p, "decoder.norm", y)
    return cross_entropy(y @ table.T.astype(y.dtype), batch["labels"])


def wav2vec(p: Params, batch: Batch) -> jax.Array:
    """Baevski et al. 2020, size base: waves, seven strided convolutions, an encoder; masked frames are classified."""
    width, n_heads, layers = 768, 12, 12
    x = batch["waves"][..., None].astype(jnp.bfloat16)
    for n, (size, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        x = conv(p, f"features.{n}", x, 512, size, stride=stride, padding="VALID", bias=False)
        x = gelu(group_norm(p, "features.norm", x, 512) if n == 0 else x)
    x = linear(p, "project", layer_norm(p, "norm1", x), width)
    x = jnp.where(batch["masked"][..., None], p("mask", width).astype(x.dtype), x)
    x = layer_norm(p, "norm2", x + positions(p, x))
    for n in range(layers):
        q = p.scope(f"layers.{n}")
        x = layer_norm(q, "norm1", x + attention(q, x, x, n_heads))
        x = layer_norm(q, "norm2", x + feed(q, x))
    return cross_entropy(linear(p, "head", x, 504), batch["labels"])


def positions(p: Params, x: jax.Array, size: int = 128, groups: int = 16) -> jax.Array:
    """A wide grouped convolution with weight norm; the even kernel makes one position too many."""
    width = x.shape[-1]
    direction = p("positions.direction", size, width // groups, width)
    length = p("positions.length", size, 1, 1)
    kernel = direction * (length * lax.rsqrt(jnp.sum(direction * direction, (1, 2), keepdims=True)))
    y = convolve(x, kernel.astype(x.dtype), 1, [(size // 2, size // 2)], groups)
    return gelu((y + p("positions.bias", width).astype(x.dtype))[:, :-1])


def feed(p: Params, x: jax.Array) -> jax.Array:
    return linear(p, "down", gelu(linear(p, "up", x, 4 * x.shape[-1])), x.shape[-1])
