"""Convolutional networks: a U-Net, ConvNeXt, EfficientNet, Inception."""

import jax
import jax.numpy as jnp
from jax import lax

from hard.layers import (Params, attention, batch_norm, conv, cross_entropy, gelu, group_norm, layer_norm, linear,
                         sinusoids, spatial, swish)

Batch = dict[str, jax.Array]


# ---- a U-Net for diffusion (Ho et al. 2020, Dhariwal and Nichol 2021) -------------------------------

CHANNELS, MULTIPLES, BLOCKS, GROUPS = 192, (1, 2, 4), 2, 32


def unet(p: Params, batch: Batch) -> jax.Array:
    """Predicts the noise of images that were noised to a timestep."""
    dtype = jnp.bfloat16
    signal = batch["signal"][:, None, None, None]
    noised = jnp.sqrt(signal) * batch["images"] + jnp.sqrt(1 - signal) * batch["noise"]
    time = sinusoids(batch["steps"].astype(jnp.float32), CHANNELS).astype(dtype)
    time = linear(p, "time.out", swish(linear(p, "time.in", time, 4 * CHANNELS)), 4 * CHANNELS)
    x = conv(p, "in", noised.astype(dtype), CHANNELS, 3)
    x, skips = descend(p.scope("down"), x, time)
    x = residual(p.scope("middle.0"), x, time, x.shape[-1])
    x = pixel_attention(p.scope("middle.attention"), x)
    x = residual(p.scope("middle.1"), x, time, x.shape[-1])
    x = ascend(p.scope("up"), x, time, skips)
    x = conv(p, "out", swish(group_norm(p, "norm", x, GROUPS)), 3, 3)
    error = x.astype(jnp.float32) - batch["noise"]
    return jnp.mean(error * error)


def descend(p: Params, x: jax.Array, time: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    skips = [x]
    for level, multiple in enumerate(MULTIPLES):
        for n in range(BLOCKS):
            x = residual(p.scope(f"{level}.{n}"), x, time, CHANNELS * multiple)
            if level + 1 == len(MULTIPLES):
                x = pixel_attention(p.scope(f"{level}.{n}.attention"), x)
            skips.append(x)
        if level + 1 < len(MULTIPLES):
            x = conv(p, f"{level}.stride", x, x.shape[-1], 3, stride=2, padding=[(0, 1), (0, 1)])
            skips.append(x)
    return x, skips


def ascend(p: Params, x: jax.Array, time: jax.Array, skips: list[jax.Array]) -> jax.Array:
    for level, multiple in reversed(list(enumerate(MULTIPLES))):
        for n in range(BLOCKS + 1):
            x = jnp.concatenate([x, skips.pop()], -1)
            x = residual(p.scope(f"{level}.{n}"), x, time, CHANNELS * multiple)
            if level + 1 == len(MULTIPLES):
                x = pixel_attention(p.scope(f"{level}.{n}.attention"), x)
        if level > 0:
            channels = x.shape[-1]
            kernel = p(f"{level}.widen.kernel", 4, 4, channels, channels).astype(x.dtype)
            x = lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=spatial(2))
            x = x + p(f"{level}.widen.bias", channels).astype(x.dtype)
    return x


def residual(p: Params, x: jax.Array, time: jax.Array, channels: int) -> jax.Array:
    y = conv(p, "conv1", swish(group_norm(p, "norm1", x, GROUPS)), channels, 3)
    y = y + linear(p, "time", swish(time), channels)[:, None, None, :]
    y = conv(p, "conv2", swish(group_norm(p, "norm2", y, GROUPS)), channels, 3)
    return y + (x if x.shape[-1] == channels else conv(p, "skip", x, channels, 1))


