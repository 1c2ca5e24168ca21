"""What the models share: parameters that are declared where they are used, and layers.

Products are computed in the type of their input, norms and losses in float32.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


class Params:
    """Arrays by name. Without arrays a model's run is only traced, and says which parameters it wants."""

    def __init__(self, arrays: dict[str, jax.Array] | None = None, prefix: str = "",
                 declared: dict[str, jax.ShapeDtypeStruct] | None = None) -> None:
        self.arrays, self.prefix = arrays, prefix
        self.declared = {} if declared is None else declared

    def __call__(self, name: str, *shape: int) -> jax.Array:
        name = self.prefix + name
        if self.arrays is not None:
            return self.arrays[name]
        self.declared[name] = jax.ShapeDtypeStruct(shape, jnp.float32)
        return jnp.zeros(shape, jnp.float32)

    def scope(self, name: str) -> Params:
        """The parameters `<name>.*`."""
        return Params(self.arrays, f"{self.prefix}{name}.", self.declared)


def linear(p: Params, name: str, x: jax.Array, width: int, bias: bool = True) -> jax.Array:
    y = x @ p(f"{name}.kernel", x.shape[-1], width).astype(x.dtype)
    return y + p(f"{name}.bias", width).astype(x.dtype) if bias else y


def layer_norm(p: Params, name: str, x: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """Ba et al. 2016."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, -1, keepdims=True)
    normed = centred * lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + epsilon)
    scale, bias = p(f"{name}.scale", x.shape[-1]), p(f"{name}.bias", x.shape[-1])
    return (normed * scale + bias).astype(x.dtype)


def rms_norm(p: Params, name: str, x: jax.Array, epsilon: float = 1e-6) -> jax.Array:
    """Zhang and Sennrich 2019, with a scale around one as Gemma has it."""
    wide = x.astype(jnp.float32)
    normed = wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + epsilon)
    return (normed * (1 + p(f"{name}.scale", x.shape[-1]))).astype(x.dtype)


def group_norm(p: Params, name: str, x: jax.Array, groups: int, epsilon: float = 1e-5) -> jax.Array:
    """Wu and He 2018: over all positions and a group's channels."""
    *sizes, channels = x.shape
    wide = x.astype(jnp.float32).reshape(*sizes, groups, channels // groups)
    axes = (*range(1, len(sizes)), wide.ndim - 1)
    centred = wide - jnp.mean(wide, axes, keepdims=True)
    normed = (centred * lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + epsilon)).reshape(x.shape)
    return (normed * p(f"{name}.scale", channels) + p(f"{name}.bias", channels)).astype(x.dtype)


def batch_norm(p: Params, name: str, x: jax.Array, epsilon: float = 1e-3) -> jax.Array:
    """Ioffe and Szegedy 2015, by the batch's own mean and variance."""
    wide, channels = x.astype(jnp.float32), x.shape[-1]
    axes = tuple(range(x.ndim - 1))
    mean = jnp.mean(wide, axes)
    variance = jnp.mean(wide * wide, axes) - mean * mean
    normed = (wide - mean) * lax.rsqrt(variance + epsilon)
    return (normed * p(f"{name}.scale", channels) + p(f"{name}.bias", channels)).astype(x.dtype)


def conv(p: Params, name: str, x: jax.Array, channels: int, size: int | tuple[int, ...], *, stride: int = 1,
         padding: str | list[tuple[int, int]] = "SAME", groups: int = 1, bias: bool = True) -> jax.Array:
    """Channels last, over one or two dimensions."""
    n_spatial = x.ndim - 2
    sizes = (size,) * n_spatial if isinstance(size, int) else size
    kernel = p(f"{name}.kernel", *sizes, x.shape[-1] // groups, channels).astype(x.dtype)
    y = convolve(x, kernel, stride, padding, groups)
    return y + p(f"{name}.bias", channels).astype(x.dtype) if bias else y


def convolve(x: jax.Array, kernel: jax.Array, stride: int, padding: str | list[tuple[int, int]],
             groups: int) -> jax.Array:
    n_spatial = x.ndim - 2
    return lax.conv_general_dilated(x, kernel, (stride,) * n_spatial, padding, feature_group_count=groups,
                                    dimension_numbers=spatial(n_spatial))


def spatial(n: int) -> tuple[str, str, str]:
    """Dimension numbers of convolutions over n dimensions, channels last."""
    dims = "HW"[:n]
    return f"N{dims}C", f"{dims}IO", f"N{dims}C"


def embed(table: jax.Array, tokens: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return table.at[tokens].get(mode="promise_in_bounds").astype(dtype)


def heads(x: jax.Array, n: int) -> jax.Array:
    """`[batch, positions, n·width]` to `[batch, positions, n, width]`."""
    return x.reshape(*x.shape[:2], n, -1)


def softmax(x: jax.Array) -> jax.Array:
    shifted = jnp.exp(x - lax.stop_gradient(jnp.max(x, -1, keepdims=True)))
    return shifted / jnp.sum(shifted, -1, keepdims=True)


def causal(queries: int, keys: int, window: int | None = None) -> jax.Array:
    """Which keys each query sees: itself and those before it, at most a window back."""
    rows, columns = (lax.broadcasted_iota(jnp.int32, (queries, keys), dim) for dim in (0, 1))
    seen = rows >= columns
    return seen if window is None else seen & (rows - columns < window)


def attend(q: jax.Array, k: jax.Array, v: jax.Array, seen: jax.Array | None = None,
           cap: float | None = None, scale: float | None = None) -> jax.Array:
    """softmax(QKᵀ/√width)·V; queries in groups `[b, s, kv heads, group, width]` share a key and value head."""
    names = "kg" if q.ndim == 5 else "k"
    scores = jnp.einsum(f"bs{names}d,btkd->b{names}st", q, k).astype(jnp.float32)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if cap is not None:
        scores = cap * jnp.tanh(scores / cap)
    if seen is not None:
        scores = jnp.where(seen, scores, jnp.float32(-1e30))
    mixed = jnp.einsum(f"b{names}st,btkd->bs{names}d", softmax(scores).astype(v.dtype), v)
    return mixed.reshape(*mixed.shape[:2], -1)


def attention(p: Params, x: jax.Array, source: jax.Array, n_heads: int, seen: jax.Array | None = None,
              key_bias: bool = True) -> jax.Array:
    """Of x to a source, with projections."""
    width = x.shape[-1]
    q = heads(linear(p, "q", x, width), n_heads)
    k = heads(linear(p, "k", source, width, key_bias), n_heads)
    v = heads(linear(p, "v", source, width), n_heads)
    return linear(p, "o", attend(q, k, v, seen), width)


def gelu(x: jax.Array) -> jax.Array:
    """x·Φ(x), by erf."""
    return x * (1 + lax.erf(x * 0.5**0.5)) / 2


def gelu_tanh(x: jax.Array) -> jax.Array:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def swish(x: jax.Array) -> jax.Array:
    return x * lax.logistic(x)


def sinusoids(positions: jax.Array, width: int) -> jax.Array:
    """Sines, then cosines, of falling frequencies."""
    half = width // 2
    rates = jnp.exp(lax.iota(jnp.float32, half) * (-9.210340 / (half - 1)))
    angles = positions[..., None] * rates
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)


def dropout(key: jax.Array, x: jax.Array, rate: float = 0.1) -> jax.Array:
    """Srivastava et al. 2014, by random bits."""
    kept = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), jnp.zeros_like(x))


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    logits = logits.astype(jnp.float32)
    top = lax.stop_gradient(jnp.max(logits, -1, keepdims=True))
    total = jnp.log(jnp.sum(jnp.exp(logits - top), -1)) + top[..., 0]
    wanted = jnp.take_along_axis(logits, labels[..., None], -1, mode="promise_in_bounds")[..., 0]
    return jnp.mean(total - wanted)
