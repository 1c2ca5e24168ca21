"""Layers that several families share. `p` holds the arrays of one layer by their names there."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

Arrays = dict[str, jax.Array]


def scope(p: Arrays, name: str) -> Arrays:
    """The arrays `<name>.*`, by what follows."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in p.items() if key.startswith(prefix)}


def linear(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    """x·W, and a bias if there is one, in the type of x."""
    y = x @ p[f"{name}.kernel"].astype(x.dtype)
    bias = p.get(f"{name}.bias")
    return y if bias is None else y + bias.astype(x.dtype)


def embedding(table: jax.Array, ids: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Rows of a table, by number."""
    return table.astype(dtype)[ids]


def unembedding(x: jax.Array, table: jax.Array) -> jax.Array:
    """Logits by a head that is the embedding's transpose."""
    return jnp.einsum("bsh,vh->bsv", x, table.astype(x.dtype))


def layer_norm(p: Arrays, name: str, x: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """Ba et al. 2016, in float32."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, -1, keepdims=True)
    variance = jnp.var(wide, -1, keepdims=True)
    normed = (wide - mean) * lax.rsqrt(variance + epsilon)
    return (normed * p[f"{name}.scale"] + p[f"{name}.bias"]).astype(x.dtype)


def rms_norm(p: Arrays, name: str, x: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """Zhang and Sennrich 2019, in float32."""
    wide = x.astype(jnp.float32)
    normed = wide * lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + epsilon)
    return (normed * p[f"{name}.scale"]).astype(x.dtype)


def gelu(x: jax.Array) -> jax.Array:
    """x·Φ(x) (Hendrycks and Gimpel 2016), by erf.

    `jax.nn.gelu(approximate=False)` goes by erfc, which becomes some fifty elementwise operations.
    """
    return x * (1 + lax.erf(x * 0.5**0.5)) / 2


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """`[batch, positions, heads·width]` to `[batch, positions, heads, width]`."""
    return x.reshape(*x.shape[:2], heads, -1)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, scale: float | None = None,
              bias: jax.Array | None = None, causal: bool = False) -> jax.Array:
    """softmax(QKᵀ·scale + bias)·V (Vaswani et al. 2017), heads side by side.

    Fewer heads of keys and values than of queries are shared by groups (Ainslie et al. 2023).
    The scale is 1/√width unless told.
    """
    groups = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, groups, axis=2), jnp.repeat(v, groups, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias.astype(scores.dtype)
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[2:], bool))
        scores = jnp.where(seen, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores.astype(jnp.float32)).astype(q.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return mixed.reshape(*mixed.shape[:2], -1)


def self_attention(p: Arrays, x: jax.Array, heads: int, causal: bool = False) -> jax.Array:
    """With projections to queries, keys, values and out of them."""
    q, k, v = (split_heads(linear(p, name, x), heads) for name in ("q", "k", "v"))
    return linear(p, "o", attention(q, k, v, causal=causal))


def rotary_tables(positions: int, width: int, base: float) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines of position·base^(−2i/width), `[positions, width/2]` (Su et al. 2021)."""
    frequencies = base ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
    angles = jnp.outer(jnp.arange(positions, dtype=jnp.float32), frequencies)
    return jnp.cos(angles), jnp.sin(angles)


def rotate(x: jax.Array, tables: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Turns the halves of each head's width by the tables' angles."""
    cos, sin = (table[:, None, :].astype(x.dtype) for table in tables)
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean of −log p(label), in float32."""
    logits = logits.astype(jnp.float32)
    logits = logits - lax.stop_gradient(jnp.max(logits, -1, keepdims=True))
    wanted = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jnp.log(jnp.sum(jnp.exp(logits), -1)) - wanted)
