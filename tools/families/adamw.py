"""AdamW (Loshchilov and Hutter 2017, algorithm 2), a step from gradients."""

import jax
import jax.numpy as jnp

from families.layers import Arrays

State = tuple[Arrays, Arrays, jax.Array]  # first and second moments, steps so far


def init(params: Arrays) -> State:
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, zeros, jnp.zeros((), jnp.int32)


def update(params: Arrays, grads: Arrays, state: State, rate: float = 1e-3, beta1: float = 0.9,
           beta2: float = 0.999, epsilon: float = 1e-8, decay: float = 1e-4) -> tuple[Arrays, State]:
    """New parameters and moments."""
    first, second, steps = state
    steps = steps + 1
    first = {name: beta1 * first[name] + (1 - beta1) * g for name, g in grads.items()}
    second = {name: beta2 * second[name] + (1 - beta2) * jnp.square(g) for name, g in grads.items()}
    correction1, correction2 = 1 - beta1**steps, 1 - beta2**steps

    def new(name: str) -> jax.Array:
        mean, square = first[name] / correction1, second[name] / correction2
        return params[name] - rate * (mean / (jnp.sqrt(square) + epsilon) + decay * params[name])

    return {name: new(name) for name in params}, (first, second, steps)