def pixel_attention(p: Params, x: jax.Array) -> jax.Array:
    n, height, width, channels = x.shape
    y = group_norm(p, "norm", x, GROUPS).reshape(n, height * width, channels)
    return x + attention(p, y, y, channels // 64).reshape(x.shape)


# ---- ConvNeXt (Liu et al. 2022), size B --------------------------------------------------------------

def convnext(p: Params, batch: Batch) -> jax.Array:
    x = conv(p, "stem", batch["images"].astype(jnp.bfloat16), 128, 4, stride=4, padding="VALID")
    x = layer_norm(p, "stem.norm", x, 1e-6)
    for stage, (depth, channels) in enumerate(((3, 128), (3, 256), (27, 512), (3, 1024))):
        if stage:
            x = layer_norm(p, f"{stage}.norm", x, 1e-6)
            x = conv(p, f"{stage}.stride", x, channels, 2, stride=2, padding="VALID")
        for n in range(depth):
            q = p.scope(f"{stage}.{n}")
            y = layer_norm(q, "norm", conv(q, "depthwise", x, channels, 7, groups=channels), 1e-6)
            y = linear(q, "down", gelu(linear(q, "up", y, 4 * channels)), channels)
            x = x + q("scale", channels).astype(x.dtype) * y
    x = layer_norm(p, "norm", jnp.mean(x, (1, 2)), 1e-6)
    return cross_entropy(linear(p, "head", x, 1000), batch["labels"])


# ---- EfficientNet (Tan and Le 2019), size B3 ---------------------------------------------------------

# Expansion, channels, layers, stride, kernel.
STAGES = ((1, 24, 2, 1, 3), (6, 32, 3, 2, 3), (6, 48, 3, 2, 5), (6, 96, 5, 2, 3), (6, 136, 5, 1, 5), (6, 232, 6, 2, 5),
          (6, 384, 2, 1, 3))


def efficientnet(p: Params, batch: Batch) -> jax.Array:
    x = conv(p, "stem", batch["images"].astype(jnp.bfloat16), 40, 3, stride=2, bias=False)
    x = swish(batch_norm(p, "stem.norm", x))
    for stage, (expansion, channels, layers, stride, size) in enumerate(STAGES):
        for n in range(layers):
            x = bottleneck(p.scope(f"{stage}.{n}"), x, expansion, channels, 1 if n else stride, size)
    x = swish(batch_norm(p, "norm", conv(p, "top", x, 1536, 1, bias=False)))
    return cross_entropy(linear(p, "head", jnp.mean(x, (1, 2)), 1000), batch["labels"])


def bottleneck(p: Params, x: jax.Array, expansion: int, channels: int, stride: int, size: int) -> jax.Array:
    """Inverted, with squeeze and excitation."""
    inner = x.shape[-1] * expansion
    y = x
    if expansion > 1:
        y = swish(batch_norm(p, "norm1", conv(p, "expand", y, inner, 1, bias=False)))
    y = conv(p, "depthwise", y, inner, size, stride=stride, groups=inner, bias=False)
    y = swish(batch_norm(p, "norm2", y))
    gate = swish(linear(p, "squeeze", jnp.mean(y, (1, 2)), x.shape[-1] // 4))
    y = y * lax.logistic(linear(p, "excite", gate, inner))[:, None, None, :]
    y = batch_norm(p, "norm3", conv(p, "project", y, channels, 1, bias=False))
    return x + y if x.shape == y.shape else y


# ---- Inception (Szegedy et al. 2016), version 3 ------------------------------------------------------

def inception(p: Params, batch: Batch) -> jax.Array:
    x = unit(p, "stem.0", batch["images"], 32, 3, stride=2, padding="VALID")
    x = unit(p, "stem.1", x, 32, 3, padding="VALID")
    x = max_pool(unit(p, "stem.2", x, 64, 3))
    x = unit(p, "stem.3", x, 80, 1, padding="VALID")
    x = max_pool(unit(p, "stem.4", x, 192, 3, padding="VALID"))
    for n, pooled in enumerate((32, 64, 64)):
        x = branches_a(p.scope(f"a.{n}"), x, pooled)
    x = shrink_a(p.scope("b"), x)
    for n, width in enumerate((128, 160, 160, 192)):
        x = branches_b(p.scope(f"c.{n}"), x, width)
    side = mean_pool(x, 5, 3, "VALID")
    side = unit(p, "side.1", unit(p, "side.0", side, 128, 1), 768, side.shape[1], padding="VALID")
    side = cross_entropy(linear(p, "side.head", jnp.mean(side, (1, 2)), 1000), batch["labels"])
    x = shrink_b(p.scope("d"), x)
    for n in range(2):
        x = branches_c(p.scope(f"e.{n}"), x)
    return cross_entropy(linear(p, "head", jnp.mean(x, (1, 2)), 1000), batch["labels"]) + 0.4 * side


def unit(p: Params, name: str, x: jax.Array, channels: int, size: int | tuple[int, int], stride: int = 1,
         padding: str = "SAME") -> jax.Array:
    y = conv(p, name, x, channels, size, stride=stride, padding=padding, bias=False)
    return jax.nn.relu(batch_norm(p, f"{name}.norm", y))


def max_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")


def mean_pool(x: jax.Array, size: int = 3, stride: int = 1, padding: str = "SAME") -> jax.Array:
    """Padding does not count."""
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    total = lax.reduce_window(x, 0.0, lax.add, window, strides, padding)
    return total / lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, window, strides, padding)


def branches_a(p: Params, x: jax.Array, pooled: int) -> jax.Array:
    double = unit(p, "double.1", unit(p, "double.0", x, 64, 1), 96, 3)
    return jnp.concatenate([
        unit(p, "one", x, 64, 1),
        unit(p, "five.1", unit(p, "five.0", x, 48, 1), 64, 5),
        unit(p, "double.2", double, 96, 3),
        unit(p, "pool", mean_pool(x), pooled, 1)], -1)


def shrink_a(p: Params, x: jax.Array) -> jax.Array:
    double = unit(p, "double.1", unit(p, "double.0", x, 64, 1), 96, 3)
    return jnp.concatenate([
        unit(p, "three", x, 384, 3, stride=2, padding="VALID"),
        unit(p, "double.2", double, 96, 3, stride=2, padding="VALID"),
        max_pool(x)], -1)


def branches_b(p: Params, x: jax.Array, width: int) -> jax.Array:
    seven, double = unit(p, "seven.0", x, width, 1), unit(p, "double.0", x, width, 1)
    for n, (size, channels) in enumerate((((1, 7), width), ((7, 1), 192)), 1):
        seven = unit(p, f"seven.{n}", seven, channels, size)
    for n, (size, channels) in enumerate((((7, 1), width), ((1, 7), width), ((7, 1), width), ((1, 7), 192)), 1):
        double = unit(p, f"double.{n}", double, channels, size)
    return jnp.concatenate([unit(p, "one", x, 192, 1), seven, double, unit(p, "pool", mean_pool(x), 192, 1)], -1)


def shrink_b(p: Params, x: jax.Array) -> jax.Array:
    three = unit(p, "three.1", unit(p, "three.0", x, 192, 1), 320, 3, stride=2, padding="VALID")
    seven = unit(p, "seven.2", unit(p, "seven.1", unit(p, "seven.0", x, 192, 1), 192, (1, 7)), 192, (7, 1))
    return jnp.concatenate([three, unit(p, "seven.3", seven, 192, 3, stride=2, padding="VALID"), max_pool(x)], -1)


def branches_c(p: Params, x: jax.Array) -> jax.Array:
    three = unit(p, "three.0", x, 384, 1)
    double = unit(p, "double.1", unit(p, "double.0", x, 448, 1), 384, 3)
    return jnp.concatenate([
        unit(p, "one", x, 320, 1),
        unit(p, "three.1", three, 384, (1, 3)), unit(p, "three.2", three, 384, (3, 1)),
        unit(p, "double.2", double, 384, (1, 3)), unit(p, "double.3", double, 384, (3, 1)),
        unit(p, "pool", mean_pool(x), 192, 1)], -1)
