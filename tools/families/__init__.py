"""The model families of `phzc gen`, written once more in plain JAX from their papers: phzc's outside judges.

A family is a function `loss(params, batch, dims, dtype)`, of

* `params`: the trained arrays in float32, by the names that the program gives them, less `params.`;
* `batch`: the inputs of a step by name, less `batch.`, and what the step before handed on, `state.*`;
* `dims`: the dimensions as `phzc gen FAMILY --describe` prints them;
* `dtype`: the type that products are computed in.

It returns the loss, and the new values of what a step hands to the next, less `state.`, if there is any.
"""

from collections.abc import Callable

import jax
from jax.typing import DTypeLike

from families import decoders, deepseek, encoders, mixtures, vision
from families.layers import Arrays

Loss = Callable[[Arrays, Arrays, dict[str, int], DTypeLike], tuple[jax.Array, Arrays]]

FAMILIES: dict[str, Loss] = {
    "gpt": decoders.gpt,
    "opt": decoders.opt,
    "llama": decoders.llama,
    "bert": encoders.bert,
    "t5": encoders.t5,
    "gshard": mixtures.gshard,
    "mixtral": mixtures.mixtral,
    "deepseek": deepseek.deepseek,
    "vit": vision.vit,
    "resnet": vision.resnet,
    "mlp": vision.mlp,
}
