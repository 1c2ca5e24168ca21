"""The vision transformer, ResNet and the multi-layer perceptron."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from families.layers import Arrays, cross_entropy, gelu, layer_norm, linear, scope, self_attention

MOMENTUM = 0.9  # how much of a moving average a step keeps


def vit(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Dosovitskiy et al. 2020: patches and a class token, layer norm first, GELU."""
    x = patches(batch["images"].astype(dtype), dims["patch"])
    x = linear(params, "patch_embeddings", x)
    token = jnp.broadcast_to(params["cls_token"].astype(dtype), (len(x), 1, dims["hidden"]))
    x = jnp.concatenate([token, x], axis=1) + params["position_embeddings"].astype(dtype)
    for n in range(dims["layers"]):
        p = scope(params, f"layers.{n}")
        normed = layer_norm(p, "norm_before", x, 1e-6)
        x = x + self_attention(scope(p, "attention"), normed, dims["heads"])
        normed = layer_norm(p, "norm_after", x, 1e-6)
        x = x + linear(p, "mlp.down", gelu(linear(p, "mlp.up", normed)))
    logits = linear(params, "head", layer_norm(params, "norm", x, 1e-6)[:, 0])
    return cross_entropy(logits, batch["labels"]), {}


def patches(images: jax.Array, side: int) -> jax.Array:
    """The pixels of each patch in a row: `[batch, patches, side·side·colours]`."""
    batch, height, width, colours = images.shape
    cut = images.reshape(batch, height // side, side, width // side, side, colours)
    return cut.swapaxes(2, 3).reshape(batch, -1, side * side * colours)


def resnet(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """He et al. 2015, with bottlenecks, the stride in the 3x3 convolution."""
    states: Arrays = {}
    norm = Normed(params, batch, states)
    x = jax.nn.relu(norm("stem", batch["images"].astype(dtype), stride=2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around((1, 3, 3, 1)))
    for group in range(4):
        for block in range(dims[f"blocks-{group + 1}"]):
            stride = 2 if group > 0 and block == 0 else 1
            x = bottleneck(norm, f"layer{group + 1}.{block}", x, stride)
    pooled = jnp.mean(x.astype(jnp.float32), axis=(1, 2)).astype(dtype)
    return cross_entropy(linear(params, "fc", pooled), batch["labels"]), states


def around(window: tuple[int, ...]) -> list[tuple[int, int]]:
    """Padding that puts windows in the middle."""
    return [(size // 2, size // 2) for size in window]


class Normed:
    """Convolutions with batch norm (Ioffe and Szegedy 2015); new moving averages go to `states`."""

    def __init__(self, params: Arrays, batch: Arrays, states: Arrays) -> None:
        self.params, self.batch, self.states = params, batch, states

    def __call__(self, name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        p = scope(self.params, name)
        kernel = p["kernel"].astype(x.dtype)
        y = lax.conv_general_dilated(x, kernel, (stride, stride), around(kernel.shape[:2]),
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
        wide = y.astype(jnp.float32)
        mean, variance = jnp.mean(wide, (0, 1, 2)), jnp.var(wide, (0, 1, 2))
        for key, new in ((f"{name}.mean", mean), (f"{name}.variance", variance)):
            self.states[key] = MOMENTUM * self.batch[f"state.{key}"] + (1 - MOMENTUM) * new
        factor = lax.rsqrt(variance + 1e-5) * p["scale"]
        return ((wide - mean) * factor + p["bias"]).astype(x.dtype)


def bottleneck(norm: Normed, name: str, x: jax.Array, stride: int) -> jax.Array:
    """1x1, 3x3, 1x1, and the residual, projected where its shape changes."""
    y = jax.nn.relu(norm(f"{name}.1", x))
    y = jax.nn.relu(norm(f"{name}.2", y, stride))
    y = norm(f"{name}.3", y)
    shortcut = x if y.shape == x.shape else norm(f"{name}.downsample", x, stride)
    return jax.nn.relu(y + shortcut)


def mlp(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Hidden layers with ReLU."""
    x = batch["inputs"].astype(dtype)
    for name in ("first", *(f"layers.{n}" for n in range(dims["layers"] - 1))):
        x = jax.nn.relu(linear(params, f"{name}.dense", x))
    return cross_entropy(linear(params, "head", x), batch["labels"]), {}
