"""Griffin: gated linear recurrences by an associative scan, between layers of local attention."""

import jax
import jax.numpy as jnp
from jax import lax

from hard.layers import (Params, attend, causal, convolve, cross_entropy, embed, gelu_tanh, heads, linear, rms_norm)

Batch = dict[str, jax.Array]

WIDTH, HEADS, LAYERS, VOCABULARY = 2560, 10, 6, 256000


def griffin(p: Params, batch: Batch) -> jax.Array:
    """De et al. 2024: of three layers two recur and one attends to a window."""
    table, positions, dtype = p("tokens", VOCABULARY, WIDTH), batch["tokens"].shape[1], jnp.bfloat16
    x = embed(table, batch["tokens"], dtype) * jnp.asarray(WIDTH**0.5, dtype)
    for n in range(LAYERS):
        q = p.scope(f"layers.{n}")
        normed = rms_norm(q, "norm1", x)
        x = x + (local(q, normed, causal(positions, positions, 1024)) if n % 3 == 2 else recur(q, normed))
        normed = rms_norm(q, "norm2", x)
        gated = gelu_tanh(linear(q, "gate", normed, 3 * WIDTH)) * linear(q, "up", normed, 3 * WIDTH)
        x = x + linear(q, "down", gated, WIDTH)
    logits = (rms_norm(p, "norm", x) @ table.T.astype(dtype)).astype(jnp.float32)
    return cross_entropy(30 * jnp.tanh(logits / 30), batch["labels"])


def local(p: Params, x: jax.Array, seen: jax.Array) -> jax.Array:
    """All heads of queries share one of keys and values (Shazeer 2019)."""
    q = linear(p, "q", x, WIDTH, False).reshape(*x.shape[:2], 1, HEADS, WIDTH // HEADS)
    k, v = (heads(linear(p, name, x, WIDTH // HEADS, False), 1) for name in "kv")
    return linear(p, "o", attend(q, k, v, seen), WIDTH)


def recur(p: Params, x: jax.Array) -> jax.Array:
    """A gated branch beside a causal convolution over four positions and the recurrence."""
    gate = gelu_tanh(linear(p, "y", x, WIDTH))
    kernel = p("conv.kernel", 4, 1, WIDTH).astype(x.dtype)
    y = convolve(linear(p, "x", x, WIDTH), kernel, 1, [(3, 0)], WIDTH) + p("conv.bias", WIDTH).astype(x.dtype)
    return linear(p, "o", gated_recurrence(p, y) * gate, WIDTH)


def gated_recurrence(p: Params, x: jax.Array) -> jax.Array:
    """h[t] = a[t]·h[t−1] + √(1−a[t]²)·i[t]·x[t], gates by blocks of channels, in float32."""
    blocks = heads(x, HEADS)

    def gate(name: str) -> jax.Array:
        size = WIDTH // HEADS
        y = jnp.einsum("bshi,hij->bshj", blocks, p(f"{name}.kernel", HEADS, size, size).astype(x.dtype))
        return lax.logistic((y.reshape(x.shape) + p(f"{name}.bias", WIDTH).astype(x.dtype)).astype(jnp.float32))

    rate = p("rate", WIDTH)
    log_decay = -8.0 * gate("recurrence") * jnp.logaddexp(rate, 0.0)
    decay = jnp.exp(log_decay)
    taken = jnp.sqrt(1 - jnp.exp(2 * log_decay) + 1e-6) * gate("input") * x.astype(jnp.float32)

    def combine(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return lax.associative_scan(combine, (decay, taken), axis=1)[1].astype(x.dtype)
