"""Models whose training steps are hard to prove: `tools/hard_programs.py` writes their HLO text.

A model is a function `loss(p, batch)`: `p` gives its parameters by name and shape, `batch` holds its inputs. `PROGRAMS`
says how large each is; sizes are those of the papers, for HLO text does not grow with them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from hard import decoders, encoders, recurrent, speech, vision
from hard.layers import Params

Batch = dict[str, jax.ShapeDtypeStruct]


class Program(NamedTuple):
    """A training step: a loss, its inputs, and what updates the parameters (`adamw` or `momentum`)."""
    loss: Callable[[Params, dict[str, jax.Array]], jax.Array]
    batch: Batch
    optimizer: str


def image(n: int, size: int, channels: int = 3) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((n, size, size, channels), jnp.float32)


def ints(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


KEY = jax.ShapeDtypeStruct((2,), jnp.uint32)
LONG_KEY = jax.ShapeDtypeStruct((4,), jnp.uint32)

PROGRAMS = {
    "bart_base": Program(encoders.bart, {"source": ints(32, 512), "target": ints(32, 128), "labels": ints(32, 128),
                                         "key": LONG_KEY}, "adamw"),
    "convnext_b": Program(vision.convnext, {"images": image(128, 224), "labels": ints(128)}, "adamw"),
    "efficientnet_b3": Program(vision.efficientnet, {"images": image(128, 300), "labels": ints(128)}, "momentum"),
    "gemma2_2b": Program(decoders.gemma, {"tokens": ints(8, 4096), "labels": ints(8, 4096)}, "adamw"),
    "gptj_6b": Program(decoders.gptj, {"tokens": ints(16, 2048), "labels": ints(16, 2048)}, "adamw"),
    "griffin": Program(recurrent.griffin, {"tokens": ints(16, 2048), "labels": ints(16, 2048)}, "adamw"),
    "inception_v3": Program(vision.inception, {"images": image(128, 299), "labels": ints(128)}, "momentum"),
    "opt_1p3b": Program(decoders.opt, {"tokens": ints(32, 1024), "labels": ints(32, 1024), "key": KEY}, "adamw"),
    "unet": Program(vision.unet, {"images": image(64, 64), "noise": image(64, 64), "steps": ints(64),
                                  "signal": floats(64)}, "adamw"),
    "wav2vec2_base": Program(speech.wav2vec, {"waves": floats(16, 128000), "masked": jax.ShapeDtypeStruct(
        (16, 399), jnp.bool_), "labels": ints(16, 399)}, "adamw"),
    "whisper_small": Program(speech.whisper, {"mels": floats(16, 3000, 80), "tokens": ints(16, 448),
                                              "labels": ints(16, 448)}, "adamw"),
}
