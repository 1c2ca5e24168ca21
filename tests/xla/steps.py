"""One step of each optimizer by phzc and by optax, from the same parameters, gradients' inputs and states."""

import jax
import numpy as np
import optax

from twins import Named, split

RATE, DECAY = 0.1, 0.1  # large, so that an update is as large as its parameter
KINDS = {
    "adamw": (f"adamw,lr={RATE},decay={DECAY}", optax.adamw(RATE, weight_decay=DECAY)),
    "adam": (f"adam,lr={RATE}", optax.adam(RATE)),
    "momentum": (f"momentum,lr={RATE}", optax.sgd(RATE, momentum=0.9)),
    "sgd": (f"sgd,lr={RATE}", optax.sgd(RATE)),
}
STATES = {"adamw": {"m": "mu", "v": "nu"}, "adam": {"m": "mu", "v": "nu"}, "momentum": {"m": "trace"}, "sgd": {}}


def drawn(kind: str, given: Named, seed: int) -> Named:
    """The optimizer's own inputs: moments, and many steps so far (1 − βᵗ of few steps has no digits to compare)."""
    rng, states = np.random.default_rng(seed), {}
    params, _ = split(given)
    for prefix in STATES[kind]:
        for name, array in params.items():
            values = rng.standard_normal(array.shape, np.float32) / 10
            states[f"{prefix}.params.{name}"] = np.square(values) + np.float32(1e-3) if prefix == "v" else values
    if kind.startswith("adam"):
        states["step"] = np.int32(300)
    return states


def wanted(kind: str, given: Named, states: Named, grads: Named) -> list:
    """Optax's new parameters and states, in the order of phzc's results."""
    params, _ = split(given)
    optimizer = KINDS[kind][1]
    state, places = optimizer.init(params), {}
    for prefix, name in STATES[kind].items():
        start = f"{prefix}.params."
        places[name] = {key.removeprefix(start): a for key, a in states.items() if key.startswith(start)}
    if "step" in states:
        places["count"] = states["step"]
    state = optax.tree_utils.tree_set(state, **places)
    updates, state = jax.jit(optimizer.update)(grads, state, params)
    new = optax.apply_updates(params, updates)
    parts = [new, *(optax.tree_utils.tree_get(state, name) for name in STATES[kind].values())]
    found = [part[name] for part in parts for name in params]
    return found + ([optax.tree_utils.tree_get(state, "count")] if "step" in states else [])
